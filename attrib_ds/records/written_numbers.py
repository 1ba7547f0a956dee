"""Numbers as people write them: with a decimal point or comma, and separators of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Decimal marks.
MARKS: Final = (".", ",")

#: Numbers whose thousands are separated by spaces, as in French, or by apostrophes, as in Switzerland.
_SPACED: Final = r"^[+-]?\d{1,3}([ \x{00A0}\x{2009}\x{202F}]\d{3})+([.,]\d+)?$"
_APOSTROPHES: Final = r"^[+-]?\d{1,3}([\x{0027}\x{2019}]\d{3})+([.,]\d+)?$"
_SEPARATORS: Final = r"[ \x{00A0}\x{2009}\x{202F}\x{0027}\x{2019}]"

_THOUSANDS: Final = r"^-?\d{1,3}(,\d{3})+(\.\d+)?$"
_COMMA_NUMBER: Final = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
#: Numbers that only make sense with a decimal comma, and those that only make sense with a decimal point.
_HAS_COMMA: Final = (
    r"^[+-]?(\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*),\d+)$"
)
_HAS_POINT: Final = (
    r"^[+-]?(\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d+\.(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*)\.\d+)$"
)
#: Numbers of a thousand or more, or with three decimals.
_HAS_EITHER: Final = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


def decimal_mark(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    *,
    decimal: str | None,
    place: str,
    field: str,
    is_count: bool = False,
) -> str:
    """Return the decimal mark of a column of text: one number that is clear decides for all.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the column.
    relation, word : str
        SQL of the table and of the column.
    decimal : str or None
        The mark, if the caller gives it.
    place : str
        Name of the column in messages.
    field : str
        Name of the argument in messages.
    is_count : bool, default False
        Whether the numbers are counts, in which a comma followed by three digits separates thousands.

    Raises
    ------
    InvalidRequest
        If the numbers contradict each other, or none of them is clear.
    """
    if decimal is not None:
        if decimal not in MARKS:
            raise InvalidRequest.choice("decimal", decimal, MARKS)
        return decimal
    number = _joined(word)
    comma, point, separated, either = connection.execute(
        "SELECT "
        + ", ".join(
            f"min({word}) FILTER (regexp_matches({number}, '{pattern}'))"
            for pattern in (_HAS_COMMA, _HAS_POINT, _THOUSANDS, _HAS_EITHER)
        )
        + f" FROM {relation}"
    ).fetchall()[0]
    if comma is not None and point is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {comma!r} has a decimal comma and {point!r} a decimal point; write all "
            "numbers alike",
            field=field,
        )
    if comma is None and point is None and is_count and separated is not None:
        return "."
    if comma is None and point is None and either is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {either!r} may be in thousands or have three decimals; pass decimal='.' "
            "or decimal=',' (--decimal . or --decimal , in the command)",
            field=field,
        )
    return "," if comma is not None else "."


def plain(word: str, mark: str) -> str:
    """Return SQL for a number with a decimal point and no other separators."""
    word = _joined(word)
    if mark == ",":
        number = f"replace(replace({word}, '.', ''), ',', '.')"
        return f"CASE WHEN regexp_matches({word}, '{_COMMA_NUMBER}') THEN {number} END"
    return f"CASE WHEN regexp_matches({word}, '{_THOUSANDS}') THEN replace({word}, ',', '') ELSE {word} END"


def _joined(word: str) -> str:
    """Return SQL for a number without spaces and apostrophes between its thousands."""
    is_separated = f"regexp_matches({word}, '{_SPACED}') OR regexp_matches({word}, '{_APOSTROPHES}')"
    return f"CASE WHEN {is_separated} THEN regexp_replace({word}, '{_SEPARATORS}', '', 'g') ELSE {word} END"


def plain_numbers(
    texts: Iterable[str], *, decimal: str | None, place: str, field: str
) -> dict[str, str | None]:
    """Return the numbers of a column by their text, with a decimal point and no other separators."""
    words = pa.array(sorted({*texts}), pa.string())
    if not len(words):
        return {}
    with duckdb.connect() as connection:
        connection.register("texts", pa.table({"word": words}))
        mark = decimal_mark(connection, "texts", "trim(word)", decimal=decimal, place=place, field=field)
        return dict(connection.execute(f"SELECT word, {plain('trim(word)', mark)} FROM texts").fetchall())
