"""What nodes are credited with beside what they caused, and what of it is identified."""

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

_KEYS = ["node_id", "currency"]


def incremental_effects(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str] = "discrete_hazard",
    *,
    conventional: Model | str = "linear",
    controls: Sequence[str] = (),
    withheld: object = None,
    participants: object = None,
    opportunities: object = None,
    covariates: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Lay what nodes caused beside what they are credited with.

    Parameters
    ----------
    paths : Paths
        With dates and null paths, which incremental models need, and preferably with the observation period
        of every user (``Paths.from_frames(users=...)``). Without it, everybody who was touched or converted
        counts as observed from the first date to the last, also after a conversion, and users who were never
        touched are missing: in a simulated world of 60,000 users the discrete hazard then estimated 88
        conversions of a node instead of 145, where 135 is true.
    models : Model, str, sequence or mapping, default "discrete_hazard"
        Incremental models, or their names; a mapping gives labels of its own.
    conventional : Model or str, default "linear"
        The model whose credit stands beside them, such as a rule.
    controls : sequence of str, optional
        Nodes known to have no effect, such as organic and direct. A model that finds effects of them is
        confounded, and a warning says so.
    withheld, participants, opportunities, covariates : optional
        A randomised experiment on some of the nodes, as :func:`holdout_effects` takes it.
    confidence : float, default 0.95
        Level of intervals.

    Returns
    -------
    DataFrame
        One row per incremental model, node and currency, in the order of models and then by ``caused``:
        ``model``, ``node_id``, ``node_name``, ``currency`` (str), ``is_control`` (bool), ``credited``
        (float64, conversions that the conventional model gives to the node), ``caused`` (float64, conversions
        that would not have happened without it, as the model has it), ``low``, ``high`` (its interval). With
        ``withheld`` also ``experiment``, ``experiment_low``, ``experiment_high`` (float64, what the
        experiment found, null where there is none), ``disagreement`` (standard errors from the model to the
        experiment) and ``combined``, ``combined_low``, ``combined_high``: from the experiment, all the models
        and the proportions of the conventional one, as :func:`combine_with_experiment` averages them, so
        alike for every model. The row without a ``node_id`` holds what no node is credited with, and what no
        node caused. ``attrs["identified"]`` says in words what is identified, under which assumptions, and
        what is not.

    Warns
    -----
    ConfoundingWarning
        If controls earn more than 3 % of what the model finds for all other nodes, and more than their
        sampling error explains at a level of one in a thousand.
    ContaminatedHoldout, UnevenHoldout
        As :func:`holdout_effects` does.

    Raises
    ------
    InvalidRequest
        If a model is not incremental, a control is not a node of the paths, the experiment is not allowed, or
        the label of a model is taken.

    Notes
    -----
    The discrete hazard finds the direct effect: what a node adds to the chance to convert with all other
    touchpoints as they were. An experiment finds the total effect, with what the node sets off in others.
    The two differ where one node sends users to another.

    Examples
    --------
    >>> from attrib_ds import Paths, incremental_effects, simulate
    >>> world = simulate("random", users=20_000, seed=1)
    >>> paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = incremental_effects(paths, controls=["organic", "direct"])
    >>> paid = effects[~effects["is_control"] & effects["node_id"].notna()]
    >>> bool(paid["credited"].sum() > 2 * paid["caused"].sum())
    True
    """
    by_label = _models_by_label(models)
    check_share("confidence", confidence)
    _check_experiment(withheld, participants, opportunities, covariates)
    rule = model_named(conventional) if isinstance(conventional, str) else conventional
    beside = conventional if isinstance(conventional, str) else getattr(rule, "name", "")
    if not isinstance(rule, Model) or isinstance(rule, IncrementalModel) or beside in by_label:
        raise InvalidRequest(
            f"conventional: {conventional!r} is not allowed; allowed: a model of credit that is not among "
            "models, such as 'linear'",
            field="conventional",
        )
    every = attribute(paths, by_label | {beside: rule}, confidence=confidence)
    _check_controls(controls, set(every["node_id"].dropna()))
    credited = every[every["model"] == beside].rename(columns={"conversions": "credited"})
    found = every[every["model"] != beside].rename(columns={"conversions": "caused"})
    effects = found[["model", *_KEYS, "node_name", "caused", "low", "high"]].merge(
        credited[[*_KEYS, "credited"]], on=_KEYS, how="left"
    )
    effects["credited"] = effects["credited"].fillna(0.0)
    effects["is_control"] = effects["node_id"].isin(list(controls))
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    confounded = []
    for label in by_label:
        if _warned(label, effects, reach):
            confounded.append(label)  # noqa: PERF401 - a warning names the caller by its distance
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
        effects = _with_experiment(effects, every, measured, controls, beside, confidence)
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
        pairs = [(str(label), each) for label, each in models.items()]
    else:
        try:
            several = [models] if isinstance(models, Model | str) else list(models)
        except TypeError:
            several = [models]
        pairs = [(each if isinstance(each, str) else getattr(each, "name", ""), each) for each in several]
    by_label: dict[str, Model] = {}
    for label, each in pairs:
        model = model_named(each) if isinstance(each, str) else each
        if not isinstance(model, IncrementalModel):
            raise InvalidRequest(
                f"models: {each!r} gives credit and estimates no effect; allowed: incremental models such as "
                "'discrete_hazard' (conventional= takes the others)",
                field="models",
            )
        if label in by_label or label == AVERAGED:
            raise InvalidRequest(
                f"models: the label {label!r} is taken; give models labels of their own with a mapping",
                field="models",
            )
        by_label[label] = model
    if not by_label:
        raise InvalidRequest("models: there is none; allowed: at least one model", field="models")
    return by_label


def _check_experiment(
    withheld: object, participants: object, opportunities: object, covariates: Sequence[str]
) -> None:
    if withheld is not None:
        return
    told = {
        "participants": participants is not None,
        "opportunities": opportunities is not None,
        "covariates": len(covariates) > 0,
    }
    for argument, is_told in told.items():
        if is_told:
            raise InvalidRequest(
                f"{argument}: it tells of an experiment, and withheld= is missing; allowed: both or neither",
                field=argument,
            )


def _check_controls(controls: Sequence[str], known: set[str]) -> None:
    if isinstance(controls, str) or controls is None:
        raise InvalidRequest(
            f"controls: {controls!r} is not allowed; allowed: a list, as in [{controls or 'direct'!r}]",
            field="controls",
        )
    for node in controls:
        if node not in known:
            raise InvalidRequest.choice("controls", node, known)


def _warned(label: str, effects: pd.DataFrame, reach: float) -> bool:
    """Warn where controls say that a model is confounded; all currencies together."""
    every = effects[effects["model"] == label]
    rows = every[every["node_id"].notna()]
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
        total=float(every["caused"].sum()),
    )


def _with_experiment(
    effects: pd.DataFrame,
    every: pd.DataFrame,
    measured: pd.DataFrame,
    controls: Sequence[str],
    beside: str,
    confidence: float,
) -> pd.DataFrame:
    both = combine_with_experiment(every, measured, controls=controls, scaled=[beside], confidence=confidence)
    averaged = both[both["model"] == AVERAGED].rename(
        columns={"low": "combined_low", "high": "combined_high"}
    )
    experiment = measured.rename(
        columns={"caused": "experiment", "low": "experiment_low", "high": "experiment_high"}
    )
    effects = effects.merge(both[["model", *_KEYS, "disagreement"]], on=["model", *_KEYS], how="left")
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
    said = ["credited: a convention that divides conversions; it is no effect."]
    labels: dict[str, list[str]] = {}
    for label, model in models.items():
        labels.setdefault(_assumed(model), []).append(label)
    for assumed, several in labels.items():
        of_whom = f" ({', '.join(several)})" if len(labels) > 1 else ""
        said.append(f"caused{of_whom}: {assumed}")
    said.append("low and high are sampling error, not bias.")
    if not has_users:
        said.append(
            "Who was observed, and when, was not told (Paths.from_frames(users=)): whoever was touched or "
            "converted counts as observed from the first date to the last, and whoever was never touched is "
            "missing, which biases what is caused, mostly towards too little."
        )
    said += _judged(models, confounded, controls)
    if has_experiment:
        said.append(
            "experiment: the total effect, what a node sets off in others included, identified by the draw "
            "alone. combined: that effect, if what the experiment says of models' errors holds for all."
        )
    else:
        said.append(
            "The total effect, what a node sets off in others included, is identified by a randomised "
            "experiment alone (withheld=)."
        )
    return " ".join(said)


def _assumed(model: Model) -> str:
    if isinstance(model, LatentIntent):
        return (
            "the effect on conversions and on the steps towards them, and only if people come to want things "
            "as its funnel of intents says, which no observation can confirm."
        )
    return (
        "the direct effect, with all other touchpoints as they were, and only if whoever was reached differs "
        "from whoever was not in nothing that changes the chance to convert but what the model is given: "
        "earlier touchpoints, what is known of the user, and time."
    )


def _judged(models: Mapping[str, Model], confounded: list[str], controls: Sequence[str]) -> list[str]:
    """Say what controls tell of each model."""
    if not len(controls):
        return [
            "No node known to have no effect was named (controls=), so nothing speaks for it or against it."
        ]
    said = []
    if confounded:
        said.append(
            f"Nodes known to have no effect say that this does not hold for {', '.join(confounded)}: take "
            "its numbers as credit."
        )
    # What a model was told cannot speak for it.
    told = [
        label
        for label, model in models.items()
        if isinstance(model, LatentIntent) and set(controls) <= set(model.controls)
    ]
    if told:
        said.append(
            f"{', '.join(told)} was told that these nodes have no effect: that it credits them with none "
            "says nothing."
        )
    silent = [label for label in models if label not in confounded and label not in told]
    if silent:
        whose = f" under {', '.join(silent)}" if len(silent) < len(models) else ""
        said.append(
            f"Nodes known to have no effect earn no more{whose} than sampling error explains, or next to "
            "nothing, which speaks for it and does not prove it; with few conversions it says little."
        )
    return said
