"""Codes of currencies in tables and frames: written in any case, or as the sign of one currency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.contract.identifiers import CURRENCIES, NO_SIGN, SIGNS, code_of
from attrib_ds.display import cents, counted
from attrib_ds.errors import InvalidRequest, UnknownCurrency, warn
from attrib_ds.records.frames import TEXT

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NO_SIGN", "checked_code", "code_of", "codes", "codes_of_column", "is_no_code", "warn_of_missing"]


def checked_code(argument: str, currency: object) -> str:
    """Return the code of a currency that a user names.

    Raises
    ------
    InvalidRequest
        If it is neither a code of ISO 4217 nor the sign of one currency.
    """
    code = code_of(currency)
    if code is None:
        raise InvalidRequest(f"{argument}: {currency!r} is not allowed; expected {NO_SIGN}")
    return code


def warn_of_missing(place: str, count: int, total: float, *, used: str | None = None) -> None:
    """Warn of amounts without a currency beside others that have one.

    Parameters
    ----------
    place : str
        Name of the table.
    count, total : int, float
        Number and sum of these amounts.
    used : str, optional
        Currency that they have, in words.
    """
    unknown = "they stay apart as amounts of an unknown currency; pass currency='EUR' if it is theirs"
    known = f"they are in {used}"
    warn(
        f"{place}: {counted(count, 'rows')} with a value but no currency, {cents(total)} in all, "
        f"beside others with one: {known if used else unknown}",
        UnknownCurrency,
    )


def codes_of_column(argument: str, currencies: pd.Series[Any]) -> pd.Series[Any]:
    """Return the codes of a column of a frame, missing where it is.

    Raises
    ------
    InvalidRequest
        If a value is not a currency.
    """
    words = currencies.astype(TEXT)
    codes = {word: checked_code(argument, word) for word in words.dropna().unique()}
    return words.map(codes).astype(TEXT)


def codes(words: Any) -> Any:
    """Return the codes of a column of text, as an Ibis expression; null where it is blank."""
    folded = words.strip()
    return folded.cases(*SIGNS.items(), else_=folded.upper()).nullif("")


def is_no_code(codes: Any) -> Any:
    """Return whether a code is none of ISO 4217, as an Ibis expression."""
    return ~codes.isin(sorted(CURRENCIES))
