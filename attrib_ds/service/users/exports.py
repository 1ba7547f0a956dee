"""Exports users as CSV and XLSX files, with transformed cells."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Final, TypeAlias

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends.duckdb import Backend

from attrib_ds import instants, json_numbers, local_files, schema
from attrib_ds.contract import Answer, File, json_values
from attrib_ds.contract import users as contract
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.written_files import escaped, xlsxwriter
from attrib_ds.service.store import files
from attrib_ds.service.store.store import Store
from attrib_ds.service.users import search, user_fields


def export_users(store: Store, request: contract.ExportUsers) -> Answer:
    """Return a file of the users that a search with the same criteria finds, sorted by id.

    CSV is streamed. An XLSX file is first written to disk completely, since its beginning contains the
    lengths of its parts.
    """
    columns, form = request.exporterDataConfig.columns, request.outputFormatConfig
    users = _users(store, request)
    try:
        rows = _rows(users, request)
        if form.type == "csv":
            return Answer(value=File(csv_pieces(columns, rows, form), users.close))
        check_xlsx(users.count or 0)
        file = File.of(write_xlsx(columns, rows))
    except BaseException:
        users.close()
        raise
    users.close()
    return Answer(value=file)


def _users(store: Store, request: contract.ExportUsers) -> Answer:
    config = request.exporterDataConfig

    def find(backend: Backend) -> tuple[ir.Table, int]:
        keys = user_fields.ProjectKeys(backend.con)
        keys.check(config.columns, argument="columns")
        _check_dates(request.transformerConfig, keys)
        users = search.select_users(
            backend, cancellation=store.cancellation, filters=config.filters, audience=config.audience
        )
        total = int(users.count().to_pyarrow().as_py())
        return users.mutate(place=ibis.row_number().over(order_by=users["_id"])), total

    return search.describe(store, find, config.columns)


def _check_dates(transformers: Sequence[contract.Transformer], keys: user_fields.ProjectKeys) -> None:
    """Refuse to truncate what is not a date."""
    dates = [field.name for field in schema.USER if pa.types.is_timestamp(field.type)]
    dates += [f"fields.{key}" for key, declared in keys.fields.items() if declared.type == "date"]
    for position, change in enumerate(transformers):
        if change.type == "date" and change.key not in dates:
            raise InvalidRequest(
                f"transformers/{position}/key: {change.key!r} is not a date, which the type 'date' "
                f"truncates; allowed: {', '.join(dates)}"
            )


def _rows(users: Answer, request: contract.ExportUsers) -> Iterator[Iterable[tuple[Cell, ...]]]:
    keys = request.exporterDataConfig.columns
    changes = [(transformer.key, transformation(transformer)) for transformer in request.transformerConfig]
    try:
        for batch in (batch for table in users for batch in table.to_batches()):
            columns = [(key, cells_of(batch, key)) for key in keys]
            for changed, transform in changes:
                columns = [
                    (key, [transform(cell) for cell in cells] if key == changed else cells)
                    for key, cells in columns
                ]
            yield zip(*(cells for _, cells in columns), strict=True)
    except duckdb.Error as error:
        raise files.failure("the project's file could not be read", error) from error


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def csv_pieces(
    header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]], form: contract.OutputFormat
) -> Iterator[bytes]:
    r"""Write rows as CSV: lines end with CR LF, missing values are empty.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    batches : iterable of iterables of rows
        The rows.
    form : OutputFormat
        Delimiter, encoding, and whether to escape formulas.

    Yields
    ------
    bytes
        The header, then one chunk per batch.

    Examples
    --------
    >>> from attrib_ds.contract.users import OutputFormat
    >>> rows = [("a,b", 1.5), ("=1+1", None)]
    >>> b"".join(csv_pieces(["text", "number"], [rows], OutputFormat(type="csv"))).decode()
    'text,number\r\n"a,b",1.5\r\n\'=1+1,\r\n'
    """

    def piece(rows: Iterable[Sequence[str]]) -> bytes:
        sink = io.StringIO(newline="")
        csv.writer(sink, delimiter=form.delimiter, lineterminator="\r\n").writerows(rows)
        return sink.getvalue().encode()

    yield (_BYTE_ORDER_MARK if form.encoding == "utf-8-bom" else b"") + piece([header])
    for rows in batches:
        texts = ([cell_text(cell) for cell in row] for row in rows)
        yield piece([escaped(text) for text in row] if form.sanitizeFormulas else row for row in texts)


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
        If there are too many rows for a sheet.
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
    # The folder holds the parts of the sheet until the workbook is complete.
    folder = tempfile.TemporaryDirectory
    with local_files.spooling() as file, local_files.writing_temporarily(), folder() as parts:
        workbook = library.Workbook(file, {"constant_memory": True, "tmpdir": parts})
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
    return file


def _write(
    sheet: Any, dated: Any, header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]]
) -> None:
    for position, name in enumerate(header):
        sheet.write_string(0, position, name)
    for line, row in enumerate(chain.from_iterable(batches), start=1):
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
    return InvalidRequest(f"format: {problem}; csv has no such limit")


#: A cell before formatting: a list has several values, None is empty.
Cell: TypeAlias = "str | bool | int | float | Decimal | datetime | list[Cell] | None"

#: Separates the values of a list.
SEPARATOR: Final = "|"


def cells_of(batch: pa.RecordBatch, key: str) -> list[Cell]:
    """Return the cells of a key, one per row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With the columns of the key.
    key : str
        As in searches of users.

    Returns
    -------
    list
        For fields the current value; objects as JSON text.
    """
    names = [name for name in schema.user_columns([key]).names if name != "_id" or key == "_id"]
    if names != [key]:
        members = {name.removeprefix(f"{key}."): batch[name].to_pylist() for name in names}
        return [_nested(dict(zip(members, row, strict=True))) for row in zip(*members.values(), strict=True)]
    values: list[Any] = batch[key].to_pylist()
    return [_current(text) for text in values] if key.startswith("fields.") else values


def cell_text(cell: Cell) -> str:
    """Return the text of a cell.

    Examples
    --------
    >>> [cell_text(cell) for cell in (None, True, 12.5, Decimal("0.10"), ["a", 1])]
    ['', 'true', '12.5', '0.10', 'a|1']
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, datetime):
        return instants.format(cell)
    if isinstance(cell, Decimal):
        return format(cell, "f")
    if isinstance(cell, list):
        return SEPARATOR.join(cell_text(value) for value in cell)
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else json_values.encode(cell)


def _current(text: str | None) -> Cell:
    """Return the current value of a field from the JSON list of its entries, or None."""
    entries = json_numbers.load_exact(text) if text else []
    if not entries:
        return None
    current = entries[0].get("current")
    if isinstance(current, str) and entries[0].get("type") == "date":
        try:
            return instants.parse(current, argument="date")
        except InvalidRequest:
            return current
    return _plain(current)


def _plain(value: Any) -> Cell:
    if isinstance(value, dict):
        return json_values.encode(value)
    if isinstance(value, list):
        return [_plain(member) for member in value]
    cell: Cell = value
    return cell


def _nested(members: dict[str, Any]) -> str | None:
    """Return an object as JSON, without missing members."""
    tree: dict[str, Any] = {}
    for name, value in members.items():
        if value is None:
            continue
        *parents, leaf = name.split(".")
        holder = tree
        for parent in parents:
            holder = holder.setdefault(parent, {})
        holder[leaf] = value
    return json_values.encode(tree) if tree else None


#: Precision for all digits of the largest double.
_EXACT: Final = Context(prec=340, rounding=ROUND_HALF_UP)
_MONTHS: Final = {"year": 12, "semester": 6, "quarter": 3, "month": 1}
#: Lengths of the periods up to a day.
_PERIODS: Final = {level: timedelta(**{f"{level}s": 1}) for level in ("second", "minute", "hour", "day")}
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)


def transformation(transformer: contract.Transformer) -> Callable[[Cell], Cell]:
    """Return the function of a transformer.

    Parameters
    ----------
    transformer : Transformer
        A validated transformer.

    Returns
    -------
    callable
        Takes and returns a cell. Missing values and values of other types stay as they are; lists are
        transformed value by value, except by ``join``.

    Examples
    --------
    >>> from attrib_ds.contract.users import Transformer
    >>> transformation(Transformer(type="case", key="fields.city", level="upper"))("Oslo")
    'OSLO'
    >>> transformation(Transformer(type="number", key="eventCount", level=1))(2.25)
    Decimal('2.3')
    >>> transformation(Transformer(type="join", key="audienceIds", level=", "))(["a", "b"])
    'a, b'
    """
    if transformer.type == "join":
        return lambda cell: transformer.level.join(map(cell_text, cell)) if isinstance(cell, list) else cell
    change = partial(_CHANGES[transformer.type], level=transformer.level)

    def transform(cell: Cell) -> Cell:
        if isinstance(cell, list):
            return [transform(value) for value in cell]
        return None if cell is None else change(cell)

    return transform


def _truncated(cell: Cell, level: str) -> Cell:
    """Truncate an instant to a period, in UTC; weeks start on Monday."""
    if not isinstance(cell, datetime):
        return cell
    instant = cell.astimezone(UTC)
    day = instant - (instant - _EPOCH) % _PERIODS.get(level, _PERIODS["day"])
    if level in _PERIODS:
        return day
    if level == "week":
        return day - timedelta(days=day.weekday())
    months = _MONTHS[level]
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _rounded(cell: Cell, level: int) -> Cell:
    """Round a number to a number of decimals, half away from zero."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return cell
    # Via text: round the decimal that is displayed, not the binary float.
    number = cell if isinstance(cell, Decimal) else Decimal(str(cell))
    return number.quantize(Decimal(1).scaleb(-level), context=_EXACT) if number.is_finite() else cell


def _cased(cell: Cell, level: str) -> Cell:
    if not isinstance(cell, str):
        return cell
    return cell.upper() if level == "upper" else cell.lower()


def _hashed(cell: Cell, level: Any) -> Cell:  # noqa: ARG001  (signature of all)
    return hashlib.sha256(cell_text(cell).encode()).hexdigest()


_CHANGES: Final[dict[str, Callable[..., Cell]]] = {
    "date": _truncated,
    "number": _rounded,
    "case": _cased,
    "hash": _hashed,
}
