"""Which column of amounts is the total that is paid, by how the amounts of a row add up."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np
import numpy.typing as npt

#: Rates of value added tax in per cent.
_RATES: Final = (
    5, 5.5, 6, 7, 8, 8.1, 9, 10, 11, 12, 13, 13.5, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 25.5, 27,
)  # fmt: skip
#: Rows that show a sum, and columns and parts that are tried.
_LEAST_ROWS, _MOST_ROWS, _MOST_COLUMNS, _MOST_PARTS = 3, 200, 10, 4
_CENT, _MOSTLY, _FEW = 0.011, 0.95, 4


@dataclass(frozen=True)
class Totals:
    """The columns of totals of a table.

    Attributes
    ----------
    outermost : list of str
        Totals that are not part of another total.
    parts : dict of str to set of str
        Columns that each total consists of, and their copies.
    copies : dict of str to set of str
        Copies of each column, which may be missing or 0 where it is not.
    taxes : set of str
        Columns that are a common rate of tax of another one, or are contained in it at such a rate.
    """

    outermost: list[str]
    parts: dict[str, set[str]]
    copies: dict[str, set[str]]
    taxes: set[str]


def totals(
    columns: Mapping[str, npt.ArrayLike], *, added: Collection[str], deducted: Collection[str]
) -> Totals:
    """Return the columns that are sums of others, products of two others or others plus a tax.

    Parameters
    ----------
    columns : mapping of str to sequence of float
        Amounts of the rows by column.
    added, deducted : collection of str
        Columns whose names say that totals have them (tax, shipping) or are less them (discounts).

    Examples
    --------
    >>> amounts = {"net": [10, 20, 30, 45], "tax": [1, 2, 3, 9], "gross": [11, 22, 33, 54]}
    >>> found = totals(amounts, added=["tax"], deducted=[])
    >>> found.outermost, sorted(found.parts["gross"])
    (['gross'], ['net', 'tax'])
    >>> totals({name: amounts[name] for name in ("net", "tax")}, added=[], deducted=[]).taxes
    {'tax'}
    """
    own, copies = _without_copies(
        {name: np.array(each, float)[:_MOST_ROWS] for name, each in columns.items()}
    )
    less = {name for name in own if name in deducted or (name not in added and _looks_deducted(own[name]))}
    parts: dict[str, set[str]] = {}
    for total, signs in [*_sums(own), *_multiples(own)]:
        main = max((name for name in signs if signs[name] > 0), key=lambda name: np.nansum(np.abs(own[name])))
        # An added column is not a discount, unless it is below zero. A subtracted one is.
        is_total = all(
            (name in less) == ((sign < 0) != (np.nansum(own[name]) * np.nansum(own[main]) < 0))
            for name, sign in signs.items()
            if name != main
        )
        if is_total and not {total, main} & {*deducted}:
            parts.setdefault(total, set()).update(signs)
    inner = {name for of_total in parts.values() for name in of_total}
    whole = {
        total: of_total | {copy for name in (total, *of_total) for copy in copies[name]}
        for total, of_total in parts.items()
    }
    taxes = {tax for (_, amount), (tax, rate) in permutations(own.items(), 2) if _are_taxes(amount, rate)}
    return Totals([total for total in parts if total not in inner], whole, copies, taxes)


def _are_taxes(amounts: np.ndarray, taxes: np.ndarray) -> bool:
    """Return whether each amount has a tax at one of the common rates, added or contained."""
    rates = np.array([each for rate in _RATES for each in (rate / 100, rate / (100 + rate))])
    is_set = np.nan_to_num(amounts * taxes) != 0
    apart = np.abs(np.outer(amounts[is_set], rates) - taxes[is_set, None]).min(axis=1, initial=np.inf)
    return bool(
        is_set.sum() >= _LEAST_ROWS
        and 2 * is_set.sum() >= (np.nan_to_num(amounts) != 0).sum()
        and (apart < _CENT).mean() >= _MOSTLY
        and len({*np.round(taxes[is_set], 2)}) > 2
    )


def _without_copies(columns: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, set[str]]]:
    """Return different columns, and the copies of each: equal to it in every row, or missing or 0."""
    set_in = {name: np.nan_to_num(values) != 0 for name, values in columns.items()}
    copies: dict[str, set[str]] = {}
    for name in sorted(
        filter(lambda name: set_in[name].any(), columns), key=lambda name: -set_in[name].sum()
    ):
        at = set_in[name]
        alike = [each for each in copies if (np.abs(columns[each][at] - columns[name][at]) < _CENT).all()]
        if alike and 2 * at.sum() >= set_in[alike[0]].sum():
            copies[alike[0]].add(name)
        else:
            copies[name] = set()
    kept = [name for name in columns if name in copies][:_MOST_COLUMNS]
    return {name: columns[name] for name in kept}, copies


def _sums(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each column that is a sum of others in nearly every row, with their signs."""
    names, values = list(columns), np.nan_to_num(np.array(list(columns.values())))
    if len(names) < 3 or values.shape[1] < _LEAST_ROWS:
        return
    weights = np.indices((3,) * len(names)).reshape(len(names), -1).T - 1
    sizes = np.abs(weights).sum(axis=1)
    weights = weights[(sizes > 1) & (sizes <= _MOST_PARTS) & (weights.max(axis=1) > 0)]
    sums = weights @ values
    for at, name in enumerate(names):
        is_set = ~np.isnan(columns[name])
        share = (np.abs(sums - values[at])[:, is_set] < 2 * _CENT).mean(axis=1)
        for row in weights[(weights[:, at] == 0) & (share >= _MOSTLY)]:
            yield name, {names[each]: int(row[each]) for each in np.flatnonzero(row)}


def _multiples(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each column that is another one plus a common rate of tax, or a price times a quantity."""
    counts = [each for each in columns.values() if (each == np.round(each)).all() and each.max() > 1]
    factors = [*counts, *(1 + rate / 100 for rate in _RATES)]
    for (part, values), (total, sums) in permutations(columns.items(), 2):
        if any(_agree(values * each, sums) for each in factors):
            yield total, {part: 1}


def _agree(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two columns of at least four amounts are equal in nearly every row."""
    is_set = np.nan_to_num(first * second) != 0
    return bool(
        is_set.sum() >= _LEAST_ROWS
        and (np.abs(first - second)[is_set] < _CENT).mean() >= _MOSTLY
        and len({*np.round(second[is_set], 2)}) > 2
    )


def _looks_deducted(values: np.ndarray) -> bool:
    """Return whether amounts are those of discounts: none in many rows, and unlike fees of shipping."""
    amounts = np.abs(values[np.nan_to_num(values) != 0])
    return len(amounts) < 0.8 * len(values) and len({*np.round(amounts, 2)}) > max(_FEW, len(amounts) / 3)
