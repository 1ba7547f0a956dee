"""Reads numbers of JSON text exactly, within bounds that keep arithmetic with them fast.

``int(Decimal("1e999999999"))`` takes minutes that no signal interrupts. A number beyond the bounds stays
text, as an :class:`ExtremeNumber`: no check of numbers accepts it, and it is written as it came.
"""

import json
from decimal import Decimal
from typing import Any, Final

import numpy as np

#: Digits of a whole number that is written with a decimal point or an exponent.
MOST_DIGITS: Final = 18
#: Powers of ten beyond every double.
_LARGEST_POWER: Final = 400
#: Characters of a number; as many digits as Python reads in an integer.
_LONGEST: Final = 4_300
#: Characters of an integer. The time to read or write one grows with the square of its digits.
_LONGEST_INTEGER: Final = 400


class ExtremeNumber:
    """A JSON number that is too large, too small or too long for arithmetic.

    Parameters
    ----------
    text : str
        The number as it came.

    Examples
    --------
    >>> exact_number("1e999999999"), exact_number("0.10")
    (1e999999999, Decimal('0.10'))
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtremeNumber) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def exact_number(text: str) -> Decimal | ExtremeNumber:
    """Return a JSON number with a decimal point or exponent: ``parse_float`` of every JSON parser here.

    Examples
    --------
    >>> exact_number("1.50"), exact_number("0e500")
    (Decimal('1.50'), 0e500)
    """
    # Decimal reads a text of any length, but no exponent of twenty digits.
    if len(text) <= _LONGEST:
        try:
            number = Decimal(text)
        except ArithmeticError:
            return ExtremeNumber(text)
        if -_LARGEST_POWER <= number.adjusted() <= _LARGEST_POWER:
            return number
    return ExtremeNumber(text)


def exact_integer(text: str) -> int | ExtremeNumber:
    """Return a JSON number without a decimal point or exponent: ``parse_int`` of every JSON parser here.

    Raises
    ------
    ValueError
        If it has more than 4,300 characters: Python, which reads it again, would refuse it.

    Examples
    --------
    >>> exact_integer("-15")
    -15
    >>> type(exact_integer("1" * 500)).__name__
    'ExtremeNumber'
    """
    if len(text) > _LONGEST:
        raise ValueError("the integer has too many digits")
    return _integer(text)


def _integer(text: str) -> int | ExtremeNumber:
    return int(text) if len(text) <= _LONGEST_INTEGER else ExtremeNumber(text)


def load_exact(text: str | bytes) -> Any:
    """Parse JSON text that the project stored or a service sent, with exact numbers of any length.

    Examples
    --------
    >>> load_exact('{"amount": 0.10}')
    {'amount': Decimal('0.10')}
    """
    return _DECODER.decode(text if isinstance(text, str) else text.decode())


#: As `json.loads`, which makes a decoder for each text.
_DECODER: Final = json.JSONDecoder(parse_float=exact_number, parse_int=_integer)


def count(value: object) -> int | None:
    """Return a count, which some services write as text; None for anything else.

    Examples
    --------
    >>> count("7"), count(7.5), count("7" * 5_000)
    (7, None, None)
    """
    is_text = isinstance(value, str) and value.isdecimal() and len(value) <= MOST_DIGITS
    return whole(int(str(value)) if is_text else value)


def whole(value: object) -> int | None:
    """Return a whole number, also one written as ``1.0`` or ``1e0``; None for anything else.

    Examples
    --------
    >>> whole(Decimal("1.0")), whole(2.0), whole(Decimal("1.5")), whole(True), whole(Decimal("1e18"))
    (1, 2, None, None, None)
    """
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Decimal):
        # Before the conversion, which takes time that grows with the number.
        is_short = not value or (value.is_finite() and value.adjusted() < MOST_DIGITS)
        is_whole = is_short and value == value.to_integral_value()
        return int(value) if is_whole else None
    if not isinstance(value, float | np.floating) or not abs(float(value)) < 10**MOST_DIGITS:
        return None
    return int(value) if float(value).is_integer() else None


def plain(value: object) -> object:
    """Return numbers as their JSON text shows them in a message; any other value unchanged.

    Examples
    --------
    >>> plain(Decimal("1.0")), plain(np.float64(2.5)), plain("1.0")
    (1.0, 2.5, '1.0')
    """
    if isinstance(value, Decimal):
        return ExtremeNumber(str(value))
    return value.item() if isinstance(value, np.number) else value
