"""Attribution models as frozen values; a name such as ``"linear"`` stands for its default parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, ClassVar, Literal

from attrib_ds.attribution.calendar import as_days
from attrib_ds.display import card
from attrib_ds.errors import InvalidRequest, check_choice, check_number, check_whole, closest, plain_number

__all__ = [
    "ConversionRateShapley", "CustomWeights", "DiscreteHazard", "FirstTouch", "Fractribution",
    "LastNonDirect", "LastTouch", "Linear", "LinearRamp", "Markov", "Model", "Participation",
    "PositionBased", "Shapley", "TimeDecay",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Model:
    """Base class of every attribution model: a frozen value to compare, hash and print.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.models.TimeDecay(half_life="3D").name
    'time_decay(half_life=3D)'
    >>> at.models.Linear() == at.models.Linear()
    True
    """

    def __post_init__(self) -> None:
        # Names and reprs show the number alone.
        for parameter in fields(self):
            object.__setattr__(self, parameter.name, plain_number(getattr(self, parameter.name)))

    def _require_whole(self, name: str, *, minimum: int, maximum: float = math.inf) -> None:
        whole = check_whole(name, getattr(self, name), minimum=minimum, maximum=maximum)
        object.__setattr__(self, name, whole)

    @property
    def name(self) -> str:
        """Name of the model in results: snake_case, with the parameters that differ from the defaults."""
        changed = [
            f"{parameter.name}={getattr(self, parameter.name)!r}".replace("'", "")
            for parameter in fields(self)
            if parameter.repr and getattr(self, parameter.name) != parameter.default
        ]
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{stem}({', '.join(changed)})" if changed else stem

    def _repr_html_(self) -> str:
        parameters = {parameter.name: repr(getattr(self, parameter.name)) for parameter in fields(self)}
        summary = (type(self).__doc__ or "").partition("\n")[0]
        return card(type(self).__name__, parameters, note=summary)


def check_share(argument: str, share: object) -> Any:
    """Return a number from 0 to 1, or raise."""
    return check_number(argument, share, "0 to 1", minimum=0, maximum=1)


def check_level(argument: str, level: object) -> Any:
    """Return a number between 0 and 1, both excluded, or raise."""
    return check_number(argument, level, "between 0 and 1, such as 0.95", above=0, below=1)


def check_amount(argument: str, amount: object) -> Any:
    """Return a finite number, 0 or more, or raise."""
    return check_number(argument, amount, "0 or more", minimum=0)


def check_strings(argument: str, given: object, *, of: str = "node ids") -> tuple[str, ...]:
    """Require a list of strings, and return it as a tuple."""
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (given,)
    if isinstance(given, str) or not all(isinstance(item, str) for item in items):
        raise InvalidRequest.value(argument, given, f"a list of {of}, such as ('one', 'two')")
    return items


@dataclass(frozen=True)
class FirstTouch(Model):
    """Credit the first touchpoint of the path with the whole conversion.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [4]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.FirstTouch())[["node_id", "conversions"]]
      node_id  conversions
    0  search          4.0
    1  direct          0.0
    2   email          0.0
    """


@dataclass(frozen=True)
class LastTouch(Model):
    """Credit the last touchpoint of the path with the whole conversion.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [4]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.LastTouch())[["node_id", "conversions"]]
      node_id  conversions
    0  direct          4.0
    1   email          0.0
    2  search          0.0
    """


@dataclass(frozen=True)
class LastNonDirect(Model):
    """Credit the last touchpoint that is not direct traffic; the last one if all are direct.

    Parameters
    ----------
    direct : tuple of str, optional
        Node ids that count as direct. By default a node is direct when its id, name or channel is
        ``direct``, ``(direct)``, ``(direct) / (none)``, ``direct / (none)`` or ``direct / none``, in upper or
        lower case.

    Raises
    ------
    InvalidRequest
        If ``direct`` is not a list of node ids.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [4]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.LastNonDirect())[["node_id", "conversions"]]
      node_id  conversions
    0   email          4.0
    1  direct          0.0
    2  search          0.0
    """

    direct: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direct is not None:
            object.__setattr__(self, "direct", check_strings("direct", self.direct))


@dataclass(frozen=True)
class Linear(Model):
    """Credit every touchpoint of the path equally: ``1 / n`` each.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > search"], "conversions": [6]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.Linear())[["node_id", "conversions"]]
      node_id  conversions
    0  search          4.0
    1   email          2.0
    """


@dataclass(frozen=True)
class LinearRamp(Model):
    """Credit touchpoint ``i`` of ``n`` in proportion to ``i``: later ones earn more.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [6]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.LinearRamp())[["node_id", "conversions"]]
      node_id  conversions
    0  direct          3.0
    1   email          2.0
    2  search          1.0
    """


@dataclass(frozen=True)
class TimeDecay(Model):
    """Halve a touchpoint's credit with each ``half_life`` before the conversion.

    Parameters
    ----------
    half_life : str or timedelta, default "7D"
        Positive length of time. The longer it is, the closer the credits are to :class:`Linear`; the shorter,
        the closer to :class:`LastTouch`.
    step : str or timedelta, optional
        Positive length of time; ages are rounded down to whole steps before they are weighted. With ``"1D"``,
        touchpoints of the same age in whole days weigh the same. By default ages are exact.

    Raises
    ------
    InvalidRequest
        If ``half_life`` or ``step`` is not a positive length of time.

    Notes
    -----
    The default half-life of seven days is that of the former time-decay model of Google Ads.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> touchpoints = pd.DataFrame({"user_id": ["ann", "ann"], "node_id": ["search", "email"],
    ...     "date": pd.to_datetime(["2025-01-01", "2025-01-08"], utc=True)})
    >>> conversions = pd.DataFrame({"event_id": ["order-1"], "user_id": ["ann"],
    ...     "date": pd.to_datetime(["2025-01-08"], utc=True)})
    >>> paths = at.Paths.from_frames(touchpoints, conversions)
    >>> at.attribute(paths, at.models.TimeDecay(half_life="7D"))[["node_id", "conversions"]].round(3)
      node_id  conversions
    0   email        0.667
    1  search        0.333
    """

    half_life: str | timedelta = "7D"
    step: str | timedelta | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_days(self.half_life, argument="half_life")
        if self.step is not None:
            as_days(self.step, argument="step")


@dataclass(frozen=True)
class PositionBased(Model):
    """Credit the first and last touchpoint, and those at milestones, with fixed shares.

    The other touchpoints divide the rest equally. A touchpoint with several roles earns the sum of their
    shares. If a role has no touchpoint, the other shares are scaled to sum to 1; a single touchpoint earns
    the whole conversion.

    Parameters
    ----------
    first, last : float, default 0.4
        Shares of the first and of the last touchpoint, 0 to 1.
    milestones : mapping of str to float, optional
        Share, 0 to 1, of the last touchpoint at or before each milestone of the conversion, such as
        ``{"lead": 0.3}``. The paths carry the dates of milestones. All shares together are at most 1.

    Raises
    ------
    InvalidRequest
        If a share is not between 0 and 1, or the shares add up to more than 1.

    Notes
    -----
    The usual shapes have names, such as ``at.attribute(paths, "w_shaped")``:

    ====================  =====  =====  ===========  =====  ====
    Name                  First  Lead   Opportunity  Last   Rest
    ====================  =====  =====  ===========  =====  ====
    ``"position_based"``  0.4                        0.4    0.2
    ``"j_shaped"``        0.2                        0.6    0.2
    ``"inverse_j"``       0.6                        0.2    0.2
    ``"w_shaped"``        0.3    0.3                 0.3    0.1
    ``"full_path"``       0.225  0.225  0.225        0.225  0.1
    ====================  =====  =====  ===========  =====  ====

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [10]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.PositionBased(first=0.6, last=0.2))[["node_id", "conversions"]]
      node_id  conversions
    0  search          6.0
    1  direct          2.0
    2   email          2.0
    """

    first: float = 0.4
    last: float = 0.4
    milestones: Mapping[str, float] | tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.milestones, Mapping | tuple):
            raise InvalidRequest.value("milestones", self.milestones, "shares by name such as {'lead': 0.3}")
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
        return tuple((str(name), plain_number(share)) for name, share in pairs)


@dataclass(frozen=True)
class Participation(Model):
    """Credit every node of the path once with the whole conversion; credits add up to more than one.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > search"], "conversions": [4]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.Participation())[["node_id", "conversions"]]
      node_id  conversions
    0   email          4.0
    1  search          4.0
    """


@dataclass(frozen=True)
class CustomWeights(Model):
    """Credit touchpoints in proportion to a function of your own.

    Parameters
    ----------
    weight : callable
        Function of a touchpoint, whose attributes are Ibis columns: ``position`` (1 is the first),
        ``length`` (touchpoints in the path), ``age_days`` (before the conversion), ``node_id`` and ``type``.
        It returns a number or an Ibis number, 0 or more and finite. Weights are scaled to sum to 1 per
        conversion; if all of them are 0, touchpoints are credited equally.
    label : str, default "custom_weights"
        Name of the model in results.

    Raises
    ------
    InvalidRequest
        If ``weight`` cannot be called.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > direct"], "conversions": [7]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> model = at.models.CustomWeights(lambda touch: 2 ** touch.position, label="doubling")
    >>> at.attribute(paths, model)[["model", "node_id", "conversions"]]
          model node_id  conversions
    0  doubling  direct          4.0
    1  doubling   email          2.0
    2  doubling  search          1.0
    """

    weight: Callable[[Any], Any] = field(repr=False)
    label: str = "custom_weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.weight):
            raise InvalidRequest(
                f"weight: {self.weight!r} cannot be called; allowed: a function of one touchpoint, such as "
                "lambda touch: 1 / touch.position"
            )

    @property
    def name(self) -> str:
        """Name of the model in results: its label."""
        return self.label


@dataclass(frozen=True)
class Shapley(Model):
    """Credit the distinct nodes of the path equally, however often each of them occurs.

    This is the Shapley value of the game in which the worth of a set of nodes is the number of conversions
    whose paths touch no other nodes. It is exact for any number of nodes and needs no null paths. It does not
    compare with users who did not convert; :class:`ConversionRateShapley` does. The credit of a node is split
    equally among its touchpoints (the ordered Shapley value), see :func:`attrib_ds.position_credits`.

    References
    ----------
    Zhao, Mahboobi and Bagheri (2018), Shapley value methods for attribution modeling in online advertising,
    arXiv:1804.05327.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email > search"], "conversions": [4]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> at.attribute(paths, at.models.Shapley())[["node_id", "conversions"]]
      node_id  conversions
    0   email          2.0
    1  search          2.0
    """


#: How the touchpoints of a path can be merged before a model reads them.
TRANSFORMS = ("unique", "exposure", "first", "frequency")


@dataclass(frozen=True)
class PathModel(Model):
    """Base of the models that compare whole paths, null paths included."""

    #: Whether credits may be negative.
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class ConversionRateShapley(PathModel):
    """Credit nodes by Shapley values of the conversion rates of sets of nodes.

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
        super().__post_init__()
        check_amount("shrinkage", self.shrinkage)
        self._require_whole("exact_size", minimum=1, maximum=16)
        self._require_whole("permutations", minimum=1)
        self._require_whole("seed", minimum=0)

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
        rate, confidence = check_share("rate", rate), check_level("confidence", confidence)
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
        super().__post_init__()
        check_choice("transform", self.transform, TRANSFORMS)
        if self.steps is not None:
            self._require_whole("steps", minimum=1)
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
        Number of preceding touchpoints that the next step depends on, 1 to 9. If the order is at least the
        length of the longest path, the removal effect of a node is the share of conversions whose path
        contains it.
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
        self._require_whole("order", minimum=1, maximum=9)
        if not isinstance(self.nulls, bool):
            raise InvalidRequest(f"nulls: {self.nulls!r} is not allowed; allowed: True, False")


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

    Where people buy in sessions, as in logs of clicks, every conversion comes minutes after a touchpoint, and
    periods would take the session itself for an effect. Then two probabilities replace that of a period: that
    a session converts, given the node that opened it and earlier sessions; and that there is a further
    session in a period, given the same. Without a node, the sessions that it opened are gone, unless another
    would have come in the same period, and the others lose the effects of those; and if a conversion ends the
    observation of a user, who does not buy may buy in a later session. Touchpoints within 30 minutes of each
    other are one session, opened by the first. Conversions outside sessions are baseline.

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
    scale : {"auto", "periods", "sessions"}, default "auto"
        Whether people convert in periods or in sessions. By default, in sessions if more than half of the
        conversions come within 30 minutes of a touchpoint, also of those that the most frequent last node
        does not precede.
    interactions : bool, default False
        Whether pairs of nodes have interaction terms.
    covariates : tuple of str, optional
        Columns of ``users=`` of the paths; all of them by default: numbers, flags, and text of up to 100
        values.
    activity : bool, default True
        Whether to adjust for how active users are: for their rate of touchpoints of all kinds so far, as
        expected of them if rates have a gamma distribution. Active users have more touchpoints of all kinds,
        and may buy more anyway.
    shrinkage : float, default 0.01
        Ridge penalty of a standardised effect, of activity, and of a period's deviation from the trend, per
        conversion; 0 or more.
    comparisons : int, default 20
        Approximate number of periods without a conversion to draw per conversion, 1 or more; 2,000 to
        ``rows`` in all.
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
    scale: Literal["auto", "periods", "sessions"] = "auto"
    interactions: bool = False
    covariates: tuple[str, ...] | None = None
    activity: bool = True
    shrinkage: float = 0.01
    comparisons: int = 20
    rows: int = 2_000_000
    seed: int = 0

    signed: ClassVar[bool] = True
    #: Maximum number of nodes with interactions.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.half_lives
        if isinstance(given, str) or not isinstance(given, Iterable) or not tuple(self.half_lives):
            raise InvalidRequest.value("half_lives", given, "one or more lengths of time")
        object.__setattr__(self, "half_lives", tuple(self.half_lives))
        for half_life in self.half_lives:
            as_days(half_life, argument="half_lives")
        as_days(self.step, argument="step")
        check_choice("scale", self.scale, ["auto", "periods", "sessions"])
        if self.covariates is not None:
            object.__setattr__(self, "covariates", check_strings("covariates", self.covariates, of="columns"))
        check_amount("shrinkage", self.shrinkage)
        self._require_whole("comparisons", minimum=1)
        self._require_whole("rows", minimum=1_000)
        self._require_whole("seed", minimum=0)


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


def named_models() -> dict[str, Model]:
    """Return every model that has a name, with default parameters."""
    return rule_models() | {
        "w_shaped": PositionBased(first=0.3, last=0.3, milestones={"lead": 0.3}),
        "full_path": PositionBased(first=0.225, last=0.225, milestones={"lead": 0.225, "opportunity": 0.225}),
        "shapley": Shapley(),
        "conversion_rate_shapley": ConversionRateShapley(),
        "markov": Markov(),
        "markov_2": Markov(order=2),
        "fractribution": Fractribution(),
        "discrete_hazard": DiscreteHazard(),
    }


def model_named(name: str) -> Model:
    """Return the model with default parameters of a name.

    Parameters
    ----------
    name : str
        Name such as ``"linear"``; case, spaces, hyphens and underscores do not matter, and short forms
        (``"first"``, ``"position"``, ``"u"``, ``"j"``) are accepted.

    Returns
    -------
    Model
        With its default parameters.

    Raises
    ------
    InvalidRequest
        If no model has that name; the message names the closest one.

    Examples
    --------
    >>> model_named("time-decay")
    TimeDecay(half_life='7D', step=None)
    """
    named = named_models()
    short = {
        "first": "first_touch", "last": "last_touch", "lastnondirectclick": "last_non_direct",
        "ramp": "linear_ramp", "position": "position_based", "u": "position_based",
        "ushaped": "position_based", "j": "j_shaped", "inversej": "inverse_j",
        "inversejshaped": "inverse_j", "w": "w_shaped", "z": "full_path", "zshaped": "full_path",
        "markov1": "markov",
    }  # fmt: skip
    key = re.sub(r"[^a-z0-9]", "", name.casefold())
    names = {full.replace("_", ""): full for full in named}
    match = names.get(key) or short.get(key)
    if match is None:
        roles = "; Paths.roles() counts assisted conversions" if "assist" in key else ""
        allowed = ", ".join(sorted(named))
        raise InvalidRequest(
            f"models: {name!r} is not a model{closest(name, named)}; allowed: {allowed}{roles}"
        )
    return named[match]
