"""Estimate the effects of nodes from paths, and report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from attrib_ds.attribution import models
from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.credits.credits import attribute, check_conservation
from attrib_ds.attribution.credits.touches import credited_touches
from attrib_ds.attribution.engines.engine import total
from attrib_ds.attribution.experiments import combination, effects
from attrib_ds.attribution.experiments import verdict as judgement
from attrib_ds.attribution.experiments.segments import Cells, ObservedShare, ObservedShares, Segments
from attrib_ds.attribution.incremental.discrete_hazard import HazardFit, HazardSample, changed_exposure
from attrib_ds.attribution.incremental.mediation import lost_in_total
from attrib_ds.attribution.incremental.sensitivity import sensitivity_rows
from attrib_ds.attribution.intervals import GROUPS, Tally
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import (
    ConfoundingWarning,
    InvalidRequest,
    NotSupported,
    check_choice,
    check_number,
    warn,
)
from attrib_ds.records.frames import TEXT, Frame, to_pandas

_ALL_OBSERVED: Final = ObservedShares(None, {None: (1.0, 0.0)})
#: Distance of normal bounds at the usual level in standard errors.
_NORMAL: Final = float(norm.ppf(0.5 + effects.LEVEL / 2))
#: Columns of effects, which segments cannot have.
_TAKEN: Final = (
    "node_id", "node_name", "currency", "credited", "caused", "low", "high", "value", "value_low",
    "value_high",
)  # fmt: skip


def estimate_effects(
    paths: Paths,
    model: models.DiscreteHazard | str = "discrete_hazard",
    *,
    controls: Sequence[str] = (),
    covariates: Sequence[str] | None = None,
    conventional: models.Model | str = "linear",
) -> HazardEffects:
    """Estimate the conversions that would not have happened without each node.

    Parameters
    ----------
    paths : Paths
        Paths with dates and null paths, preferably with the observation period of every user
        (``Paths.from_frames(users=...)``). Without it, or if it lacks users without touchpoints, users count
        as observed from their first touchpoint to the last date, and conversions without an earlier
        touchpoint as baseline.
    model : DiscreteHazard or str, default "discrete_hazard"
        Model of effects, or its name.
    controls : sequence of str, optional
        Negative controls: nodes known to have no effect, such as organic and direct. If the model estimates
        effects for them, it is confounded, and a warning says so.
    covariates : sequence of str, optional
        Columns of the observed users to adjust for; by default those of the model, which are all.
    conventional : Model or str, default "linear"
        Model whose credit is reported for comparison, such as a rule.

    Returns
    -------
    HazardEffects
        What was estimated: ``.table()``, ``.verdict()``, ``.contrast(a, b)``, ``.sensitivity()``,
        ``.checkout()``, ``.by("month")``, ``.through(mediators)``, ``.scale(observed_share)``,
        ``.returns(spend)``, ``.exposure(change)``, ``.combine(experiment)``, ``.plot()`` and ``.identified``
        report it.

    Warns
    -----
    ConfoundingWarning
        If the verdict of the controls is ``"confounded"``, the touchpoints of nodes cluster in the 30
        minutes before conversions, or effects change if users' earlier conversions are adjusted for.
    TruncatedUsers
        If the table of observed users lacks those who were never touched.

    Raises
    ------
    InvalidRequest
        If the model does not estimate effects, a control is not a node of the paths, a covariate is not a
        column of the observed users, or the paths have no dates or no conversions.

    Notes
    -----
    The coefficients of the discrete hazard, and so the effects, are direct effects: the change of the
    conversion probability with all other touchpoints unchanged. If a node leads to touchpoints of another,
    such as display to brand searches, the conversions that these cause are effects of the other node. An
    experiment measures the total effect, which includes them; :meth:`HazardEffects.through` estimates it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=8_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.estimate_effects(paths, controls=["organic", "direct"])
    >>> table = effects.table().dropna(subset="node_id")
    >>> bool(table["credited"].sum() > 2 * table["caused"].sum())
    True
    >>> effects.verdict()["result"].tolist()
    ['cannot tell', 'passed', 'passed', 'not applicable']
    """
    require_paths(paths)
    hazard = models.model_named(model) if isinstance(model, str) else model
    if not isinstance(hazard, models.DiscreteHazard):
        raise InvalidRequest(
            f"model: {model!r} is not a model of effects; allowed: 'discrete_hazard' or DiscreteHazard() "
            "(pass a rule as conventional=)"
        )
    if covariates is not None:
        hazard = replace(
            hazard, covariates=tuple(models.check_strings("covariates", covariates, of="columns"))
        )
    rule = models.model_named(conventional) if isinstance(conventional, str) else conventional
    if not isinstance(rule, models.Model) or isinstance(rule, models.DiscreteHazard):
        raise InvalidRequest.value(
            "conventional", conventional, "a model that divides conversions, such as 'linear'"
        )
    # BLAS threads would mostly wait for each other, as the matrices are small.
    with effects.recorded() as messages, threadpool_limits(1, user_api="blas"):
        sequences = Sequences.of(paths, folds=GROUPS)
        controls = _checked_controls(controls, sequences.node_ids)
        sample = HazardSample.of(hazard, sequences, own=controls)
        fit = sample.fit(is_jackknife=True)
        tally = fit.credits()
        label = hazard.name
        sums = pd.DataFrame({"conversions": tally.conversions.ravel()})
        check_conservation(paths, {label: hazard}, {label: sums})
        node_ids = [*sequences.node_ids, None]
        credited = _Credited.of(paths, rule, sequences, tally.currencies)
        checkout = judgement.checkout_nodes(sequences)
        if sample.further is None:
            judgement.warn_of_checkout_nodes(checkout)
        estimated = HazardEffects(
            label,
            node_ids,
            paths.names(pd.Series(node_ids, dtype=TEXT)).tolist(),
            tally.currencies,
            tally.is_shown,
            controls,
            parts=(Part(tally, credited.sums),),
            sample=sample,
            fit=fit,
            segments=Segments.of(sequences),
            rule=credited,
            at_checkout=checkout,
            has_users=paths.observed is not None,
        )
        judged = estimated._judged(controls, effects.LEVEL, is_warning=True)
    return replace(estimated, judged=judged, warnings=tuple(messages))


@dataclass(frozen=True, eq=False)
class Part:
    """Effects on the users of one segment, or on all.

    Attributes
    ----------
    tally : Tally
        Conversions and value lost without each node, and those without each fold of users.
    credited : float array, shape (n_nodes + 1, n_currencies)
        Conversions credited by the rule.
    share : (float, float)
        Share of the segment's users who were observed, and its standard error.
    """

    tally: Tally
    credited: Numbers
    share: tuple[float, float] = (1.0, 0.0)

    def ranges(self, weights: Numbers, currency: int, measure: str, confidence: float) -> effects.Ranges:
        """Return weighted sums of effects with bounds, scaled to all users of the segment."""
        tally = self.tally
        amounts, without = (
            (tally.conversions, tally.without)
            if measure == "conversions"
            else (tally.value, tally.value_without)
        )
        left_out = np.stack([effects.weighted(weights, each[:, currency]) for each in without])
        half_width = _reach(confidence) * judgement.jackknife_error(left_out)
        found = effects.around(effects.weighted(weights, amounts[:, currency]), half_width)
        return effects.scaled(found, self.share, confidence=confidence)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HazardEffects(effects.Effects):
    """Effects that a discrete hazard estimates from paths, from :func:`attrib_ds.estimate_effects`."""

    parts: tuple[Part, ...]
    sample: HazardSample
    fit: HazardFit
    segments: Segments
    rule: _Credited
    at_checkout: pd.DataFrame
    has_users: bool
    judged: judgement.Judgement | None = None
    shares: ObservedShares = _ALL_OBSERVED

    def verdict(
        self, controls: Sequence[str] | None = None, *, confidence: float = effects.LEVEL
    ) -> pd.DataFrame:
        """Return the verdict on the model, and every test of it.

        Parameters
        ----------
        controls : sequence of str, optional
            Nodes known to have no effect; those given to :func:`attrib_ds.estimate_effects` by default.
        confidence : float, default 0.95
            Level of the bounds, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per test, controls first: ``verdict`` (str: ``"clear"``, ``"cannot tell"`` or
            ``"confounded"``, the same in all rows), ``test`` (str), ``result`` (str: ``"passed"``,
            ``"failed"``, ``"cannot tell"`` or ``"not applicable"``), ``share``, ``low``, ``high`` (float64,
            with bounds: credit of the controls, or change of the net effect without an adjustment for
            activity, relative to the sum of the sizes of the other nodes' effects; infinite if that may be
            zero, null for other tests), ``explanation`` (str, what was found) and ``settled_by`` (str, what
            would settle the question).

        Warns
        -----
        ConfoundingWarning
            If controls are given and the verdict is ``"confounded"``.

        Notes
        -----
        Controls fail if their credit exceeds a quarter of the net effect of the other nodes, a twentieth of
        their sizes, and sampling error at a significance level of 0.01: the verdict is ``"confounded"``.
        They pass if their credit is certainly less than a quarter of the net effect, in two one-sided tests
        at 10 %. Where the net effect without the adjustment for activity differs by at most a half, they also
        pass by that test without it; if they fail with it and pass without, the tests disagree. The verdict
        is ``"clear"`` if controls pass, the net effect is above zero at 1 %, no node clusters at the
        checkout, and users' earlier conversions hardly change the effects where many convert again; and
        otherwise ``"cannot tell"``, as without controls. The row on activity says how much the
        adjustment matters, and does not enter the verdict. ``"clear"`` does not prove a model right.
        """
        confidence = models.check_level("confidence", confidence)
        chosen = self._controls(controls)
        judged = self._judged(chosen, confidence, is_warning=controls is not None)
        checks = [*judged.checks, self._check_activity(chosen, confidence)]
        columns = ["test", "result", "share", "low", "high", "explanation", "settled_by"]
        rows = pd.DataFrame([asdict(check) for check in checks])[columns]
        rows.insert(0, "verdict", judged.verdict)
        texts = ["verdict", "test", "result", "explanation", "settled_by"]
        return rows.astype(dict.fromkeys(texts, TEXT))

    def sensitivity(
        self, controls: Sequence[str] | None = None, *, confidence: float = effects.LEVEL
    ) -> pd.DataFrame:
        """Return how strong an unobserved cause must be to explain the effect of each node away.

        Parameters
        ----------
        controls : sequence of str, optional
            Negative controls, which are benchmarks beside the covariates; those given to
            :func:`attrib_ds.estimate_effects` by default.
        confidence : float, default 0.95
            Level of the interval that is explained away, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per node and currency, in the order of :meth:`table`: ``node_id``, ``node_name``,
            ``currency`` (str), ``caused`` (float64), ``robustness_value`` (float64, the partial R2 with
            exposure and with conversions that explains the effect away), ``robustness_value_interval``
            (float64, the one with which the interval reaches zero, 0 if it contains zero), ``e_value``,
            ``e_value_interval`` (float64, the same as risk ratios), ``benchmark`` (str, the covariate or
            control of which the smallest multiple explains the effect away; null if there is none),
            ``benchmark_strength`` (float64, that multiple), ``benchmark_exposure``, ``benchmark_outcome``
            (float64, partial R2 of the benchmark).

        Notes
        -----
        Partial R2 refer to the regression of the hazard's linear predictor (iteratively reweighted least
        squares), one observation per user and period. Most of the outcome in a period is chance, so even
        strong causes explain little of it: compare with the benchmark, not with 1. A ``benchmark_strength``
        of 3 says that an unobserved cause three times as strong as the benchmark, in explaining exposure and
        conversions, would explain the effect away. This is an approximation: it neglects that an omitted
        cause changes the weights of the regression, and holds effects as a sum linear in the coefficients, at
        fixed weights of the conversions. It is accurate if conversions in a period are rare: in simulated
        worlds, the bias of a known cause that was left out and explained all of an effect was within 15 % of
        the one predicted. The E-value refers to the conversions after a touchpoint of the node, whose average
        hazard ratio stands for a risk ratio. With shares of observed users by segment, numbers are those of
        the observed users.

        References
        ----------
        Cinelli and Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of
        the Royal Statistical Society B 82(1), 39-67.

        VanderWeele and Ding (2017), Sensitivity analysis in observational research: introducing the E-value,
        Annals of Internal Medicine 167(4), 268-274.
        """
        self._require_conversions()
        self._require_periods("sensitivity to unobserved causes")
        table = self.table(confidence).dropna(subset="node_id", ignore_index=True)
        whole = replace(
            self, parts=(replace(self.parts[0], tally=self.fit.credits(), share=self._one_share),)
        )
        observed = whole.table(confidence).dropna(subset="node_id", ignore_index=True)
        observed[["caused", "low", "high"]] *= self._one_share[0]
        node_ids = self.sample.node_ids
        found = sensitivity_rows(self.fit, observed, node_ids=node_ids, controls=self._controls(controls))
        keys = ["node_id", "currency"]
        found = pd.concat([observed[keys], found], axis=1)
        return table[["node_id", "node_name", "currency", "caused"]].merge(found, on=keys, how="left")

    def checkout(self) -> pd.DataFrame:
        """Return nodes whose touchpoints cluster at the checkout, so that paths cannot tell their effect.

        Returns
        -------
        DataFrame
            One row per node, by id: ``node_id``, ``node_name`` (str), ``share`` (float64, share of the
            conversions within a week of a touchpoint of the node that come within 30 minutes of one; null if
            dates have no times of day) and ``is_at_checkout`` (bool, whether they cluster there).
        """
        nodes = pd.DataFrame(
            {"node_id": self.node_ids[:-1], "node_name": self.node_names[:-1]}, dtype=TEXT
        ).join(self.at_checkout, on="node_id")
        return nodes.assign(is_at_checkout=nodes["is_at_checkout"].eq(True))

    def exposure(self, change: float) -> ExposureEffects:
        """Return the effects of more or less exposure to each node, one at a time.

        What the next tenth of touchpoints brings is usually less than a tenth of the whole effect, because
        effects of frequent touchpoints saturate.

        Parameters
        ----------
        change : float
            Share of the touchpoints: 0.1 if each happens twice with a probability of 0.1, -0.1 if each is
            missing with that probability. Between -1 and 1, and not 0.

        Returns
        -------
        ExposureEffects
            ``.table()``, ``.contrast(a, b)``, ``.returns(spend)``, ``.scale(share)`` and ``.plot()`` as here:
            conversions and value gained, or lost if they are below 0. ``returns`` takes what the change
            costs, such as a tenth of the spend.

        Raises
        ------
        InvalidRequest
            If ``change`` is not allowed.
        NotSupported
            If effects are scaled by segment, or the model is of sessions.

        Notes
        -----
        It assumes that further touchpoints reach the users who were reached, and work like those before: data
        cannot tell what reaching others would bring.

        Examples
        --------
        >>> import attrib_ds as at
        >>> world = at.simulate("random", users=8_000, seed=1)
        >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        >>> effects = at.estimate_effects(paths)
        >>> whole, tenth = (each.table().set_index("node_id").loc["display", "caused"]
        ...     for each in (effects, effects.exposure(0.1)))
        >>> bool(0 < tenth < 0.1 * whole)
        True
        """
        change = check_number("change", change, "-1 to 1, and not 0", minimum=-1, maximum=1)
        if not change:
            raise InvalidRequest.value("change", change, "-1 to 1, and not 0")
        if self.shares.column is not None:
            raise NotSupported(f"{self.label}: effects of more or less exposure are not estimated by segment")
        if self.fit.further is not None:
            raise NotSupported(
                f"{self.label}: people convert in the sessions that touchpoints open, so more touchpoints "
                "would be more sessions; withhold some at random (plan_holdout, holdout_effects)"
            )
        with threadpool_limits(1, user_api="blas"):
            tally = changed_exposure(self.sample, self.fit, float(change))
        return ExposureEffects(
            f"{self.label}, {abs(change):.0%} {'more' if change > 0 else 'less'} exposure",
            self.node_ids,
            self.node_names,
            self.currencies,
            tally.is_shown,
            self.controls,
            self.warnings,
            self._one_share,
            part=Part(tally, np.zeros_like(tally.conversions)),
            of_model=self.identified,
        )

    def by(self, by: str | Sequence[str], *, confidence: float = effects.LEVEL) -> pd.DataFrame:
        """Estimate the effects by period or segment.

        Every cell has a regression of its own, so that effects may differ between cells: intervals are wider
        than those of the whole. In simulated worlds in which they do differ, intervals at 95 % contained the
        truth in 96 % of cases with 420 conversions per cell, and in 97 % with 5 to 100.

        Parameters
        ----------
        by : str or sequence of str
            Periods of the conversion (``"day"``, ``"week"``, ``"month"``, ``"quarter"``, ``"semester"`` or
            ``"year"``), a column of the observed users, such as ``"country"``, of up to 100 values, or both.
        confidence : float, default 0.95
            Level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per cell, node and currency, by cell: the columns named in ``by`` (periods as str,
            ``"2025-W06"``), with a period ``start`` (datetime64[us, UTC]), then the columns of
            :meth:`table`. ``credited`` adds up to that of the whole exactly, and ``caused`` within its
            intervals.

        Raises
        ------
        InvalidRequest
            If ``by`` is not allowed, or lacks the column of the shares of observed users.
        NotSupported
            If the conventional model credits nodes and not single conversions, such as Markov.

        Examples
        --------
        >>> import attrib_ds as at
        >>> world = at.simulate("random", users=2_000, seed=1)
        >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        >>> at.estimate_effects(paths).by("trait")["trait"].unique().tolist()
        [False, True]
        """
        confidence = models.check_level("confidence", confidence)
        cells = self.segments.cells(by, taken=_TAKEN)
        if self.shares.column is not None and self.shares.column not in cells.by:
            raise InvalidRequest(
                f"by: {cells.by!r} is not allowed for effects scaled by {self.shares.column!r}; allowed: "
                f"columns that include {self.shares.column!r}"
            )
        tables = [
            replace(self, parts=(part,), is_shown=part.tally.is_shown).table(confidence)
            for part in self._parts(cells)
        ]
        keys = cells.keys.take(
            np.repeat(np.arange(len(tables), dtype=np.int64), [len(each) for each in tables])
        )
        return pd.concat([keys.reset_index(drop=True), pd.concat(tables, ignore_index=True)], axis=1)

    def through(
        self, mediators: Mapping[str, Sequence[str]], *, confidence: float = effects.LEVEL
    ) -> pd.DataFrame:
        """Estimate the effect of nodes through touchpoints of others to which they lead, and in total.

        A discrete hazard of the mediator's touchpoints, with the same columns, gives the share of each that
        would not have happened without the node; ``total`` counts the conversions lost without the node and
        without these. This requires that nothing unobserved drives the node and its mediator, or the mediator
        and conversions. Totals of several nodes count the same conversions, so they do not add up.

        Parameters
        ----------
        mediators : mapping from str to sequence of str
            Nodes to whose touchpoints another node leads, as in ``{"display": ["brand_search"]}``.
        confidence : float, default 0.95
            Level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per node in ``mediators`` and currency: ``node_id``, ``node_name``, ``currency`` (str);
            ``direct``, ``direct_low``, ``direct_high`` (float64, ``caused`` of :meth:`table`), ``mediated``
            and ``total`` with their bounds alike (float64, conversions).

        Raises
        ------
        InvalidRequest
            If it is not a mapping from nodes to lists of other nodes.
        NotSupported
            If effects are scaled by segment.

        Examples
        --------
        >>> import attrib_ds as at
        >>> world = at.simulate("random", users=2_000, seed=1)
        >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        >>> row = at.estimate_effects(paths).through({"display": ["brand_search"]}).iloc[0]
        >>> bool(abs(row["direct"] + row["mediated"] - row["total"]) < 1e-6)
        True
        """
        confidence = models.check_level("confidence", confidence)
        if self.shares.column is not None:
            raise NotSupported(f"{self.label}: effects through mediators are not estimated by segment")
        self._require_periods("effects through mediators")
        of_nodes = self._mediators(mediators)
        with threadpool_limits(1, user_api="blas"):
            in_total = lost_in_total(self.sample, self.fit, of_nodes)
        direct, histories = self.fit.lost(), self.sample.histories
        fold = histories.fold[histories.event_user]
        rows = []
        for code, lost in in_total.items():
            own = [each[:, code] for each in direct]
            through = [whole - part for whole, part in zip(lost, own, strict=True)]
            for place, currency in enumerate(self.currencies):
                amount = histories.conversions * (histories.event_currency == place)
                row: dict[str, Any] = {
                    "node_id": self.node_ids[code],
                    "node_name": self.node_names[code],
                    "currency": currency,
                }
                for name, shares in (("direct", own), ("mediated", through), ("total", lost)):
                    # The first sample is all users; sample n leaves out fold n - 1.
                    sums = np.array([(amount * each)[fold != n - 1].sum() for n, each in enumerate(shares)])
                    found = effects.around(sums[:1], _reach(confidence) * judgement.jackknife_error(sums[1:]))
                    bounds = effects.scaled(found, self._one_share, confidence=confidence)
                    names = (name, f"{name}_low", f"{name}_high")
                    row |= {each: float(bound[0]) for each, bound in zip(names, bounds, strict=True)}
                rows.append(row)
        return pd.DataFrame(rows).astype(dict.fromkeys(["node_id", "node_name", "currency"], TEXT))

    def scale(self, observed_share: ObservedShare) -> HazardEffects:
        """Return the effects on all users, of whom only a share was observed.

        Parameters
        ----------
        observed_share : float, (float, float) or mapping
            Share of all users who were observed, above 0 and at most 1, for example of those who consented;
            or the share and its standard error, which widens intervals. By segment, it names a column of the
            observed users and the share of each of its values, as in
            ``{"country": {"FR": (0.6, 0.01), "US": 0.9}}``: effects are estimated in each segment, divided by
            its share and added up, with errors of the shares that are independent of each other.

        Returns
        -------
        HazardEffects
            The same with numbers of conversions, values and credit divided by the share. Verdict and
            sensitivity stay those of the observed users.

        Raises
        ------
        InvalidRequest
            If a share is not allowed, or a segment of the users has none.

        Notes
        -----
        A share is right if users are missing completely at random, touchpoints and conversions alike: then
        those who were observed stand for all. It is wrong if those who refuse consent buy or are reached more
        or less often than the others, if the conversions of unobserved users are in the paths, or if only
        touchpoints are missing; scaling cannot fix these. Shares by segment are right under a weaker
        condition: users are missing at random within each segment. Each segment needs conversions of its own,
        and intervals are wider than with one share.
        """
        if self.shares.column is not None or self._one_share != (1.0, 0.0):
            raise NotSupported(f"{self.label}: the effects are scaled already; scale the original ones")
        shares = ObservedShares.read(observed_share)
        if shares.column is None:
            part = replace(self.parts[0], share=shares.of_segment(None))
            return replace(self, parts=(part,), shares=shares)
        shares.check_segments(self.segments)
        scaled_by = replace(self, shares=shares)
        return replace(scaled_by, parts=tuple(scaled_by._parts(self.segments.cells(shares.column))))

    def combine(
        self, experiment: effects.Effects | Frame, *, controls: Sequence[str] | None = None
    ) -> combination.CombinedEffects:
        """Return the effects combined with those of an experiment.

        An experiment is unbiased but imprecise; a model is precise but may be biased, and the experiment
        shows whether it is. What the experiment rules out at 99 % stays ruled out, above all a wrong sign. A
        model that agrees with the experiment is kept almost unchanged. A significant
        disagreement about one node costs it its vote for all: then the experiment decides, drawn towards the
        common mean of the nodes as far as its noise suggests; or, if the controls have shown that the model's
        level is wrong, towards its proportions, as far as they explain the experiment better. The proportions
        of the conventional model have a small vote too.

        Parameters
        ----------
        experiment : Effects or DataFrame
            From :func:`attrib_ds.experiments.holdout_effects`; or the effects of another experiment on the
            same users and period: ``node_id``, ``caused``, ``error`` (standard error, above 0) and, with
            several currencies, ``currency``.
        controls : sequence of str, optional
            Nodes known to have no effect; those given to :func:`attrib_ds.estimate_effects` by default. The
            verdict on the model is its prior, and controls keep their effect of 0.

        Returns
        -------
        CombinedEffects
            ``.table()``, with the experiment alone in its first columns, ``.contrast(a, b)``,
            ``.scale(share)``, ``.returns(spend)`` and ``.plot()`` as here; ``.evidence()`` says how much the
            model, the rule and the experiment contradict each other, and who has a vote. Value is combined
            too if the experiment is of :func:`attrib_ds.experiments.holdout_effects`.

        Raises
        ------
        InvalidRequest
            If the experiment has a column or a number that is not allowed, or none of the nodes.
        NotSupported
            If the effects are scaled: combine before scaling.
        """
        if self.shares.column is not None or self._one_share != (1.0, 0.0):
            raise NotSupported(f"{self.label}: an experiment is on observed users; combine first, then scale")
        chosen = self._controls(controls)
        verdict = self._judged(chosen, effects.LEVEL).verdict
        is_node = self.is_shown[:-1]
        mixtures: dict[str, list[combination.Mixture | None]] = {measure: [] for measure in self.measures}
        frames = []
        measured = {
            measure: combination.measurements(
                experiment, self.sample.node_ids, self.currencies, measure=measure
            )
            for measure in mixtures
        }
        for place, currency in enumerate(self.currencies):
            shown = np.flatnonzero(is_node[:, place])
            node_ids = [self.sample.node_ids[node] for node in shown]
            is_estimated = np.isin(np.arange(len(self.node_ids), dtype=np.int64), shown)
            for measure, found in mixtures.items():
                sources = self._sources(shown, place, measure, verdict)
                of_shown = measured[measure][place].at(shown)
                if (
                    measure == "value"
                    and not np.isfinite([of_shown.effect, sources[self.label].effect]).any(1).all()
                ):
                    found.append(None)
                    continue
                mixture, facts = combination.combine_sources(sources, of_shown, np.isin(node_ids, chosen))
                found.append(mixture.among(is_estimated))
                if measure == "value":
                    continue
                keys = pd.DataFrame(
                    {"node_id": node_ids, "node_name": [self.node_names[node] for node in shown]}
                )
                keys["currency"] = currency
                frames.append(keys.join(facts).assign(order=lambda rows: rows["model"] != self.label))
        evidence = pd.concat(frames, ignore_index=True).sort_values("order", kind="stable", ignore_index=True)
        first = ["model", "node_id", "node_name", "currency"]
        evidence = evidence[[*first, *evidence.columns.difference([*first, "order"], sort=False)]]
        return combination.CombinedEffects(
            f"{self.label} and experiment",
            self.node_ids,
            self.node_names,
            self.currencies,
            is_node,
            chosen,
            self.warnings,
            mixtures=mixtures,
            experiment=measured["conversions"],
            sources=evidence.astype(dict.fromkeys(first, TEXT)),
            model=self,
        )

    def _sources(self, shown: Codes, place: int, measure: str, verdict: str) -> dict[str, combination.Source]:
        """Return the estimates of the model and the proportions of the rule, for some nodes in a currency."""
        weights = np.eye(len(self.node_ids))[shown]
        effect, _, high = self._ranges(weights, place, measure, effects.LEVEL)
        rule, error = self.rule.sums[shown, place], self.rule.error[shown, place]
        if measure == "value":
            # Only its proportions count, at the order of magnitude of the model.
            unit = np.abs(effect).sum() / max(float(np.abs(rule).sum()), np.finfo(float).tiny)
            rule, error = rule * unit, error * unit
        return {
            self.label: combination.Source(effect, (high - effect) / _NORMAL, verdict),
            self.rule.label: combination.Source(rule, error, None),
        }

    @property
    def identified(self) -> str:
        """What is identified, under which assumptions, and what is not."""
        sentences = [
            "credited: conversions divided by convention, not an effect.",
            "caused: the direct effect, with all other touchpoints unchanged. It assumes that the model "
            "includes every difference between reached and unreached users that affects conversion: earlier "
            "touchpoints, how active the user is, covariates of the user, and time.",
            self._time_scale,
            "low and high measure sampling error, not bias.",
        ]
        if not self.has_users:
            sentences.append(
                "The paths have no observation periods (Paths.from_frames(users=)): users count as observed "
                "from their first touchpoint to the last date, and conversions without an earlier touchpoint "
                "as baseline."
            )
        sentences.append(_explanation(self.label, self._verdict, self.controls))
        sentences.append(
            "The total effect, including what a node triggers in others, is identified only by a randomised "
            "experiment (experiments.holdout_effects)."
        )
        return " ".join(sentences)

    @property
    def _time_scale(self) -> str:
        """In what people convert, and why the model takes it so."""
        share = f"{self.sample.in_sessions:.0%} of the conversions come within 30 minutes of a touchpoint"
        if self.sample.further is None:
            return f"Time scale: periods of {self.sample.model.step} ({share})."
        return (
            f"Time scale: sessions ({share}). Without a node, the sessions that it opened are lost, unless "
            "another node would have opened one in the same period. Sessions of controls would come anyway."
        )

    @property
    def _one_share(self) -> tuple[float, float]:
        """Share of all users, and its standard error; 1 and 0 if shares differ by segment."""
        return (1.0, 0.0) if self.shares.column is not None else self.shares.of_segment(None)

    def _facts(self) -> dict[str, str]:
        scale = "periods" if self.sample.further is None else "sessions"
        facts: dict[str, str] = {"verdict": self._verdict, "time scale": scale}
        if self._one_share[0] != 1 or self.shares.column:
            facts["observed share"] = self.shares.column or f"{self._one_share[0]:g}"
        return facts | super()._facts()

    def _drawn(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        at_checkout = self.at_checkout.index[self.at_checkout["is_at_checkout"]].tolist()
        line = f"verdict: {self._verdict}" if self.controls else ""
        if self.judged and np.isfinite(self.judged.checks[0].share):
            test = self.judged.checks[0]
            bounds = f" [{100 * test.low:,.0f} to {100 * test.high:,.0f}]" if np.isfinite(test.low) else ""
            line += f"; controls earn {100 * test.share:,.0f} %{bounds} of the other nodes' effects"
        return self.table().assign(result=self.label), {"at_checkout": at_checkout, "note": line}

    def _credited(self, currency: int) -> Numbers:
        return np.asarray(sum(part.credited[:, currency] / part.share[0] for part in self.parts))

    def _ranges(self, weights: Numbers, currency: int, measure: str, confidence: float) -> effects.Ranges:
        found = [part.ranges(weights, currency, measure, confidence) for part in self.parts]
        estimate = np.sum([each for each, _, _ in found], axis=0)
        # The errors of segments are independent.
        below = np.sqrt(np.sum([(each - low) ** 2 for each, low, _ in found], axis=0))
        above = np.sqrt(np.sum([(high - each) ** 2 for each, _, high in found], axis=0))
        return estimate, estimate - below, estimate + above

    def _parts(self, cells: Cells) -> list[Part]:
        """Estimate the effects in every cell from the cell's own person-periods.

        A regression of all cells with the same coefficients would divide the whole effect by exposure, and
        its intervals would not contain effects that differ.
        """
        self._require_conversions()
        column = self.shares.column
        segments = cells.keys[column].tolist() if column in cells.by else [None] * len(cells.keys)
        of_period = cells.of_periods(self.sample)
        parts = []
        with threadpool_limits(1, user_api="blas"):
            for cell, segment in enumerate(segments):
                events = np.flatnonzero(cells.of_event == cell)
                fit = self.sample.part(of_period == cell, events).fit(is_jackknife=True)
                share = self.shares.of_segment(segment)
                parts.append(Part(fit.credits(), self.rule.of_events(cells.of_event == cell), share))
        return parts

    @property
    def _verdict(self) -> judgement.Verdict:
        return self.judged.verdict if self.judged else "cannot tell"

    def _judged(
        self, controls: Sequence[str], confidence: float, *, is_warning: bool = False
    ) -> judgement.Judgement:
        """Judge the model, in all currencies together, and warn if it is confounded."""
        credits, is_control = self._by_fold(self.fit), self._is_control(controls)
        of_controls = judgement.check_controls(credits, is_control, controls, confidence=confidence)
        if of_controls.result in ("failed", "cannot tell"):
            unadjusted = self._by_fold(self._unadjusted)
            of_controls = judgement.reconsidered(of_controls, credits, unadjusted, is_control)
        of_paid, further = credits[:, ~is_control], self.sample.further
        net, in_sessions = of_paid.sum(axis=1), further is not None
        checks = [
            of_controls,
            judgement.check_effects(net),
            judgement.check_checkout(self.at_checkout, controls, in_sessions=in_sessions),
        ]
        if further is not None:
            credits = self._by_fold(replace(self.fit, further=further.anyway()))
            anyway = credits[:, ~is_control].sum(axis=1)
            checks.append(judgement.check_sessions(net, anyway, confidence=confidence))
        converted = self.sample.histories.event_user
        # With fewer who convert again, earlier conversions cannot matter.
        again = len(converted) - len(np.unique(converted))
        if again > judgement.NEGLIGIBLE_SHARE * np.abs(of_paid[0]).sum():
            adjusted = self._by_fold(self._after_conversions)[:, ~is_control]
            names = [str(node) for node in np.array(self.sample.node_ids)[~is_control]]
            checks.append(judgement.check_earlier_conversions(of_paid, adjusted, names))
            if is_warning and checks[-1].result == "failed":
                warn(f"{self.label}: {checks[-1].explanation}", ConfoundingWarning)
        judged = judgement.judge(checks)
        if is_warning and judged.verdict == "confounded":
            judgement.warn_of_confounding(self.label, of_controls)
        return judged

    def _check_activity(self, controls: Sequence[str], confidence: float) -> judgement.Check:
        """Compare the net effect with that of a model in which all users are equally active."""
        is_other = ~self._is_control(controls)
        nets = [self._by_fold(fit)[:, is_other].sum(axis=1) for fit in (self.fit, self._unadjusted)]
        return judgement.check_activity(*nets, confidence=confidence)

    @cached_property
    def _unadjusted(self) -> HazardFit:
        """The model in which all users are equally active."""
        if not self.sample.design.plain[:, -1].any():
            return self.fit
        with threadpool_limits(1, user_api="blas"):
            return self.sample.without_activity().fit(is_jackknife=True)

    @cached_property
    def _after_conversions(self) -> HazardFit:
        """The model that knows the earlier conversions of users."""
        with threadpool_limits(1, user_api="blas"):
            return self.sample.after_conversions().fit(is_jackknife=True)

    def _by_fold(self, fit: HazardFit) -> Numbers:
        """Return the credits of nodes: of all users, then without each fold."""
        tally = fit.credits()
        return np.stack([each[:-1].sum(axis=1) for each in (tally.conversions, *tally.without)])

    def _is_control(self, controls: Sequence[str]) -> Flags:
        return np.isin(self.sample.node_ids, list(controls))

    def _controls(self, given: Sequence[str] | None) -> tuple[str, ...]:
        return self.controls if given is None else _checked_controls(given, self.sample.node_ids)

    def _mediators(self, mediators: Any) -> dict[int, list[int]]:
        """Return the codes of the mediators of each node."""
        is_mapping = isinstance(mediators, Mapping) and all(
            isinstance(several, Sequence) and not isinstance(several, str) and len(several)
            for several in mediators.values()
        )
        if not is_mapping or not mediators:
            raise InvalidRequest(
                f"mediators: {mediators!r} is not allowed; allowed: a mapping from nodes to lists of nodes, "
                "as in {'display': ['brand_search']}"
            )
        for node, several in mediators.items():
            if node in several:
                raise InvalidRequest(
                    f"mediators: {node!r} is not allowed as its own mediator; allowed: other nodes"
                )
        return {
            self._node("mediators", node): [self._node("mediators", each) for each in dict.fromkeys(several)]
            for node, several in mediators.items()
        }

    def _require_periods(self, what: str) -> None:
        if self.sample.further is not None:
            raise NotSupported(
                f"{self.label}: {what} are not estimated where people convert in sessions; effects include "
                "the sessions that a node leads to (or estimate with DiscreteHazard(scale='periods'))"
            )

    def _require_conversions(self) -> None:
        if not len(self.sample.histories.event_user):
            raise NotSupported(f"{self.label}: no conversion lies within the observation period of its user")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ExposureEffects(effects.Effects):
    """Effects of more or less exposure, from :meth:`HazardEffects.exposure`."""

    part: Part
    of_model: str

    verdict = sensitivity = checkout = effects.unavailable("ask the effects of the model")
    by = through = combine = exposure = effects.unavailable("ask the effects of the model")

    @property
    def identified(self) -> str:
        """What is identified, under which assumptions, and what is not."""
        return f"Touchpoints are added to users who were reached, or taken from them. {self.of_model}"

    def _observed_ranges(
        self, weights: Numbers, currency: int, measure: str, confidence: float
    ) -> effects.Ranges:
        return self.part.ranges(weights, currency, measure, confidence)


@dataclass(frozen=True, eq=False)
class _Credited:
    """Conversions that the conventional model credits.

    Attributes
    ----------
    label : str
        Name of the model.
    sums, error : float array, shape (n_nodes + 1, n_currencies)
        Credited conversions, and their standard errors.
    by_event : (int array, int array, int array, float array), optional
        Conversion, node, currency and credit; None for a model that credits nodes, not conversions.
    """

    label: str
    sums: Numbers
    error: Numbers
    by_event: tuple[Codes, ...] | None

    @classmethod
    def of(
        cls, paths: Paths, rule: models.Model, sequences: Sequences, currencies: list[str | None]
    ) -> _Credited:
        """Credit the conversions of paths."""
        shape = (len(sequences.node_ids) + 1, len(currencies))
        # Spend would add nodes and give counts its currency.
        credits = attribute(replace(paths, spend=None), {rule.name: rule}, confidence=effects.LEVEL)
        place = _place(credits, sequences.node_ids, currencies)
        sums, error = np.zeros(shape), np.zeros(shape)
        sums[place] = credits["conversions"]
        error[place] = (credits["high"] - credits["conversions"]) / _NORMAL
        if isinstance(rule, models.PathModel):
            return cls(rule.name, sums, error, None)
        touches = credited_touches(paths, rule, sequences)
        by_event = touches.group_by("event_id", "node_id", "currency").agg(
            credited=total(touches.weight * touches.conversions)
        )
        rows = to_pandas(by_event.order_by("event_id", "node_id", "currency").to_pyarrow())
        event, _ = pd.factorize(rows["event_id"])
        codes = _place(rows, sequences.node_ids, currencies)
        return cls(rule.name, sums, error, (event.astype(np.int64), *codes, rows["credited"].to_numpy()))

    def of_events(self, which: Flags) -> Numbers:
        """Return the credit of some conversions, by node and currency."""
        if self.by_event is None:
            raise NotSupported(
                f"{self.label} credits nodes, not conversions, so it has no credit by period or segment; "
                "estimate with a rule as conventional="
            )
        event, node, currency, credited = self.by_event
        sums = np.zeros_like(self.sums)
        kept = which[event]
        np.add.at(sums, (node[kept], currency[kept]), credited[kept])
        return sums


def _place(rows: pd.DataFrame, node_ids: Sequence[str], currencies: list[str | None]) -> tuple[Codes, Codes]:
    """Return the positions of the node, the baseline after the last, and of the currency of rows."""
    node = pd.Index(node_ids, dtype=TEXT).get_indexer(pd.Index(rows["node_id"]))
    given = rows["currency"].astype("object").where(rows["currency"].notna(), None)
    currency = np.array([currencies.index(each) for each in given], np.int64)
    return np.where(rows["node_id"].isna(), len(node_ids), node), currency


def _reach(confidence: float) -> float:
    """Return the distance of jackknife bounds in standard errors."""
    return float(student.ppf(0.5 + confidence / 2, GROUPS - 1))


def _checked_controls(controls: Any, node_ids: Sequence[str]) -> tuple[str, ...]:
    if isinstance(controls, str) or controls is None:
        raise InvalidRequest.value("controls", controls, f"a list, as in [{controls or 'direct'!r}]")
    for node in controls:
        check_choice("controls", node, node_ids)
    return tuple(dict.fromkeys(controls))


def _explanation(label: str, verdict: judgement.Verdict, controls: Sequence[str]) -> str:
    """Return the evidence for or against a model, in words."""
    if not controls:
        return "Without negative controls (controls=) there is no evidence for or against this assumption."
    return {
        "confounded": f"The negative controls show that the assumption does not hold for {label}: treat its "
        "numbers as credit.",
        "cannot tell": f"The tests do not settle whether it holds for {label} (verdict() names them), so its "
        "numbers are unconfirmed.",
        "clear": f"The negative controls earn a negligible share under {label}. This supports the assumption "
        "but does not prove it.",
    }[verdict]
