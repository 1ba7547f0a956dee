"""Files of results: Parquet that appears when it is complete, CSV and workbooks without formulas."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import reduce
from itertools import takewhile
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, BinaryIO, Final, Self
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from attrib_ds import errors, local_files
from attrib_ds.records.person_ids import EXACT

#: Prefixes that make spreadsheets evaluate a cell as a formula.
_FORMULA_PREFIXES: Final = (
    *("=", "+", "-", "@", "\t", "\r", "\n"),
    # The full-width forms of =, +, - and @, which some spreadsheets take for the same.
    *("\uff1d", "\uff0b", "\uff0d", "\uff20"),
)
_BYTE_ORDER_MARK: Final = "\ufeff"
#: Cells with such a prefix that are not formulas: numbers, and phone numbers in E.164 format.
_HARMLESS: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|\+[1-9][0-9]{1,14}")
#: Text stays text: XlsxWriter would make formulas, links and numbers of some.
_TEXT_ONLY: Final[dict[str, Any]] = {f"strings_to_{kind}": False for kind in ("formulas", "urls", "numbers")}
_SHEET_NAME: Final = re.compile(r"(?!')[^][:*?/\\]{1,31}(?<!')")
#: Size of a sheet, header included.
_MOST_ROWS: Final = 1_048_576
_MOST_COLUMNS: Final = 16_384
#: Widths of columns, in characters.
_WIDTH_OF_INSTANTS: Final = 20
_WIDEST: Final = 60
_MEASURED_CELLS: Final = 1_000
#: Maximum number of rows of titles above a header.
_ROWS_ABOVE: Final = 40


def escaped(text: str) -> str:
    """Return the text of a CSV cell, prefixed by an apostrophe if a spreadsheet would evaluate it.

    Examples
    --------
    >>> [escaped(text) for text in ("=1+1", "-3.5", "+4915112345678", "email")]
    ["'=1+1", '-3.5', '+4915112345678', 'email']
    """
    # Spreadsheets drop the mark.
    content = text.lstrip(_BYTE_ORDER_MARK)
    is_formula = content.startswith(_FORMULA_PREFIXES) and not _HARMLESS.fullmatch(content)
    return f"'{text}" if is_formula else text


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as CSV, without its index.

    Parameters
    ----------
    frame : DataFrame
        With one row per line.

    Returns
    -------
    str
        A header and the rows; missing values are empty.

    Examples
    --------
    >>> print(csv_text(pd.DataFrame({"name": ["=1+1", None], "share": [0.5, -0.5]})), end="")
    name,share
    '=1+1,0.5
    ,-0.5
    """
    safe = frame.copy(deep=False)
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            text = column.astype(object).map(_escaped_value, na_action="ignore")
            safe.isetitem(position, text.array)
    safe.columns = [escaped(str(name)) for name in frame.columns]
    return safe.to_csv(index=False)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame to a CSV file for people, as :func:`csv_text` does.

    It begins with a byte order mark: without one, Excel on Windows reads another encoding.
    """
    with local_files.writing(path, argument="path"), local_files.replacing(path) as file:
        file.write(csv_text(frame).encode("utf-8-sig"))


def write_excel(frames: Mapping[str, pd.DataFrame], file: BinaryIO) -> None:
    """Write frames to a workbook: a sheet each, text as text, and instants in UTC.

    The index of a frame is written only if it is more than a numbering of the rows. Headers stay visible.
    Workbooks have no infinity: its cells are empty, so that columns of numbers hold numbers alone.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        By the name of the sheet.
    file : binary file
        Open for writing.

    Raises
    ------
    InvalidRequest
        If a sheet cannot have its name, or has too many rows or columns.
    NotSupported
        If the extra ``[excel]`` is not installed.
    """
    xlsxwriter()
    sheets = {name: _flat(frame) for name, frame in frames.items()}
    _check_sheets(sheets)
    with pd.ExcelWriter(file, engine="xlsxwriter", engine_kwargs={"options": _TEXT_ONLY}) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, index=False, sheet_name=name, inf_rep="")
            sheet = writer.sheets[name]
            sheet.freeze_panes(1, 0)
            for position, column in enumerate(frame.columns):
                sheet.set_column(position, position, _width(frame.iloc[:, position], column))


def xlsxwriter() -> ModuleType:
    """Return the library that writes workbooks.

    Raises
    ------
    NotSupported
        If the extra ``[excel]`` is not installed.
    """
    try:
        import xlsxwriter as library
    except ModuleNotFoundError as error:
        raise errors.NotSupported(
            "XLSX files need XlsxWriter, which is not installed; it comes with the extra: "
            "pip install 'attrib-ds[excel]'",
            field="format",
        ) from error
    module: ModuleType = library
    return module


def _escaped_value(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else value


def _check_sheets(sheets: Mapping[str, pd.DataFrame]) -> None:
    seen: set[str] = set()
    for name, frame in sheets.items():
        if not isinstance(name, str) or not _SHEET_NAME.fullmatch(name) or name.lower() in {*seen, "history"}:
            raise errors.InvalidRequest(
                f"frames: a sheet cannot have the name {name!r}; allowed: 1 to 31 characters without "
                "[ ] : * ? / \\ and apostrophes at the ends, not 'History', each once whatever its case"
            )
        seen.add(name.lower())
        if len(frame) >= _MOST_ROWS or len(frame.columns) > _MOST_COLUMNS:
            raise errors.InvalidRequest(
                f"frames: {name!r} has {len(frame):,} rows and {len(frame.columns):,} columns; a sheet holds "
                f"{_MOST_ROWS - 1:,} rows and {_MOST_COLUMNS:,} columns; write it with to_parquet or to_csv"
            )


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index as columns, one level of names, and instants that workbooks can hold."""
    is_numbering = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    flat = frame.copy(deep=False)
    if flat.columns.nlevels > 1:
        flat.columns = [" ".join(str(level) for level in levels if level != "") for levels in flat.columns]
    if not is_numbering:
        index = flat.index.to_frame(index=False)
        index.columns = [
            name if name is not None else "index" if len(index.columns) == 1 else f"level {level}"
            for level, name in enumerate(flat.index.names)
        ]
        flat = pd.concat([index, flat.reset_index(drop=True)], axis=1)
    flat.columns = [str(name) for name in flat.columns]
    for position in range(flat.shape[1]):
        column = flat.iloc[:, position]
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            flat.isetitem(position, column.dt.tz_convert("UTC").dt.tz_localize(None).array)
        elif column.dtype == object:
            flat.isetitem(position, column.map(_without_zone, na_action="ignore").array)
    return flat


def _without_zone(value: Any) -> Any:
    """Return an instant in UTC without a zone, since workbooks have none; anything else as it is."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return value
    return value.astimezone(UTC).replace(tzinfo=None)


def _width(column: pd.Series[Any], name: str) -> int:
    """Return the width of a column in characters, from its header and its first cells."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return max(_WIDTH_OF_INSTANTS, len(name) + 2)
    cells = column.head(_MEASURED_CELLS)
    if pd.api.types.is_float_dtype(column):
        cells = cells.round(2)
    longest = max((len(str(cell)) for cell in cells), default=0)
    return min(max(longest, len(name)) + 2, _WIDEST)


#: Endings of workbooks that can be read.
WORKBOOKS: Final = (".xlsx",)
#: Attribute of the frame of a sheet: the number of its first row in the sheet.
FIRST_ROW: Final = "#first row"
#: Attribute of the frame of a sheet: the cells of words above its header.
ABOVE: Final = "#above"
#: What a workbook may have: a cell takes some 100 bytes of memory once it is read.
_MOST_CELLS: Final = 10_000_000
_MOST_COLUMNS_READ: Final = 2_000
_MOST_PARTS: Final = 1_000
_MOST_BYTES_OF_WORKBOOK: Final = 2**30
_BYTES_AT_ONCE: Final = 2**20
#: Errors of damaged files, whose parts are read one by one; those of XML parsers are syntax errors.
_DAMAGES: Final = (ValueError, TypeError, KeyError, SyntaxError, EOFError, BadZipFile, zlib.error)


def read_sheet(path: Path, sheet: str | None = None, *, argument: str, called: str = "sheet") -> pd.DataFrame:
    """Return a sheet of a workbook, by default the first.

    Raises
    ------
    InvalidRequest
        If the file is not a workbook, or has no such sheet, or the sheet is empty; the message names the
        ``argument`` of the file, or that of the sheet (``called``).
    """
    with _opened(path, argument) as book:
        names = list(map(str, book.sheet_names))
        sheet = None if sheet is None else str(sheet)
        if sheet is not None and sheet not in names:
            raise errors.InvalidRequest(
                f"{called}: {path.name!r} has no sheet {sheet!r}{errors.closest(sheet, names)}; "
                f"sheets: {', '.join(names)}"
            )
        settings: dict[str, Any] = {"sheet_name": sheet or 0, "keep_default_na": False, "na_values": [""]}
        # A cell of text stays text: pandas would make a number of an id.
        settings["dtype"] = object
        rows: pd.DataFrame = pd.read_excel(book, **settings).infer_objects()
        header, above = 0, []
        named = sum(not str(name).startswith("Unnamed: ") for name in rows.columns)
        counts = rows.head(_ROWS_ABOVE).notna().sum(axis="columns")
        if named <= max(1, counts.max() // 2) and (is_wide := counts.ge(max(2, counts.max() - 1))).any():
            # Lines of a title stand above the header.
            header = int(is_wide.argmax()) + 1
            title = rows.head(header - 1).to_numpy().ravel()
            above = [cell for cell in (*rows.columns, *title) if isinstance(cell, str)]
            rows = pd.read_excel(book, header=header, **settings).infer_objects()
    if not len(rows.columns):
        others = f"; sheets: {', '.join(names)}" if len(names) > 1 else ""
        raise errors.InvalidRequest(
            f"{argument}: the sheet {sheet or names[0]!r} of {path.name!r} is empty{others}"
        )
    for place, kind in enumerate(rows.dtypes):
        cells = rows.iloc[:, place].tolist() if kind.kind in "iO" else []
        if any(map(_is_rounded, cells)):
            # As the float that the workbook holds, not as the integer that it seems.
            rows.isetitem(place, [float(cell) if _is_rounded(cell) else cell for cell in cells])
    rows.attrs |= {FIRST_ROW: header + 2, ABOVE: [cell for cell in above if re.search(r"\w \w", cell)]}
    return rows


def _is_rounded(cell: object) -> bool:
    return isinstance(cell, int) and abs(cell) > 2 ** EXACT[8]


def sheet_columns(path: Path) -> dict[str, list[str]]:
    """Return the names of the columns of each sheet, in order."""
    with _opened(path, "path") as book:
        return {
            str(name): list(map(str, pd.read_excel(book, sheet_name=name, nrows=0).columns))
            for name in book.sheet_names
        }


def sheet_names(path: Path, argument: str) -> list[str]:
    """Return the names of the sheets, in order."""
    with _opened(path, argument) as book:
        return list(map(str, book.sheet_names))


def _check_workbook(path: Path, argument: str) -> None:
    """Refuse a workbook that would fill the memory, by the sizes in its directory and its cells.

    The parts are unpacked piece by piece, whatever size the directory says.
    """
    with ZipFile(path) as archive:
        parts = archive.infolist()
        problem = f"{len(parts):,} parts; allowed: {_MOST_PARTS:,}" if len(parts) > _MOST_PARTS else ""
        total = sum(part.file_size for part in parts)
        if total > _MOST_BYTES_OF_WORKBOOK:
            problem = f"{total:,} bytes unpacked; allowed: {_MOST_BYTES_OF_WORKBOOK:,}"
        # A sheet may have any name.
        for part in parts if not problem else ():
            with archive.open(part) as content:
                cells, columns = _extent(content)
            if columns > _MOST_COLUMNS_READ:
                problem = f"a cell in column {columns:,}; allowed: {_MOST_COLUMNS_READ:,} columns"
            elif cells > _MOST_CELLS:
                problem = f"more than {_MOST_CELLS:,} cells in a sheet"
    if problem:
        raise errors.InvalidRequest(f"{argument}: the workbook {path.name!r} has {problem}; save it as CSV")


def _extent(content: IO[bytes]) -> tuple[float, int]:
    """Return how many cells a sheet makes of XML, and its last column; no cells if it is none.

    Rows and cells say where they are, and the sheet where it ends, in every way that its reader understands.
    """
    cells, rows, columns, kinds = 0, 0.0, 0, {}

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal cells, rows, columns
        # A few names come millions of times.
        if name not in kinds:
            kinds[name] = name.rpartition(" ")[2]
        kind = kinds[name]
        if kind == "row":
            rows = max(rows + 1, float(attributes.get("r", 0)))
        elif kind in {"c", "dimension"}:
            cells += kind == "c"
            if not attributes:
                return
            last = attributes.get("r" if kind == "c" else "ref", "").rpartition(":")[2]
            letters = "".join(takewhile(str.isalpha, last))
            columns = max(
                columns, reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters[:9].upper(), 0)
            )
            rows = max(rows, int(last[len(letters) :] or 0))

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    # Where this fails, the reader of the workbook fails too.
    with suppress(expat.ExpatError, ValueError):
        while (piece := content.read(_BYTES_AT_ONCE)) and max(cells, rows * columns) <= _MOST_CELLS:
            parser.Parse(piece)
    # A row without cells is read with the columns of the others.
    return max(cells, rows * max(columns, 1)), columns


@contextmanager
def _opened(path: Path, argument: str) -> Iterator[pd.ExcelFile]:
    try:
        _check_workbook(path, argument)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            yield book
    except ImportError as error:
        raise errors.InvalidRequest(
            f"{argument}: {path.name!r} needs the package openpyxl; install attrib-ds[excel], or save the "
            "sheet as CSV"
        ) from error
    except errors.InvalidRequest:
        raise
    except _DAMAGES as error:
        raise errors.InvalidRequest(f"{argument}: {path.name!r} is not a workbook: {error}") from error


#: Bytes of buffered tables per row group.
_ROW_GROUP: Final = 32 * 1024 * 1024


class ParquetSpool:
    """Append tables to a Parquet file that appears atomically.

    Use it in a ``with`` block: at its end the file appears, replacing any existing one. If the block raises,
    there is no new file and an existing one is unchanged.

    Parameters
    ----------
    path : path-like
        Of the file, in an existing folder.
    columns : pyarrow.Schema
        Of the file and of every table.

    Raises
    ------
    InvalidRequest
        If the folder does not exist, or the path is a folder.
    Unavailable
        If the file cannot be written, such as on a full disk.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with ParquetSpool(folder / "visits.parquet", pa.schema([("_id", pa.string())])) as spool:
    ...     spool.append(pa.table({"_id": ["a", "b"]}))
    ...     spool.append(pa.table({"_id": ["c"]}))
    >>> parquet.read_table(folder / "visits.parquet")["_id"].to_pylist()
    ['a', 'b', 'c']
    """

    def __init__(self, path: str | os.PathLike[str], columns: pa.Schema) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            problem = "is a folder" if self._path.is_dir() else "is in a folder that does not exist"
            raise errors.InvalidRequest(
                f"path: {str(path)!r} {problem}; expected a file in an existing folder"
            )
        self._columns = columns
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        #: Rows appended so far.
        self.rows = 0

    def __enter__(self) -> Self:
        with self._writing(), ExitStack() as stack:
            file = stack.enter_context(local_files.replacing(self._path))
            self._writer = stack.enter_context(parquet.ParquetWriter(file, self._columns))
            self._files = stack.pop_all()
        return self

    def append(self, table: pa.Table) -> None:
        """Add the rows of a table, which are buffered up to a row group.

        Parameters
        ----------
        table : pyarrow.Table
            With the columns of the file.
        """
        self._waiting.append(table)
        self._bytes += table.nbytes
        self.rows += table.num_rows
        if self._bytes >= _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        group = pa.concat_tables(self._waiting)
        self._waiting, self._bytes = [], 0
        if group.num_rows:
            with self._writing():
                self._writer.write_table(group, row_group_size=group.num_rows)

    def _writing(self) -> AbstractContextManager[None]:
        return local_files.writing(self._path, argument="path")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._writing():
            if kind is not None:
                self._files.__exit__(kind, error, trace)
                return
            with self._files:
                if self._waiting:
                    self._write()
