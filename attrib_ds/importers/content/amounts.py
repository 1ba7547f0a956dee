"""Which column of amounts is the total that is paid, by how the amounts of a row add up."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

import numpy as np

#: Rates of value added tax in per cent.
_RATES: Final = (
    5, 5.5, 6, 7, 8, 8.1, 9, 10, 11, 12, 13, 13.5, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 25.5, 27,
)  # fmt: skip
#: Rows that show a sum, and columns and parts that are tried.
_LEAST_ROWS, _MOST_ROWS, _MOST_COLUMNS, _MOST_PARTS = 4, 200, 12, 4
_CENT, _MOSTLY, _FEW = 0.011, 0.95, 4
_SEPARATORS: Final = re.compile(r"[.,]")
_BELOW: Final = re.compile(r"^\W*[-−–(]|-\s*$")


def _shown_mark(text: str) -> str | None:
    """Return the decimal mark that an amount shows; None if it shows none."""
    found = _SEPARATORS.findall(text)
    if not found:
        return None
    digits = sum(map(str.isdigit, text.rpartition(found[-1])[2]))
    if len({*found}) == 2 or (len(found) == 1 and digits != 3):
        return found[-1]
    return None if len(found) == 1 else {",": ".", ".": ","}[found[-1]]


def mark_of(texts: Collection[str]) -> str | None:
    """Return the decimal mark of amounts that show one; None if they show none or two.

    Examples
    --------
    >>> mark_of(["1.250", "3,5"]), mark_of(["1.250", "2"]), mark_of(["1,234.50"])
    (',', None, '.')
    """
    marks = {mark for text in texts if (mark := _shown_mark(text))}
    return marks.pop() if len(marks) == 1 else None


def has_mark(texts: Collection[str]) -> bool:
    """Return whether some amount shows its decimal mark."""
    return any(map(_shown_mark, texts))


def number_of(text: str | None, mark: str) -> float:
    """Return an amount as a number, NaN if it is none.

    Examples
    --------
    >>> number_of("1.250,50 €", ","), number_of("($4.50)", "."), number_of("-", ".")
    (1250.5, -4.5, nan)
    """
    digits = "".join(re.findall(r"[\d.,]", text or ""))
    plain = digits.replace("." if mark == "," else ",", "").replace(",", ".").strip(".")
    if not re.fullmatch(r"\d*\.?\d+", plain):
        return float("nan")
    return -float(plain) if text and _BELOW.search(text) else float(plain)


@dataclass(frozen=True)
class Totals:
    """The columns of totals of a table.

    Attributes
    ----------
    outermost : list of str
        Totals that are no part of another one.
    parts : dict of str to set of str
        Columns that each total consists of, and its copies.
    copies : dict of str to set of str
        Copies of each column, which may be missing or 0 where it is not.
    """

    outermost: list[str]
    parts: dict[str, set[str]]
    copies: dict[str, set[str]]


def totals(
    columns: Mapping[str, Sequence[float]], *, added: Collection[str], deducted: Collection[str]
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
    """
    filled = {name: np.asarray(values, dtype=float)[:_MOST_ROWS] for name, values in columns.items()}
    filled = {name: values for name, values in filled.items() if np.nanmax(np.abs(values), initial=0) > 0}
    own, copies = _without_copies(filled)
    parts: dict[str, set[str]] = {}
    for total, plus, minus in [*_sums(own), *_products(own), *_taxed(own)]:
        if _is_total(own, total, plus, minus, added, deducted):
            parts.setdefault(total, set()).update(plus, minus)
    inner = {name for total in parts for name in parts[total]}
    outermost = [total for total in parts if total not in inner]
    for total, of_total in parts.items():
        of_total |= {copy for name in (total, *of_total) for copy in copies[name]}
    return Totals(outermost, parts, copies)


def _without_copies(columns: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, set[str]]]:
    """Return different columns, and the copies of each: equal to it in every row, or missing or 0."""
    own: dict[str, np.ndarray] = {}
    copies: dict[str, set[str]] = {}
    for name in sorted(columns, key=lambda name: -np.count_nonzero(np.nan_to_num(columns[name]))):
        values = columns[name]
        is_set = np.nan_to_num(values) != 0
        for first, others in own.items():
            same = np.abs(others[is_set] - values[is_set]) < _CENT
            if same.all() and 2 * is_set.sum() >= np.count_nonzero(np.nan_to_num(others)):
                copies[first].add(name)
                break
        else:
            own[name] = values
            copies[name] = set()
    order = [name for name in columns if name in own][:_MOST_COLUMNS]
    return {name: own[name] for name in order}, copies


def _sums(columns: Mapping[str, np.ndarray]) -> list[tuple[str, list[str], list[str]]]:
    """Return each column that is a sum of others in every row, with those that are added and subtracted."""
    names = list(columns)
    values = np.nan_to_num(np.array([columns[name] for name in names]))
    if len(names) < 3 or values.shape[1] < _LEAST_ROWS:
        return []
    signs = []
    for size in range(2, min(_MOST_PARTS, len(names) - 1) + 1):
        for chosen in combinations(range(len(names)), size):
            for each in product((1, -1), repeat=size):
                if max(each) > 0:
                    row = np.zeros(len(names))
                    row[list(chosen)] = each
                    signs.append(row)
    weights = np.array(signs)
    few = values[:, np.argsort(-np.count_nonzero(values, axis=0), kind="stable")[:8]]
    found = []
    for at, name in enumerate(names):
        fits = (weights[:, at] == 0) & (np.abs(weights @ few - few[at]) < 2 * _CENT).all(axis=1)
        for row in weights[fits]:
            is_filled = ~np.isnan(columns[name])
            if (np.abs(row @ values - values[at])[is_filled] < 2 * _CENT).mean() >= _MOSTLY:
                plus, minus = ([names[i] for i in np.flatnonzero(row == sign)] for sign in (1, -1))
                found.append((name, plus, minus))
    fewest = {
        name: min(len(plus + minus) for each, plus, minus in found if each == name) for name, *_ in found
    }
    return [each for each in found if len(each[1] + each[2]) <= fewest[each[0]] + 1]


def _products(columns: Mapping[str, np.ndarray]) -> list[tuple[str, list[str], list[str]]]:
    """Return each column that is the product of a price and a quantity above 1 in some row."""
    found = []
    for count, quantity in columns.items():
        with np.errstate(invalid="ignore"):
            is_whole = (quantity == np.round(quantity)).all() and np.nanmax(quantity) > 1
        for price, values in columns.items() if is_whole else ():
            for total, sums in columns.items():
                if len({count, price, total}) == 3 and _agree(values * quantity, sums):
                    found.append((total, [price], []))
    return found


def _taxed(columns: Mapping[str, np.ndarray]) -> list[tuple[str, list[str], list[str]]]:
    """Return each column that is another one plus a common rate of tax."""
    found = []
    for (net, values), (gross, sums) in product(columns.items(), repeat=2):
        is_set = np.nan_to_num(values) != 0
        if net == gross or is_set.sum() < _LEAST_ROWS:
            continue
        if any(_agree(values[is_set] * (1 + rate / 100), sums[is_set]) for rate in _RATES):
            found.append((gross, [net], []))
    return found


def _agree(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two columns of at least four rows are equal in nearly every one."""
    is_filled = ~np.isnan(first) & ~np.isnan(second)
    return bool(
        is_filled.sum() >= _LEAST_ROWS
        and (np.abs(first - second)[is_filled] < _CENT).mean() >= _MOSTLY
        and len({*np.round(second[is_filled], 2)}) > 2
    )


def _is_total(
    columns: Mapping[str, np.ndarray],
    total: str,
    plus: Sequence[str],
    minus: Sequence[str],
    added: Collection[str],
    deducted: Collection[str],
) -> bool:
    """Return whether what is added to a total is no discount, and what is subtracted is one."""
    main = max(plus, key=lambda name: np.nansum(np.abs(columns[name])))
    if total in deducted or main in deducted:
        return False
    for name in (*plus, *minus):
        if name == main:
            continue
        is_less = name in deducted or (name not in added and _looks_deducted(columns[name]))
        # Deductions may be written below zero.
        is_below = np.nansum(columns[name]) * np.nansum(columns[main]) < 0
        if is_less != ((name in minus) != is_below):
            return False
    return True


def _looks_deducted(values: np.ndarray) -> bool:
    """Return whether amounts are those of discounts: none in many rows, and unlike fees of shipping."""
    amounts = np.abs(values[np.nan_to_num(values) != 0])
    return len(amounts) < 0.8 * len(values) and len({*np.round(amounts, 2)}) > max(_FEW, len(amounts) / 3)
