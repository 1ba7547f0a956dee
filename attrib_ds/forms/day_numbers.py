"""The numbers of the live page: visits, conversions and newest visits of one day, by public functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.api.event_types import list_event_types
from attrib_ds.api.insights import event_insights, interaction_insights
from attrib_ds.api.interactions import search_interactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date
    from zoneinfo import ZoneInfo

    import pandas as pd

    from attrib_ds.project import Project

#: Number of newest visits.
_NEWEST: Final = 8
#: Types of fields that are statistics.
_STATISTICS: Final = frozenset({"currency", "number"})
_COLUMNS: Final = ("startDate", "nodeId", "firstPageUrl.pathname", "hitCount")


@dataclass(frozen=True)
class Call:
    """A call of a public function on a project.

    Parameters
    ----------
    function : callable
        A public function.
    arguments : dict
        Its arguments by name, without the project.
    """

    function: Callable[..., pd.DataFrame]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class DayNumbers:
    """Visits and conversions of a day.

    Parameters
    ----------
    day : date
        The day.
    visits : DataFrame
        From :func:`attrib_ds.interaction_insights`: by hour of the day and node.
    conversions : DataFrame
        From :func:`attrib_ds.event_insights`: a row per event type.
    newest : DataFrame
        From :func:`attrib_ds.search_interactions`: the visits that began last.
    type_names : dict of str to str
        Names of event types by reference.
    are_money : dict of str to bool
        Statistics of the event types, and whether each is an amount of money.
    uncounted : int
        Number of visits by bots and of filtered traffic.
    calls : dict of str to Call
        The calls of the frames, by the variable of the result.
    """

    day: date
    visits: pd.DataFrame
    conversions: pd.DataFrame
    newest: pd.DataFrame
    type_names: dict[str, str]
    are_money: dict[str, bool]
    uncounted: int
    calls: dict[str, Call]

    @property
    def results(self) -> dict[str, pd.DataFrame]:
        """The frames by the variables of the code."""
        return {"visits": self.visits, "conversions": self.conversions, "newest": self.newest}

    def by_hour(self) -> list[int]:
        """Return the number of visits that began in each hour of the day, 0 to 23."""
        counts = self.visits.groupby("interval")["sessionCount"].sum()
        return [int(counts.get(str(hour), 0)) for hour in range(24)]

    def by_node(self) -> dict[str | None, int]:
        """Return the number of visits from each node, largest first; None for those without a node."""
        counts = self.visits.groupby("group", dropna=False)["sessionCount"].sum()
        by_node = {node if isinstance(node, str) else None: int(count) for node, count in counts.items()}
        return dict(sorted(by_node.items(), key=lambda pair: (-pair[1], pair[0] or "")))

    def conversion_count(self) -> int:
        """Return the number of conversions of all event types."""
        return int(self.conversions["values.event-count"].sum())

    def nodes(self, most: int) -> list[str | None]:
        """Return up to ``most`` nodes with the most visits, and the nodes of the newest visits."""
        newest = [node if isinstance(node, str) else None for node in self.newest["nodeId"]]
        return [*list(self.by_node())[:most], *newest]


def day_calls(day: date, zone: ZoneInfo, keys: Iterable[str]) -> dict[str, Call]:
    """Return the calls for the numbers of a day, by the variable of the result.

    Each is one aggregate or a few rows, however long the day's log is. The bounds are instants, since a
    remote service would be asked for its time zone for each day.
    """
    bounds = {
        "since": instants.format(instants.first_instant(day, zone, argument="since")),
        "until": instants.format(instants.last_instant(day, zone, argument="until")),
    }
    by_hour = {"group_by": "nodeId", "interval": "hourOfDay", **bounds, "timezone": zone.key}
    by_type = {
        "metrics": ["event-count", *keys],
        **bounds,
        "group_by": "event-type",
        "timezone": zone.key,
    }
    return {
        "visits": Call(interaction_insights, by_hour),
        "conversions": Call(event_insights, by_type),
        "newest": Call(search_interactions, {**bounds, "columns": list(_COLUMNS), "limit": _NEWEST}),
    }


def statistics(types: pd.DataFrame) -> dict[str, bool]:
    """Return the statistics that event types declare, and whether each is an amount of money."""
    fields = [field for text in types["fields"] for field in json.loads(text)]
    declared = [field for field in fields if field["entity"] == "event" and field["type"] in _STATISTICS]
    are_money: dict[str, bool] = {}
    for field in declared:
        key = field["storageKey"]
        are_money[key] = are_money.get(key, True) and field["type"] == "currency"
    return are_money


def read_day(project: Project, day: date, zone: ZoneInfo) -> DayNumbers:
    """Read the numbers of a day.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    day : date
        The day.
    zone : ZoneInfo
        Time zone of the day and its hours.

    Raises
    ------
    AttribError
        If a call fails.
    """
    types = list_event_types(project)
    are_money = statistics(types)
    calls = day_calls(day, zone, are_money)
    frames = {name: call.function(project, **call.arguments) for name, call in calls.items()}
    everything = calls["newest"].arguments | {"limit": 0, "filtered": None, "bots": None}
    return DayNumbers(
        day=day,
        type_names=dict(zip(types["reference"], types["name"], strict=True)),
        uncounted=search_interactions(project, **everything).attrs["total"] - frames["newest"].attrs["total"],
        are_money=are_money,
        calls=calls,
        **frames,
    )
