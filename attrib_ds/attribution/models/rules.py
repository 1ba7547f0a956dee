"""Parameters of the rule-based models, which weight the touchpoints of one conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.models.model import Model, check_share, check_strings
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta


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
        if self.direct is None:
            return
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
    """Halve the credit with every ``half_life`` that a touchpoint is older than the conversion.

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
        if not isinstance(self.milestones, Mapping | tuple):
            raise InvalidRequest(
                f"milestones: {self.milestones!r} is not allowed; allowed: shares by name such as "
                "{'lead': 0.3}",
                field="milestones",
            )
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
    """Credit every node of the path with the whole conversion, once; credits add up to more than one.

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
