"""Writes rows as CSV (RFC 4180), piece by piece."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Final

from attrib_ds.service.users.cells import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from attrib_ds.contract.exports import OutputFormat
    from attrib_ds.service.users.cells import Cell

#: What spreadsheets take for the beginning of a formula.
_RISKY: Final = ("=", "+", "-", "@", "\t", "\r")
#: Whole cells that begin in the same way and are none: numbers and phone numbers of E.164.
_HARMLESS: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|\+[1-9][0-9]{1,14}")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def csv_pieces(
    header: Sequence[str], batches: Iterable[Iterable[Sequence[Cell]]], form: OutputFormat
) -> Iterator[bytes]:
    r"""Write rows as CSV: lines end with CR LF, a missing value is empty (G-121).

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    batches : iterable of iterables of rows
        The rows.
    form : OutputFormat
        Delimiter, encoding, and whether text that looks like a formula is made harmless (G-122).

    Yields
    ------
    bytes
        The header first, then a piece per batch.

    Examples
    --------
    >>> from attrib_ds.contract.exports import OutputFormat
    >>> rows = [("a,b", 1.5), ("=1+1", None)]
    >>> b"".join(csv_pieces(["text", "number"], [rows], OutputFormat(type="csv"))).decode()
    'text,number\r\n"a,b",1.5\r\n\'=1+1,\r\n'
    """
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, delimiter=form.delimiter, lineterminator="\r\n")
    text = _safe if form.sanitizeFormulas else written
    writer.writerow(header)
    yield (_BYTE_ORDER_MARK if form.encoding == "utf-8-bom" else b"") + _taken(sink)
    for rows in batches:
        writer.writerows([text(cell) for cell in row] for row in rows)
        yield _taken(sink)


def _safe(cell: Cell) -> str:
    """Return the text of a cell, behind an apostrophe where a spreadsheet would calculate it."""
    text = written(cell)
    return f"'{text}" if text.startswith(_RISKY) and not _HARMLESS.fullmatch(text) else text


def _taken(sink: io.StringIO) -> bytes:
    piece = sink.getvalue().encode()
    sink.seek(0)
    sink.truncate()
    return piece
