"""Streams rows as CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from attrib_ds.records.spreadsheets import escaped
from attrib_ds.service.users.cells import cell_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from attrib_ds.contract.exports import OutputFormat
    from attrib_ds.service.users.cells import Cell

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def csv_pieces(
    header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]], form: OutputFormat
) -> Iterator[bytes]:
    r"""Write rows as CSV: lines end with CR LF, missing values are empty (G-121).

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    batches : iterable of iterables of rows
        The rows.
    form : OutputFormat
        Delimiter, encoding, and whether to escape formulas (G-122).

    Yields
    ------
    bytes
        The header, then one chunk per batch.

    Examples
    --------
    >>> from attrib_ds.contract.exports import OutputFormat
    >>> rows = [("a,b", 1.5), ("=1+1", None)]
    >>> b"".join(csv_pieces(["text", "number"], [rows], OutputFormat(type="csv"))).decode()
    'text,number\r\n"a,b",1.5\r\n\'=1+1,\r\n'
    """
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, delimiter=form.delimiter, lineterminator="\r\n")
    text = _escaped if form.sanitizeFormulas else cell_text
    writer.writerow(header)
    yield (_BYTE_ORDER_MARK if form.encoding == "utf-8-bom" else b"") + _drained(sink)
    for rows in batches:
        writer.writerows([text(cell) for cell in row] for row in rows)
        yield _drained(sink)


def _escaped(cell: Cell) -> str:
    return escaped(cell_text(cell))


def _drained(sink: io.StringIO) -> bytes:
    piece = sink.getvalue().encode()
    sink.seek(0)
    sink.truncate()
    return piece
