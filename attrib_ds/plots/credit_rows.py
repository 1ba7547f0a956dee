"""Reduce a frame of credits to one row per node for plotting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots.arguments import numbers
from attrib_ds.plots.labels import distinct, names_of_nodes
from attrib_ds.plots.style import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS: Final = ("model", "node_id", "node_name", "conversions", "value", "currency", "share")
MEASURES: Final = {
    "conversions": "credited conversions",
    "value": "credited value",
    "share": "share of conversions",
}


@dataclass(frozen=True)
class NodeRows:
    """Rows of a plot from top to bottom: nodes, the sum of other nodes, unattributed.

    Attributes
    ----------
    labels : tuple of str
        Label of each row.
    node_ids : tuple of str or None
        Node of each row; None for the two summary rows.
    amounts : DataFrame
        One row per label, one column per model in order of appearance; NaN if a model has no amount.
    unattributed : bool
        Whether the last row is the unattributed one.
    without_amount : int
        Number of nodes left out because no model gives them an amount.
    """

    labels: tuple[str, ...]
    node_ids: tuple[str | None, ...]
    amounts: pd.DataFrame
    unattributed: bool
    without_amount: int


def axis_label(by: str, currency: str | None) -> str:
    """Return the axis label of a measure with its unit."""
    if by == "share":
        return f"{MEASURES[by]} (%)"
    return f"{MEASURES[by]} ({currency})" if by == "value" and currency else MEASURES[by]


def empty_message(by: str) -> str:
    """Return the message of an empty plot."""
    return "no credited value" if by == "value" else "no credited conversions"


def select_model(credits: pd.DataFrame, model: str | None) -> tuple[pd.DataFrame, str | None]:
    """Return the rows of one model and its name, which is required if there are several models."""
    models = [str(name) for name in credits["model"].dropna().unique()]
    if not models:
        return credits, model
    if model is None and len(models) > 1:
        raise InvalidRequest(
            f"model: None is not allowed because credits have {len(models)} models; "
            f"allowed: {', '.join(sorted(models))}",
            field="model",
        )
    if model is not None and model not in models:
        raise InvalidRequest.choice("model", model, models)
    chosen = models[0] if model is None else model
    return credits[credits["model"] == chosen], chosen


def select_currency(
    credits: pd.DataFrame,
    currency: str | None,
    *,
    amounts: Sequence[str],
) -> tuple[pd.DataFrame, str | None]:
    """Return the rows whose ``amounts`` can be summed, and their currency if it has a name."""
    currencies = credits["currency"].dropna().unique().tolist()
    if currency is not None:
        if currencies and currency not in currencies:
            raise InvalidRequest.choice("currency", currency, currencies)
        if not currencies and len(credits):
            raise InvalidRequest(
                f"currency: {currency!r} is not allowed because the amounts in credits have no currency; "
                "allowed: None",
                field="currency",
            )
        return credits[credits["currency"] == currency], currency
    has_amount = credits["currency"].notna() & False
    for column in amounts:
        has_amount |= numbers("credits", credits, column).fillna(0.0) != 0.0
    used = credits.loc[has_amount, "currency"]
    named = sorted(used.dropna().unique())
    if len(named) > 1 or (named and used.isna().any()):
        conflicting = [*named, *(["none"] if used.isna().any() else [])]
        raise InvalidRequest(
            f"currency: None is not allowed because credits have amounts in {len(conflicting)} currencies "
            f"({', '.join(conflicting)}), which are never summed; allowed: {', '.join(named)}",
            field="currency",
        )
    return credits, named[0] if named else (currencies[0] if len(currencies) == 1 else None)


def node_rows(credits: pd.DataFrame, measure: str, *, top: int) -> NodeRows:
    """Sum a measure per node and model, with separate rows for the ``top`` nodes only.

    These are the nodes with the largest magnitude in any model, so that large negative credit is not hidden;
    they are ordered by their mean over the models, largest first, then by identifier.
    """
    rows = credits[["model", "node_id", "node_name"]].assign(amount=numbers("credits", credits, measure))
    by_model = {str(model): part for model, part in rows.groupby("model", sort=False)}
    table = pd.DataFrame(
        {name: part.groupby("node_id")["amount"].sum(min_count=1) for name, part in by_model.items()}
    )
    unattributed = pd.Series(
        {
            name: part.loc[part["node_id"].isna(), "amount"].sum(min_count=1)
            for name, part in by_model.items()
        },
        dtype="float64",
    )
    nodes = table.dropna(how="all").rename_axis("node_id")
    ranks = pd.DataFrame(
        {"magnitude": nodes.abs().max(axis="columns"), "mean": nodes.mean(axis="columns")}, index=nodes.index
    ).reset_index()
    ranks = ranks.sort_values(["magnitude", "node_id"], ascending=[False, True])
    kept = ranks.head(top).sort_values(["mean", "node_id"], ascending=[False, True])["node_id"].tolist()
    rest = ranks["node_id"].tolist()[top:]

    names = names_of_nodes(rows)
    labels = list(distinct({node: names[node] for node in kept}).values())
    parts = [nodes.loc[kept]]
    if rest:
        labels.append(f"other ({format_count(len(rest), 'node')})")
        parts.append(nodes.loc[rest].sum(min_count=1).to_frame().T)
    if unattributed.notna().any():
        labels.append("unattributed")
        parts.append(unattributed.to_frame().T)
    return NodeRows(
        labels=tuple(labels),
        node_ids=(*kept, *[None] * (len(labels) - len(kept))),
        amounts=pd.concat(parts, ignore_index=True) if labels else nodes,
        unattributed=bool(unattributed.notna().any()),
        without_amount=len(table) - len(nodes),
    )
