"""Windows: which touchpoints of a user may have led to a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from attrib_ds.attribution.durations import parse_duration
from attrib_ds.errors import InvalidRequest

#: How the lookback of types and nodes is named that have none of their own.
DEFAULT = "default"

#: A length of time, or one for each type of touchpoints.
Lookback = str | timedelta | Mapping[str, str | timedelta]

_RESETS = ("none", "same", "any")
_ANCHORS = ("event", "state")


@dataclass(frozen=True)
class Window:
    """What decides whether a touchpoint belongs to the path of a conversion.

    Attributes
    ----------
    lookback : timedelta or None
        Of touchpoints whose type and node have none of their own; None where every type has.
    of_types, of_nodes : mapping of str to timedelta
        The lookbacks of types, and of nodes. A node's own goes before that of the type.
    precedence : tuple of str
        Types, the first before the others: a touchpoint is left out of a path that has one of a type before
        its own.
    reset : str
        ``"none"``, ``"same"`` or ``"any"``: the conversions of a user before which touchpoints do not count.
    anchor : str
        ``"event"`` or ``"state"``: the date at which windows end.
    """

    lookback: timedelta | None
    of_types: Mapping[str, timedelta] = field(default_factory=dict)
    of_nodes: Mapping[str, timedelta] = field(default_factory=dict)
    precedence: tuple[str, ...] = ()
    reset: str = "none"
    anchor: str = "event"

    @classmethod
    def of(
        cls,
        lookback: Lookback,
        *,
        of_nodes: Mapping[str, str | timedelta] | None = None,
        precedence: Sequence[str] | None = None,
        reset: str = "none",
        anchor: str = "event",
        bounds: tuple[timedelta, timedelta] | None = None,
    ) -> Window:
        """Read a window as users write it.

        Parameters
        ----------
        lookback : str, timedelta or mapping
            Of all touchpoints, or by type; ``"default"`` in a mapping is that of the other types.
        of_nodes : mapping of str to str or timedelta, optional
            By node, which goes before the type.
        precedence : sequence of str, optional
            Types, the first before the others.
        reset : {"none", "same", "any"}
            Which earlier conversions end a window.
        anchor : {"event", "state"}
            The date at which windows end.
        bounds : tuple of timedelta, optional
            The shortest and the longest lookback that is allowed.

        Raises
        ------
        InvalidRequest
            If an argument is not allowed.
        """
        if reset not in _RESETS:
            raise InvalidRequest.choice("reset", reset, _RESETS)
        if anchor not in _ANCHORS:
            raise InvalidRequest.choice("anchor", anchor, _ANCHORS)
        given = lookback if isinstance(lookback, Mapping) else {DEFAULT: lookback}
        if not given:
            raise InvalidRequest(
                "lookback: there is none; allowed: a length of time, or one for each type of touchpoints",
                field="lookback",
            )
        lengths = _lengths(given, "lookback", bounds)
        return cls(
            lookback=lengths.pop(DEFAULT, None),
            of_types=lengths,
            of_nodes=_lengths(of_nodes or {}, "node_lookbacks", bounds),
            precedence=_ranked(precedence),
            reset=reset,
            anchor=anchor,
        )

    @property
    def longest(self) -> timedelta:
        """The longest of the lookbacks."""
        every = [*self.of_types.values(), *self.of_nodes.values()]
        return max(every if self.lookback is None else [*every, self.lookback])

    @property
    def is_uniform(self) -> bool:
        """Whether all touchpoints have the same lookback."""
        return not self.of_types and not self.of_nodes

    @property
    def named_types(self) -> list[str]:
        """The types of touchpoints that have a lookback or a rank of their own."""
        return sorted({*self.of_types, *self.precedence})

    def require_types(self, known: Sequence[str | None]) -> None:
        """Refuse a type that no touchpoint has, and touchpoints whose type has no lookback.

        Parameters
        ----------
        known : sequence of str
            The types of all touchpoints; None for touchpoints without one.
        """
        named = sorted({each for each in known if each is not None})
        if known and not named:
            raise InvalidRequest(
                f"lookback and precedence: {', '.join(map(repr, self.named_types))} cannot be told apart, "
                "because touchpoints have no types; name the column of them with type=",
                field="type",
            )
        for argument, types in (("lookback", self.of_types), ("precedence", self.precedence)):
            for each in types:
                # Without a touchpoint there is nothing to compare with.
                if known and each not in named:
                    raise InvalidRequest.choice(
                        argument, each, [*named, DEFAULT] if argument == "lookback" else named
                    )
        if self.lookback is not None:
            return
        without = sorted({str(each) for each in known if each not in self.of_types})
        if without:
            raise InvalidRequest(
                f"lookback: touchpoints of the type {', '.join(without)} have none; allowed: a lookback for "
                f"every type, or {DEFAULT!r} for the others",
                field="lookback",
            )

    def described(self) -> dict[str, str]:
        """Return the rules as text by name, for results to carry."""
        lookbacks = [] if self.lookback is None else [("", self.lookback)]
        lookbacks += [(f"{name}: ", each) for name, each in [*self.of_types.items(), *self.of_nodes.items()]]
        told = {
            "lookback": ", ".join(f"{name}{_written(each)}" for name, each in lookbacks),
            "anchor": self.anchor,
            "reset": self.reset,
        }
        return told | ({"precedence": " > ".join(self.precedence)} if self.precedence else {})


def _lengths(
    given: Mapping[str, str | timedelta], argument: str, bounds: tuple[timedelta, timedelta] | None
) -> dict[str, timedelta]:
    lengths = {str(name): parse_duration(value, argument=argument) for name, value in given.items()}
    for name, length in lengths.items():
        if bounds is not None and not bounds[0] <= length <= bounds[1]:
            raise InvalidRequest(
                f"{argument}: {given[name]!r} is not allowed; allowed: {bounds[0].days} to {bounds[1].days} "
                "days",
                field=argument,
            )
    return lengths


def _ranked(precedence: Sequence[str] | None) -> tuple[str, ...]:
    types = tuple(precedence or ())
    if isinstance(precedence, str) or len(set(types)) < len(types) or len(types) == 1:
        raise InvalidRequest(
            f"precedence: {precedence!r} is not allowed; allowed: two or more types of touchpoints, such as "
            "('click', 'view')",
            field="precedence",
        )
    return types


def _written(length: timedelta) -> str:
    days, rest = divmod(length, timedelta(days=1))
    return f"{days}D" if not rest else f"{length / timedelta(hours=1):g}h"
