"""Writes rows as an XLSX file."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.local_files import writing_temporarily
from attrib_ds.records.spreadsheets import xlsxwriter
from attrib_ds.service.users.cells import cell_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from attrib_ds.service.users.cells import Cell

#: Rows of a sheet, without the header.
MOST_ROWS: Final = 1_048_575
_LONGEST_TEXT: Final = 32_767
#: Spreadsheets lose digits of larger numbers.
_LARGEST: Final = 10**15
_FIRST_YEAR: Final = 1900
_DATE: Final = "yyyy-mm-dd hh:mm:ss"


def check_xlsx(rows: int) -> None:
    """Refuse an export that XLSX cannot hold.

    Parameters
    ----------
    rows : int
        Number of rows.

    Raises
    ------
    InvalidRequest
        If there are too many rows for a sheet (G-125).
    NotSupported
        If the extra ``[excel]`` is not installed.
    """
    xlsxwriter()
    if rows > MOST_ROWS:
        raise _unfit(f"there are {rows:,} users, more than the {MOST_ROWS:,} rows of a sheet")


def write_xlsx(header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]]) -> BinaryIO:
    """Write rows as the one sheet of an XLSX file.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    batches : iterable of iterables of rows
        The rows; one batch is in memory at a time.

    Returns
    -------
    file
        Positioned at its beginning; deleted when it is closed.

    Raises
    ------
    InvalidRequest
        If a text is too long for a cell.
    NotSupported
        If the extra ``[excel]`` is not installed.
    Unavailable
        If the file cannot be written, such as on a full disk.
    """
    library = xlsxwriter()
    with writing_temporarily():
        file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (returned to the caller)
    try:
        # Also holds the parts of the sheet until the workbook is complete.
        with writing_temporarily(), tempfile.TemporaryDirectory() as folder:
            workbook = library.Workbook(file, {"constant_memory": True, "tmpdir": folder})
            sheet = workbook.add_worksheet("users")
            try:
                _write(sheet, workbook.add_format({"num_format": _DATE}), header, batches)
            except BaseException:
                sheet.row_data_fh.close()
                raise
            try:
                workbook.close()
            except library.exceptions.FileCreateError as error:
                raise error.args[0] from None
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _write(
    sheet: Any, dated: Any, header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]]
) -> None:
    for position, name in enumerate(header):
        sheet.write_string(0, position, name)
    line = 0
    for rows in batches:
        for row in rows:
            line += 1
            for position, cell in enumerate(row):
                _write_cell(sheet, dated, line, position, cell)


def _write_cell(sheet: Any, dated: Any, line: int, position: int, cell: Cell) -> None:
    if cell is None:
        return
    if isinstance(cell, bool):
        sheet.write_boolean(line, position, cell)
    elif isinstance(cell, int | float | Decimal) and -_LARGEST < float(cell) < _LARGEST:
        sheet.write_number(line, position, float(cell))
    elif isinstance(cell, datetime) and cell.astimezone(UTC).year >= _FIRST_YEAR:
        sheet.write_datetime(line, position, cell.astimezone(UTC).replace(tzinfo=None), dated)
    else:
        text = cell_text(cell)
        # Spreadsheets count UTF-16 code units.
        if len(text.encode("utf-16-le")) > 2 * _LONGEST_TEXT:
            raise _unfit(f"a text is longer than the {_LONGEST_TEXT:,} characters of a cell")
        # Not `write`, which converts some text to formulas, numbers and links.
        sheet.write_string(line, position, text)


def _unfit(problem: str) -> InvalidRequest:
    return InvalidRequest(f"format: {problem}; csv has no such limit", field="format")
