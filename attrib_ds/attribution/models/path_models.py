"""Parameters of the models that compare users who converted with those who did not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.models.model import (
    Model,
    check_amount,
    check_level,
    check_share,
    check_strings,
    check_whole,
)
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta

#: How the touchpoints of a path can be merged before a model reads them.
TRANSFORMS = ("unique", "exposure", "first", "frequency")


@dataclass(frozen=True)
class PathModel(Model):
    """Base of the models that compare whole paths, null paths included."""

    #: Whether credits may be negative.
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class ConversionRateShapley(PathModel):
    """Credit nodes by the Shapley value of a game whose worth is the conversion rate of a set of nodes.

    The worth of a set of nodes is the conversion rate of the users who touched exactly these nodes. The
    conversions of a set are divided in proportion to the Shapley values of its nodes within the set. A value
    is negative if users with the node convert less often. Without null paths every observed set has the
    conversion rate 1.

    Parameters
    ----------
    shrinkage : float, default 0
        Pseudo-users with the overall conversion rate to add to every set, 0 or more. They pull the rates of
        rare sets towards the overall rate. A set that no user touched has the overall rate, or 0 without
        shrinkage.
    exact_size : int, default 10
        Maximum number of nodes of a set to compute exactly, 1 to 16; the cost of a set is ``2 ** size``.
    permutations : int, default 256
        Permutations to draw for a larger set, 1 or more; each is also used in reverse.
    seed : int, default 0
        Seed of the permutations, 0 or more.

    Raises
    ------
    InvalidRequest
        If a parameter is out of bounds.

    Notes
    -----
    By Hoeffding's inequality a sampled value is within ``2 * rate * sqrt(log(2 / d) / (2 * permutations))``
    of the exact one with probability ``1 - d``, where ``rate`` is the highest conversion rate of a set;
    :meth:`sampling_error` computes this bound. The sampled values of a set still add up exactly.

    Examples
    --------
    The conversion rates are 0.3 with both nodes, 0.1 with email and 0.05 with search. So the Shapley values
    of the pair are 0.175 for email and 0.125 for search, which divide its three conversions.

    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame(
    ...     {"path": ["search > email", "email", "search"], "won": [3, 1, 1], "lost": [7, 9, 19]}
    ... )
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="won", nulls="lost")
    >>> at.attribute(paths, at.models.ConversionRateShapley())[["node_id", "conversions"]]
      node_id  conversions
    0   email         2.75
    1  search         2.25
    """

    shrinkage: float = 0.0
    exact_size: int = 10
    permutations: int = 256
    seed: int = 0

    signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_amount("shrinkage", self.shrinkage)
        check_whole("exact_size", self.exact_size, minimum=1, maximum=16)
        check_whole("permutations", self.permutations, minimum=1)
        check_whole("seed", self.seed, minimum=0)

    def sampling_error(self, *, rate: float = 1.0, confidence: float = 0.95) -> float:
        """Return the sampling error of a Shapley value, as a conversion rate.

        Parameters
        ----------
        rate : float, default 1
            The highest conversion rate of a set of nodes, 0 to 1.
        confidence : float, default 0.95
            Probability that the error is no larger, between 0 and 1.

        Returns
        -------
        float
            Hoeffding's bound for one node of one set of more than ``exact_size`` nodes.

        Raises
        ------
        InvalidRequest
            If the rate is not from 0 to 1, or the confidence not between 0 and 1.

        Examples
        --------
        >>> import attrib_ds as at
        >>> round(at.models.ConversionRateShapley(permutations=1_000).sampling_error(rate=0.1), 4)
        0.0086
        """
        check_share("rate", rate)
        check_level("confidence", confidence)
        return 2 * rate * math.sqrt(math.log(2 / (1 - confidence)) / (2 * self.permutations))


@dataclass(frozen=True)
class SequenceModel(PathModel):
    """Base of the models that depend on the order of touchpoints.

    Parameters
    ----------
    transform : str, default "unique"
        How to merge touchpoints: ``"unique"`` keeps all of them; ``"exposure"`` merges consecutive ones of
        the same node; ``"first"`` keeps the first touchpoint of each node; ``"frequency"`` does so too,
        and treats a node touched once, twice and so on as different nodes.
    steps : int, optional
        Number of touchpoints at the end of a path to keep, 1 or more; applied first. All by default.
    remove_if_not_all : tuple of str, optional
        Node ids, such as that of direct traffic, to remove from paths that contain other nodes; applied
        before the transform. Ids that no path contains are allowed.
    remove_if_last_and_not_all : tuple of str, optional
        Node ids to remove from the end of paths that contain other nodes; applied after
        ``remove_if_not_all`` and before the transform.
    """

    transform: str = field(default="unique", kw_only=True)
    steps: int | None = field(default=None, kw_only=True)
    remove_if_not_all: tuple[str, ...] = field(default=(), kw_only=True)
    remove_if_last_and_not_all: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise InvalidRequest.choice("transform", self.transform, TRANSFORMS)
        if self.steps is not None:
            check_whole("steps", self.steps, minimum=1)
        for argument in ("remove_if_not_all", "remove_if_last_and_not_all"):
            object.__setattr__(self, argument, check_strings(argument, getattr(self, argument)))


@dataclass(frozen=True)
class Markov(SequenceModel):
    """Credit nodes in proportion to their removal effect in a Markov chain of touchpoints.

    The removal effect of a node is the share of conversions that the chain loses when every walk that
    reaches the node ends there without a conversion. It is solved exactly, not simulated.

    Parameters
    ----------
    order : int, default 1
        Number of preceding touchpoints that the next step depends on, 1 to 9. From the length of the longest
        path on, the removal effect of a node is the share of conversions whose path contains it.
    nulls : bool, default True
        Whether to include null paths, if the paths have them. Without them every walk converts, and the
        removal effect of order 1 only measures how many walks reach the node.
    transform : str, default "unique"
        How to merge touchpoints: ``"unique"`` keeps all of them; ``"exposure"`` merges consecutive ones of
        the same node, which changes nothing at order 1; ``"first"`` keeps the first touchpoint of each
        node; ``"frequency"`` does so too, and treats a node touched once, twice and so on as different nodes.
    steps : int, optional
        Number of touchpoints at the end of a path to keep, 1 or more; applied first. All by default.
    remove_if_not_all : tuple of str, optional
        Node ids, such as that of direct traffic, to remove from paths that contain other nodes; applied
        before the transform. Ids that no path contains are allowed.
    remove_if_last_and_not_all : tuple of str, optional
        Node ids to remove from the end of paths that contain other nodes; applied after
        ``remove_if_not_all`` and before the transform.

    Raises
    ------
    InvalidRequest
        If a parameter is not allowed.

    References
    ----------
    Anderl, Becker, von Wangenheim and Schumann (2016), Mapping the customer journey, International Journal
    of Research in Marketing 33(3), 457-474.

    Examples
    --------
    Of 40 walks 5 convert: 4 of them after email, 1 after search. Without email the chain loses 4, without
    search 3 of the 5, so that email earns 4/7 of the credit.

    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame(
    ...     {"path": ["search > email", "email", "search"], "won": [3, 1, 1], "lost": [7, 9, 19]}
    ... )
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="won", nulls="lost")
    >>> at.attribute(paths, at.models.Markov())[["node_id", "conversions", "share"]].round(3)
      node_id  conversions  share
    0   email        2.857  0.571
    1  search        2.143  0.429
    """

    order: int = 1
    nulls: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("order", self.order, minimum=1, maximum=9)
        if not isinstance(self.nulls, bool):
            raise InvalidRequest(f"nulls: {self.nulls!r} is not allowed; allowed: True, False", field="nulls")


@dataclass(frozen=True)
class Fractribution(SequenceModel):
    """Credit touchpoints in proportion to the conversion rate that the path loses without them.

    The conversion rate of a path is that of the users with exactly this path; an unobserved path has the rate
    0. Negative losses count as 0. If no touchpoint has a positive loss, the last one earns the whole
    conversion.

    Parameters
    ----------
    shrinkage : float, default 0
        Pseudo-users with the overall conversion rate to add to every path, 0 or more. They keep a path that
        was observed once from having the rate 0 or 1, and give unobserved paths the overall rate.
    transform : str, default "unique"
        How to merge touchpoints: ``"unique"`` keeps all of them; ``"exposure"`` merges consecutive ones of
        the same node; ``"first"`` keeps the first touchpoint of each node; ``"frequency"`` does so too,
        and treats a node touched once, twice and so on as different nodes. A path is not transformed again
        after a touchpoint is removed from it.
    steps : int, optional
        Number of touchpoints at the end of a path to keep, 1 or more; applied first. All by default.
    remove_if_not_all : tuple of str, optional
        Node ids, such as that of direct traffic, to remove from paths that contain other nodes; applied
        before the transform. Ids that no path contains are allowed.
    remove_if_last_and_not_all : tuple of str, optional
        Node ids to remove from the end of paths that contain other nodes; applied after
        ``remove_if_not_all`` and before the transform.

    Raises
    ------
    InvalidRequest
        If a parameter is not allowed.

    References
    ----------
    Google, Fractribution (2020), the open-source implementation. It calls the rule a Shapley value, which it
    is not.

    Examples
    --------
    The conversion rates are 0.3 with both nodes, 0.1 with email and 0.05 with search. So the pair loses 0.25
    without email and 0.2 without search, which divide its three conversions.

    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame(
    ...     {"path": ["search > email", "email", "search"], "won": [3, 1, 1], "lost": [7, 9, 19]}
    ... )
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="won", nulls="lost")
    >>> at.attribute(paths, at.models.Fractribution())[["node_id", "conversions"]].round(3)
      node_id  conversions
    0   email        2.667
    1  search        2.333
    """

    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("shrinkage", self.shrinkage)


@dataclass(frozen=True)
class DiscreteHazard(PathModel):
    """Credit nodes with the conversions that would not have happened without them, period by period.

    The probability that a user converts in a period is a logistic function of the saturated adstock of each
    node, ``log(1 + adstock)``, of covariates of the user, and of time: a quadratic trend, and an effect
    of each period (or of 100 stretches of periods), for promotions and holidays. The credit of a node for a
    conversion is the share of that probability that is lost without the node's touchpoints. It may be
    negative, and the parts of a conversion may sum to more than 1 where nodes reinforce each other.

    Adstock is measured at one instant of a period: that of its conversion or, in a period without one, an
    instant drawn from the times of day at which others convert. So touchpoints after a conversion never
    count, and a node earns nothing for reaching people at the hours at which they buy anyway.

    The part of a conversion that no node caused is the baseline: it would have happened anyway. An unobserved
    common cause of exposure and conversions, such as the wish to buy, is mistaken for effects of nodes.
    Negative controls reveal it: nodes known to have no effect that earn credit nevertheless.

    The observation period of each user comes with the paths (``users=``). Without it, every user counts as
    observed from the first touchpoint to the last date in the paths, and conversions without an earlier
    touchpoint as baseline: who was never touched is often recorded only after a conversion. The same holds,
    with the warning :class:`~attrib_ds.errors.TruncatedUsers`, if ``users=`` lacks the users who were never
    touched and never converted.

    Parameters
    ----------
    half_lives : tuple of str or timedelta, default ("1D", "3D", "9D")
        Half-lives of adstock, one or more; the regression weights them.
    step : str or timedelta, default "1D"
        Length of a period, above 0.
    interactions : bool, default False
        Whether pairs of nodes have interaction terms.
    covariates : tuple of str, optional
        Columns of ``users=`` of the paths; all of them by default: numbers, flags, and text of up to 100
        values.
    shrinkage : float, default 0.01
        Ridge penalty of a standardised effect, and of a period's deviation from the trend, per conversion; 0
        or more.
    comparisons : int, default 20
        Approximate number of periods without a conversion to draw per conversion, 1 or more, up to ``rows``
        in all.
    rows : int, default 2,000,000
        Approximate maximum number of periods to draw, 1,000 or more.
    seed : int, default 0
        Seed of the draw, 0 or more.

    Raises
    ------
    InvalidRequest
        If a parameter is not allowed.

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

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=2_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> credits = at.attribute(paths, at.models.DiscreteHazard(half_lives=("1D", "7D")))
    >>> round(credits["conversions"].sum()) == len(world.conversions)
    True
    """

    half_lives: tuple[str | timedelta, ...] = ("1D", "3D", "9D")
    step: str | timedelta = "1D"
    interactions: bool = False
    covariates: tuple[str, ...] | None = None
    shrinkage: float = 0.01
    comparisons: int = 20
    rows: int = 2_000_000
    seed: int = 0

    signed: ClassVar[bool] = True
    #: Maximum number of nodes with interactions.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        given: object = self.half_lives
        if isinstance(given, str) or not isinstance(given, Iterable) or not tuple(self.half_lives):
            raise InvalidRequest(
                f"half_lives: {given!r} is not allowed; allowed: one or more lengths of time",
                field="half_lives",
            )
        object.__setattr__(self, "half_lives", tuple(self.half_lives))
        for half_life in self.half_lives:
            as_days(half_life, argument="half_lives")
        as_days(self.step, argument="step")
        if self.covariates is not None:
            object.__setattr__(self, "covariates", check_strings("covariates", self.covariates, of="columns"))
        check_amount("shrinkage", self.shrinkage)
        check_whole("comparisons", self.comparisons, minimum=1)
        check_whole("rows", self.rows, minimum=1_000)
        check_whole("seed", self.seed, minimum=0)
