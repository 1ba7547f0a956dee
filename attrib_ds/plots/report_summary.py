"""The summary of a report: its headline, and conversions, value and returns of one model side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

_UNATTRIBUTED: Final = "unattributed"


def headline(credits: pd.DataFrame, model: str) -> str:
    """Return the result of a model in a few words.

    Examples
    --------
    >>> credits = pd.DataFrame({"model": "linear", "node_id": ["a", None], "node_name": ["Ads", None],
    ...     "conversions": [3.0, 1.0], "value": [60.0, 20.0], "currency": "EUR"})
    >>> headline(credits, "linear")
    '4 conversions worth 80 EUR. Ads has the most credit under linear: 3 (75 %). Unattributed: 1 (25 %).'
    """
    rows = credits[credits["model"] == model]
    total = float(rows["conversions"].sum())
    if not total > 0:
        return "No conversions."
    parts = [f"{_number(total)} conversion{'' if total == 1 else 's'}{_worth(rows)}."]
    by_node = rows.groupby("node_id")["conversions"].sum()
    if len(by_node):
        node, most = str(by_node.idxmax()), float(by_node.max())
        names = rows.loc[rows["node_id"] == node, "node_name"].dropna().tolist()
        name = names[0] if names else node
        parts.append(f"{name} has the most credit under {model}: {_number(most)} ({_percent(most / total)}).")
    unattributed = float(rows.loc[rows["node_id"].isna(), "conversions"].sum())
    if round(unattributed, 6) > 0:
        parts.append(f"Unattributed: {_number(unattributed)} ({_percent(unattributed / total)}).")
    return " ".join(parts)


def has_value(credits: pd.DataFrame) -> bool:
    """Return whether the value of conversions is more than their number."""
    return bool(credits["value"].notna().any() and (credits["value"] != credits["conversions"]).any())


def currencies_of(credits: pd.DataFrame) -> list[str | None]:
    """Return the currencies, that of most conversions first; None alone if there is none."""
    counts = credits.groupby("currency")["conversions"].sum().rename("size").reset_index()
    ordered = counts.sort_values(["size", "currency"], ascending=[False, True])["currency"].tolist()
    return ordered or [None]


def summary(credits: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return conversions, value, spend and returns of each node as texts, the largest first.

    Amounts of each currency have columns of their own. A cost per conversion is that of all conversions of
    the node, so there is none for spend in several currencies.
    """
    rows = credits[credits["model"] == model]
    rows = rows.assign(
        key=rows["node_id"].fillna(""), node=rows["node_name"].where(rows["node_id"].notna(), _UNATTRIBUTED)
    )
    conversions = _sums(rows, "conversions")
    shown: list[tuple[str, pd.Series[Any], Callable[[float], str]]] = [
        ("conversions", conversions, "{:,.1f}".format),
        ("share", conversions / (conversions.sum() or 1.0), "{:.1%}".format),
    ]
    by_currency = [
        (
            "" if currency is None else f" ({currency})",
            rows if currency is None else rows[rows["currency"] == currency],
        )
        for currency in currencies_of(rows)
    ]
    if has_value(rows):
        shown += [(f"value{unit}", _sums(part, "value"), "{:,.0f}".format) for unit, part in by_currency]
    if "spend" in rows.columns:
        spent = [(unit, _sums(part, "spend")) for unit, part in by_currency]
        spent = [(unit, sums) for unit, sums in spent if sums.notna().any()]
        shown += [(f"spend{unit}", sums, "{:,.0f}".format) for unit, sums in spent]
        if len(spent) == 1:
            ((unit, sums),) = spent
            costs = sums.where(sums > 0) / conversions.where(conversions > 0)
            shown.append((f"CPA{unit}", costs, "{:,.2f}".format))
        returns = [(f"ROAS{unit}", _sums(part, "roas")) for unit, part in by_currency]
        shown += [(name, sums, "{:,.2f}".format) for name, sums in returns if sums.notna().any()]
    table = pd.DataFrame({name: sums.reindex(conversions.index) for name, sums, _ in shown}).reset_index()
    table["is_last"] = table["key"] == ""
    table = table.sort_values(["is_last", "conversions", "key"], ascending=[True, False, True])
    texts = {
        name: ["" if pd.isna(number) else text(number) for number in table[name]] for name, _, text in shown
    }
    return pd.DataFrame({"node": table["node"].tolist(), **texts})


def _sums(rows: pd.DataFrame, column: str) -> pd.Series[Any]:
    return rows.groupby(["key", "node"], dropna=False)[column].sum(min_count=1)


def _worth(rows: pd.DataFrame) -> str:
    if not has_value(rows):
        return ""
    values = rows.groupby("currency", dropna=False)["value"].sum()
    named = [f"{values[each]:,.0f} {each}" for each in currencies_of(rows) if each is not None]
    return f" worth {' and '.join(named)}" if named else f" worth {values.sum():,.0f}"


def _number(amount: float) -> str:
    return f"{amount:,.0f}" if round(amount, 6) == round(amount) else f"{amount:,.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
