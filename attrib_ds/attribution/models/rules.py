"""Models that give weights to the touchpoints of a conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.models.model import Model, check_share, texts
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta


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
        object.__setattr__(self, "direct", texts("direct", self.direct))


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
