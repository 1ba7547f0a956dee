"""Reports on credits: cost and return per node, models side by side, roll-up and drill-down in the tree."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attrib_ds import display, errors
from attrib_ds.attribution.intervals import BOUNDS
from attrib_ds.attribution.paths import project_tables as tree
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import InvalidRequest, UnknownCurrency, check_choice
from attrib_ds.records.currencies import codes_of_column
from attrib_ds.records.frames import TEXT, Frame, read_frame

_CREDITS = ("model", "node_id", "node_name", "conversions", "value", "currency", "share")
_MAX_NODES = 10
_COUNTS = ("conversions", "value", "share", "spend")
_RATIOS = ("cpa", "roas")
_RATIO_BOUNDS = ("cpa_low", "cpa_high", "roas_low", "roas_high")
#: Leading columns of credits; bounds of value and share follow them.
_FIRST = (*_CREDITS, "low", "high", "spend", *_RATIOS, *_RATIO_BOUNDS)


def report_returns(credits: Frame, spend: Frame) -> pd.DataFrame:
    """Compute cost per conversion and return on ad spend.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`.
    spend : DataFrame
        One row or more per node, which are summed: ``node_id`` (str), ``spend`` (number, 0 or more) and
        ``currency`` (str), in every row or in none. Without it, spend is in the currency of the conversions,
        which must be the only one.

    Returns
    -------
    DataFrame
        One row per model, node and currency: ``credits`` with ``spend`` (float64, in ``currency``), ``cpa``
        (float64, spend per credited conversion of the row, so in its currency) and ``roas`` (float64,
        credited value per unit of spend).
        Both ratios are null if the spend is 0 or unknown; ``cpa`` is also null without credited conversions.
        Nodes with spend but no credit get a row per model with credit 0, and bounds of 0 if the model has
        intervals. Values without a currency stay without one: if no conversion has a currency, ``currency``
        is null, ``spend`` and ``cpa`` are in the currency of the spend, and ``roas`` is null; if only some
        have one, the others get no spend. Numbers of conversions are not money, so ``currency`` is that of
        the spend if nothing else is credited. Credits with intervals also get ``cpa_low`` and ``cpa_high``
        (spend divided by the bounds of ``conversions``; inf for a bound of 0 or less), ``roas_low`` and
        ``roas_high`` (bounds of ``value`` divided by the spend), which treat the spend as exact.

    Raises
    ------
    InvalidRequest
        If a column is missing, an amount is negative or not finite, a node id is missing, or the currency of
        conversions or spend is missing and ambiguous.

    Warns
    -----
    UnknownCurrency
        If values have no currency but the spend or other values have one.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> credits = pd.DataFrame({"model": ["linear"], "node_id": ["search"], "node_name": ["Search"],
    ...     "conversions": [4.0], "value": [90.0], "currency": ["EUR"], "share": [1.0]})
    >>> spend = pd.DataFrame({"node_id": ["search"], "spend": [30.0], "currency": ["EUR"]})
    >>> at.report_returns(credits, spend)[["cpa", "roas"]].iloc[0].tolist()
    [7.5, 3.0]
    """
    credits = read_frame("credits", credits, _CREDITS)
    return join_spend(credits, spend, models=list(dict.fromkeys(credits["model"])))


def warn_of_unknown_nodes(paths: Paths, spend: pd.DataFrame, credited: Iterable[Any]) -> None:
    """Warn of spend on nodes that no touchpoint has, whose returns are 0 whatever was earned.

    Warns
    -----
    InputWarning
        With at most ten of the nodes, and the closest known one of each.
    """
    known = {str(node) for node in credited if not pd.isna(node)}
    known |= set() if paths.nodes is None else set(paths.nodes["node_id"])
    unknown = [node for node in dict.fromkeys(spend["node_id"]) if node not in known]
    if unknown and paths.touchpoints is not None:
        known |= set(paths.touchpoints.select("node_id").distinct().to_pyarrow()["node_id"].to_pylist())
        unknown = [node for node in unknown if node not in known]
    if unknown:
        names = sorted(filter(None, known))
        listed = ", ".join(f"{node!r}{errors.closest(node, names)}" for node in unknown[:_MAX_NODES])
        listed += display.and_others(len(unknown), _MAX_NODES)
        errors.warn(
            f"spend: these nodes have no touchpoint and get no credit: {listed}. Write nodes as "
            "in the touchpoints, and leave out totals"
        )


def join_spend(credits: pd.DataFrame, spend: Frame, *, models: list[str]) -> pd.DataFrame:
    """Compute :func:`report_returns` for the named models, including those without any credit."""
    spent = checked_spend(spend).groupby(["node_id", "currency"], dropna=False)["spend"].sum().reset_index()
    old = ["spend", *_RATIOS, *_RATIO_BOUNDS]
    credits, spent = in_one_currency(credits.drop(columns=old, errors="ignore"), spent)
    return with_ratios(_with_spend(credits, spent, models))


def compare_models(credits: Frame, *, by: str = "conversions") -> pd.DataFrame:
    """Compare the credits of several models side by side.

    Parameters
    ----------
    credits : DataFrame
        From one call of :func:`attribute`.
    by : {"conversions", "value", "share"}, default "conversions"
        Column to compare.

    Returns
    -------
    DataFrame
        One row per node and currency, by descending ``spread``: ``node_id``, ``node_name``, ``currency``
        (str), one float64 column per model (0 if the model has no row for the node) and ``spread`` (float64,
        highest less lowest value among the models).

    Raises
    ------
    InvalidRequest
        If a column is missing, ``by`` is not one of the three, a node occurs twice under one model, or a
        model's label is the name of a column of the result.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email"], "n": [4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, ["first_touch", "linear"])
    >>> at.compare_models(credits)[["node_id", "first_touch", "linear", "spread"]]
      node_id  first_touch  linear  spread
    0   email          0.0     2.0     2.0
    1  search          4.0     2.0     2.0
    """
    credits = read_frame("credits", credits, _CREDITS)
    check_choice("by", by, ("conversions", "value", "share"))
    models = list(dict.fromkeys(credits["model"]))
    index = ["node_id", "node_name", "currency"]
    reserved = [name for name in models if name in (*index, "spread")]
    if reserved:
        raise InvalidRequest(
            f"credits: the model label {reserved[0]!r} is the name of a result column; choose another label"
        )
    is_duplicate = credits.duplicated([*index, "model"])
    if is_duplicate.any():
        row = credits[is_duplicate].iloc[0]
        raise InvalidRequest(
            f"credits: model {row['model']!r} has two rows for node {row['node_id']!r}; allowed: one row per "
            "model, node and currency, as one call of attribute returns them"
        )
    # A model without a row for a node credits it with 0; unknown values stay null.
    wide = credits.set_index([*index, "model"])[by].unstack("model", fill_value=0)[models]
    wide["spread"] = wide.max(axis=1) - wide.min(axis=1)
    compared = wide.reset_index().rename_axis(columns=None)
    return compared.sort_values(["spread", "node_id"], ascending=[False, True], ignore_index=True)


def roll_up(credits: Frame, nodes: Frame, level: str) -> pd.DataFrame:
    """Sum credits into the ancestors of nodes at a level of the tree.

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
        One row per model, ancestor and currency, with the columns of ``credits``. Interval columns are
        dropped, because bounds do not add up. A node above the level, or on a branch without the level,
        keeps its own row.

    Raises
    ------
    InvalidRequest
        If a column is missing or ``level`` is not a node type.

    Notes
    -----
    Rolling up gives the same credits as attributing at the level if the model's weights do not depend on the
    nodes of a path: first touch, last touch, linear, linear ramp, position-based and time decay. It does not
    for participation, Shapley, Markov, Fractribution and other models that collapse repeated nodes; for last
    non-direct it does if nodes and their ancestors agree on which are direct.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["shoes > boots"], "n": [4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, "linear")
    >>> nodes = pd.DataFrame({"_id": ["brand", "shoes", "boots"], "parentId": [None, "brand", "brand"],
    ...     "type": ["campaign", "adset", "adset"], "name": ["Brand", "Shoes", "Boots"]})
    >>> at.roll_up(credits, nodes, "campaign")[["node_name", "conversions"]]
      node_name  conversions
    0     Brand          4.0
    """
    credits = read_frame("credits", credits, _CREDITS)
    nodes = read_frame("nodes", nodes, tree.TREE)
    return summed_into(credits, tree.ancestors_at(nodes, level), nodes)


def summed_into(credits: Frame, ancestors: Mapping[str, str], nodes: pd.DataFrame) -> pd.DataFrame:
    """Sum the credits of nodes into their ancestors; a node without an entry keeps its own row."""
    credits = read_frame("credits", credits, _CREDITS)
    named = nodes[nodes["name"].notna()]
    names = dict(zip(tree.identifiers(named["_id"]), named["name"], strict=True))
    bounds = [column for pair in BOUNDS.values() for column in pair]
    rolled = credits.drop(columns=[*bounds, *_RATIOS, *_RATIO_BOUNDS], errors="ignore").copy()
    rolled["node_id"] = tree.replaced(rolled["node_id"], ancestors)
    keys = ["model", "node_id", "currency"]
    counts = [column for column in _COUNTS if column in rolled.columns]
    summed = rolled.groupby(keys, dropna=False, sort=False)[counts].sum(min_count=1).reset_index()
    summed["node_name"] = tree.names_of(summed["node_id"], names)
    summed = summed[[column for column in credits.columns if column in summed.columns]]
    return with_ratios(summed) if "spend" in summed.columns else summed


def checked_spend(spend: Frame) -> pd.DataFrame:
    """Return ``node_id``, ``currency`` and ``spend`` of the rows of a frame of spend.

    Raises
    ------
    InvalidRequest
        If a column is missing, an amount is negative or not finite, or a node has no id.
    """
    spend = read_frame("spend", spend, ("node_id", "spend"))
    amounts = pd.to_numeric(spend["spend"], errors="coerce").astype("float64")
    is_invalid = ~np.isfinite(amounts) | (amounts < 0)
    if is_invalid.any():
        row = int(np.asarray(is_invalid).argmax())
        raise InvalidRequest(
            f"spend: the column 'spend' is {spend['spend'].tolist()[row]!r} in row {row}; allowed: 0 or more"
        )
    if spend["node_id"].isna().any():
        raise InvalidRequest("spend: the column 'node_id' has missing values; drop those rows")
    currencies = spend["currency"] if "currency" in spend.columns else pd.Series(None, index=spend.index)
    is_unknown = np.asarray(currencies.isna())
    if is_unknown.any() and not is_unknown.all():
        raise InvalidRequest(
            f"spend: the column 'currency' is missing in row {int(is_unknown.argmax())}; allowed: a currency "
            "in every row or in none"
        )
    return pd.DataFrame(
        {
            "node_id": spend["node_id"].astype(TEXT),
            "currency": codes_of_column("spend", currencies),
            "spend": amounts,
        }
    )


def in_one_currency(credits: pd.DataFrame, spent: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill missing currencies of credits from the spend, and of spend from the credits, if unambiguous.

    Parameters
    ----------
    credits : DataFrame
        With ``conversions``, ``value`` and ``currency``.
    spent : DataFrame
        With ``currency``, in every row or in none.

    Returns
    -------
    tuple of DataFrame
        The credits, with a column ``monetary``: whether the value can be divided by the spend; and the spend.

    Raises
    ------
    InvalidRequest
        If a missing currency could be one of several.

    Warns
    -----
    UnknownCurrency
        If values have no currency but the spend or other values have one.
    """
    without = credits["currency"].isna()
    earned, named = (sorted(frame["currency"].dropna().unique()) for frame in (credits, spent))
    is_unknown = without & _is_money(credits)
    if is_unknown.any() and (named or earned):
        _warn_unknown_currency(sorted({*named, *earned}), is_complete=not earned)
    currencies = credits["currency"]
    # If some conversions have a currency, those without one may be of any, so they stay as they are.
    if without.any() and not earned and named:
        if len(named) > 1:
            raise InvalidRequest(
                f"spend: has {', '.join(named)}, but the conversions have no currency; allowed: spend in one "
                "currency"
            )
        if is_unknown.any():
            spent = spent.assign(currency=pd.Series(None, index=spent.index, dtype=TEXT))
        else:
            currencies = currencies.fillna(named[0])
    elif earned and spent["currency"].isna().any():
        if len(earned) > 1:
            raise InvalidRequest(
                f"spend: has no currency, but values are in {', '.join(earned)}; add the column 'currency'"
            )
        spent = spent.assign(currency=spent["currency"].fillna(earned[0]))
    monetary = ~without if named else credits["value"].notna()
    return credits.assign(currency=currencies, monetary=monetary), spent


def _with_spend(credits: pd.DataFrame, spent: pd.DataFrame, models: list[str]) -> pd.DataFrame:
    parts = []
    for model in models:
        rows = credits[credits["model"] == model]
        merged = rows.merge(spent, on=["node_id", "currency"], how="outer", sort=False, indicator=True)
        merged["model"] = merged["model"].fillna(model)
        only_spend = merged["_merge"] == "right_only"
        merged["node_name"] = merged["node_name"].fillna(tree.names_of(merged["node_id"], {}))
        # Without any conversion the spend has earned 0.
        is_monetary = rows.empty or bool(rows["monetary"].any())
        is_valued = is_monetary or bool(_is_money(rows).any())
        for measure, bounds in BOUNDS.items():
            # A node without touchpoints has no credit for certain, so its bounds are 0 too.
            zero = 0.0 if is_valued or measure != "value" else np.nan
            for column in (measure, *(name for name in bounds if name in rows and rows[name].notna().any())):
                merged.loc[only_spend, column] = zero
        merged["monetary"] = merged["monetary"].astype("boolean").fillna(is_monetary).astype(bool)
        merged["_order"] = merged["node_id"].isna()
        merged = merged.sort_values(
            ["_order", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
        )
        parts.append(merged.drop(columns=["_merge", "_order"]))
    return pd.concat(parts, ignore_index=True) if parts else credits.assign(spend=np.nan)


def _is_money(credits: pd.DataFrame) -> pd.Series[Any]:
    """Return which rows have a value; none if the values are the numbers of conversions."""
    value = credits["value"].astype("float64")
    is_count = np.isclose(value, credits["conversions"].astype("float64"), equal_nan=True).all()
    return value.notna() & (not is_count)


def _warn_unknown_currency(currencies: list[str], *, is_complete: bool) -> None:
    values, listed = "values" if is_complete else "some values", ", ".join(currencies)
    warnings.warn(
        f"the column 'value' cannot be compared with 'spend': {values} have no currency, and other amounts "
        f"are in {listed}. Their 'currency' and 'roas' are null. If they are in {currencies[0]}, pass "
        f'currency="{currencies[0]}" where they are read (Paths.from_frames, Paths.from_sequences, '
        f"read_journeys and other readers)",
        UnknownCurrency,
        stacklevel=5,
    )


def with_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ``cpa`` and ``roas`` to credits with spend; no ``roas`` where a column ``monetary`` is false."""
    spent = rows["spend"].astype("float64")
    positive = spent.where(spent > 0)
    credited = rows["conversions"].where(rows["conversions"] > 0)
    earned = rows["value"]
    is_earned = rows["monetary"] if "monetary" in rows.columns else pd.Series(True, index=rows.index)
    returns = rows.drop(columns="monetary", errors="ignore").assign(
        spend=spent, cpa=positive / credited, roas=earned.where(is_earned) / positive
    )
    if "low" in rows.columns:
        # A bound at or below zero means that the spend may have bought nothing.
        for cost, bound in (("cpa_low", rows["high"]), ("cpa_high", rows["low"])):
            returns[cost] = (positive / bound.where(bound > 0)).where(~(bound <= 0) | positive.isna(), np.inf)
    if "value_low" in rows.columns:
        returns["roas_low"] = rows["value_low"].where(is_earned) / positive
        returns["roas_high"] = rows["value_high"].where(is_earned) / positive
    first = [column for column in _FIRST if column in returns.columns]
    return returns[[*first, *(column for column in returns.columns if column not in first)]]


def drill_down(credits: Frame, nodes: Frame, node_id: str | None = None) -> pd.DataFrame:
    """Divide the credit of a node among its children.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`, with paths at the level of the touchpoints (without ``level``).
    nodes : DataFrame
        From :func:`attrib_ds.list_nodes`: ``_id``, ``parentId``, ``type``, ``name``.
    node_id : str, optional
        Node to drill into; by default the whole tree, divided among the nodes without a parent.

    Returns
    -------
    DataFrame
        One row per model, child and currency, with the columns of ``credits``. A child's row includes all its
        descendants; credit of the node itself is in a row of its own, so the rows of a model sum to the
        credit of the node. ``share`` remains the fraction of all credited conversions. Interval columns are
        dropped, because bounds do not add up. Nodes outside the tree and the unattributed conversions are
        listed only for the whole tree.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``node_id`` is not in ``nodes``.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["shoes > brand > boots"], "n": [3]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, "linear")
    >>> nodes = pd.DataFrame({"_id": ["brand", "shoes", "boots"], "parentId": [None, "brand", "brand"],
    ...     "type": ["campaign", "adset", "adset"], "name": ["Brand", "Shoes", "Boots"]})
    >>> at.drill_down(credits, nodes)[["node_id", "conversions"]]
      node_id  conversions
    0   brand          3.0
    >>> at.drill_down(credits, nodes, "brand")["node_id"].tolist()
    ['boots', 'brand', 'shoes']
    """
    nodes = read_frame("nodes", nodes, tree.TREE)
    credits = read_frame("credits", credits, ("node_id",))
    parents = tree.parents_of(nodes)
    if node_id is not None and node_id not in parents:
        raise InvalidRequest.choice("node_id", node_id, [node for node in parents if node is not None])
    found = ((node, _child(node, node_id, parents)) for node in parents)
    inside = {node: child for node, child in found if child is not None}
    if node_id is None:
        return summed_into(credits, inside, nodes)
    return summed_into(credits[credits["node_id"].isin(list(inside))], inside, nodes)


def _child(node: str, top: str | None, parents: dict[str, str | None]) -> str | None:
    """Return the child of ``top`` that a node belongs to, ``top`` for itself, or None outside its branch."""
    current: str | None = node
    # The bound ends the walk if the frame contains a loop.
    for _ in range(len(parents)):
        if current is None or current == top or parents.get(current) == top:
            return current
        current = parents.get(current)
    return None
