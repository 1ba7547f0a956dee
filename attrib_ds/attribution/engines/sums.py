"""Sums of doubles that do not depend on the order in which an engine adds them up."""

from __future__ import annotations

from typing import Any, Final

from attrib_ds.attribution.engines.engine import double

#: Bits after the point of the two grids that amounts are split on. Multiples of the first add up without
#: rounding while their sum stays below 2**41, what is left of each on the second for up to 2**24 amounts.
_GRIDS: Final = (12, 42)


def total(amounts: Any, *, over: Any = None) -> Any:
    """Return the sum of a column of doubles, the same to the last digit in whatever order it is added up.

    Engines add up side by side, in an order that differs from run to run, and each order rounds otherwise.
    So every amount is split into multiples of two powers of two, whose sums are exact, and a rest too small
    to be seen in the last digit. Of greater or more amounts than that the sum is as good as any other.

    Parameters
    ----------
    amounts : ibis number
        A column of doubles.
    over : ibis window, optional
        The window to sum over, where this is no aggregate.

    References
    ----------
    Demmel and Nguyen (2013), Fast reproducible floating-point summation, 21st IEEE Symposium on Computer
    Arithmetic, 163-172.
    """
    parts, rest = [], amounts
    for bits in _GRIDS:
        part = _on_grid(rest, bits)
        parts.append(part)
        rest = rest - part
    first, second, third = (_sum(each, over) for each in (*parts, rest))
    return first + (second + third)


def _on_grid(amounts: Any, bits: int) -> Any:
    """Round to multiples of ``2**-bits``: beside this number, a double has no digits below them."""
    large = double(1.5 * 2.0 ** (52 - bits))
    return (amounts + large) - large


def _sum(amounts: Any, over: Any) -> Any:
    return amounts.sum() if over is None else amounts.sum().over(over)
