"""The numbers of a day as HTML: bars by hour, sources, conversions and newest visits."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds.forms import elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from attrib_ds.forms.day_numbers import DayNumbers
    from attrib_ds.forms.node_labels import NodeLabel
    from attrib_ds.project import Project

#: Number of sources in the list.
MOST_SOURCES: Final = 8
_LONGEST_PATH: Final = 80
#: Height of the tallest bar in pixels.
_TALLEST: Final = 130
#: Columns of numbers, which are aligned to the right.
_NUMBERS: Final = frozenset({"Visits", "Events", "Value", "Hits"})
_API: Final = re.compile(r"/api/v\d+/?$")


def figures(numbers: DayNumbers) -> str:
    """Return how many visits, hits and conversions there were, and how many visits are not counted."""
    shown = elements.figures(
        {
            "Visits": f"{int(numbers.visits['sessionCount'].sum()):,}",
            "Hits": f"{int(numbers.visits['hitCount'].sum()):,}",
            "Conversions": f"{numbers.conversion_count():,}",
        }
    )
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


def sources(by_node: Mapping[str | None, int], labels: Mapping[str | None, NodeLabel]) -> str:
    """Return a table of the nodes that most visits came from.

    Parameters
    ----------
    by_node : mapping of str to int
        Number of visits, largest first.
    labels : mapping of str to NodeLabel
        Labels of at least the nodes that are shown.
    """
    shown = list(by_node.items())[:MOST_SOURCES]
    most = max(*by_node.values(), 1)
    rows = [[_bar(_label(labels[node]), count / most), f"{count:,}"] for node, count in shown]
    others = list(by_node.values())[MOST_SOURCES:]
    if others:
        noun = "other source" if len(others) == 1 else "other sources"
        rows.append([f"{len(others):,} {noun}", f"{sum(others):,}"])
    return _table("Sources", ("Source", "Visits"), rows)


def conversions(numbers: DayNumbers, currency: str) -> str:
    """Return a table of the events of the day by type, with the sums of their statistics."""
    rows = []
    for row in numbers.conversions.to_dict("records"):
        count = int(row["values.event-count"])
        sums = {key: row[f"values.{key}"] for key in numbers.are_money if row[f"values.{key}"]}
        if count:
            name = _text(numbers.type_names.get(row["identifier"])) or row["identifier"]
            rows.append([escape(name), f"{count:,}", _sums(sums, numbers.are_money, currency)])
    if not rows:
        return "<h3>Conversions</h3><p>None yet.</p>"
    return _table("Conversions", ("Event type", "Events", "Value"), rows)


def newest(
    visits: pd.DataFrame,
    labels: Mapping[str | None, NodeLabel],
    *,
    zone: ZoneInfo,
    seen: set[str] | None,
) -> str:
    """Return a table of the visits that began last; those that were not seen before are highlighted.

    Parameters
    ----------
    visits : DataFrame
        From :func:`attrib_ds.search_interactions`.
    labels : mapping of str to NodeLabel
        Labels of their nodes.
    zone : ZoneInfo
        Time zone of the times of day.
    seen : set of str, optional
        Ids of the visits that were shown before; None highlights none.
    """
    rows, fresh = [], []
    for visit in visits.to_dict("records"):
        path = _text(visit["firstPageUrl.pathname"]) or ""
        shown = path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH - 1]}…"
        rows.append(
            [
                f"<time>{visit['startDate'].tz_convert(zone):%H:%M:%S}</time>",
                _label(labels[_text(visit["nodeId"])]),
                f'<span class="attrib-path">{escape(shown)}</span>',
                _count(visit["hitCount"]),
            ]
        )
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


def _label(label: NodeLabel) -> str:
    above = "".join(f"<small>{escape(name)} › </small>" for name in label.ancestors)
    return f"{above}{escape(label.name)}"


def _bar(content: str, share: float) -> str:
    return f'{content}<i class="attrib-share" style="width: {100 * share:.1f}%"></i>'


def _sums(sums: Mapping[str, float], are_money: Mapping[str, bool], currency: str) -> str:
    """Return sums with their names; a single amount of money needs none."""
    texts = []
    for key, total in sums.items():
        name = "" if are_money[key] and len(sums) == 1 else f"{escape(key)} "
        shown = f"{total:,.2f} {escape(currency)}" if are_money[key] else f"{total:,.10g}"
        texts.append(f"{name}{shown}".strip())
    return "<br>".join(texts)


def _count(value: Any) -> str:
    """Return a number; nothing for a missing one, such as the hits of an offline interaction."""
    return "" if pd.isna(value) else f"{value:,}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
