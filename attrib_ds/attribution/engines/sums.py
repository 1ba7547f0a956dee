"""Reproducible sums of doubles, independent of the order in which an engine adds them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from attrib_ds.attribution.engines.engine import double

#: Fractional bits of the grids that amounts are split on. Multiples of the first, 2**18, add up without
#: rounding while their sum is below 2**71, the remainders on the others for up to 2**24 amounts. The first is
#: for squares of values, of which variances are made: those of a thousand orders of 1e6 have the sum 2**50.
_GRIDS: Final = (-18, 12, 42)


def total(amounts: Any, *, over: Any = None) -> Any:
    """Return the sum of a column of doubles, bitwise reproducible in any order of addition.

    Engines add in parallel, in an order that differs from run to run, and rounding depends on the order. So
    every amount is split into multiples of three powers of two, whose sums are exact, and a remainder below
    the last digit. For larger or more amounts the sum is as accurate as an ordinary one.

    Parameters
    ----------
    amounts : ibis number
        A column of doubles.
    over : ibis window, optional
        Window to sum over; by default the sum is an aggregate.

    References
    ----------
    Demmel and Nguyen (2013), Fast reproducible floating-point summation, 21st IEEE Symposium on Computer
    Arithmetic, 163-172.
    """
    # Each grid rounds the amount itself, not the remainder: the text of a query grows with every nesting.
    rounded = [_on_grid(amounts, bits) for bits in _GRIDS]
    parts = [rounded[0], *(finer - coarser for coarser, finer in pairwise(rounded)), amounts - rounded[-1]]
    first, second, third, fourth = (_sum(part, over) for part in parts)
    return first + (second + (third + fourth))


def _on_grid(amounts: Any, bits: int) -> Any:
    """Round to multiples of ``2**-bits``: a double of this size has no lower digits."""
    large = double(1.5 * 2.0 ** (52 - bits))
    return (amounts + large) - large


def _sum(amounts: Any, over: Any) -> Any:
    return amounts.sum() if over is None else amounts.sum().over(over)
