"""Compare credited with caused conversions, and state what is identified."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.experiments.cells import Cells, check_by
from attrib_ds.attribution.experiments.checkout import checkout_nodes, warn_of_checkout_nodes
from attrib_ds.attribution.experiments.combination import AVERAGED, combine_with_experiment
from attrib_ds.attribution.experiments.draws import complete_draws
from attrib_ds.attribution.experiments.effects_by_cell import credited_by_cell, effects_by_cell
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.mediators import MEDIATED, check_mediators, total_effects
from attrib_ds.attribution.experiments.negative_controls import (
    UNTESTED,
    ControlsTest,
    Verdict,
    jackknife_error,
    judge_controls,
    warn_of_confounding,
)
from attrib_ds.attribution.experiments.observed_share import (
    ObservedShare,
    ObservedShares,
    check_observed_share,
    scale_levels,
    sum_segments,
)
from attrib_ds.attribution.experiments.sensitivity import (
    SENSITIVITY,
    empty_sensitivity,
    sensitivity_rows,
)
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.intervals import GROUPS
from attrib_ds.attribution.models.model import Model, check_share
from attrib_ds.attribution.models.named import model_named
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest, TruncatedUsers
from attrib_ds.records.frames import TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.records.frames import FrameOrPath

_KEYS = ["node_id", "currency"]
_COLUMNS = (
    "node_id",
    "node_name",
    "currency",
    "is_control",
    "credited",
    "caused",
    "low",
    "high",
    "verdict",
    "controls_share",
    "controls_share_low",
    "controls_share_high",
    "checkout_share",
    "is_at_checkout",
    *SENSITIVITY,
)


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
    observed_share: ObservedShare = 1.0,
    by: str | Sequence[str] | None = None,
    mediators: Mapping[str, Sequence[str]] | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Estimate the conversions that nodes caused, next to their credit.

    Parameters
    ----------
    paths : Paths
        Paths with dates and null paths, preferably with the observation period of every user
        (``Paths.from_frames(users=...)``). Without it, or if it lacks the users who were never touched, users
        count as observed from their first touchpoint to the last date, and conversions without an earlier
        touchpoint as baseline.
    models : Model, str, sequence or mapping, default "discrete_hazard"
        Incremental models, or their names. A mapping from labels to models labels the rows.
    conventional : Model or str, default "linear"
        Model whose credit is reported for comparison, such as a rule.
    controls : sequence of str, optional
        Negative controls: nodes known to have no effect, such as organic and direct. If a model estimates
        effects for them, it is confounded, and a warning says so.
    withheld, participants, opportunities, covariates : optional
        A randomised experiment on some of the nodes, see :func:`holdout_effects`; participants or
        opportunities alone are enough if they have the column ``withheld``.
    observed_share : float, (float, float) or mapping, default 1
        Share of all users who were observed, above 0 and at most 1, for example of those who consented; or
        the share and its standard error. Numbers of conversions are divided by it, and intervals include its
        error (see the notes). By segment, it names a column of the observed users and the share of each of
        its values, as in ``{"country": {"FR": (0.6, 0.01), "US": 0.9}}``: effects are estimated in each
        segment, divided by its share and added up. By segment only for :class:`DiscreteHazard`, without an
        experiment and without ``mediators``.
    by : str or sequence of str, optional
        Effects by period of the conversion (``"day"``, ``"week"``, ``"month"``, ``"quarter"``, ``"semester"``
        or ``"year"``), by a column of the observed users, such as ``"country"``, of up to 100 values, or by
        both. Only for :class:`DiscreteHazard`, and without an experiment.
    mediators : mapping from str to sequence of str, optional
        Nodes to whose touchpoints another node leads, as in ``{"display": ["brand_search"]}``: the effect of
        display through brand searches, and in total, is estimated too (see the notes). Only for
        :class:`DiscreteHazard`, and without ``by``.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per incremental model, node and currency, in the order of the models, then by descending
        ``caused``: ``model``, ``node_id``, ``node_name``, ``currency`` (str), ``is_control`` (bool),
        ``credited`` (float64, conversions credited by the conventional model), ``caused`` (float64,
        conversions that would not have happened without the node, as the model estimates), ``low``, ``high``
        (float64, bounds of ``caused``), ``verdict`` (str, what controls show about the model: ``"clear"``,
        ``"cannot tell"`` or ``"confounded"``; see the notes), ``controls_share``, ``controls_share_low``,
        ``controls_share_high`` (float64, credit of the controls relative to that of all other nodes, with
        bounds; infinite if the credit of the others may be zero, null without controls), ``checkout_share``
        (float64, share of the conversions within a week of a touchpoint of the node that come within 30
        minutes of one) and ``is_at_checkout`` (bool, whether touchpoints of the node cluster there, so that
        paths cannot tell its effect). Then the sensitivity to an unobserved cause of exposure and conversions
        (float64 but for ``benchmark``; null under other models than :class:`DiscreteHazard`; see the notes):
        ``robustness_value``, the partial R2 with both that explains the effect away,
        ``robustness_value_interval``, the one with which the interval reaches zero, 0 if it contains zero,
        ``e_value`` and ``e_value_interval``, the same as risk ratios, ``benchmark`` (str), the covariate or
        control of which the smallest multiple explains the effect away (null if there are none),
        ``benchmark_strength``, that multiple, and ``benchmark_exposure``, ``benchmark_outcome``, the partial
        R2 of the benchmark. With ``mediators`` also ``mediated``, ``mediated_low``, ``mediated_high``,
        ``total``, ``total_low``, ``total_high`` (float64, conversions that the node causes through its
        mediators, and in total; null for nodes without mediators). With ``by`` one row per cell too, by cell
        within a model: after ``model`` come the columns named in ``by`` (periods as str, ``"2025-W06"``) and,
        with a period, ``start`` (datetime64[us, UTC]); verdicts and checkouts are those of all conversions.
        With an experiment also ``experiment``, ``experiment_low``,
        ``experiment_high`` (float64, conversions; null for nodes without an experiment), ``disagreement``
        (float64, distance between model and experiment in standard errors) and ``combined``,
        ``combined_low``, ``combined_high`` (float64): the average of :func:`combine_with_experiment` over the
        experiment, all models by their verdicts, and the proportions of the conventional model, the same in
        the rows of every model. The row without a ``node_id`` holds the unattributed conversions and the
        baseline. ``attrs["identified"]`` states in words what is identified, under which assumptions, and
        what is not.

    Warns
    -----
    ConfoundingWarning
        If the verdict on a model is ``"confounded"``, or if the touchpoints of nodes
        cluster in the 30 minutes before conversions.
    TruncatedUsers
        If the table of observed users lacks those who were never touched.
    HoldoutWarning
        See :func:`holdout_effects`.

    Raises
    ------
    InvalidRequest
        If a model is not incremental, a control or mediator is not a node of the paths, the label of a model
        occurs twice, an argument of the experiment is invalid, or ``by`` or ``mediators`` are used with other
        models than :class:`DiscreteHazard`, or ``by`` with an experiment or with mediators; the same for
        ``observed_share`` by segment, or if it lacks a segment, or if ``by`` lacks its column.

    Notes
    -----
    The verdict on a discrete hazard rests on a model with no other nodes than the controls: in a model with
    all, a frequent node may absorb what the controls would show, such as the activity of users. The verdict
    is ``"confounded"`` if the credit of the controls exceeds 3 % of that of all other nodes, and exceeds
    their sampling error at a significance level of 0.001; ``"clear"`` if the 95 % interval of their share
    lies between -25 and 25 %; and otherwise ``"cannot tell"``, as without controls. ``"clear"`` does
    not prove a model right.

    ``observed_share`` is right if users are missing completely at random, touchpoints and conversions alike:
    then those who were observed stand for all. It is wrong if those who refuse consent buy or are reached
    more or less often than the others, if the conversions of unobserved users are in the paths, or if only
    touchpoints are missing; scaling cannot mend these. Shares of nodes do not change.

    ``observed_share`` by segment is right under a weaker condition: users are missing at random within each
    segment, so that those who consent in a country stand for all users of that country. Use it if consent
    differs between segments whose users are reached, or buy, differently: one share for all would give
    segments with much consent too much weight. The errors of the shares are taken to be independent of each
    other. Each segment needs conversions of its own, and intervals are wider than with one share. Verdicts
    and sensitivity are those of the observed users.

    **Direct and total effects.** The coefficients of the discrete hazard, and so ``caused``, are direct
    effects: the change of the conversion probability with all other touchpoints unchanged. If a node leads to
    touchpoints of another, such as display to brand searches, the conversions that these cause are in
    ``caused`` of the other node. An experiment measures the total effect, which includes them. ``mediators``
    estimates it from paths: a discrete hazard of the mediator's touchpoints, with the same columns, gives the
    share of each that would not have happened without the node, and ``total`` counts the conversions lost
    without the node and without these. ``mediated`` is ``total`` less ``caused``. This requires that nothing
    unobserved drives the node and its mediator, or the mediator and conversions. Direct effects of other
    nodes hold these shares too, so totals do not add up over nodes.

    **Sensitivity.** Partial R2 refer to the regression of the hazard's linear predictor (iteratively
    reweighted least squares), one observation per user and period. Most of the outcome in a period is chance,
    so even strong causes explain little of it: compare with the benchmark, not with 1. A
    ``benchmark_strength`` of 3 says that an unobserved cause three times as strong as the benchmark, in
    explaining exposure and conversions, would explain the effect away. This is an approximation: it neglects
    that an omitted cause changes the weights of the regression, and holds effects as a sum linear in the
    coefficients, at fixed weights of the conversions. It is accurate if conversions in a period are rare: in
    simulated worlds, the bias of a known cause that was left out and explained all of an effect was within
    15 % of the one predicted. The
    E-value refers to the conversions after a touchpoint of the node, whose average hazard ratio stands for a
    risk ratio.

    **by.** Every cell has a regression of its own, so that effects may differ between cells: intervals are
    wider than those of the whole. In simulated worlds in which they do differ, intervals at 95 % contained
    the truth in 96 % of cases with 420 conversions per cell, and in 97 % with 5 to 100. ``credited`` adds up
    to that of the whole exactly, and ``caused`` within its intervals.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=8_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.incremental_effects(paths, controls=["organic", "direct"])
    >>> paid = effects[~effects["is_control"] & effects["node_id"].notna()]
    >>> bool(paid["credited"].sum() > 2 * paid["caused"].sum())
    True
    >>> strongest = paid.sort_values("robustness_value").iloc[-1]
    >>> bool(strongest["robustness_value"] > strongest["robustness_value_interval"])
    True

    Effects by segment of users, and through brand searches:

    >>> world = at.simulate("random", users=2_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> by_trait = at.incremental_effects(paths, by="trait")
    >>> by_trait["trait"].unique().tolist()
    [False, True]
    >>> through = at.incremental_effects(paths, mediators={"display": ["brand_search"]})
    >>> row = through.set_index("node_id").loc["display"]
    >>> bool(abs(row["caused"] + row["mediated"] - row["total"]) < 1e-6)
    True

    References
    ----------
    Cinelli and Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
    Royal Statistical Society B 82(1), 39-67.

    VanderWeele and Ding (2017), Sensitivity analysis in observational research: introducing the E-value,
    Annals of Internal Medicine 167(4), 268-274.
    """
    by_label = _models_by_label(models)
    check_share("confidence", confidence)
    observed = check_observed_share(observed_share)
    if not (withheld is participants is opportunities is None):
        withheld, participants = complete_draws(withheld, participants, opportunities)
    elif len(covariates):
        raise InvalidRequest(
            "covariates: requires an experiment, which is missing; allowed: covariates together with "
            "withheld=, participants= or opportunities=",
            field="covariates",
        )
    rule = model_named(conventional) if isinstance(conventional, str) else conventional
    rule_label = conventional if isinstance(conventional, str) else getattr(rule, "name", "")
    if not isinstance(rule, Model) or isinstance(rule, DiscreteHazard) or rule_label in by_label:
        raise InvalidRequest(
            f"conventional: {conventional!r} is not allowed; allowed: a model that is neither incremental "
            "nor in models, such as 'linear'",
            field="conventional",
        )
    _check_hazards(by_label, observed, by=by, mediators=mediators, has_experiment=withheld is not None)
    require_paths(paths)
    cells_by = None if by is None else check_by(paths, by, taken=_COLUMNS)
    observed.check_segments(paths, cells_by)
    sequences = Sequences.of(paths, folds=GROUPS)
    mediators_of = None if mediators is None else check_mediators(mediators, set(sequences.node_ids))
    credits = attribute(paths, by_label | {rule_label: rule}, confidence=confidence)
    _check_controls(controls, set(credits["node_id"].dropna()))
    credited = credits[credits["model"] == rule_label].rename(columns={"conversions": "credited"})
    caused = credits[credits["model"] != rule_label].rename(columns={"conversions": "caused"})
    effects = caused[["model", *_KEYS, "node_name", "caused", "low", "high"]].merge(
        credited[[*_KEYS, "credited"]], on=_KEYS, how="left"
    )
    effects["credited"] = effects["credited"].fillna(0.0)
    effects["is_control"] = effects["node_id"].isin(list(controls))
    named = list(dict.fromkeys(controls))
    # BLAS threads would mostly wait for each other, as the matrices are small.
    with threadpool_limits(1, user_api="blas"):
        samples = _samples(by_label, sequences)
        tests = {label: _tested(label, samples.get(label), effects, named, confidence) for label in by_label}
        settings: dict[str, Any] = {
            "controls": named,
            "observed": observed,
            "confidence": confidence,
        }
        if cells_by is not None:
            cells = Cells.of(paths, sequences, cells_by)
            keys = list(cells.keys.columns)
            effects = _by_cell(effects, samples, credited_by_cell(rule, cells, sequences), cells, **settings)
        else:
            keys = []
            effects = _with_sensitivity(effects, samples, mediators_of, **settings)
            if observed.column is not None:
                cells = Cells.of(paths, sequences, [observed.column])
                credited = credited_by_cell(rule, cells, sequences)
                effects = _added_up(
                    effects, _by_cell(effects, samples, credited, cells, **settings), observed, confidence
                )
    effects["verdict"] = effects["model"].map({label: test.verdict for label, test in tests.items()})
    effects["verdict"] = effects["verdict"].astype(TEXT)
    for column in ("share", "low", "high"):
        values = {label: getattr(test, column) for label, test in tests.items()}
        name = "controls_share" if column == "share" else f"controls_share_{column}"
        effects[name] = effects["model"].map(values).astype("float64")
    checkout = checkout_nodes(paths)
    effects["checkout_share"] = effects["node_id"].map(checkout["share"]).astype("float64")
    effects["is_at_checkout"] = effects["node_id"].isin(checkout.index[checkout["is_at_checkout"]])
    warn_of_checkout_nodes(checkout)
    columns = ["model", *keys, *_COLUMNS, *([] if mediators is None else MEDIATED)]
    if withheld is not None:
        measured = holdout_effects(
            paths,
            withheld,
            participants=participants,
            opportunities=opportunities,
            covariates=covariates,
            confidence=confidence,
        )
        verdicts = {label: test.verdict for label, test in tests.items()}
        effects = _with_experiment(effects, credits, measured, controls, verdicts, rule_label, confidence)
        columns += ["experiment", "experiment_low", "experiment_high", "disagreement"]
        columns += ["combined", "combined_low", "combined_high"]
    if observed.column is None or cells_by is not None:
        levels = [("caused", "low", "high")]
        if withheld is not None:
            levels += [(name, f"{name}_low", f"{name}_high") for name in ("experiment", "combined")]
        if mediators is not None:
            levels += [(name, f"{name}_low", f"{name}_high") for name in ("mediated", "total")]
        effects = _scaled(effects, observed, levels, confidence)
    effects = effects[columns].reset_index(drop=True)
    effects.attrs["identified"] = _identified(
        by_label,
        {label: test.verdict for label, test in tests.items()},
        controls=controls,
        has_users=paths.observed is not None,
        has_experiment=withheld is not None,
        by=cells_by,
        mediators=mediators_of,
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
        if not isinstance(model, DiscreteHazard):
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


def _check_hazards(
    models: Mapping[str, Model],
    observed: ObservedShares,
    *,
    by: object,
    mediators: object,
    has_experiment: bool,
) -> None:
    """Refuse periods, segments and mediators where they cannot be estimated."""
    given = {
        "by": by is not None,
        "mediators": mediators is not None,
        "observed_share by segment": observed.column is not None,
    }
    for argument in [name for name in given if given[name]]:
        for label, model in models.items():
            if not isinstance(model, DiscreteHazard):
                raise InvalidRequest(
                    f"{argument}: not available for {label!r}; allowed: discrete hazards only",
                    field=argument.split()[0],
                )
    for argument in ("by", "observed_share by segment"):
        if given[argument] and (has_experiment or given["mediators"]):
            other = "withheld" if has_experiment else "mediators"
            raise InvalidRequest(
                f"{argument}: not available together with {other}=; allowed: one of them",
                field=argument.split()[0],
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


def _samples(models: Mapping[str, Model], sequences: Sequences) -> dict[str, HazardSample]:
    """Return the data of each discrete hazard with a conversion in the observation of its user."""
    samples = {}
    with warnings.catch_warnings():
        # The credits were computed from the same histories, and have warned already.
        warnings.simplefilter("ignore", TruncatedUsers)
        for label, model in models.items():
            if isinstance(model, DiscreteHazard):
                histories = Histories.of(sequences, covariates=model.covariates)
                if len(histories.event_user):
                    samples[label] = HazardSample.of(model, sequences, histories)
    return samples


def _with_sensitivity(
    effects: pd.DataFrame,
    samples: Mapping[str, HazardSample],
    mediators: Mapping[str, Sequence[str]] | None,
    *,
    controls: list[str],
    observed: ObservedShares,
    confidence: float,
) -> pd.DataFrame:
    """Add the columns of sensitivity, and with mediators those of total effects."""
    found = [empty_sensitivity()]
    totals = []
    for label, sample in samples.items():
        fit = sample.fit(is_jackknife=mediators is not None)
        found.append(
            sensitivity_rows(
                fit,
                effects[effects["model"] == label],
                node_ids=sample.node_ids,
                controls=controls,
                observed_share=observed.of_all,
                confidence=confidence,
            )
        )
        if mediators is not None:
            totals.append(total_effects(sample, fit, mediators, confidence=confidence).assign(model=label))
    effects = effects.join(pd.concat(found))
    if mediators is None:
        return effects
    if not totals:
        return effects.assign(**dict.fromkeys(MEDIATED, np.nan))
    return effects.merge(pd.concat(totals), on=["model", *_KEYS], how="left")


def _by_cell(
    effects: pd.DataFrame,
    samples: Mapping[str, HazardSample],
    credited: pd.DataFrame,
    cells: Cells,
    *,
    controls: list[str],
    observed: ObservedShares,
    confidence: float,
) -> pd.DataFrame:
    """Replace effects of all conversions by those of every cell."""
    parts = []
    for label in dict.fromkeys(effects["model"]):
        if label not in samples:
            field = "observed_share" if cells.by == [observed.column] else "by"
            raise InvalidRequest(
                f"{field}: no conversion lies within the observation of its user; allowed: paths with such "
                "conversions",
                field=field,
            )
        found = effects_by_cell(
            samples[label],
            cells,
            controls=controls,
            observed=observed,
            confidence=confidence,
        )
        found["model"] = pd.Series(label, index=found.index, dtype=TEXT)
        parts.append(found)
    rows = pd.concat(parts, ignore_index=True).merge(credited, on=["cell", *_KEYS], how="left")
    rows["credited"] = rows["credited"].fillna(0.0)
    rows["is_control"] = rows["node_id"].isin(controls)
    names = effects.drop_duplicates("node_id").set_index("node_id")["node_name"]
    rows["node_name"] = names.reindex(rows["node_id"]).array
    return rows


def _scaled(
    effects: pd.DataFrame, observed: ObservedShares, levels: list[tuple[str, str, str]], confidence: float
) -> pd.DataFrame:
    """Scale levels, and the credit of the conventional model, from observed to all users."""
    shares = observed.of_rows(effects)
    scaled = scale_levels(effects, shares, levels, confidence=confidence)
    return scaled.assign(credited=scaled["credited"] / shares[0])


def _added_up(
    effects: pd.DataFrame, by_segment: pd.DataFrame, observed: ObservedShares, confidence: float
) -> pd.DataFrame:
    """Replace levels by the sums of those of segments, each divided by its share of users observed."""
    scaled = _scaled(by_segment, observed, [("caused", "low", "high")], confidence)
    summed = sum_segments(scaled, ["model", *_KEYS])
    effects = effects.drop(columns=["credited", "caused", "low", "high"])
    effects = effects.merge(summed, on=["model", *_KEYS], how="left")
    place = effects["model"].map({label: place for place, label in enumerate(effects["model"].unique())})
    order = pd.DataFrame(
        {"place": place, "is_last": effects["node_id"].isna(), "size": -effects["caused"].round(9)}
    )
    return effects.loc[order.sort_values(list(order.columns), kind="stable").index]


def _tested(
    label: str,
    sample: HazardSample | None,
    effects: pd.DataFrame,
    controls: list[str],
    confidence: float,
) -> ControlsTest:
    """Judge a model by its controls, in all currencies together, and warn if it is confounded."""
    if not controls:
        return UNTESTED
    of_model = effects[effects["model"] == label]
    rows = of_model[of_model["node_id"].notna()]
    # The interval of most models is that of Student's t distribution; a normal one would be narrower.
    reach = float(student.ppf(0.5 + confidence / 2, GROUPS - 1))
    rows = rows.assign(variance=((rows["high"] - rows["caused"]) / reach) ** 2)
    summed = rows.groupby("node_id")[["caused", "variance"]].sum()
    others = summed[~summed.index.isin(controls)]
    credited = summed.reindex(controls)["caused"].to_numpy(dtype="float64")
    error = np.sqrt(summed.reindex(controls)["variance"].to_numpy(dtype="float64"))
    total, total_error = float(credited.sum()), float(np.sqrt((error**2).sum()))
    if sample is not None:
        # A frequent node absorbs what controls would show, such as the activity of users.
        by_fold = sample.credits_of_controls_alone(controls)
        credited, error = by_fold[0], jackknife_error(by_fold[1:])
        total, total_error = float(credited.sum()), float(jackknife_error(by_fold[1:].sum(axis=1)))
    rest = others["caused"].to_numpy(dtype="float64")
    test = judge_controls(
        credited,
        error,
        total,
        total_error,
        rest,
        np.sqrt(others["variance"].to_numpy(dtype="float64")),
        conversions=float(of_model["caused"].sum()),
        confidence=confidence,
    )
    if test.verdict == "confounded":
        warn_of_confounding(label, controls, credited, float(rest.sum()))
    return test


def _with_experiment(
    effects: pd.DataFrame,
    credits: pd.DataFrame,
    measured: pd.DataFrame,
    controls: Sequence[str],
    verdicts: Mapping[str, Verdict],
    rule_label: str,
    confidence: float,
) -> pd.DataFrame:
    combined = combine_with_experiment(
        credits, measured, controls=controls, verdicts=verdicts, scaled=[rule_label], confidence=confidence
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
    verdicts: Mapping[str, str],
    *,
    controls: Sequence[str],
    has_users: bool,
    has_experiment: bool,
    by: Sequence[str] | None,
    mediators: Mapping[str, Sequence[str]] | None,
) -> str:
    sentences = ["credited: conversions divided by convention, not an effect."]
    labels: dict[str, list[str]] = {}
    for label, model in models.items():
        labels.setdefault(_assumption(model), []).append(label)
    for assumption, several in labels.items():
        of_models = f" ({', '.join(several)})" if len(labels) > 1 else ""
        sentences.append(f"caused{of_models}: {assumption}")
    sentences.append("low and high measure sampling error, not bias.")
    if by is not None:
        sentences.append(
            f"Each cell of {', '.join(by)} has effects of its own, under the same assumption; the verdict is "
            "that on all conversions."
        )
    for node, through in (mediators or {}).items():
        sentences.append(
            f"total ({node}): the effect including touchpoints of {', '.join(through)} that {node} causes, "
            "provided that nothing unobserved drives any two of these, or one of them and conversions."
        )
    if not has_users:
        sentences.append(
            "The paths have no observation periods (Paths.from_frames(users=)): users count as observed from "
            "their first touchpoint to the last date, and "
            "conversions without an earlier touchpoint as baseline."
        )
    sentences += _evidence(models, verdicts, controls)
    if has_experiment:
        sentences.append(
            "experiment: the total effect, including what a node triggers in others, identified by "
            "randomisation alone. combined: the same effect, if a model that errs does so for all nodes "
            "alike, and if effects vary around a common mean."
        )
    else:
        sentences.append(
            "The total effect, including what a node triggers in others, is identified only by a randomised "
            "experiment (withheld=)."
        )
    return " ".join(sentences)


def _assumption(model: Model) -> str:  # noqa: ARG001
    return (
        "the direct effect, with all other touchpoints unchanged, provided that users who were reached and "
        "users who were not differ in nothing that affects conversion except what the model includes: "
        "earlier touchpoints, covariates of the user, and time."
    )


def _evidence(models: Mapping[str, Model], verdicts: Mapping[str, str], controls: Sequence[str]) -> list[str]:
    """Return sentences on the evidence that controls give for or against each model."""
    if not len(controls):
        return ["Without negative controls (controls=) there is no evidence for or against this assumption."]
    found = {
        verdict: [label for label in models if verdicts[label] == verdict]
        for verdict in ("confounded", "cannot tell", "clear")
    }
    sentences = []
    if found["confounded"]:
        sentences.append(
            f"The negative controls show that the assumption does not hold for "
            f"{', '.join(found['confounded'])}: treat its numbers as credit."
        )
    if found["cannot tell"]:
        sentences.append(
            f"The data are too few for the negative controls to tell about "
            f"{', '.join(found['cannot tell'])}: their share may be large, so its numbers are unconfirmed."
        )
    if found["clear"]:
        sentences.append(
            f"The negative controls earn a negligible share under {', '.join(found['clear'])}. "
            "This supports the assumption but does not prove it."
        )
    return sentences
