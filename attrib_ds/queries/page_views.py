"""Views of pages: counted by page, taken as conversions, and followed through the steps of a funnel."""

import re
from collections.abc import Callable
from functools import reduce
from operator import add, or_
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.attribution.paths import project_tables
from attrib_ds.contract import Answer
from attrib_ds.contract import interactions as contract
from attrib_ds.errors import InvalidRequest
from attrib_ds.queries import insights
from attrib_ds.records.frames import to_pandas

#: Time without a hit that ends a visit.
_TIMEOUT: Final = ibis.interval(minutes=30)
_OF_VISIT: Final = ibis.window(group_by="visit", order_by=["date", "later", "id"])
#: What is replaced in a URL, in this order, for Python and RE2: the site, queries, a fragment that is no
#: route, slashes at the end of the path and of the route; an empty path is that of the site.
_REPLACED: Final = (
    ("^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*", ""),
    (r"\?[^#]*", ""),
    ("(?s)#([^/!].*|!?/*)$", ""),
    ("/+(#|$)", r"\1"),
    ("^(#|$)", r"/\1"),
)


def page_of(url: Any, replace: Callable[[Any, str, str], Any]) -> Any:
    """Return the page of a URL: its path, and its fragment if that is a route.

    Parameters
    ----------
    url : object
        Text or an expression; a path is one too.
    replace : callable
        Takes ``url``, a pattern and what replaces all its matches.

    Examples
    --------
    >>> page_of("https://shop.example/app/?utm_source=a#/basket/?x=1", lambda u, *r: re.sub(*r, u))
    '/app#/basket'
    """
    return reduce(lambda text, rule: replace(text, *rule), _REPLACED, url)


def pattern_of(wanted: str) -> str:
    r"""Return a regular expression for the pages that a page or a pattern with ``*`` stands for.

    Examples
    --------
    >>> pattern_of("/blog/*?x=1")
    '^/blog/[\\s\\S]*$'
    """
    page = page_of(wanted, lambda text, pattern, by: re.sub(pattern, by, text))
    # DuckDB turns `.*` under the flag s into LIKE, whose time is exponential.
    pattern = r"[\s\S]*".join(map(re.escape, re.split(r"\*+", page)))
    return f"^{pattern}$"


def _visits(
    interactions: ir.Table, request: contract.Population, nodes: ir.Table, group: str | None
) -> ir.Table:
    """Return the visits that a request selects, on any day: ``visit``, ``user`` and their group."""
    # The bounds of these requests are those of views.
    of_any_day = request.model_copy(update={"since": None, "until": None})
    selected = insights.filter_interactions(interactions, of_any_day, nodes=nodes)
    selected = selected.filter(selected.type == "session")
    if group in contract.LEVELS:
        tree = to_pandas(nodes.select("_id", "parentId", "type", "name", "channel").to_pyarrow())
        ancestors = project_tables.ancestors_at(tree, group)
        names = dict(zip(tree["_id"], tree["name"], strict=True))
        levels = {"of_node": list(ancestors), "level": [names.get(key, key) for key in ancestors.values()]}
        named = ibis.memtable(levels, schema={"of_node": "string", "level": "string"})
        selected = selected.left_join(named, selected.nodeId == named.of_node)
        group = "level"
    return selected.select(
        visit=selected["_id"],
        opening=selected.firstHitId,
        user=selected.userId,
        group_key=ibis.null("string") if group is None else selected[group],
    )


def _views(hits: ir.Table, visits: ir.Table) -> ir.Table:
    """Return views: ``id``, ``date``, ``page``, ``later``, their ``visit``, ``user`` and ``group_key``."""
    views = hits.filter(hits.hitType.fill_null("pageview") == "pageview")
    url = views["pageUrl.pathname"] + views["pageUrl.hash"].fill_null("")
    page = page_of(url, lambda text, pattern, by: text.re_replace(pattern, by))
    joined = views.mutate(page=page).inner_join(visits, views.sessionId == visits.visit)
    # Of several at one instant, the one that the visit begins with is the first.
    is_later = (joined.id != joined.opening).fill_null(True)
    return joined.select("id", "page", "visit", "user", "group_key", date="serverDate", later=is_later)


def _shows(page: Any, wanted: str) -> Any:
    """Return whether a page is the wanted one, or one of those that its pattern stands for."""
    return page.re_search(pattern_of(wanted))


def count_pages(
    hits: ir.Table, interactions: ir.Table, request: contract.PageInsights, *, nodes: ir.Table
) -> Answer:
    """Count the views of each page, with the visits that they begin and end.

    Parameters
    ----------
    hits, interactions, nodes : ibis.Table
        With the columns of :mod:`attrib_ds.schema`; instants are in UTC, without a time zone.
    request : PageInsights
        Filters, group, interval, sort order and limit.

    Returns
    -------
    Answer
        In the schema ``PAGE_INSIGHT``, one record per page, group and interval with views; by interval and
        descending views by default.

    Raises
    ------
    InvalidRequest
        If the result would exceed 100,000 records.
    """
    views = _views(hits, _visits(interactions, request, nodes, request.group))
    is_within = insights.within(views.date, request.since, request.until)
    # The first and the last view of a visit are found among all its views, also those outside the period.
    views = views.semi_join(views.filter(is_within).select("visit"), "visit")
    place = ibis.row_number().over(_OF_VISIT)
    views = views.mutate(place=place, count=views.count().over(ibis.window(group_by=views.visit)))
    views = views.filter(insights.within(views.date, request.since, request.until))
    if request.page is not None:
        views = views.filter(_shows(views.page, request.page))
    keys = {"page": views.page, "group_key": views.group_key}
    label: Callable[[Any], Any] = insights.as_text
    if request.interval is not None:
        interval = insights.INTERVALS[request.interval]
        keys["interval_key"] = interval.number(insights.local_time(views.date, request.timezone))
        label = interval.label
    counted = views.aggregate(
        by=keys,
        views=views.count(),
        sessions=views.visit.nunique(),
        users=views.user.nunique(),
        entries=(views.place == 0).sum(),
        exits=(views.place == views["count"] - 1).sum(),
        bounces=(views["count"] == 1).sum(),
    )
    order = {"interval": 1, "views": -1, "page": 1, "group": 1}
    query = insights.labelled(counted, request.sort or {}, label, order=order)
    most = insights.MOST_RECORDS + 1
    query = query.select(schema.PAGE_INSIGHT.names).limit(
        min(most, most if request.limit is None else request.limit)
    )
    table = insights.fetch(query, schema.PAGE_INSIGHT)
    _refuse_many(table.num_rows)
    return Answer.of(table)


def _refuse_many(count: int) -> None:
    if count > insights.MOST_RECORDS:
        raise InvalidRequest(
            f"group_by: makes more than {insights.MOST_RECORDS:,} records; allowed: fewer groups, a longer "
            "interval, a shorter date range, or a limit"
        )


def first_views(
    hits: ir.Table, interactions: ir.Table, request: contract.PageConversions, *, nodes: ir.Table
) -> Answer:
    """Return the first view of a page in each visit that has one, by date.

    Returns
    -------
    Answer
        In the schema ``PAGE_CONVERSION``.
    """
    views = _views(hits, _visits(interactions, request, nodes, None))
    is_within = insights.within(views.date, request.since, request.until)
    views = views.filter(_shows(views.page, request.page), is_within)
    place = ibis.row_number().over(_OF_VISIT)
    first = views.mutate(place=place)
    first = first.filter(first.place == 0).select(_id="id", userId="user", eventDate="date")
    return Answer.of(insights.fetch(first.order_by("eventDate", "_id"), schema.PAGE_CONVERSION))


def count_funnel(
    hits: ir.Table, interactions: ir.Table, events: ir.Table, request: contract.Funnel, *, nodes: ir.Table
) -> Answer:
    """Count the users or visits that take steps in order.

    Parameters
    ----------
    hits, interactions, events, nodes : ibis.Table
        With the columns of :mod:`attrib_ds.schema`; instants are in UTC, without a time zone.
    request : Funnel
        Steps, window, filters and group.

    Returns
    -------
    Answer
        In the schema ``FUNNEL_STEP``, one record per group and step; groups by descending count of the first
        step.

    Raises
    ------
    InvalidRequest
        If the result would exceed 100,000 records.
    """
    window = contract.window_of(request.window)
    unit = "user" if window is not None else "visit"
    visits = _visits(interactions, request, nodes, request.group)
    steps = _of_visits(hits, visits, request.steps)
    types = [step for step in request.steps if not contract.is_page(step)]
    if types:
        steps = steps.union(_of_events(events, interactions, visits, types))
    steps = steps.filter(steps[unit].notnull()).rename(unit=unit)
    ordered = ibis.window(group_by=steps.unit, order_by=[steps.date, steps.is_event, steps.later, steps.id])
    steps = steps.mutate(place=ibis.row_number().over(ordered))
    is_within = insights.within(steps.date, request.since, request.until)
    first = steps.filter(_takes(steps, request.steps[0]), is_within)
    attempts = first.select("unit", "group_key", place_0="place", date_0="date")
    for number, step in enumerate(request.steps[1:], start=1):
        taken = steps.filter(_takes(steps, step)).select(taker="unit", place="place", date="date")
        joined = attempts.asof_join(
            taken, on=attempts[f"place_{number - 1}"] < taken.place, predicates=attempts.unit == taken.taker
        )
        in_time = (
            ibis.literal(True) if window is None else joined.date <= joined.date_0 + ibis.interval(window)
        )
        later = {"place": joined.place, "date": joined.date}
        attempts = joined.mutate(
            **{f"{name}_{number}": ibis.ifelse(in_time, value, None) for name, value in later.items()}
        ).drop("taker", "place", "date")
    best = _best(attempts, len(request.steps))
    return Answer.of(_records(best, request))


def _of_visits(hits: ir.Table, visits: ir.Table, steps: tuple[str, ...]) -> ir.Table:
    """Return the views that are a step."""
    views = _views(hits, visits)
    pages = [_shows(views.page, step) for step in steps if contract.is_page(step)]
    views = views.filter(reduce(or_, pages) if pages else ibis.literal(False))
    names = ("user", "visit", "group_key", "date", "later", "id")
    return views.select(*names, name="page", is_event=ibis.literal(0))


def _of_events(events: ir.Table, interactions: ir.Table, visits: ir.Table, types: list[str]) -> ir.Table:
    """Return the events that are a step, with the visit that they belong to if it is selected."""
    events = events.filter(events.eventType.isin(types))
    events = events.select("userId", "eventDate", event_id="_id", name="eventType")
    # Of all visits: what is selected does not change which one an event belongs to.
    every = interactions.filter(interactions.type == "session")
    every = every.select(
        of_visit="_id", of_user="userId", begin="startDate", end=every.endDate.coalesce(every.startDate)
    )
    # Two visits of a user may begin at the same instant.
    of_user = ibis.window(group_by=[every.of_user, every.begin], order_by=every.of_visit)
    every = every.mutate(place=ibis.row_number().over(of_user))
    every = every.filter(every.place == 0).drop("place")
    timed = events.asof_join(
        every, on=events.eventDate >= every.begin, predicates=events.userId == every.of_user
    )
    is_during = timed.eventDate <= timed.end + _TIMEOUT
    timed = timed.mutate(of_visit=ibis.ifelse(is_during, timed.of_visit, None))
    joined = timed.left_join(visits, timed.of_visit == visits.visit)
    return joined.select(
        user=joined.userId,
        visit=joined.visit,
        group_key=joined.group_key,
        date=joined.eventDate,
        later=ibis.literal(True),
        id=joined.event_id,
        name=joined.name,
        is_event=ibis.literal(1),
    )


def _takes(steps: ir.Table, step: str) -> Any:
    """Return whether a view or an event is a step."""
    if contract.is_page(step):
        return (steps.is_event == 0) & _shows(steps.name, step)
    return (steps.is_event == 1) & (steps.name == step)


def _best(attempts: ir.Table, count: int) -> ir.Table:
    """Return the attempt of each unit that gets furthest, the first one of several, with its ``depth``."""
    depth = reduce(add, (attempts[f"date_{number}"].notnull().cast("int64") for number in range(count)))
    attempts = attempts.mutate(depth=depth)
    of_unit = ibis.window(group_by=attempts.unit, order_by=[attempts.depth.desc(), attempts.place_0])
    ranked = attempts.mutate(rank=ibis.row_number().over(of_unit))
    return ranked.filter(ranked["rank"] == 0)


def _records(best: ir.Table, request: contract.Funnel) -> pa.Table:
    """Count the attempts of each group that reach a step, and the times that this takes them."""
    counters: dict[str, Any] = {}
    for number in range(len(request.steps)):
        is_reached = best.depth > number
        counters[f"count_{number}"] = is_reached.sum().coalesce(0)
        if number:
            since = best[f"date_{number}"].delta(best[f"date_{number - 1}"], unit="microsecond")
            counters[f"median_{number}"] = since.median(where=is_reached) / 1e6
    keys = [] if request.group is None else ["group_key"]
    counted = best.aggregate(counters, by=keys).to_pyarrow().to_pylist()
    counted.sort(key=lambda row: (-row["count_0"], row.get("group_key") is None, str(row.get("group_key"))))
    _refuse_many(len(counted) * len(request.steps))
    records = []
    for row in counted:
        counts = [int(row[f"count_{number}"]) for number in range(len(request.steps))]
        key = row.get("group_key")
        for number, (name, count) in enumerate(zip(request.steps, counts, strict=True)):
            before, median = counts[max(number - 1, 0)], row.get(f"median_{number}")
            shares = [count / whole if whole else None for whole in (before, counts[0])]
            records.append((None if key is None else str(key), number + 1, name, count, *shares, median))
    rows = [dict(zip(schema.FUNNEL_STEP.names, record, strict=True)) for record in records]
    return pa.Table.from_pylist(rows, schema.FUNNEL_STEP)
