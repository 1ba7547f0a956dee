"""Lookback windows: joins each conversion with the touchpoints of its user that belong to its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir

from attrib_ds.attribution.calendar import parse_duration
from attrib_ds.attribution.engines.engine import double
from attrib_ds.errors import InvalidRequest, check_choice

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
        check_choice("reset", reset, _RESETS)
        check_choice("anchor", anchor, _ANCHORS)
        given = lookback if isinstance(lookback, Mapping) else {DEFAULT: lookback}
        if not given:
            raise InvalidRequest(
                "lookback: it is empty; allowed: a length of time, or one for each type of touchpoints"
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
                "because touchpoints have no types; name their column with columns={'type': …}",
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
                f"every type, or {DEFAULT!r} for the others"
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
            raise InvalidRequest.value(argument, given[name], f"{bounds[0].days} to {bounds[1].days} days")
    return lengths


def _ranked(precedence: Sequence[str] | None) -> tuple[str, ...]:
    types = tuple(precedence or ())
    if isinstance(precedence, str) or len(set(types)) < len(types) or len(types) == 1:
        raise InvalidRequest.value(
            "precedence", precedence, "two or more types of touchpoints, such as ('click', 'view')"
        )
    return types


def _written(length: timedelta) -> str:
    days, rest = divmod(length, timedelta(days=1))
    return f"{days}D" if not rest else f"{length / timedelta(hours=1):g}h"


#: Names of direct traffic, in lower case.
DIRECT = ("direct", "(direct)", "(direct) / (none)", "direct / (none)", "direct / none")

#: Column of conversions: the instant up to which touchpoints belong to an earlier conversion.
RESET = "reset_date"
#: Column of touchpoints: the node whose lookback applies, if it is not the credited one.
WINDOW_NODE = "window_node"

_MICROSECONDS_A_DAY = 86_400_000_000


def pair(touchpoints: ir.Table, conversions: ir.Table, *, window: Window) -> ir.Table:
    """Join each conversion with the touchpoints of its user inside its window, in order.

    Parameters
    ----------
    touchpoints : ibis.Table
        ``user_id``, ``node_id``, ``date``, ``type`` and, optionally, ``touch_id`` (by default, the node's
        id), ``is_direct`` (by default, from the node's id) and ``WINDOW_NODE``.
    conversions : ibis.Table
        ``event_id``, ``user_id``, ``event_date``, ``conversions``, ``value``, ``currency``, milestones and,
        if earlier conversions end the windows, ``RESET``.
    window : Window
        It includes the instant of the conversion and excludes its start.

    Returns
    -------
    ibis.Table
        As :attr:`Paths.touches`.
    """
    columns = [
        name for name in ("node_id", "date", "touch_id", "type", "is_direct") if name in touchpoints.columns
    ]
    ends = {} if window.is_uniform else {"counts_until": _counts_until(touchpoints, window)}
    points = touchpoints.select(*columns, touch_user=touchpoints.user_id, **ends)
    opens: Any = conversions.event_date - _interval(window.longest)
    if RESET in conversions.columns:
        opens = ibis.greatest(opens, conversions[RESET].coalesce(opens))
    # What is the same everywhere is added after the sort of the touchpoints, not sorted with them.
    node = conversions.op()
    values = node.values if isinstance(node, ops.Project) else {}
    same = {name: value.to_expr() for name, value in values.items() if not value.find(ops.Field)}
    opened = conversions.mutate(opens=opens).drop(*same)
    inside = [
        opened.user_id == points.touch_user,
        points.date <= opened.event_date,
        points.date > opened.opens,
    ]
    if ends:
        inside.append(points.counts_until > opened.event_date)
    joined = opened.left_join(points, inside).drop("touch_user", "opens", *ends)
    joined = joined.drop(*({RESET} & set(joined.columns)))
    if "is_direct" not in columns:
        # After the join, which leaves far fewer rows. DuckDB joins a list even if nothing reads it.
        node = joined.node_id.lower()
        joined = joined.mutate(is_direct=ibis.or_(*(node == name for name in DIRECT)))
    if window.precedence:
        joined = _preceding(joined, window.precedence)
    of_event = ibis.window(group_by=joined.event_id)
    # Without ids of their own, touchpoints are joined and sorted with their nodes once, not twice.
    touch_id = joined.touch_id if "touch_id" in columns else joined.node_id
    in_order = ibis.window(group_by=joined.event_id, order_by=[joined.date, touch_id])
    age_days = joined.event_date.delta(joined.date, unit="microsecond") / double(_MICROSECONDS_A_DAY)
    return joined.mutate(
        **same,
        touch_id=touch_id,
        position=ibis.ifelse(joined.node_id.isnull(), 0, ibis.row_number().over(in_order) + 1),
        length=joined.node_id.count().over(of_event),
        age_days=age_days,
        youngest_days=age_days.min().over(of_event),
    )


def after_earlier(conversions: ir.Table, *, by: list[str]) -> ir.Table:
    """Add the instant of the user's previous conversion as ``RESET``.

    Parameters
    ----------
    conversions : ibis.Table
        With ``event_id``, ``user_id`` and ``event_date``; conversions of the same instant are ordered by id.
    by : list of str
        Further columns whose values a user's conversions must share to reset each other.
    """
    keys = [conversions[name] for name in ("user_id", *by)]
    in_order = ibis.window(group_by=keys, order_by=[conversions.event_date, conversions.event_id])
    return conversions.mutate(**{RESET: conversions.event_date.lag(1).over(in_order)})


def _counts_until(points: ir.Table, window: Window) -> Any:
    """Return the instant from which a touchpoint is too old, by its node, else by its type."""
    node = points[WINDOW_NODE] if WINDOW_NODE in points.columns else points.node_id
    branches = [
        (column == name, points.date + _interval(length))
        for column, lookbacks in ((node, window.of_nodes), (points.type, window.of_types))
        for name, length in lookbacks.items()
    ]
    # Touchpoints of types without a lookback have raised an error before, so this value is never used.
    other = points.date if window.lookback is None else points.date + _interval(window.lookback)
    return ibis.cases(*branches, else_=other)


def _preceding(joined: ir.Table, precedence: tuple[str, ...]) -> ir.Table:
    """Drop touchpoints if the same window has one of a type with higher precedence."""
    rank = ibis.cases(
        *((joined.type == name, place) for place, name in enumerate(precedence)), else_=ibis.null("int8")
    )
    ranked = joined.mutate(rank=rank)
    first = ranked.rank.min().over(ibis.window(group_by=ranked.event_id))
    marked = ranked.mutate(is_kept=ranked.rank.isnull() | (ranked.rank == first))
    return marked.filter(marked.is_kept).drop("rank", "is_kept")


def _interval(length: timedelta) -> Any:
    # Some engines have no intervals below a second.
    if length % timedelta(seconds=1):
        return ibis.interval(microseconds=length // timedelta(microseconds=1))
    return ibis.interval(seconds=length // timedelta(seconds=1))
