"""Attribution models as frozen values with documented bounds.

Only parameters live here; :mod:`attrib_ds.attribution.weights` turns a model into weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from attrib_ds.attribution.durations import as_days
from attrib_ds.errors import InvalidRequest, closest

if TYPE_CHECKING:
    from datetime import timedelta


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


def check_share(argument: str, share: object) -> None:
    """Refuse what is not a number from 0 to 1."""
    valid = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
    if not valid or not 0 <= share <= 1:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {share!r} is not a share; allowed: 0 to 1", field=argument)


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
