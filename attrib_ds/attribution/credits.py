"""Credits: the conversions and the value that each model gives to each node."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.models import CustomWeights, Model, check_share, model_named
from attrib_ds.attribution.returns import report_returns
from attrib_ds.attribution.weights import refused, weighted
from attrib_ds.errors import InvalidRequest
from attrib_ds.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import ibis.expr.types as ir

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
        own. All are computed in one pass.
    confidence : float, optional
        Level of intervals for the credited conversions, such as 0.95. They measure sampling error of the
        users, not bias: a model that credits the wrong node does so with a narrow interval.
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
    squared credit.

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
    wide = _computed(paths, list(labelled.values()), squared=confidence is not None)
    credits = pd.concat(
        [_of_model(wide, index, label, confidence) for index, label in enumerate(labelled)], ignore_index=True
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
    if paths.has_users:
        per_user = rows.group_by([*by, "user_id"]).agg(**sums)
        return to_pandas(_variances(per_user, by, sums).to_pyarrow())
    for index in range(len(models)):
        # Every conversion of an aggregated path stands for itself.
        sums[f"s{index}"] = (rows[f"w{index}"] * rows[f"w{index}"] * rows.conversions).sum()
    return to_pandas(rows.group_by(by).agg(**sums).to_pyarrow())


def _variances(per_user: ir.Table, by: list[str], sums: dict[str, Any]) -> ir.Table:
    squares = {f"s{name[1:]}": (per_user[name] ** 2).sum() for name in sums if name.startswith("c")}
    return per_user.group_by(by).agg(**{name: per_user[name].sum() for name in sums}, **squares)


def _of_model(wide: pd.DataFrame, index: int, label: str, confidence: float | None) -> pd.DataFrame:
    credited = wide[f"c{index}"].astype("float64")
    credits = pd.DataFrame(
        {
            "model": pd.Series(label, index=wide.index, dtype="str"),
            "node_id": wide["node_id"],
            "conversions": credited,
            "value": wide[f"v{index}"].astype("float64"),
            "currency": wide["currency"],
            "share": credited / (credited.sum() or np.nan),
        }
    )
    if confidence is not None:
        reach = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(wide[f"s{index}"].astype("float64"))
        credits["low"] = (credited - reach).clip(lower=0.0)
        credits["high"] = credited + reach
    order = credits.assign(unattributed=credits["node_id"].isna())
    order = order.sort_values(
        ["unattributed", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
    )
    return credits.loc[order.index].reset_index(drop=True)
