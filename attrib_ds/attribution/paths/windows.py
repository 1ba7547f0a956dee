"""Lookback windows: which touchpoints of a user belong to the path of a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from attrib_ds.attribution.durations import parse_duration
from attrib_ds.errors import InvalidRequest

#: Key of the lookback of all types that a mapping does not name.
DEFAULT = "default"

#: A length of time, or a mapping of touchpoint types to lengths of time.
Lookback = str | timedelta | Mapping[str, str | timedelta]

_RESETS = ("none", "same", "any")
_ANCHORS = ("event", "state")


@dataclass(frozen=True)
class Window:
    """Rules that decide whether a touchpoint belongs to the path of a conversion.

    Attributes
    ----------
    lookback : timedelta or None
        Lookback of touchpoints whose type and node have none of their own; None if every type has one.
    of_types, of_nodes : mapping of str to timedelta
        Lookbacks by type and by node; that of the node takes precedence.
    precedence : tuple of str
        Types in order of precedence: a touchpoint is dropped from a window that has one of an earlier type.
    reset : str
        ``"none"``, ``"same"`` or ``"any"``: which earlier conversions of the user end a window.
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
        """Make a window from the arguments of users.

        Parameters
        ----------
        lookback : str, timedelta or mapping
            Lookback of all touchpoints, or by type; the key ``"default"`` stands for all other types.
        of_nodes : mapping of str to str or timedelta, optional
            Lookbacks by node, which take precedence over those of types.
        precedence : sequence of str, optional
            Types in order of precedence.
        reset : {"none", "same", "any"}
            Which earlier conversions end a window.
        anchor : {"event", "state"}
            The date at which windows end.
        bounds : tuple of timedelta, optional
            The shortest and the longest allowed lookback.

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
                "lookback: it is empty; allowed: a length of time, or one for each type of touchpoints",
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
        """The longest lookback."""
        lookbacks = [*self.of_types.values(), *self.of_nodes.values()]
        return max(lookbacks if self.lookback is None else [*lookbacks, self.lookback])

    @property
    def is_uniform(self) -> bool:
        """Whether all touchpoints have the same lookback."""
        return not self.of_types and not self.of_nodes

    @property
    def named_types(self) -> list[str]:
        """The types of touchpoints in the lookbacks and the precedence."""
        return sorted({*self.of_types, *self.precedence})

    def require_types(self, types: Sequence[str | None]) -> None:
        """Require that each named type has touchpoints, and each type of touchpoints a lookback.

        Parameters
        ----------
        types : sequence of str
            Types of all touchpoints; None for touchpoints without one.
        """
        present = sorted({name for name in types if name is not None})
        if types and not present:
            raise InvalidRequest(
                f"lookback and precedence: {', '.join(map(repr, self.named_types))} cannot be distinguished, "
                "because touchpoints have no types; name their column with type=",
                field="type",
            )
        for argument, names in (("lookback", self.of_types), ("precedence", self.precedence)):
            for name in names:
                # Without touchpoints any type may be right.
                if types and name not in present:
                    allowed = [*present, DEFAULT] if argument == "lookback" else present
                    raise InvalidRequest.choice(argument, name, allowed)
        if self.lookback is not None:
            return
        without = sorted({str(name) for name in types if name not in self.of_types})
        if without:
            raise InvalidRequest(
                f"lookback: touchpoints of the type {', '.join(without)} have no lookback; allowed: one for "
                f"every type, or {DEFAULT!r} for the others",
                field="lookback",
            )

    def described(self) -> dict[str, str]:
        """Return the rules as text by name, for the ``attrs`` of results."""
        lookbacks = [] if self.lookback is None else [("", self.lookback)]
        lookbacks += [
            (f"{name}: ", length) for name, length in [*self.of_types.items(), *self.of_nodes.items()]
        ]
        settings = {
            "lookback": ", ".join(f"{name}{_written(length)}" for name, length in lookbacks),
            "anchor": self.anchor,
            "reset": self.reset,
        }
        return settings | ({"precedence": " > ".join(self.precedence)} if self.precedence else {})


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
