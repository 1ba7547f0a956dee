"""The numbers of one day as HTML: bars by hour, sources, conversions and newest visits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from html import escape
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from attrib_ds import instants
from attrib_ds.api import events, interactions
from attrib_ds.display import cents
from attrib_ds.forms import elements
from attrib_ds.project import Project

#: Number of sources in the list.
MOST_SOURCES: Final = 8
_LONGEST_PATH: Final = 80
#: Height of the tallest bar in pixels.
_TALLEST: Final = 130
#: Columns of numbers, which are aligned to the right.
_NUMBERS: Final = frozenset({"Visits", "Events", "Value", "Hits"})
_API: Final = re.compile(r"/api/v\d+/?$")


#: A public function and its arguments without the project, by the variable of the result.
Calls = dict[str, tuple[Callable[..., pd.DataFrame], dict[str, Any]]]
#: Names of nodes and of those above them, the root first, by id.
Labels = Mapping[str | None, tuple[str, ...]]


def figures(numbers: DayNumbers) -> str:
    """Return how many visits, hits and conversions there were, and how many visits are not counted."""
    visits, hits = numbers.visits["sessionCount"].sum(), numbers.visits["hitCount"].sum()
    counts = {"Visits": visits, "Hits": hits, "Conversions": numbers.conversion_count()}
    shown = elements.figures({name: f"{int(count):,}" for name, count in counts.items()})
    noun = "visit" if numbers.uncounted == 1 else "visits"
    note = f"<p>Not counted: {numbers.uncounted:,} {noun} by bots or of filtered traffic.</p>"
    return f"{shown}{note if numbers.uncounted else ''}"


def hours(counts: Sequence[int], *, current: int) -> str:
    """Return a bar for each hour of the day; that of the current hour is hollow, since it is not over.

    Parameters
    ----------
    counts : sequence of int
        Number of visits of each hour, from 0.
    current : int
        The current hour; 24 if the day is over.
    """
    most = max(*counts, 1)
    bars = "".join(
        f'<div class="attrib-hour{" attrib-partial" if hour == current else ""}"'
        f' title="{hour:02}:00 to {hour:02}:59: {count:,}">'
        f'<span class="attrib-count">{f"{count:,}" if count else ""}</span>'
        f'<i style="height: {_TALLEST * count / most:.1f}px"></i>'
        f'<span class="attrib-clock">{hour}</span></div>'
        for hour, count in enumerate(counts)
    )
    spoken = ", ".join(f"{count:,} at {hour}" for hour, count in enumerate(counts) if count)
    return (
        "<h3>Visits by hour</h3>"
        f'<div class="attrib-hours" role="img" aria-label="Visits by hour: {spoken}">{bars}</div>'
    )


def sources(by_node: Mapping[str | None, int], labels: Labels) -> str:
    """Return a table of the nodes that most visits came from.

    Parameters
    ----------
    by_node : mapping of str to int
        Number of visits, largest first.
    labels : mapping of str to tuple of str
        Labels of at least the nodes that are shown.
    """
    shown = list(by_node.items())[:MOST_SOURCES]
    most = max(*by_node.values(), 1)
    bar = '<i class="attrib-share" style="width: {:.1f}%"></i>'
    rows = [[_label(labels[node]) + bar.format(100 * count / most), f"{count:,}"] for node, count in shown]
    others = list(by_node.values())[MOST_SOURCES:]
    if others:
        noun = "other source" if len(others) == 1 else "other sources"
        rows.append([f"{len(others):,} {noun}", f"{sum(others):,}"])
    return _table("Sources", ("Source", "Visits"), rows)


def conversions(numbers: DayNumbers, currency: str) -> str:
    """Return a table of the events of the day by type, with the sums of their statistics."""
    rows = []
    for row in numbers.results["conversions"].to_dict("records"):
        count = int(row["values.event-count"])
        sums = {key: row[f"values.{key}"] for key in numbers.are_money if row[f"values.{key}"]}
        if count:
            name = _text(numbers.type_names.get(row["identifier"])) or row["identifier"]
            rows.append([escape(name), f"{count:,}", _sums(sums, numbers.are_money, currency)])
    if not rows:
        return "<h3>Conversions</h3><p>None yet.</p>"
    return _table("Conversions", ("Event type", "Events", "Value"), rows)


def newest(visits: pd.DataFrame, labels: Labels, *, zone: tzinfo | None, seen: set[str] | None) -> str:
    """Return a table of the visits that began last; those that were not seen before are highlighted.

    Parameters
    ----------
    visits : DataFrame
        From :func:`attrib_ds.search_interactions`.
    labels : mapping of str to tuple of str
        Labels of their nodes.
    zone : tzinfo
        Time zone of the times of day.
    seen : set of str, optional
        Ids of the visits that were shown before; None highlights none.
    """
    rows, fresh = [], []
    for visit in visits.to_dict("records"):
        path = _text(visit["firstPageUrl.pathname"]) or ""
        shown = path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH - 1]}…"
        began = f"<time>{visit['startDate'].tz_convert(zone):%H:%M:%S}</time>"
        source = _label(labels[_text(visit["nodeId"])])
        # An offline interaction has no hits.
        hits = "" if pd.isna(visit["hitCount"]) else f"{visit['hitCount']:,}"
        rows.append([began, source, f'<span class="attrib-path">{escape(shown)}</span>', hits])
        fresh.append(seen is not None and visit["_id"] not in seen)
    return _table("Newest visits", ("Began", "Source", "First page", "Hits"), rows, fresh=fresh)


def nothing_yet(project: Project, last: datetime | None) -> str:
    """Return what to do until visits arrive, above all the line of HTML for the pages of the site.

    Parameters
    ----------
    project : Project
        The project without visits today.
    last : datetime, optional
        Start of the last visit, in the time zone of the page; None if there has been none at all.
    """
    heading = "No visits yet today." if last else "No visits have arrived yet."
    since = f"The last one began on {last.day} {last:%B %Y at %H:%M}. " if last else ""
    address = project.transport.address
    is_remote = "://" in address
    server = _API.sub("", address) if is_remote else "https://stats.shop.example"
    tag = f'<script async src="{server}/t.js" data-project="{project.project_id}"></script>'
    serve = elements.code_block(f"attrib-ds serve --url {server}", label="Command")
    serving = (
        "<li>Serve the project at a public address. One process at a time has its file, so close the project "
        f"here first.{serve}</li>"
    )
    opening = (
        "<li>Open the project here by the address of the server. The key is from "
        f"<code>attrib-ds keys create {escape(project.project_id)} --out key.json</code>.</li>"
    )
    return (
        f"<h3>{heading}</h3><p>{since}A visit appears here a few seconds after its first page view.</p>"
        f'<ol class="attrib-steps">{"" if is_remote else serving}'
        f"<li>Put this line into the pages of your site.{elements.code_block(tag, label='HTML')}</li>"
        f"{'' if is_remote else opening}"
        "<li>Open a page of the site. The network tab of the browser shows <code>t.js</code>, and "
        "<code>c</code> with status 202. Status 403 means that the setting <code>allowedOrigins</code> "
        "leaves the site out.</li></ol>"
    )


def _table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, fresh: Sequence[bool] = ()
) -> str:
    sides = [' class="attrib-number"' if name in _NUMBERS else "" for name in columns]
    head = "".join(f'<th scope="col"{side}>{name}</th>' for side, name in zip(sides, columns, strict=True))
    body = ""
    for row, is_fresh in zip(rows, fresh or [False] * len(rows), strict=True):
        cells = "".join(f"<td{side}>{cell}</td>" for side, cell in zip(sides, row, strict=True))
        mark = ' class="attrib-new"' if is_fresh else ""
        body += f"<tr{mark}>{cells}</tr>"
    return (
        f'<table class="attrib-list"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _label(names: tuple[str, ...]) -> str:
    above = "".join(f"<small>{escape(name)} › </small>" for name in names[:-1])
    return f"{above}{escape(names[-1])}"


def _sums(sums: Mapping[str, float], are_money: Mapping[str, bool], currency: str) -> str:
    """Return sums with their names; a single amount of money needs none."""
    texts = []
    for key, total in sums.items():
        name = "" if are_money[key] and len(sums) == 1 else f"{escape(key)} "
        shown = f"{cents(total)} {escape(currency)}" if are_money[key] else f"{total:,.10g}"
        texts.append(f"{name}{shown}".strip())
    return "<br>".join(texts)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


#: Number of newest visits.
_NEWEST: Final = 8
_COLUMNS: Final = ("startDate", "nodeId", "firstPageUrl.pathname", "hitCount")


@dataclass(frozen=True)
class DayNumbers:
    """Visits and conversions of a day.

    Parameters
    ----------
    results : dict of str to DataFrame
        By the variable of the code: ``visits`` by hour of the day and node, ``conversions`` by event type,
        and the ``newest`` visits.
    type_names : dict of str to str
        Names of event types by reference.
    are_money : dict of str to bool
        Statistics of the event types, and whether each is an amount of money.
    uncounted : int
        Number of visits by bots and of filtered traffic.
    calls : dict of str to (callable, dict)
        By the variable of the result: a public function and its arguments, without the project.
    """

    results: dict[str, pd.DataFrame]
    type_names: dict[str, str]
    are_money: dict[str, bool]
    uncounted: int
    calls: Calls

    @property
    def visits(self) -> pd.DataFrame:
        """The visits by hour and node."""
        return self.results["visits"]

    def by_hour(self) -> list[int]:
        """Return the number of visits that began in each hour of the day, 0 to 23."""
        counts = self.visits.groupby("interval")["sessionCount"].sum()
        return [int(counts.get(str(hour), 0)) for hour in range(24)]

    def by_node(self) -> dict[str | None, int]:
        """Return the number of visits from each node, largest first; None for those without a node."""
        counts = self.visits.groupby("group", dropna=False)["sessionCount"].sum()
        by_node = {_text(node): int(count) for node, count in counts.items()}
        return dict(sorted(by_node.items(), key=lambda pair: (-pair[1], pair[0] or "")))

    def conversion_count(self) -> int:
        """Return the number of conversions of all event types."""
        return int(self.results["conversions"]["values.event-count"].sum())

    def nodes(self, most: int) -> list[str | None]:
        """Return up to ``most`` nodes with the most visits, and the nodes of the newest visits."""
        newest = [_text(node) for node in self.results["newest"]["nodeId"]]
        return [*list(self.by_node())[:most], *newest]


def day_calls(day: date, zone: ZoneInfo, keys: Iterable[str]) -> Calls:
    """Return the calls for the numbers of a day, by the variable of the result.

    Each is one aggregate or a few rows, however long the day's log is. The bounds are instants, since a
    remote service would be asked for its time zone for each day.
    """
    bounds = {
        "since": instants.format(instants.first_instant(day, zone, argument="since")),
        "until": instants.format(instants.last_instant(day, zone, argument="until")),
    }
    by_hour = {"group_by": "nodeId", "interval": "hourOfDay", **bounds, "timezone": zone.key}
    metrics = ["event-count", *keys]
    by_type = {"metrics": metrics, **bounds, "group_by": "event-type", "timezone": zone.key}
    newest = {**bounds, "columns": list(_COLUMNS), "limit": _NEWEST}
    return {
        "visits": (interactions.interaction_insights, by_hour),
        "conversions": (interactions.event_insights, by_type),
        "newest": (interactions.search_interactions, newest),
    }


def statistics(types: pd.DataFrame) -> dict[str, bool]:
    """Return the statistics that event types declare, and whether each is an amount of money."""
    are_money: dict[str, bool] = {}
    for field in (field for text in types["fields"] for field in json.loads(text)):
        if field["entity"] == "event" and field["type"] in ("currency", "number"):
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
    types = events.list_event_types(project)
    are_money = statistics(types)
    calls = day_calls(day, zone, are_money)
    results = {name: function(project, **arguments) for name, (function, arguments) in calls.items()}
    everything = interactions.search_interactions(
        project, **calls["newest"][1] | {"limit": 0, "filtered": None, "bots": None}
    )
    uncounted = everything.attrs["total"] - results["newest"].attrs["total"]
    type_names = dict(zip(types["reference"], types["name"], strict=True))
    return DayNumbers(results, type_names, are_money, uncounted, calls)
