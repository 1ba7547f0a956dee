"""Credits: the conversions and the value that each model gives to each node."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution import shapley as shapley  # Its weights are known once it is loaded.
from attrib_ds.attribution.models import CustomWeights, Model, PathModel, check_share, model_named
from attrib_ds.attribution.path_credits import path_credits
from attrib_ds.attribution.returns import report_returns
from attrib_ds.attribution.weights import refused, weighted
from attrib_ds.errors import InvalidRequest
from attrib_ds.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.attribution.paths import Paths


def attribute(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
    *,
    confidence: float | None = None,
    spend: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Credit conversions to the nodes that led to them, by one model or several.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    models : Model, str, sequence or mapping
        Models, or names of models with default parameters (``"linear"``); a mapping gives labels of its
        own. All rules are computed in one pass.
    confidence : float, optional
        Level of intervals for the credited conversions, such as 0.95. They measure sampling error of the
        users, not bias: a model that credits the wrong node does so with a narrow interval. For Markov,
        conversion-rate Shapley and Fractribution users are split into twenty groups, each left out once;
        aggregated paths have no users, so those models have no interval there.
    spend : DataFrame, optional
        ``node_id``, ``spend`` and, where it matters, ``currency``; by default what the paths carry.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of the models and then by credit:
        ``model``, ``node_id``, ``node_name`` (str), ``conversions`` (float64, credited conversions),
        ``value`` (float64, credited value in ``currency``; null where conversions have none), ``currency``
        (str), ``share`` (float64, of the model's credited conversions); with ``confidence`` also ``low``
        and ``high``; with spend also ``spend``, ``cpa`` and ``roas``. The row without a ``node_id`` holds
        the conversions that no eligible touchpoint led to. Currencies are never summed.

    Raises
    ------
    InvalidRequest
        If a model is unknown or doubled, or needs what the paths do not carry; if the confidence is not
        between 0 and 1.

    References
    ----------
    The variance of a credited count is that of a compound Poisson process: the sum over users of the
    squared credit; where credits are no sums over users, it is that of a grouped jackknife.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = Paths.from_sequences(sequences, path="path", conversions="n")
    >>> attribute(paths, "linear")[["node_id", "conversions", "share"]]
      node_id  conversions  share
    0   email          2.5  0.625
    1  search          1.5  0.375
    """
    labelled = _labelled(models)
    if confidence is not None:
        check_share("confidence", confidence)
        if not 0 < confidence < 1:
            raise InvalidRequest(
                f"confidence: {confidence!r} is not allowed; allowed: between 0 and 1", field="confidence"
            )
    for model in labelled.values():
        if isinstance(model, CustomWeights):
            _check_custom(paths, model)
    parts = _by_rules(paths, labelled, confidence) | _by_paths(paths, labelled, confidence)
    credits = pd.concat(
        [_tidy(label, labelled[label], parts[label]) for label in labelled], ignore_index=True
    )
    credits.insert(2, "node_name", paths.names(credits["node_id"]))
    known = paths.spend if spend is None else spend
    if known is None:
        return credits
    # Nodes that only have spend join here, so names are looked up again.
    returns = report_returns(credits, known)
    return returns.assign(node_name=paths.names(returns["node_id"]))


def _labelled(
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
) -> dict[str, Model]:
    if isinstance(models, dict):
        pairs = list(models.items())
    else:
        several = [models] if isinstance(models, Model | str) else list(models)
        pairs = [(each if isinstance(each, str) else getattr(each, "name", ""), each) for each in several]
    if not pairs:
        raise InvalidRequest("models: there is none; allowed: at least one model", field="models")
    labelled: dict[str, Model] = {}
    for label, each in pairs:
        model = model_named(each) if isinstance(each, str) else each
        if not isinstance(model, Model):
            raise InvalidRequest(
                f"models: {each!r} is not a model; allowed: a model such as Linear() or a name such as "
                "'linear'",
                field="models",
            )
        if label in labelled:
            raise InvalidRequest(
                f"models: {label!r} is there twice; give models of one kind labels of their own with "
                "a mapping",
                field="models",
            )
        labelled[str(label)] = model
    return labelled


def _check_custom(paths: Paths, model: CustomWeights) -> None:
    expression = refused(paths, model)
    try:
        wrong = expression.to_pyarrow().as_py()
    except Exception as error:
        raise InvalidRequest(f"models: {model.name} cannot be computed: {error}", field="models") from error
    if wrong:
        raise InvalidRequest(
            f"models: {model.name} gives a weight that is missing, negative or not finite; allowed: "
            "0 or more",
            field="models",
        )


def _computed(paths: Paths, models: list[Model], *, squared: bool) -> pd.DataFrame:
    """Sum the credit of every model by node and currency, in one pass over the touchpoints."""
    touches = paths.touches
    weights = {f"w{index}": weighted(paths, model) for index, model in enumerate(models)}
    rows = touches.mutate(**weights)
    by = ["node_id", "currency"]
    sums: dict[str, Any] = {}
    for index in range(len(models)):
        column = rows[f"w{index}"]
        sums[f"c{index}"] = (column * rows.conversions).sum()
        sums[f"v{index}"] = (column * rows.value).sum()
    if not squared:
        return to_pandas(rows.group_by(by).agg(**sums).to_pyarrow())
    unit = "user_id" if paths.has_users else "event_id"
    credited = rows.group_by([*by, unit]).agg(**sums, conversions=rows.conversions.max())
    # Every conversion of an aggregated path stands for itself, so its credit counts as often as there are.
    times = 1.0 if paths.has_users else credited.conversions
    squares = {f"s{name[1:]}": (credited[name] ** 2 / times).sum() for name in sums if name.startswith("c")}
    summed = credited.group_by(by).agg(**{name: credited[name].sum() for name in sums}, **squares)
    return to_pandas(summed.to_pyarrow())


def _by_rules(paths: Paths, labelled: dict[str, Model], confidence: float | None) -> dict[str, pd.DataFrame]:
    """Credit by models that give weights to touchpoints."""
    rules = {label: model for label, model in labelled.items() if not isinstance(model, PathModel)}
    if not rules:
        return {}
    wide = _computed(paths, list(rules.values()), squared=confidence is not None)
    credited = {}
    for index, label in enumerate(rules):
        rows = wide[["node_id", "currency"]].assign(
            conversions=wide[f"c{index}"].astype("float64"), value=wide[f"v{index}"].astype("float64")
        )
        if confidence is not None:
            spread = np.sqrt(wide[f"s{index}"].astype("float64"))
            rows["reach"] = NormalDist().inv_cdf(0.5 + confidence / 2) * spread
        credited[label] = rows
    return credited


def _by_paths(paths: Paths, labelled: dict[str, Model], confidence: float | None) -> dict[str, pd.DataFrame]:
    """Credit by models that compare whole paths."""
    wanted = {label: model for label, model in labelled.items() if isinstance(model, PathModel)}
    if not wanted:
        return {}
    return dict(zip(wanted, path_credits(paths, list(wanted.values()), confidence=confidence), strict=True))


def _tidy(label: str, model: Model, rows: pd.DataFrame) -> pd.DataFrame:
    credited = rows["conversions"]
    credits = pd.DataFrame(
        {
            "model": pd.Series(label, index=rows.index, dtype="str"),
            "node_id": rows["node_id"],
            "conversions": credited,
            "value": rows["value"],
            "currency": rows["currency"],
            "share": credited / (credited.sum() or np.nan),
        }
    )
    if "reach" in rows.columns:
        low = credited - rows["reach"]
        credits["low"] = low if isinstance(model, PathModel) and model.signed else low.clip(lower=0.0)
        credits["high"] = credited + rows["reach"]
    # The engine adds up in any order: what differs by its last digit is equal here.
    order = credits.assign(unattributed=credits["node_id"].isna(), conversions=credited.round(9))
    order = order.sort_values(
        ["unattributed", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
    )
    return credits.loc[order.index].reset_index(drop=True)
