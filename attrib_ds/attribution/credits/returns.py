"""Credits beside spend, models beside each other, and nodes rolled up in their tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attrib_ds.attribution.intervals.uncertainty import BOUNDS
from attrib_ds.attribution.paths.tree import ancestors_at, identifiers, replaced, require_columns
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_CREDITS = ("model", "node_id", "node_name", "conversions", "value", "currency", "share")
_COUNTS = ("conversions", "value", "share", "spend")
_RATIOS = ("cpa", "roas")
_RATIO_BOUNDS = ("cpa_low", "cpa_high", "roas_low", "roas_high")
#: The columns of credits that other bounds stand behind.
_FIRST = (*_CREDITS, "low", "high", "spend", *_RATIOS, *_RATIO_BOUNDS)


def report_returns(credits: pd.DataFrame, spend: pd.DataFrame) -> pd.DataFrame:
    """Put the spend of nodes beside their credit, with cost and return.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`.
    spend : DataFrame
        One row or more per node: ``node_id`` (str), ``spend`` (number, 0 or more), ``currency`` (str;
        needed only where currencies matter).

    Returns
    -------
    DataFrame
        ``credits`` with ``spend`` (float64, in ``currency``), ``cpa`` (spend per credited conversion) and
        ``roas`` (credited value per unit spent). Both are null where the spend is 0 or unknown; ``cpa`` is
        null too where nothing is credited. Nodes with spend and no credit have rows of their own, with
        credit 0, and bounds of 0 where the model has intervals: nothing is dropped. Where no
        conversion has a currency all take that of the spend, and have no return; beside others of a currency
        those without one have no spend. Where the credits have intervals, so have
        these, the spend taken as exact: ``cpa_low`` and ``cpa_high`` (the spend by the bounds of the
        conversions; inf where a bound is none at all or less), ``roas_low`` and ``roas_high`` (the bounds of
        the value by the spend).

    Raises
    ------
    InvalidRequest
        If columns are missing, an amount is negative or not finite, or conversions without a currency meet
        spend in several.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import report_returns
    >>> credits = pd.DataFrame({"model": ["linear"], "node_id": ["search"], "node_name": ["Search"],
    ...     "conversions": [4.0], "value": [90.0], "currency": ["EUR"], "share": [1.0]})
    >>> spend = pd.DataFrame({"node_id": ["search"], "spend": [30.0], "currency": ["EUR"]})
    >>> report_returns(credits, spend)[["cpa", "roas"]].iloc[0].tolist()
    [7.5, 3.0]
    """
    require_columns(credits, "credits", _CREDITS)
    return beside_spend(credits, spend, models=list(dict.fromkeys(credits["model"])))


def beside_spend(credits: pd.DataFrame, spend: pd.DataFrame, *, models: list[str]) -> pd.DataFrame:
    """Do as :func:`report_returns` does for models that are named, whether or not they credit anything."""
    spent = checked_spend(spend)
    old = ["spend", *_RATIOS, *_RATIO_BOUNDS]
    joined = _with_spend(credits.drop(columns=old, errors="ignore"), spent, models)
    return _with_ratios(joined)


def compare_models(credits: pd.DataFrame, *, by: str = "conversions") -> pd.DataFrame:
    """Lay the credits of several models side by side.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`.
    by : str, default "conversions"
        Column to compare: ``"conversions"``, ``"value"`` or ``"share"``.

    Returns
    -------
    DataFrame
        One row per node and currency: ``node_id``, ``node_name``, ``currency`` (str), one float64 column per
        model (0 where it has no row of the node), and ``spread`` (float64), the distance between the highest
        and the lowest of them, by which rows are ordered, the largest first.

    Raises
    ------
    InvalidRequest
        If a column is missing or ``by`` is not one of the three.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute, compare_models
    >>> sequences = pd.DataFrame({"path": ["search > email"], "n": [4]})
    >>> paths = Paths.from_sequences(sequences, path="path", conversions="n")
    >>> compare_models(attribute(paths, ["first_touch", "linear"]))["spread"].tolist()
    [2.0, 2.0]
    """
    require_columns(credits, "credits", _CREDITS)
    if by not in ("conversions", "value", "share"):
        raise InvalidRequest.choice("by", by, ("conversions", "value", "share"))
    models = list(dict.fromkeys(credits["model"]))
    index = ["node_id", "node_name", "currency"]
    reserved = [name for name in models if name in (*index, "spread")]
    if reserved:
        raise InvalidRequest(
            f"credits: a model is called {reserved[0]!r}, which is a column of the answer; name it otherwise",
            field="credits",
        )
    twice = credits.duplicated([*index, "model"])
    if twice.any():
        row = credits[twice].iloc[0]
        raise InvalidRequest(
            f"credits: {row['model']!r} has {row['node_id']!r} twice; allowed: one row per model, node and "
            "currency, of one call of attribute",
            field="credits",
        )
    # A model without a row of a node gives it nothing, which is not the same as an unknown value.
    wide = credits.set_index([*index, "model"])[by].unstack("model", fill_value=0)[models]
    wide["spread"] = wide.max(axis=1) - wide.min(axis=1)
    compared = wide.reset_index().rename_axis(columns=None)
    return compared.sort_values(["spread", "node_id"], ascending=[False, True], ignore_index=True)


def roll_up(credits: pd.DataFrame, nodes: pd.DataFrame, level: str) -> pd.DataFrame:
    """Sum the credits of nodes into their ancestors at a level of the tree.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`.
    nodes : DataFrame
        From :func:`attrib_ds.list_nodes`: ``_id``, ``parentId``, ``type``, ``name``.
    level : str
        A node type, such as ``"campaign"``; ``"channel"`` sums by the channel of each node.

    Returns
    -------
    DataFrame
        As ``credits``, one row per model, ancestor and currency; intervals are left out, because bounds do
        not add up. A node above the level, or on a branch without it, stays itself.

    Raises
    ------
    InvalidRequest
        If columns are missing or the level is not a node type.

    Notes
    -----
    Rolling up equals attributing at the level for models whose weights ignore which node a touchpoint is:
    first, last, linear, ramp, position and time decay. It does not for participation, Shapley, Markov,
    Fractribution or any model that collapses repeated nodes; last non-direct needs every node and its
    ancestor to be direct alike.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute, roll_up
    >>> sequences = pd.DataFrame({"path": ["shoes > boots"], "n": [4]})
    >>> credits = attribute(Paths.from_sequences(sequences, path="path", conversions="n"), "linear")
    >>> nodes = pd.DataFrame({"_id": ["brand", "shoes", "boots"], "parentId": [None, "brand", "brand"],
    ...     "type": ["campaign", "adset", "adset"], "name": ["Brand", "Shoes", "Boots"]})
    >>> roll_up(credits, nodes, "campaign")[["node_name", "conversions"]]
      node_name  conversions
    0     Brand          4.0
    """
    return summed_into(credits, ancestors_at(nodes, level), nodes)


def summed_into(credits: pd.DataFrame, ancestors: Mapping[str, str], nodes: pd.DataFrame) -> pd.DataFrame:
    """Sum the credits of nodes into those that stand for them; a node without one stands for itself."""
    require_columns(credits, "credits", _CREDITS)
    named = nodes[nodes["name"].notna()]
    names = dict(zip(identifiers(named["_id"]), named["name"], strict=True))
    bounds = [column for pair in BOUNDS.values() for column in pair]
    rolled = credits.drop(columns=[*bounds, *_RATIOS, *_RATIO_BOUNDS], errors="ignore").copy()
    rolled["node_id"] = replaced(rolled["node_id"], ancestors)
    keys = ["model", "node_id", "currency"]
    counts = [column for column in _COUNTS if column in rolled.columns]
    summed = rolled.groupby(keys, dropna=False, sort=False)[counts].sum(min_count=1).reset_index()
    summed["node_name"] = replaced(summed["node_id"], names)
    summed = summed[[column for column in credits.columns if column in summed.columns]]
    return _with_ratios(summed) if "spend" in summed.columns else summed


def checked_spend(spend: pd.DataFrame) -> pd.DataFrame:
    """Return ``node_id``, ``currency``, ``spend`` of a user's frame, one row per node and currency.

    Raises
    ------
    InvalidRequest
        If a column is missing, an amount is negative or not finite, or a node has no id.
    """
    require_columns(spend, "spend", ("node_id", "spend"))
    amounts = pd.to_numeric(spend["spend"], errors="coerce").astype("float64")
    wrong = ~np.isfinite(amounts) | (amounts < 0)
    if wrong.any():
        row = int(np.asarray(wrong).argmax())
        raise InvalidRequest(
            f"spend: the column 'spend' is {spend['spend'].tolist()[row]!r} in row {row}; allowed: 0 or more",
            field="spend",
        )
    if spend["node_id"].isna().any():
        raise InvalidRequest("spend: the column 'node_id' has missing values; drop those rows", field="spend")
    currencies = spend["currency"] if "currency" in spend.columns else pd.Series(None, index=spend.index)
    rows = pd.DataFrame(
        {
            "node_id": spend["node_id"].astype("str"),
            "currency": currencies.astype("str"),
            "spend": amounts,
        }
    )
    return rows.groupby(["node_id", "currency"], dropna=False)["spend"].sum().reset_index()


def _with_spend(credits: pd.DataFrame, spent: pd.DataFrame, models: list[str]) -> pd.DataFrame:
    joined = credits.copy()
    without = joined["currency"].isna()
    joined["_monetary"] = ~without
    named = spent["currency"].dropna().unique()
    # Beside conversions of a currency those without one stay as they are: they may be of any.
    if without.all() and len(named):
        if len(named) > 1:
            raise InvalidRequest(
                f"spend: conversions without a currency meet spend in {', '.join(sorted(named))}; allowed: "
                "spend in one currency",
                field="spend",
            )
        joined.loc[without, "currency"] = named[0]
    elif not without.all() and spent["currency"].isna().any():
        earned = joined["currency"].dropna().unique()
        if len(earned) > 1:
            raise InvalidRequest(
                f"spend: spend without a currency meets conversions in {', '.join(sorted(earned))}; allowed: "
                "a column 'currency'",
                field="spend",
            )
        spent = spent.assign(currency=spent["currency"].fillna(earned[0]))
        spent = spent.groupby(["node_id", "currency"])["spend"].sum().reset_index()
    if not len(named):
        joined["_monetary"] = joined["value"].notna()
    parts = []
    for model in models:
        rows = joined[joined["model"] == model]
        merged = rows.merge(spent, on=["node_id", "currency"], how="outer", sort=False, indicator=True)
        merged["model"] = model
        only_spend = merged["_merge"] == "right_only"
        merged["node_name"] = merged["node_name"].where(merged["node_name"].notna(), merged["node_id"])
        is_monetary = bool(rows["_monetary"].any())
        for measure, bounds in BOUNDS.items():
            # No touchpoint, no part in any conversion: that is certain.
            nothing = 0.0 if is_monetary or measure != "value" else np.nan
            for column in (measure, *(name for name in bounds if name in rows and rows[name].notna().any())):
                merged.loc[only_spend, column] = nothing
        merged["_monetary"] = merged["_monetary"].fillna(is_monetary).astype(bool)
        merged["_order"] = merged["node_id"].isna()
        merged = merged.sort_values(
            ["_order", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
        )
        parts.append(merged.drop(columns=["_merge", "_order"]))
    together = pd.concat(parts, ignore_index=True) if parts else joined.assign(spend=np.nan)
    return together.rename(columns={"_monetary": "monetary"})


def _with_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    spent = rows["spend"].astype("float64")
    known = spent.where(spent > 0)
    credited = rows["conversions"].where(rows["conversions"] > 0)
    earned = rows["value"]
    is_earned = rows["monetary"] if "monetary" in rows.columns else pd.Series(True, index=rows.index)
    returns = rows.drop(columns="monetary", errors="ignore").assign(
        spend=spent, cpa=known / credited, roas=earned.where(is_earned) / known
    )
    if "low" in rows.columns:
        # A bound at or below zero: however much is spent, it may be that nothing comes of it.
        for cost, bound in (("cpa_low", rows["high"]), ("cpa_high", rows["low"])):
            returns[cost] = (known / bound.where(bound > 0)).where(~(bound <= 0) | known.isna(), np.inf)
    if "value_low" in rows.columns:
        returns["roas_low"] = rows["value_low"].where(is_earned) / known
        returns["roas_high"] = rows["value_high"].where(is_earned) / known
    first = [column for column in _FIRST if column in returns.columns]
    return returns[[*first, *(column for column in returns.columns if column not in first)]]
