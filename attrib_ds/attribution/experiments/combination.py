"""Combine a model's effects with those of an experiment, by Bayesian model averaging.

A model of effects is about right, or has no vote: then effects vary around a common mean, whatever it says,
or around its proportions if its controls have shown that its level is wrong. What the experiment rules out
stays ruled out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

from attrib_ds.attribution.arrays import Flags, Numbers
from attrib_ds.attribution.experiments import effects
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, Frame, read_frame

#: Errors of a model that is about right, relative to its mean effect; their prior is half-Cauchy.
_ERRORS: Final = 0.8 * 2.0 ** np.arange(-5.0, 1.0)
_HALF_CAUCHY: Final = 0.05
#: Relative errors of a model without a vote, and of proportions; one is as likely as another.
_WIDE: Final = np.array([0.8, 1.6, 3.2])
#: Relative errors of the proportions of a model that is confounded; one is as likely as another.
CONFOUNDED: Final = np.array([0.4, 0.8, 1.6])
#: Relative spreads of effects around their common mean; one is as likely as another.
_SPREADS: Final = np.array([0.4, 0.8, 1.6, 3.2])
#: Factors between a model's level and the true one, of either sign: about one in six is outside 1/3 to 3 in
#: size under the prior.
_SIZES: Final = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
_FACTORS: Final = np.concatenate([_SIZES, -_SIZES])
#: Prior probability of each factor: of a model, whose signs are rather right than wrong, and of a common
#: mean, of which nothing is known.
_LEVEL, _EITHER_SIGN = (
    np.concatenate([share * size, (1 - share) * size])
    for size in [norm.pdf(np.log(_SIZES)) / norm.pdf(np.log(_SIZES)).sum()]
    for share in (0.9, 0.5)
)
#: Prior probability that a model of effects that is about right needs no factor.
_NO_FACTOR: Final = 0.9
#: The mean effect without a model is sought up to this multiple of the model's.
_REACH: Final = 10.0
#: Hypotheses with a lower posterior probability are dropped.
_NEGLIGIBLE: Final = 1e-8
#: Least standard deviation: that of a model that credits nothing at all.
_TINY: Final = float(np.sqrt(np.finfo(float).tiny))
#: Prior odds that a model of effects is about right, by verdict. They lean towards the model: a wrong one is
#: found out by a precise experiment, and beside an imprecise one it costs little to keep.
_ODDS: Final[dict[str, float]] = {"clear": 39.0, "cannot tell": 3.0, "confounded": 0.25}
#: Values outside the experiment's interval at this level are ruled out.
_RULED_OUT: Final = 0.99
#: Posterior probability from which on a model may exclude an effect of 0 that the experiment does not.
_TRUSTED: Final = 0.95
#: Prior odds of a model of which only the proportions are meaningful.
_PROPORTIONS: Final = 0.1


@dataclass(frozen=True, eq=False)
class Mixture:
    """Posterior of the effects of nodes: a mixture of normal distributions, independent given a hypothesis.

    Attributes
    ----------
    weight : float array, shape (n_hypotheses,)
        Posterior probability of each hypothesis.
    mean, spread : float array, shape (n_hypotheses, n_nodes)
        Mean and standard deviation of each node's effect.
    measured : Measurement
        The experiment, which limits the effects.
    is_trusted : bool
        Whether a model of effects may exclude an effect of 0 that the experiment does not exclude.
    """

    weight: Numbers
    mean: Numbers
    spread: Numbers
    measured: Measurement
    is_trusted: bool = True

    @classmethod
    def of(
        cls,
        alternatives: Sequence[Hypotheses],
        shares: Sequence[float] | Numbers,
        measured: Measurement,
        *,
        is_trusted: bool = True,
    ) -> Mixture:
        """Average over alternatives and the hypotheses about their errors, by posterior probability.

        Parameters
        ----------
        alternatives : sequence of Hypotheses
            One or more models, or none.
        shares : sequence of float
            Posterior probability of each; they sum to 1.
        measured : Measurement
            The experiment.
        is_trusted : bool, default True
            Whether a model of effects may exclude an effect of 0 that the experiment does not exclude.
        """
        weight = np.concatenate(
            [
                share * np.exp(found.weight - found.evidence)
                for found, share in zip(alternatives, shares, strict=True)
            ]
        )
        kept = weight > _NEGLIGIBLE
        mean, spread = (
            np.concatenate([getattr(found, name) for found in alternatives])[kept]
            for name in ("mean", "spread")
        )
        return cls(weight[kept] / weight[kept].sum(), mean, spread, measured, is_trusted)

    def among(self, is_estimated: Flags) -> Mixture:
        """Return the posterior of nodes of which only some are estimated; the others have no effect."""
        mean, spread = (np.zeros((len(self.weight), len(is_estimated))) for _ in range(2))
        mean[:, is_estimated], spread[:, is_estimated] = self.mean, self.spread
        known = np.zeros((2, len(is_estimated)))
        known[:, is_estimated] = self.measured.effect, self.measured.error
        return replace(self, mean=mean, spread=spread, measured=Measurement(*known))

    def ranges(self, weights: Numbers, confidence: float) -> effects.Ranges:
        """Return weighted sums of effects with intervals; one row of ``weights`` per sum.

        The posterior is conditional on each sum being within the experiment's interval at 99 %, or at
        ``confidence`` if that is higher.
        """
        mean = weights @ self.mean.T
        spread = np.sqrt(weights**2 @ (self.spread**2).T)
        is_known = ~spread.any(axis=1)
        spread = np.maximum(spread, _TINY)
        effect = effects.weighted(weights, self.measured.effect)
        error = np.sqrt(effects.weighted(weights**2, self.measured.error**2))
        # Of single nodes, so that a difference is that of the effects.
        alone = np.maximum(self.spread.T, _TINY), self.measured.effect, self.measured.error
        levels, *_ = self._within(self.mean.T, *alone, _RULED_OUT, 0.0)
        _, low, high = self._within(mean, spread, effect, error, max(_RULED_OUT, confidence), confidence)
        # A sum with a node without an experiment is not measured.
        may_be_0 = ~(np.abs(effect) > norm.ppf(0.5 + confidence / 2) * error) & (not self.is_trusted)
        low, high = (
            np.where(may_be_0, nearer(bound, 0.0), bound)
            for nearer, bound in ((np.minimum, low), (np.maximum, high))
        )
        level = np.where(is_known, mean[:, 0], np.clip(weights @ levels, low, high))
        return level, np.where(is_known, level, low), np.where(is_known, level, high)

    def _within(
        self, mean: Numbers, spread: Numbers, effect: Numbers, error: Numbers, limit: float, confidence: float
    ) -> effects.Ranges:
        """Return means and quantiles of mixtures of normal distributions, truncated to an interval."""
        reach = norm.ppf(0.5 + limit / 2) * error
        least = np.where(np.isfinite(effect), effect - reach, -np.inf)
        most = np.where(np.isfinite(effect), effect + reach, np.inf)
        first, last = ((bound[:, None] - mean) / spread for bound in (least, most))
        mass = ndtr(last) - ndtr(first)
        inside, before = mass @ self.weight, ndtr(first) @ self.weight
        lift = np.divide(norm.pdf(first) - norm.pdf(last), mass, out=np.zeros_like(mass), where=mass > 1e-12)
        centre = np.clip(mean + spread * lift, least[:, None], most[:, None])
        level = np.divide((mass * centre) @ self.weight, inside, out=effect.copy(), where=inside > 1e-12)
        bounds = []
        for side in (-1, 1):
            below = np.maximum((mean - 9 * spread).min(axis=1), least)
            above = np.minimum((mean + 9 * spread).max(axis=1), most)
            wanted = before + inside * (0.5 + side * confidence / 2)
            for _ in range(60):
                middle = (below + above) / 2
                is_low = ndtr((middle[:, None] - mean) / spread) @ self.weight < wanted
                below, above = np.where(is_low, middle, below), np.where(is_low, above, middle)
            # Without any posterior inside, the experiment stands alone.
            alone = effect + side * norm.ppf(0.5 + confidence / 2) * error
            bounds.append(np.where(inside > 1e-12, (below + above) / 2, alone))
        return level, bounds[0], bounds[1]


def posterior_shares(alternatives: Sequence[Hypotheses], odds: Sequence[float]) -> Numbers:
    """Return the posterior probabilities of alternatives with the given prior odds."""
    weight = np.log(np.asarray(odds)) + [found.evidence for found in alternatives]
    return np.asarray(np.exp(weight - logsumexp(weight)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CombinedEffects(effects.Effects):
    """Effects of a model combined with those of an experiment, from :meth:`HazardEffects.combine`."""

    model: effects.Effects
    #: Posteriors of conversions and of value, by currency; None for a value that is not measured.
    mixtures: Mapping[str, Sequence[Mixture | None]]
    sources: pd.DataFrame
    #: What the experiment measured, by currency.
    experiment: Sequence[Measurement]

    verdict = effects.unavailable("the verdict is on the model: ask its own effects")
    exposure = effects.unavailable("ask the effects of the model")
    sensitivity = effects.unavailable("only the model has a sensitivity; call it on the model's effects")
    checkout = effects.unavailable("ask the effects of the model")
    by = effects.unavailable("an experiment is combined with the effects of all conversions")
    through = effects.unavailable(
        "an experiment measures the total effect, touchpoints of mediators included"
    )
    combine = effects.unavailable("it is combined with an experiment already")

    @property
    def identified(self) -> str:
        """What is identified, under which assumptions, and what is not."""
        return (
            f"{self.model.identified} Combined: the total effect, identified by the experiment and, within "
            "its noise, if a model that errs does so for all nodes alike and effects vary around a common "
            "mean. What the experiment rules out at 99 % stays ruled out."
        )

    def table(self, confidence: float = effects.LEVEL) -> pd.DataFrame:
        """Return the effect of each node: as the experiment measured it, then combined with the model.

        Parameters
        ----------
        confidence : float, default 0.95
            Level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            The columns of :meth:`Effects.table`, with ``measured``, ``measured_low`` and ``measured_high``
            (float64, conversions by the experiment alone; null without one) before the numbers.
        """
        rows = super().table(confidence)
        frames = []
        for currency, alone in zip(self.currencies, self.experiment, strict=True):
            found = effects.around(alone.effect, float(norm.ppf(0.5 + confidence / 2)) * alone.error)
            names = ["measured", "measured_low", "measured_high"]
            bounds = effects.scaled(found, self.observed_share, confidence=confidence)
            frame = pd.DataFrame(dict(zip(names, bounds, strict=True)))
            frames.append(frame.assign(node_id=pd.array(self.node_ids[:-1], dtype=TEXT), currency=currency))
        keys = ["node_id", "currency"]
        measured = pd.concat(frames).astype(dict.fromkeys(keys, TEXT))
        measured = rows[keys].merge(measured, on=keys, how="left")
        for place, name in enumerate(measured.columns.drop(keys)):
            rows.insert(3 + place, name, measured[name])
        return rows

    def evidence(self) -> pd.DataFrame:
        """Return what the model, the proportions of the rule and the experiment say about each node.

        Returns
        -------
        DataFrame
            One row per source, node and currency: ``model``, ``node_id``, ``node_name``, ``currency`` (str);
            ``modelled``, ``modelled_error``, ``experiment``, ``experiment_error`` (float64, conversions among
            the observed users and their standard errors; null without an experiment); ``disagreement``
            (float64, distance between the model, at its level, and the experiment in standard errors; above
            about 2 they contradict each other); ``factor`` (float64, factor between the level of the model
            and the true one, if the model is right otherwise) and ``weight`` (float64, posterior probability
            that the model is about right; what the weights lack to 1 is the probability that none has a
            vote).
        """
        return self.sources.copy()

    def _drawn(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        rows, marks = self.model._drawn()
        table = self.table().drop(columns="credited")
        numbers = ["caused", "low", "high"]
        alone = table.drop(columns=numbers).rename(
            columns=dict(zip(["measured", "measured_low", "measured_high"], numbers, strict=True))
        )
        results = [alone.assign(result="the experiment"), rows, table.assign(result="both")]
        return pd.concat(results, ignore_index=True), marks

    def _credited(self, currency: int) -> Numbers | None:
        credited = self.model._credited(currency)
        return None if credited is None else credited / self.observed_share[0]

    def _observed_ranges(
        self, weights: Numbers, currency: int, measure: str, confidence: float
    ) -> effects.Ranges:
        mixture = self.mixtures[measure][currency]
        if mixture is None:
            nothing = np.full(len(weights), np.nan)
            return nothing, nothing, nothing
        return mixture.ranges(weights, confidence)


@dataclass(frozen=True, eq=False)
class Source:
    """A model's estimates for the nodes of one currency.

    Attributes
    ----------
    effect, error : float array, shape (n_nodes,)
        Estimates and their standard errors.
    verdict : str or None
        What controls show about the model; None if only its proportions are meaningful, as those of a rule.
    """

    effect: Numbers
    error: Numbers
    verdict: str | None = "cannot tell"


def combine_sources(
    sources: Mapping[str, Source], measured: Measurement, is_control: Flags
) -> tuple[Mixture, pd.DataFrame]:
    """Combine models with an experiment, within one currency.

    Bayesian model averaging over models that are about right, and none. If a model is about right, the effect
    of a node has a normal distribution around its estimate, with a standard deviation of ``s`` times the mean
    effect; ``s`` is shared by all nodes, at most 0.8, and has a half-Cauchy prior with a scale of 0.05. With
    probability 0.1, all estimates are multiplied by a factor with a lognormal prior, 0.05 to 6 in size, which
    is negative one time in ten; for proportions always, and ``s`` is 0.8 to 3.2. Without a model, effects are
    exchangeable: they have a normal distribution around a common mean of unknown sign and size, with an
    unknown spread, so that a noisy experiment is shrunk as in James and Stein's estimator. A confounded model
    has a wrong level, but nodes with large estimates may still have large effects: with even odds, effects
    are distributed around its estimates times such a factor, with ``s`` of 0.4, 0.8 or 1.6, instead of around
    a common mean.

    The prior odds of a model against none follow from the verdict on it: 39 to 1 if it is clear, 1 to 4 if
    it is confounded, and otherwise 3 to 1. Credit of controls is further evidence of ``s``. Errors of
    different nodes are independent given ``s``. Intervals are quantiles of the posterior mixture, of which
    two rules keep what the experiment proves, and no more. Effects that its interval at 99 % rules out are
    ruled out, a limited translation in the sense of Efron and Morris: so a sign that it proves is never
    blurred. And unless the posterior probability that the model is about right is at least 0.95, an interval
    excludes 0 only if the experiment's does. All is symmetric in sign.

    Parameters
    ----------
    sources : mapping of str to Source
        Models by label.
    measured : Measurement
        The experiment on all nodes.
    is_control : bool array, shape (n_nodes,)
        Nodes known to have no effect, which is not estimated.

    Returns
    -------
    Mixture, DataFrame
        The posterior of all nodes, and the disagreement, factor and weight of each source, one row per source
        and node.

    References
    ----------
    Efron and Morris (1972), Limiting the risk of Bayes and empirical Bayes estimators, JASA 67; Hoeting,
    Madigan, Raftery and Volinsky (1999), Bayesian model averaging, Statistical Science 14(4); Green
    and Strawderman (1991), A James-Stein type estimator for combining unbiased and possibly biased
    estimators, JASA 86; Rosenman, Basse, Owen and Baiocchi (2023), Combining observational and experimental
    datasets using shrinkage estimators, Biometrics 79(4); Polson and Scott (2012), On the half-Cauchy prior
    for a global scale parameter, Bayesian Analysis 7(4); Lewis, Zettelmeyer, Gordon and others (2025), Amazon
    Ads multi-touch attribution, arXiv 2508.08209.
    """
    evidence = measured.at(~is_control)
    weighed: list[Hypotheses] = []
    others: list[Hypotheses] = []
    odds: list[float] = []
    for source in sources.values():
        known = source.effect[~is_control], source.error[~is_control]
        if source.verdict is None:
            weighed.append(weigh_proportions(*known, evidence))
            odds.append(_PROPORTIONS)
            continue
        # A credit of exactly 0 means that the model assumed it.
        says = is_control & (source.effect != 0.0)
        weighed.append(weigh_model(*known, evidence, Controls(source.effect[says], source.error[says])))
        odds.append(_ODDS[source.verdict])
        if source.verdict == "confounded":
            others.append(weigh_proportions(*known, evidence, CONFOUNDED))
    of_effects = [each for each in sources.values() if each.verdict is not None] or list(sources.values())
    typical = np.mean([np.abs(each.effect[~is_control]).mean() for each in of_effects])
    others.append(weigh_common_mean(float(typical), evidence))
    shares = posterior_shares([*weighed, *others], [*odds, *[1 / len(others)] * len(others)])
    rows = []
    for (label, source), hypotheses, share in zip(sources.items(), weighed, shares, strict=False):
        factor = float(np.exp(hypotheses.weight - hypotheses.evidence) @ hypotheses.factor)
        level = factor if source.verdict is None else 1.0
        distance = (measured.effect - level * source.effect) / np.hypot(measured.error, level * source.error)
        rows.append(
            pd.DataFrame(
                {
                    "model": label,
                    "modelled": source.effect,
                    "modelled_error": source.error,
                    "experiment": measured.effect,
                    "experiment_error": measured.error,
                    "disagreement": distance,
                    "factor": factor,
                    "weight": share,
                }
            )
        )
    is_effects = [source.verdict is not None for source in sources.values()]
    is_trusted = bool((shares[: len(weighed)][is_effects] >= _TRUSTED).any())
    mixture = Mixture.of([*weighed, *others], shares, evidence, is_trusted=is_trusted)
    return mixture.among(~is_control), pd.concat(rows)


def measurements(
    experiment: effects.Effects | Frame,
    node_ids: Sequence[str],
    currencies: Sequence[str | None],
    *,
    measure: str = "conversions",
) -> list[Measurement]:
    """Return the measured effect of each node, by currency.

    Parameters
    ----------
    experiment : Effects or DataFrame
        Of :func:`holdout_effects`, or a frame: ``node_id``, ``caused``, ``error`` (standard error, above 0)
        and, if conversions have one, ``currency``.
    node_ids, currencies : sequence
        Nodes and currencies of the model.
    measure : {"conversions", "value"}
        What to return; a frame has no value.

    Raises
    ------
    InvalidRequest
        If a column is missing or not numeric, a node occurs twice, an error is not above 0, or no node has
        both a model and an experiment in the same currency.
    """
    if isinstance(experiment, effects.Effects):
        rows = experiment.table(effects.LEVEL)
        low, high = ("low", "high") if measure == "conversions" else ("value_low", "value_high")
        error = (rows[high] - rows[low]) / (2 * float(norm.ppf(0.5 + effects.LEVEL / 2)))
        rows = rows.assign(error=error, caused=rows["caused" if measure == "conversions" else measure])
    elif measure == "value":
        return [Measurement(*np.full((2, len(node_ids)), np.nan)) for _ in currencies]
    else:
        rows = read_frame("experiment", experiment, ("node_id", "caused", "error"))
        rows = rows.assign(currency=rows.get("currency"))
        try:
            numbers = rows[["caused", "error"]].astype("float64")
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                "experiment: 'caused' or 'error' is not numeric; allowed: numbers"
            ) from error
        rows[["caused", "error"]] = numbers
        has = numbers["caused"].notna()
        is_wrong = np.isinf(numbers["caused"]) | (
            has & ~(np.isfinite(numbers["error"]) & (numbers["error"] > 0))
        )
        repeated = rows.duplicated(["node_id", "currency"])
        for flags, complaint in (
            (is_wrong, "has an effect that is infinite, or a standard error that is missing or not above 0"),
            (repeated, "occurs twice"),
        ):
            if flags.any():
                node = rows.loc[flags, "node_id"].iloc[0]
                raise InvalidRequest(
                    f"experiment: node {node!r} {complaint}; allowed: one row per node and currency, with "
                    "'caused' and its standard error 'error'"
                )
    found = []
    for currency in currencies:
        same = rows["currency"].isna() if currency is None else (rows["currency"] == currency).fillna(False)
        of_node = rows[same.astype(bool)].set_index("node_id")[["caused", "error"]].reindex(list(node_ids))
        found.append(Measurement(*np.asarray(of_node, dtype=np.float64).T))
    if measure == "conversions" and not any(np.isfinite(each.effect).any() for each in found):
        raise InvalidRequest(
            "experiment: no node has both a model and an experiment in the same currency; allowed: nodes "
            f"such as {', '.join(list(node_ids)[:5])}, currencies {', '.join(map(str, currencies))}"
        )
    return found


@dataclass(frozen=True, eq=False)
class Measurement:
    """Effects measured by an experiment; NaN for nodes without one.

    Attributes
    ----------
    effect, error : float array, shape (n_nodes,)
        Effects and their standard errors.
    """

    effect: Numbers
    error: Numbers

    def at(self, nodes: NDArray[Any]) -> Measurement:
        """Return the effects of some nodes."""
        return Measurement(self.effect[nodes], self.error[nodes])


@dataclass(frozen=True, eq=False)
class Controls:
    """Credits of negative controls under a model; none for a model that makes no statement about them.

    Attributes
    ----------
    credited, error : float array, shape (n_controls,)
        Credits and their standard errors.
    """

    credited: Numbers
    error: Numbers

    def likelihood(self, spread: Numbers) -> Numbers:
        """Return the log-likelihood of the credits for each standard deviation of the model's errors."""
        total = np.sqrt(spread[:, None] ** 2 + self.error**2)
        return np.asarray(norm.logpdf(self.credited, 0.0, np.maximum(total, _TINY)).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypotheses about errors, their posterior, and the effects of nodes under each.

    Attributes
    ----------
    weight : float array, shape (n_hypotheses,)
        Log of the prior times the likelihood of the experiment and of the controls.
    factor : float array, shape (n_hypotheses,)
        Factor between the model's level and the true one.
    mean, spread : float array, shape (n_hypotheses, n_nodes)
        Mean and standard deviation of each node's effect.
    """

    weight: Numbers
    factor: Numbers
    mean: Numbers
    spread: Numbers

    @property
    def evidence(self) -> float:
        """Log-likelihood of the experiment, and of the controls relative to a model without a vote."""
        return float(logsumexp(self.weight))


def weigh_model(
    modelled: Numbers, error: Numbers, measured: Measurement, controls: Controls | None = None
) -> Hypotheses:
    """Weigh the errors of a model of effects that is about right.

    Parameters
    ----------
    modelled, error : float array, shape (n_nodes,)
        The model's estimates and their standard errors, without controls.
    measured : Measurement
        The experiment.
    controls : Controls, optional
        What the model credits controls with.
    """
    likely = (_ERRORS / _HALF_CAUCHY) / (1 + (_ERRORS / _HALF_CAUCHY) ** 2)
    factors = np.append(_FACTORS, 1.0)
    prior = np.outer(np.append((1 - _NO_FACTOR) * _LEVEL, _NO_FACTOR), likely / likely.sum())
    found = _weigh(modelled, error, measured, factors, _ERRORS, prior)
    if controls is None or not len(controls.credited):
        return found
    typical = float(np.abs(modelled).mean())
    # Relative to the same credits under a model without a vote, whose errors are wide.
    without = logsumexp(controls.likelihood(_WIDE * typical)) - np.log(len(_WIDE))
    gain = np.tile(controls.likelihood(_ERRORS * typical) - without, len(factors))
    return Hypotheses(found.weight + gain, found.factor, found.mean, found.spread)


def weigh_proportions(
    modelled: Numbers,
    error: Numbers,
    measured: Measurement,
    errors: Numbers = _WIDE,
    levels: Numbers = _LEVEL,
) -> Hypotheses:
    """Weigh levels and errors of a model of which only the proportions may be meaningful."""
    prior = np.outer(levels, np.full(len(errors), 1 / len(errors)))
    return _weigh(modelled, error, measured, _FACTORS, errors, prior)


def weigh_common_mean(typical: float, measured: Measurement) -> Hypotheses:
    """Weigh means and spreads of effects without a model: the nodes are exchangeable.

    Parameters
    ----------
    typical : float
        Order of magnitude of effects, such as a model's mean.
    measured : Measurement
        The experiment.
    """
    # Models may be silent, or too small by orders of magnitude.
    found = np.abs(measured.effect[np.isfinite(measured.effect)])
    if len(found):
        typical = max(typical, float(found.mean()) / _REACH)
    equal = np.full(len(measured.effect), typical)
    return weigh_proportions(equal, np.zeros(len(equal)), measured, _SPREADS, _EITHER_SIGN)


def _weigh(
    modelled: Numbers,
    error: Numbers,
    measured: Measurement,
    factors: Numbers,
    errors: Numbers,
    prior: Numbers,
) -> Hypotheses:
    """Weigh every pair of a factor and a relative error."""
    factor, size = (array.ravel() for array in np.meshgrid(factors, errors, indexing="ij"))
    centre = factor[:, None] * modelled
    wrong = np.abs(factor) * size * np.abs(modelled).mean()
    variance = wrong[:, None] ** 2 + (factor[:, None] * error) ** 2
    variance = np.maximum(variance, _TINY**2)
    has = np.isfinite(measured.effect)
    effect = np.where(has, measured.effect, 0.0)
    noise = np.where(has, measured.error, 1.0) ** 2
    likelihood = np.where(has, norm.logpdf(effect, centre, np.sqrt(variance + noise)), 0.0)
    trust = np.where(has, variance / (variance + noise), 0.0)
    mean = centre + trust * (effect - centre)
    spread = np.sqrt(variance * (1 - trust))
    return Hypotheses(np.log(prior.ravel()) + likelihood.sum(axis=1), factor, mean, spread)
