"""Attribution models as frozen values with documented bounds.

Only parameters live here; :mod:`attrib_ds.attribution.weights` turns a rule into weights, and
:mod:`attrib_ds.attribution.markov` and its neighbours compute the models of whole paths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from attrib_ds.attribution.durations import as_days
from attrib_ds.errors import InvalidRequest, closest

if TYPE_CHECKING:
    from datetime import timedelta


#: How the touchpoints of a path can be put together before a model sees them.
TRANSFORMS = ("unique", "exposure", "first", "frequency")


@dataclass(frozen=True)
class Model:
    """Base of every attribution model."""

    @property
    def name(self) -> str:
        """Name of the model in results: snake_case, with the parameters that are not the default."""
        changed = [
            f"{each.name}={getattr(self, each.name)!r}".replace("'", "")
            for each in fields(self)
            if each.repr and getattr(self, each.name) != each.default
        ]
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{stem}({', '.join(changed)})" if changed else stem


@dataclass(frozen=True)
class FirstTouch(Model):
    """Credit the first touchpoint of the path with the whole conversion."""


@dataclass(frozen=True)
class LastTouch(Model):
    """Credit the last touchpoint of the path with the whole conversion."""


@dataclass(frozen=True)
class LastNonDirect(Model):
    """Credit the last touchpoint that is not direct traffic; the last one if all are direct.

    Parameters
    ----------
    direct : tuple of str, optional
        Node ids that count as direct. By default a node is direct when its id, name or channel is
        ``direct``, ``(direct)``, ``(direct) / (none)`` or ``direct / none``, in any case.
    """

    direct: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.direct is None:
            return
        if isinstance(self.direct, str) or not all(isinstance(each, str) for each in self.direct):
            raise InvalidRequest(
                f"direct: {self.direct!r} is not a list of node ids; allowed: ('node-1', 'node-2')",
                field="direct",
            )
        object.__setattr__(self, "direct", tuple(self.direct))


@dataclass(frozen=True)
class Linear(Model):
    """Credit every touchpoint of the path equally: ``1 / n`` each."""


@dataclass(frozen=True)
class LinearRamp(Model):
    """Credit touchpoint ``i`` of ``n`` in proportion to ``i``: later ones earn more."""


@dataclass(frozen=True)
class TimeDecay(Model):
    """Halve the credit with every ``half_life`` that a touchpoint is older than the conversion.

    Parameters
    ----------
    half_life : str or timedelta, default "7D"
        Positive; very long is :class:`Linear`, very short is :class:`LastTouch`.
    step : str or timedelta, optional
        Count ages in whole steps (``"1D"``: touches of one day weigh the same).

    References
    ----------
    Google Ads uses a half-life of seven days.
    """

    half_life: str | timedelta = "7D"
    step: str | timedelta | None = None

    def __post_init__(self) -> None:
        as_days(self.half_life, argument="half_life")
        if self.step is not None:
            as_days(self.step, argument="step")


@dataclass(frozen=True)
class PositionBased(Model):
    """Credit the ends of the path, and touchpoints at milestones, with fixed shares.

    What is left goes to the touchpoints without a role, equally. Roles that coincide add up; when a role
    has no touchpoint the shares of the others are scaled to one. A path of one touchpoint gives it all.

    Parameters
    ----------
    first, last : float, default 0.4
        Shares of the two ends, 0 to 1.
    milestones : mapping of str to float, optional
        Share of the last touchpoint at or before each milestone of the conversion, such as
        ``{"lead": 0.3}``. The dates come with the paths. All shares together are at most 1.

    Notes
    -----
    U is 40/20/40 (the default), J is 20/20/60, inverse J is 60/20/20, W adds the lead at 30/30/30 and the
    full path (Z) adds the opportunity too, at 22.5 each; those have names of their own, see
    :func:`model_named`.
    """

    first: float = 0.4
    last: float = 0.4
    milestones: Mapping[str, float] | tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", self.roles)
        for argument, share in (("first", self.first), ("last", self.last), *self.roles):
            check_share(argument, share)
        total = self.first + self.last + sum(share for _, share in self.roles)
        if total > 1 + 1e-9:
            raise InvalidRequest(
                f"first, last and milestones: the shares add up to {total:g}; allowed: at most 1",
                field="first",
            )

    @property
    def roles(self) -> tuple[tuple[str, float], ...]:
        """Name and share of each milestone."""
        pairs = self.milestones.items() if isinstance(self.milestones, Mapping) else self.milestones
        return tuple((str(name), share) for name, share in pairs)


@dataclass(frozen=True)
class Participation(Model):
    """Credit every node of the path with the whole conversion, once; credits add up to more than one."""


@dataclass(frozen=True)
class CustomWeights(Model):
    """Credit touchpoints in proportion to a function of your own.

    Parameters
    ----------
    weight : callable
        Takes a touchpoint, whose attributes are Ibis columns: ``position`` (1 is the first), ``length``
        (touchpoints in the path), ``age_days`` (before the conversion), ``node_id`` and ``type``; returns
        a number or an Ibis number, never negative. Weights are scaled to one per conversion; where all of
        them are zero the conversion is credited equally.
    label : str, default "custom_weights"
        The name in results.

    Examples
    --------
    >>> from attrib_ds.attribution.models import CustomWeights
    >>> model = CustomWeights(lambda touch: 1 / (1 + touch.age_days), label="hyperbolic")
    >>> model.name
    'hyperbolic'
    """

    weight: Callable[[Any], Any] = field(repr=False)
    label: str = field(default="custom_weights", repr=False)

    def __post_init__(self) -> None:
        if not callable(self.weight):
            raise InvalidRequest(
                f"weight: {self.weight!r} cannot be called; allowed: a function of one touchpoint, such as "
                "lambda touch: 1 / touch.position",
                field="weight",
            )

    @property
    def name(self) -> str:
        """The label given."""
        return self.label


@dataclass(frozen=True)
class Shapley(Model):
    """Credit the distinct nodes of the path equally, however often each stands in it.

    This is the Shapley value of the game in which a set of nodes is worth the conversions whose paths use
    nothing else. It is additive, so it needs no null paths and no sampling, at any number of nodes; and it
    holds no comparison with users who did not convert: for that see :class:`ConversionRateShapley`.

    References
    ----------
    Zhao, Mahboobi and Bagheri (2018), Shapley value methods for attribution modeling in online advertising,
    arXiv:1804.05327.
    """


@dataclass(frozen=True)
class OrderedShapley(Model):
    """Credit as :class:`Shapley` does, and split a node's credit equally over its places in the path.

    Summed by node the credits are those of :class:`Shapley`; :func:`attrib_ds.position_credits` shows them
    by position.

    References
    ----------
    Zhao, Mahboobi and Bagheri (2018), arXiv:1804.05327, ordered Shapley value.
    """


@dataclass(frozen=True)
class PathModel(Model):
    """Base of the models that compare whole paths, those that led to no conversion included."""

    #: Whether credits may be negative.
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class ConversionRateShapley(PathModel):
    """Credit the nodes of a path by how much each raises the conversion rate, in every order of joining.

    A set of nodes is worth the conversion rate of the users who touched exactly these nodes. The Shapley
    value of that game, within the set a user touched, says how to divide the conversions of the set; it may
    be negative where users with one node more convert less often. Without null paths every rate is one.

    Parameters
    ----------
    shrinkage : float, default 0
        Users with the overall conversion rate that are added to every set: rare sets are drawn towards it,
        and sets that nobody touched have it. At 0 a set that nobody touched has the rate 0.
    exact_size : int, default 10
        Sets of up to so many nodes are computed exactly, at a cost of ``2 ** size`` each; 1 to 16.
    permutations : int, default 256
        Orders of joining that are drawn for larger sets; each is used backwards too.
    seed : int, default 0
        Of the draws.

    Notes
    -----
    By Hoeffding's inequality a drawn value is within ``2 * rate * sqrt(log(2 / d) / (2 * permutations))`` of
    the exact one with probability ``1 - d``, where ``rate`` is the highest conversion rate of a set;
    :meth:`sampling_error` computes it. The values of a set add up exactly all the same.
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
        """Return how far a drawn value may be from the exact one, as a conversion rate.

        Parameters
        ----------
        rate : float, default 1
            The highest conversion rate of a set of nodes.
        confidence : float, default 0.95
            Probability that the error is no larger.

        Returns
        -------
        float
            Hoeffding's bound for one node of one set of more than ``exact_size`` nodes.
        """
        return 2 * rate * math.sqrt(math.log(2 / (1 - confidence)) / (2 * self.permutations))


@dataclass(frozen=True)
class SequenceModel(PathModel):
    """Base of the models that look at the order of touchpoints.

    Parameters
    ----------
    transform : str, default "unique"
        ``"unique"`` leaves the path as it is; ``"exposure"`` makes one touchpoint of consecutive ones of the
        same node; ``"first"`` keeps the first touchpoint of each node; ``"frequency"`` keeps it too, and
        tells nodes apart by how often they were touched in the path.
    steps : int, optional
        Only the last ``steps`` touchpoints of a path, taken before the transform; all by default.
    """

    transform: str = field(default="unique", kw_only=True)
    steps: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise InvalidRequest.choice("transform", self.transform, TRANSFORMS)
        if self.steps is not None:
            check_whole("steps", self.steps, minimum=1)


@dataclass(frozen=True)
class Markov(SequenceModel):
    """Credit nodes in proportion to their removal effect in a Markov chain of touchpoints.

    The removal effect of a node is the share of conversions that the chain loses when every walk that
    reaches the node ends there. It is solved, not simulated.

    Parameters
    ----------
    order : int, default 1
        Touchpoints that the next step depends on, 1 to 9. An order that is at least the length of the longest
        path gives each node the share of conversions whose path holds it.
    nulls : bool, default True
        Whether paths that led to no conversion are part of the chain, where they are known. Without them the
        removal effect of order 1 is how many walks meet the node, and says nothing about its effect.
    transform, steps
        As in :class:`SequenceModel`. Consecutive touchpoints of one node change nothing at order 1.

    References
    ----------
    Anderl, Becker, von Wangenheim and Schumann (2016), Mapping the customer journey, International Journal
    of Research in Marketing 33(3), 457-474.
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

    The rate of a path is that of the users with exactly this path; a path that nobody had has the rate 0. A
    loss below zero counts as zero; where nothing is lost the last touchpoint takes all, and so does the only
    one.

    Parameters
    ----------
    shrinkage : float, default 0
        Users with the overall conversion rate that are added to every path, so that a path seen once does
        not have the rate 0 or 1; a path that nobody had has the overall rate then.
    transform, steps
        As in :class:`SequenceModel`. The path without a touchpoint is not transformed again.

    References
    ----------
    Google, Fractribution (2020), the open-source implementation. It calls the rule a Shapley value, which it
    is not.
    """

    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("shrinkage", self.shrinkage)


@dataclass(frozen=True)
class IncrementalModel(PathModel):
    """Base of the models that estimate which conversions would not have happened without a node.

    What is left of a conversion when the nodes have their parts is nobody's: it would have happened anyway.
    Where conversions and exposure have a common cause that is not observed, such as the wish to buy, these
    models take its effect for that of the nodes; what they credit to nodes without any effect tells so.
    """

    signed: ClassVar[bool] = True


@dataclass(frozen=True)
class DiscreteHazard(IncrementalModel):
    """Credit nodes with the conversions that would not have happened without them, period by period.

    The chance that a user converts in a period is a logistic function of what is at work in it: each node's
    touchpoints until then, of which half is left after a half-life, saturated as ``log(1 + level)``; what is
    known of the user; and the time. A node's credit for a conversion is the share of that chance which is
    lost without the node's touchpoints. It may be negative, and with nodes that strengthen each other the
    parts of a conversion may add up to more than it.

    Parameters
    ----------
    half_lives : tuple of str or timedelta, default ("1D", "3D", "9D")
        Speeds at which effects fade; the data decide how much of each.
    step : str or timedelta, default "1D"
        Length of a period.
    interactions : bool, default False
        Whether two nodes may be worth more, or less, together than alone.
    covariates : tuple of str, optional
        What is known of users and raises or lowers their chance; by default every column of the observed
        users.
    shrinkage : float, default 0.01
        How strongly effects are drawn towards zero: the precision of the prior of a standardised effect, per
        conversion.
    comparisons : int, default 20
        About how many periods without a conversion are drawn for each conversion, to compare with; fewer
        where that would be more than ``rows``.
    rows : int, default 2,000,000
        At most about so many are drawn.
    seed : int, default 0
        Of the draw.

    References
    ----------
    Shender, Amini, Bao, Dikmen, Richardson and Wang (2024), A time to event framework for multi-touch
    attribution, Journal of Data Science 22(1), take effects away in the same sense.
    """

    half_lives: tuple[str | timedelta, ...] = ("1D", "3D", "9D")
    step: str | timedelta = "1D"
    interactions: bool = False
    covariates: tuple[str, ...] | None = None
    shrinkage: float = 0.01
    comparisons: int = 20
    rows: int = 2_000_000
    seed: int = 0

    #: Nodes whose pairs are not too many to tell apart.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        if isinstance(self.half_lives, str) or not self.half_lives:
            raise InvalidRequest(
                f"half_lives: {self.half_lives!r} is not allowed; allowed: one or more lengths of time",
                field="half_lives",
            )
        object.__setattr__(self, "half_lives", tuple(self.half_lives))
        for each in self.half_lives:
            as_days(each, argument="half_lives")
        as_days(self.step, argument="step")
        if self.covariates is not None:
            object.__setattr__(self, "covariates", tuple(self.covariates))
        check_amount("shrinkage", self.shrinkage)
        check_whole("comparisons", self.comparisons, minimum=1)
        check_whole("rows", self.rows, minimum=1_000)
        check_whole("seed", self.seed, minimum=0)


def check_share(argument: str, share: object) -> None:
    """Refuse what is not a number from 0 to 1."""
    valid = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
    if not valid or not 0 <= share <= 1:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {share!r} is not a share; allowed: 0 to 1", field=argument)


def check_amount(argument: str, amount: object) -> None:
    """Refuse what is not a finite number of at least zero."""
    valid = isinstance(amount, int | float) and not isinstance(amount, bool) and math.isfinite(amount)
    if not valid or amount < 0:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {amount!r} is not allowed; allowed: 0 or more", field=argument)


def check_whole(argument: str, number: object, *, minimum: int, maximum: int | None = None) -> None:
    """Refuse what is not a whole number within bounds."""
    valid = isinstance(number, int) and not isinstance(number, bool) and number >= minimum
    if not valid or (maximum is not None and number > maximum):  # type: ignore[operator]
        bounds = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        raise InvalidRequest(
            f"{argument}: {number!r} is not allowed; allowed: whole numbers, {bounds}", field=argument
        )


def rule_models() -> dict[str, Model]:
    """Return every rule-based model that needs no milestones, by name, with default parameters."""
    return {
        "first_touch": FirstTouch(),
        "last_touch": LastTouch(),
        "last_non_direct": LastNonDirect(),
        "linear": Linear(),
        "linear_ramp": LinearRamp(),
        "time_decay": TimeDecay(),
        "position_based": PositionBased(),
        "j_shaped": PositionBased(first=0.2, last=0.6),
        "inverse_j": PositionBased(first=0.6, last=0.2),
        "participation": Participation(),
    }


def model_named(name: str) -> Model:
    """Return the model with default parameters that a name stands for.

    Parameters
    ----------
    name : str
        Such as ``"linear"``; case, spaces, hyphens and underscores do not matter, and short forms
        (``"first"``, ``"position"``, ``"u"``, ``"j"``) are accepted.

    Returns
    -------
    Model
        The model's value.

    Raises
    ------
    InvalidRequest
        If no model has that name; the message names the closest one.

    Examples
    --------
    >>> model_named("time-decay")
    TimeDecay(half_life='7D', step=None)
    """
    named = rule_models() | {
        "w_shaped": PositionBased(first=0.3, last=0.3, milestones={"lead": 0.3}),
        "full_path": PositionBased(first=0.225, last=0.225, milestones={"lead": 0.225, "opportunity": 0.225}),
        "shapley": Shapley(),
        "ordered_shapley": OrderedShapley(),
        "conversion_rate_shapley": ConversionRateShapley(),
        "markov": Markov(),
        "markov_2": Markov(order=2),
        "markov_3": Markov(order=3),
        "markov_4": Markov(order=4),
        "fractribution": Fractribution(),
        "discrete_hazard": DiscreteHazard(),
    }
    short = {
        "first": "first_touch",
        "last": "last_touch",
        "lastnondirectclick": "last_non_direct",
        "ramp": "linear_ramp",
        "position": "position_based",
        "u": "position_based",
        "ushaped": "position_based",
        "j": "j_shaped",
        "inversej": "inverse_j",
        "inversejshaped": "inverse_j",
        "w": "w_shaped",
        "z": "full_path",
        "zshaped": "full_path",
        "markov1": "markov",
    }
    key = re.sub(r"[^a-z0-9]", "", name.casefold())
    folded = {each.replace("_", ""): each for each in named}
    found = folded.get(key) or short.get(key)
    if found is None:
        raise InvalidRequest(
            f"models: {name!r} is not a model{closest(name, named)}; allowed: {', '.join(sorted(named))}",
            field="models",
        )
    return named[found]
