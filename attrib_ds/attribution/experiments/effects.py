"""Compare credited with caused conversions, and state what is identified."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.experiments.combination import AVERAGED, combine_with_experiment
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.negative_controls import warn_of_confounding
from attrib_ds.attribution.models.incremental import IncrementalModel, LatentIntent
from attrib_ds.attribution.models.model import Model, check_share
from attrib_ds.attribution.models.named import model_named
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.records.input_frames import FrameOrPath

_KEYS = ["node_id", "currency"]


def incremental_effects(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str] = "discrete_hazard",
    *,
    conventional: Model | str = "linear",
    controls: Sequence[str] = (),
    withheld: FrameOrPath | None = None,
    participants: FrameOrPath | None = None,
    opportunities: FrameOrPath | None = None,
    covariates: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Estimate the conversions that nodes caused, next to their credit.

    Parameters
    ----------
    paths : Paths
        Paths with dates and null paths, preferably with the observation period of every user
        (``Paths.from_frames(users=...)``). Without it, users with a touchpoint or a conversion count as
        observed from the first date to the last, and users who were never touched are missing. In a
        simulation of 60,000 users the discrete hazard then estimated 88 conversions of a node instead of
        145; the true effect was 135.
    models : Model, str, sequence or mapping, default "discrete_hazard"
        Incremental models, or their names. A mapping from labels to models labels the rows.
    conventional : Model or str, default "linear"
        Model whose credit is reported for comparison, such as a rule.
    controls : sequence of str, optional
        Negative controls: nodes known to have no effect, such as organic and direct. If a model estimates
        effects for them, it is confounded, and a warning says so.
    withheld, participants, opportunities, covariates : optional
        A randomised experiment on some of the nodes, see :func:`holdout_effects`.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per incremental model, node and currency, in the order of the models, then by descending
        ``caused``: ``model``, ``node_id``, ``node_name``, ``currency`` (str), ``is_control`` (bool),
        ``credited`` (float64, conversions credited by the conventional model), ``caused`` (float64,
        conversions that would not have happened without the node, as the model estimates), ``low``, ``high``
        (float64, bounds of ``caused``). With ``withheld`` also ``experiment``, ``experiment_low``,
        ``experiment_high`` (float64, conversions; null for nodes without an experiment), ``disagreement``
        (float64, distance between model and experiment in standard errors) and ``combined``,
        ``combined_low``, ``combined_high`` (float64): the average of :func:`combine_with_experiment` over the
        experiment, all models and the proportions of the conventional model, the same in the rows of every
        model. The row without a ``node_id`` holds the unattributed conversions and the baseline.
        ``attrs["identified"]`` states in words what is identified, under which assumptions, and what is not.

    Warns
    -----
    ConfoundingWarning
        If the credit of controls exceeds 3 % of that of all other nodes, and exceeds their sampling error at
        a significance level of 0.001.
    ContaminatedHoldout, UnevenHoldout
        See :func:`holdout_effects`.

    Raises
    ------
    InvalidRequest
        If a model is not incremental, a control is not a node of the paths, the label of a model occurs
        twice, or an argument of the experiment is invalid.

    Notes
    -----
    The discrete hazard estimates the direct effect: the change of the conversion probability with all other
    touchpoints unchanged. An experiment measures the total effect, including touchpoints of other nodes that
    the node triggers. The two differ if one node sends users to another.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=20_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.incremental_effects(paths, controls=["organic", "direct"])
    >>> paid = effects[~effects["is_control"] & effects["node_id"].notna()]
    >>> bool(paid["credited"].sum() > 2 * paid["caused"].sum())
    True
    """
    by_label = _models_by_label(models)
    check_share("confidence", confidence)
    _check_experiment(withheld, participants, opportunities, covariates)
    rule = model_named(conventional) if isinstance(conventional, str) else conventional
    rule_label = conventional if isinstance(conventional, str) else getattr(rule, "name", "")
    if not isinstance(rule, Model) or isinstance(rule, IncrementalModel) or rule_label in by_label:
        raise InvalidRequest(
            f"conventional: {conventional!r} is not allowed; allowed: a model that is neither incremental "
            "nor in models, such as 'linear'",
            field="conventional",
        )
    credits = attribute(paths, by_label | {rule_label: rule}, confidence=confidence)
    _check_controls(controls, set(credits["node_id"].dropna()))
    credited = credits[credits["model"] == rule_label].rename(columns={"conversions": "credited"})
    caused = credits[credits["model"] != rule_label].rename(columns={"conversions": "caused"})
    effects = caused[["model", *_KEYS, "node_name", "caused", "low", "high"]].merge(
        credited[[*_KEYS, "credited"]], on=_KEYS, how="left"
    )
    effects["credited"] = effects["credited"].fillna(0.0)
    effects["is_control"] = effects["node_id"].isin(list(controls))
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    confounded = []
    for label in by_label:
        if _warned(label, effects, reach):
            confounded.append(label)  # noqa: PERF401 - the stack level of the warning depends on this frame
    columns = ["model", "node_id", "node_name", "currency", "is_control", "credited", "caused", "low", "high"]
    if withheld is not None:
        measured = holdout_effects(
            paths,
            withheld,
            participants=participants,
            opportunities=opportunities,
            covariates=covariates,
            confidence=confidence,
        )
        effects = _with_experiment(effects, credits, measured, controls, rule_label, confidence)
        columns += ["experiment", "experiment_low", "experiment_high", "disagreement"]
        columns += ["combined", "combined_low", "combined_high"]
    effects = effects[columns].reset_index(drop=True)
    effects.attrs["identified"] = _identified(
        by_label,
        confounded,
        controls=controls,
        has_users=paths.observed is not None,
        has_experiment=withheld is not None,
    )
    return effects


def _models_by_label(models: Any) -> dict[str, Model]:
    if isinstance(models, Mapping):
        pairs = [(str(label), item) for label, item in models.items()]
    else:
        try:
            several = [models] if isinstance(models, Model | str) else list(models)
        except TypeError:
            several = [models]
        pairs = [(item if isinstance(item, str) else getattr(item, "name", ""), item) for item in several]
    by_label: dict[str, Model] = {}
    for label, item in pairs:
        model = model_named(item) if isinstance(item, str) else item
        if not isinstance(model, IncrementalModel):
            raise InvalidRequest(
                f"models: {item!r} is not an incremental model; allowed: models such as 'discrete_hazard' "
                "(pass a rule as conventional=)",
                field="models",
            )
        if label in by_label or label == AVERAGED:
            raise InvalidRequest(
                f"models: the label {label!r} is taken; pass a mapping to choose other labels",
                field="models",
            )
        by_label[label] = model
    if not by_label:
        raise InvalidRequest("models is empty; allowed: at least one model", field="models")
    return by_label


def _check_experiment(
    withheld: object, participants: object, opportunities: object, covariates: Sequence[str]
) -> None:
    if withheld is not None:
        return
    is_given = {
        "participants": participants is not None,
        "opportunities": opportunities is not None,
        "covariates": len(covariates) > 0,
    }
    for argument in is_given:
        if is_given[argument]:
            raise InvalidRequest(
                f"{argument}: requires withheld=, which is missing; allowed: both or neither",
                field=argument,
            )


def _check_controls(controls: Sequence[str], node_ids: set[str]) -> None:
    if isinstance(controls, str) or controls is None:
        raise InvalidRequest(
            f"controls: {controls!r} is not allowed; allowed: a list, as in [{controls or 'direct'!r}]",
            field="controls",
        )
    for node in controls:
        if node not in node_ids:
            raise InvalidRequest.choice("controls", node, node_ids)


def _warned(label: str, effects: pd.DataFrame, reach: float) -> bool:
    """Warn if controls show that a model is confounded, in all currencies together."""
    of_model = effects[effects["model"] == label]
    rows = of_model[of_model["node_id"].notna()]
    variance = ((rows["high"] - rows["caused"]) / reach) ** 2
    summed = (
        rows.assign(variance=variance)
        .groupby("node_id")[["caused", "variance", "is_control"]]
        .agg({"caused": "sum", "variance": "sum", "is_control": "max"})
    )
    return warn_of_confounding(
        label,
        summed.index.tolist(),
        summed["caused"].to_numpy(dtype="float64"),
        np.sqrt(summed["variance"].to_numpy(dtype="float64")),
        summed["is_control"].to_numpy(dtype=bool),
        total=float(of_model["caused"].sum()),
    )


def _with_experiment(
    effects: pd.DataFrame,
    credits: pd.DataFrame,
    measured: pd.DataFrame,
    controls: Sequence[str],
    rule_label: str,
    confidence: float,
) -> pd.DataFrame:
    combined = combine_with_experiment(
        credits, measured, controls=controls, scaled=[rule_label], confidence=confidence
    )
    averaged = combined[combined["model"] == AVERAGED].rename(
        columns={"low": "combined_low", "high": "combined_high"}
    )
    experiment = measured.rename(
        columns={"caused": "experiment", "low": "experiment_low", "high": "experiment_high"}
    )
    effects = effects.merge(combined[["model", *_KEYS, "disagreement"]], on=["model", *_KEYS], how="left")
    effects = effects.merge(
        experiment[[*_KEYS, "experiment", "experiment_low", "experiment_high"]], on=_KEYS, how="left"
    )
    return effects.merge(
        averaged[[*_KEYS, "combined", "combined_low", "combined_high"]], on=_KEYS, how="left"
    )


def _identified(
    models: Mapping[str, Model],
    confounded: list[str],
    *,
    controls: Sequence[str],
    has_users: bool,
    has_experiment: bool,
) -> str:
    sentences = ["credited: conversions divided by convention, not an effect."]
    labels: dict[str, list[str]] = {}
    for label, model in models.items():
        labels.setdefault(_assumption(model), []).append(label)
    for assumption, several in labels.items():
        of_models = f" ({', '.join(several)})" if len(labels) > 1 else ""
        sentences.append(f"caused{of_models}: {assumption}")
    sentences.append("low and high measure sampling error, not bias.")
    if not has_users:
        sentences.append(
            "The paths have no observation periods (Paths.from_frames(users=)): users with a touchpoint or a "
            "conversion count as observed from the first date to the last, and users who were never touched "
            "are missing. This biases caused, mostly downwards."
        )
    sentences += _evidence(models, confounded, controls)
    if has_experiment:
        sentences.append(
            "experiment: the total effect, including what a node triggers in others, identified by "
            "randomisation alone. combined: the same effect, if the model errors that the experiment reveals "
            "apply to all nodes."
        )
    else:
        sentences.append(
            "The total effect, including what a node triggers in others, is identified only by a randomised "
            "experiment (withheld=)."
        )
    return " ".join(sentences)


def _assumption(model: Model) -> str:
    if isinstance(model, LatentIntent):
        return (
            "the effect on conversions and on the steps towards them, provided that intent develops as in "
            "the model's funnel, which no data can confirm."
        )
    return (
        "the direct effect, with all other touchpoints unchanged, provided that users who were reached and "
        "users who were not differ in nothing that affects conversion except what the model includes: "
        "earlier touchpoints, covariates of the user, and time."
    )


def _evidence(models: Mapping[str, Model], confounded: list[str], controls: Sequence[str]) -> list[str]:
    """Return sentences on the evidence that controls give for or against each model."""
    if not len(controls):
        return ["Without negative controls (controls=) there is no evidence for or against this assumption."]
    sentences = []
    if confounded:
        sentences.append(
            f"The negative controls show that the assumption does not hold for {', '.join(confounded)}: "
            "treat its numbers as credit."
        )
    # A model that assumes the controls to have no effect cannot be tested by them.
    assuming = [
        label
        for label, model in models.items()
        if isinstance(model, LatentIntent) and set(controls) <= set(model.controls)
    ]
    if assuming:
        sentences.append(
            f"{', '.join(assuming)} assumes that the negative controls have no effect, so their zero credit "
            "is no evidence."
        )
    supported = [label for label in models if label not in confounded and label not in assuming]
    if supported:
        under = f" under {', '.join(supported)}" if len(supported) < len(models) else ""
        sentences.append(
            f"The negative controls earn no more{under} than sampling error explains, or a negligible share. "
            "This supports the assumption but does not prove it, and is weak evidence with few conversions."
        )
    return sentences
