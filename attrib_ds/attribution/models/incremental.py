"""Models that estimate which conversions would not have happened without a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.models.model import check_amount, check_whole, texts
from attrib_ds.attribution.models.path_models import PathModel
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True)
class IncrementalModel(PathModel):
    """Base of the models that estimate which conversions would not have happened without a node.

    The part of a conversion that no node caused is its baseline: it would have happened anyway. Where an
    unobserved common cause drives exposure and conversions, such as the wish to buy, these models mistake it
    for effects of nodes. What they credit to nodes known to have no effect reveals that.

    The observation period of each user comes with the paths (``users=``). Without it, everybody who was
    touched or converted counts as observed throughout, and all others are missing, which biases effects.
    """

    signed: ClassVar[bool] = True


@dataclass(frozen=True)
class DiscreteHazard(IncrementalModel):
    """Credit nodes with the conversions that would not have happened without them, period by period.

    The probability that a user converts in a period is a logistic function of the saturated adstock of each
    node, ``log(1 + adstock)``, of covariates of the user, and of time. The credit of a node for a conversion
    is the share of that probability that is lost without the node's touchpoints. It may be negative, and the
    parts of a conversion may sum to more than 1 where nodes reinforce each other.

    Adstock is measured at one moment of a period: that of its conversion or, in a period without one, a
    moment drawn from the times of day at which others convert. So touchpoints after a conversion never count,
    and nodes that reach people at the hours at which people buy anyway are not credited for that.

    Parameters
    ----------
    half_lives : tuple of str or timedelta, default ("1D", "3D", "9D")
        Half-lives of adstock; the regression weights them.
    step : str or timedelta, default "1D"
        Length of a period.
    interactions : bool, default False
        Whether pairs of nodes have interaction terms.
    covariates : tuple of str, optional
        Columns of ``users=`` of the paths; all of them by default: numbers, flags, and text of up to 100
        values.
    shrinkage : float, default 0.01
        Ridge penalty of a standardised effect, per conversion.
    comparisons : int, default 20
        Approximate number of periods without a conversion to draw per conversion, up to ``rows`` in all.
    rows : int, default 2,000,000
        Approximate maximum number of periods to draw.
    seed : int, default 0
        Seed of the draw.

    Notes
    -----
    Intervals are for the number of conversions that a node caused among these users, which varies by chance
    itself. The estimate shares part of that variation, so intervals are slightly wider than necessary. In 40
    simulated worlds of 100,000 users with random exposure, intervals at 95 % covered the true number in 96 %
    of cases, although effects add up in these worlds and multiply in the model.

    References
    ----------
    Shender, Amini, Bao, Dikmen, Richardson and Wang (2024), A time to event framework for multi-touch
    attribution, Journal of Data Science 22(1), removes effects in the same sense.
    """

    half_lives: tuple[str | timedelta, ...] = ("1D", "3D", "9D")
    step: str | timedelta = "1D"
    interactions: bool = False
    covariates: tuple[str, ...] | None = None
    shrinkage: float = 0.01
    comparisons: int = 20
    rows: int = 2_000_000
    seed: int = 0

    #: Maximum number of nodes with interactions.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        _check_half_lives(self)
        as_days(self.step, argument="step")
        if self.covariates is not None:
            object.__setattr__(self, "covariates", texts("covariates", self.covariates, of="columns"))
        check_amount("shrinkage", self.shrinkage)
        check_whole("comparisons", self.comparisons, minimum=1)
        check_whole("rows", self.rows, minimum=1_000)
        check_whole("seed", self.seed, minimum=0)


@dataclass(frozen=True)
class LatentIntent(IncrementalModel):
    """Credit nodes under a hidden funnel of purchase intent, which separates causes from signs of intent.

    A hidden Markov model: every user has one of a few intents, from none to the wish to buy, and moves
    between neighbouring ones from period to period. The rates of conversions, and of touchpoints of every
    node, depend on the intent, on the user's activity and propensity to buy, and on covariates; those of
    nodes that follow users, such as retargeting, also on recent touchpoints. So a search or a visit is first
    a sign of intent, and users who are reached more often because they are about to buy are not mistaken for
    an effect. Touchpoints of a node cause conversions by raising the conversion rate (direct effect) or the
    rate of transitions to higher intents. The credit of a node for a conversion is the posterior probability
    that the conversion would not have happened without it. It is never negative. Several nodes may each have
    been necessary, so the parts of a conversion may sum to more than 1, and the baseline may be negative.

    The credit is as right as the funnel, which rests on assumptions that no observation can confirm. Where
    exposure is random, :class:`DiscreteHazard` is more accurate, and faster. Where exposure follows the wish
    to buy (nodes without an effect, passed as ordinary ones, earn much there), this model is more accurate
    in shares and level. It needs ``controls`` and thousands of conversions; with hundreds, effects can hardly
    be distinguished from zero. Where shares matter, run an experiment.

    Parameters
    ----------
    controls : tuple of str, default ()
        Nodes known to have no effect, such as unpaid visits. They are signs of intent and earn nothing.
    followers : tuple of str, optional
        Nodes that reach users because of recent touchpoints, such as retargeting; by default nodes with less
        than 2 % of their touchpoints on other users. For all other nodes, touchpoints that follow
        touchpoints count as a sign of intent.
    intents : int, default 3
        Number of intents, 1 to 5. With one, nodes have direct effects only.
    activities, propensities : int, default 10 and 3
        Degrees of activity and of propensity to buy, 1 to 20 each; latent classes are their combinations.
    half_lives : tuple of str or timedelta, default ("2D", "7D")
        Half-lives of adstock, which counts as ``log(1 + adstock)``; the model weights them.
    interactions : bool, default True
        Whether pairs of nodes have interaction effects on the conversion rate; ignored with more than 20
        nodes.
    step : str or timedelta, default "1D"
        Length of a period.
    memory : str or timedelta, default "7D"
        Time for which a touchpoint is recent.
    covariates : tuple of str, optional
        Columns of ``users=`` of the paths; all of them by default: numbers, flags, and text of up to 100
        values.
    shrinkage : float, default 10
        Rate of the exponential prior of effects, in users.
    users : int, default 250,000
        Approximate maximum number of distinct histories to sample: those of users who converted, up to half,
        and others with weights. Common histories, and those with many touchpoints, come first.
    evaluations : int, default 180
        Approximate maximum number of passes over the sample; only the last three tenths use all of it.
    tolerance : float, default 1e-9
        The search ends when a step improves the log-likelihood by less than this part.
    seed : int, default 0
        Seed of the draw.

    Notes
    -----
    Users with the same history so far share the computation, which changes nothing but the time.

    Intervals come from posterior draws of the effects under a Laplace approximation, each with another
    bootstrap sample of the users who converted. They measure the sampling error if the funnel is right, and
    not its misspecification: at 95 % they covered the truth for five nodes of six in one of the worlds below,
    and for three of six in another, after a shorter search.

    Accuracy was measured in simulated worlds of 300,000 users in which exposure follows intent, six of ten
    with parameters drawn afresh, with the unpaid nodes as controls. Settings were compared in six of them:
    with seven degrees of activity and 50,000 histories, the mean error of the shares of paid nodes was 1.2 to
    3.1 points, 1.8 over the worlds, and all paid nodes had 1.0 to 1.2 times what they caused. In four others,
    kept for the last, the error of the defaults was 1.3 to 2.6 points, 2.0 over the worlds, with 0.99 to 1.17
    times the truth, after three to four minutes of one processor, and a minute more for intervals. The error
    of :class:`DiscreteHazard` was 12.0 to 17.2 points with 1.6 to 2.2 times the truth, and that of the best
    rule of each world 4.9 to 6.4 points with 1.0 to 2.4 times. These worlds have a funnel of three intents,
    as the default has.

    More degrees of activity raised the held-out likelihood, up to the ten that were tried. So did four
    intents, in the one world where that was tried; yet in two worlds shares were off by 4.2 and 4.8 points
    with four intents and by 1.1 and 1.5 with three, all after a short search. Likelihood alone does not
    identify the number of intents.

    References
    ----------
    Abhishek, Fader and Hosanagar (2012), Media exposure through the funnel: a model of multi-stage
    attribution, has the hidden funnel; that touchpoints of all nodes are signs of intent is added here.
    """

    controls: tuple[str, ...] = ()
    followers: tuple[str, ...] | None = None
    intents: int = 3
    activities: int = 10
    propensities: int = 3
    half_lives: tuple[str | timedelta, ...] = ("2D", "7D")
    interactions: bool = True
    step: str | timedelta = "1D"
    memory: str | timedelta = "7D"
    covariates: tuple[str, ...] | None = None
    shrinkage: float = 10.0
    users: int = 250_000
    evaluations: int = 180
    tolerance: float = 1e-9
    seed: int = 0

    signed: ClassVar[bool] = False
    #: Maximum number of nodes with interactions.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        _check_half_lives(self)
        object.__setattr__(self, "controls", texts("controls", self.controls))
        if self.followers is not None:
            object.__setattr__(self, "followers", texts("followers", self.followers))
        if self.covariates is not None:
            object.__setattr__(self, "covariates", texts("covariates", self.covariates, of="columns"))
        for argument in ("step", "memory"):
            as_days(getattr(self, argument), argument=argument)
        check_whole("intents", self.intents, minimum=1, maximum=5)
        for argument in ("activities", "propensities"):
            check_whole(argument, getattr(self, argument), minimum=1, maximum=20)
        for argument in ("shrinkage", "tolerance"):
            check_amount(argument, getattr(self, argument))
        check_whole("users", self.users, minimum=100)
        check_whole("evaluations", self.evaluations, minimum=1)
        check_whole("seed", self.seed, minimum=0)


def _check_half_lives(model: DiscreteHazard | LatentIntent) -> None:
    given: object = model.half_lives
    if isinstance(given, str) or not isinstance(given, Iterable) or not tuple(model.half_lives):
        raise InvalidRequest(
            f"half_lives: {model.half_lives!r} is not allowed; allowed: one or more lengths of time",
            field="half_lives",
        )
    object.__setattr__(model, "half_lives", tuple(model.half_lives))
    for each in model.half_lives:
        as_days(each, argument="half_lives")
