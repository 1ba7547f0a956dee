"""Views of pages, goals and funnels against a plain computation over a drawn stream."""

import itertools
import math
import random
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import ibis
import pandas as pd
import pyarrow as pa
import pytest
from support.service_records import hex_id, order, table, uuid, visit

import attrib_ds as at
from attrib_ds.errors import InputWarning, InvalidRequest
from attrib_ds.queries import page_views

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
PATHS = ["/", "/blog/a", "/blog/b/", "/basket", "/thank-you", ""]
NODES = table(
    {"_id": "search", "type": "channel", "name": "Search"},
    {"_id": "brand", "type": "campaign", "name": "Brand", "parentId": "search"},
    {"_id": "mail", "type": "channel", "name": "Mail"},
)


def page_of(path):
    return path.rstrip("/") or "/"


def drawn(seed=7, users=40):
    """Return visits with their views, and events; instants in whole minutes, so that many are the same."""
    draw = random.Random(seed)
    visits, events = [], []
    for user in range(users):
        minute = draw.randrange(600)
        for _ in range(draw.randrange(1, 5)):
            views = []
            for _ in range(draw.randrange(5)):
                views.append((minute, draw.choice(PATHS)))
                minute += draw.choice([0, 0, 1, 5, 20])
            begin = min((at for at, _ in views), default=minute)
            visits.append(
                {
                    "user": hex_id(900 + user),
                    "node": draw.choice(["brand", "mail"]),
                    "country": draw.choice(["FR", "NO", None]),
                    "begin": begin,
                    "end": max((at for at, _ in views), default=minute),
                    "views": views,
                    "bot": draw.random() < 0.1,
                }
            )
            if draw.random() < 0.6:
                events.append(
                    (hex_id(900 + user), minute + draw.choice([0, 3, 40]), draw.choice(["order", "lead"]))
                )
            minute += draw.choice([40, 100, 900, 3_000])
    return visits, events


def hit_id(visit, place):
    """Return the id of a view; that of the first one is the last of its visit."""
    return uuid(visit * 100 + (place or 99))


VISITS, EVENTS = drawn()
#: Views as (instant, position, page, visit), by position.
VIEWS = [
    (minute, number * 100 + place, page_of(path), number)
    for number, each in enumerate(VISITS, start=1)
    if not each["bot"]
    for place, (minute, path) in enumerate(each["views"])
]


@pytest.fixture(scope="module")
def shop():
    def at_minute(minute):
        return (BEGIN + timedelta(minutes=minute)).isoformat()

    visits = [
        visit(
            number,
            userId=each["user"],
            nodeId=each["node"],
            geo__countryCode=each["country"],
            isBot=each["bot"],
            startDate=at_minute(each["begin"]),
            endDate=at_minute(each["end"]),
            hitCount=len(each["views"]),
            firstHitId=hit_id(number, 0),
        )
        for number, each in enumerate(VISITS, start=1)
    ]
    offline = visit(9_999, type="offline", userId=hex_id(900), nodeId="mail", startDate=at_minute(5))
    hits = [
        {
            "id": hit_id(number, place),
            "sessionId": hex_id(number),
            "serverDate": at_minute(minute),
            "pageUrl.pathname": path,
            "pageUrl.search": "?utm_source=a",
            "hitType": "pageview",
        }
        for number, each in enumerate(VISITS, start=1)
        for place, (minute, path) in enumerate(each["views"])
    ]
    # No view: another type of hit, before and after the views of its visit.
    hits += [
        {**hits[0], "id": uuid(7 + place), "hitType": "click", "serverDate": hits[0]["serverDate"]}
        for place in (0, 900_000)
    ]
    events = [
        order(number, userId=user, eventDate=at_minute(minute), eventType=kind)
        for number, (user, minute, kind) in enumerate(EVENTS, start=1)
    ]
    with at.connect("shop", path=":memory:") as project:
        at.load(
            project,
            nodes=NODES,
            interactions=table(*visits, offline),
            hits=table(*hits),
            events=table(*events),
        )
        yield project


def counted(key=lambda view: None, within=lambda minute: True):
    """Count views, visits, users, entries, exits and bounces by page and key, one view at a time."""
    of_visit = defaultdict(list)
    for view in sorted(VIEWS):
        of_visit[view[3]].append(view)
    counts = defaultdict(Counter)
    people = defaultdict(lambda: (set(), set()))
    for views in of_visit.values():
        for place, view in enumerate(views):
            if not within(view[0]):
                continue
            cell = counts[view[2], key(view)]
            cell["views"] += 1
            cell["entries"] += place == 0
            cell["exits"] += place == len(views) - 1
            cell["bounces"] += len(views) == 1
            people[view[2], key(view)][0].add(view[3])
            people[view[2], key(view)][1].add(VISITS[view[3] - 1]["user"])
    names = ("entries", "exits", "bounces")
    return {
        cell: (counts[cell]["views"], len(visits), len(users), *(counts[cell][name] for name in names))
        for cell, (visits, users) in people.items()
    }


COUNTS = ["views", "sessions", "users", "entries", "exits", "bounces"]


def found(frame, key):
    keys = frame[key].astype(object).where(frame[key].notna(), None)
    return {
        (page, value): tuple(row)
        for page, value, row in zip(frame["page"], keys, frame[COUNTS].to_numpy().tolist(), strict=True)
    }


def test_pages_are_counted(shop):
    assert found(at.page_insights(shop), "group") == counted()
    # The slash at the end and an empty path make no page of their own.
    assert set(at.page_insights(shop)["page"]) == {"/", "/blog/a", "/blog/b", "/basket", "/thank-you"}


def test_pages_by_day_and_by_source(shop):
    by_day = at.page_insights(shop, interval="day")
    expected = counted(lambda view: (BEGIN + timedelta(minutes=view[0])).date().isoformat())
    assert found(by_day, "interval") == expected
    assert by_day["interval"].is_monotonic_increasing
    by_channel = at.page_insights(shop, group_by="channel")
    channels = {"brand": "Search", "mail": "Mail"}
    assert found(by_channel, "group") == counted(lambda view: channels[VISITS[view[3] - 1]["node"]])
    by_country = at.page_insights(shop, group_by="geo.countryCode")
    assert found(by_country, "group") == counted(lambda view: VISITS[view[3] - 1]["country"])


def test_a_period_does_not_cut_visits(shop):
    """Entries and exits are told by the whole visit, also where the period begins within it."""
    long = next(
        each["views"]
        for each in VISITS
        if len({minute for minute, _ in each["views"]}) > 2 and not each["bot"]
    )
    first, last = (sorted({minute for minute, _ in long})[place] for place in (1, -2))
    bounds = {"since": BEGIN + timedelta(minutes=first), "until": BEGIN + timedelta(minutes=last)}
    assert found(at.page_insights(shop, **bounds), "group") == counted(
        within=lambda minute: first <= minute <= last
    )


def test_a_goal_is_a_page_or_a_pattern(shop):
    goal = at.page_insights(shop, page="https://shop.example/thank-you/?x=1#top")
    assert goal["page"].tolist() == ["/thank-you"]
    blog = at.page_insights(shop, page="/blog/*", sort="page")
    assert blog["page"].tolist() == ["/blog/a", "/blog/b"]
    assert at.page_insights(shop, page="/b.*").empty


def test_patterns_of_pages_are_not_turned_into_slow_ones():
    backend = ibis.duckdb.connect()
    table = backend.create_table("views", pa.table({"page": ["/a/b/c.d", "/a\nb/c.d", "/a/c.d", "/a/b/c-d"]}))
    shown = table.filter(page_views._shows(table.page, "/a**b*c.d"))
    assert shown["page"].to_pyarrow().to_pylist() == ["/a/b/c.d", "/a\nb/c.d"]
    ((_, plan),) = backend.raw_sql(f"EXPLAIN {ibis.to_sql(shown)}").fetchall()
    assert "regexp_matches" in plan
    assert "~~" not in plan


def test_rows_are_sorted_and_limited(shop):
    pages = at.page_insights(shop, sort=["-entries", "page"], limit=2)
    expected = sorted(counted().items(), key=lambda item: (-item[1][3], item[0][0]))[:2]
    assert pages["page"].tolist() == [page for (page, _), _ in expected]


def test_filters_select_visits(shop):
    french = at.page_insights(shop, where=at.interaction("geo.countryCode") == "FR")
    expected = counted(lambda view: VISITS[view[3] - 1]["country"] == "FR")
    assert found(french, "group") == {
        (page, None): row for (page, is_french), row in expected.items() if is_french
    }
    assert at.page_insights(shop, bots=None)["views"].sum() == sum(len(each["views"]) for each in VISITS)


def takes(taken, step):
    return fnmatchcase(taken[4], step) if taken[2] == 0 or "*" not in step else False


def plain_funnel(steps, window, *, by_visit=False, key=lambda taken: None, within=lambda minute: True):
    """Follow every attempt of every user or visit, one step at a time."""
    taken = []
    for minute, number, page, of_visit in VIEWS:
        taken.append((VISITS[of_visit - 1]["user"], minute, 0, uuid(number), page, of_visit))
    for number, (user, minute, kind) in enumerate(EVENTS, start=1):
        before = [
            (each["begin"], -place, place)
            for place, each in enumerate(VISITS, start=1)
            if each["user"] == user and each["begin"] <= minute
        ]
        of_visit = max(before)[2] if before else None
        # That of a bot is not selected, and the event does not become one of another visit.
        if of_visit and (VISITS[of_visit - 1]["bot"] or minute > VISITS[of_visit - 1]["end"] + 30):
            of_visit = None
        taken.append((user, minute, 1, uuid(number), kind, of_visit))
    units = defaultdict(list)
    for each in taken:
        unit = each[5] if by_visit else each[0]
        if unit is not None:
            units[unit].append(each)
    depths, times = defaultdict(list), defaultdict(lambda: defaultdict(list))
    for rows in units.values():
        rows.sort(key=lambda each: each[1:4])
        best = []
        for place, first in enumerate(rows):
            if not takes(first, steps[0]) or not within(first[1]):
                continue
            reached = [first]
            for later in rows[place + 1 :]:
                is_in_time = window is None or later[1] - first[1] <= window
                if len(reached) < len(steps) and takes(later, steps[len(reached)]) and is_in_time:
                    reached.append(later)
            if len(reached) > len(best):
                best = reached
        if best:
            group = key(best[0])
            depths[group].append(len(best))
            for step in range(1, len(best)):
                times[group][step].append((best[step][1] - best[step - 1][1]) * 60)
    return {
        (group, step + 1): (
            sum(depth > step for depth in depths[group]),
            statistics.median(times[group][step]) if times[group][step] else None,
        )
        for group in depths
        for step in range(len(steps))
    }


def followed(frame):
    cells = frame[["group", "step", "count", "median_seconds"]].astype(object)
    cells = cells.where(cells.notna(), None)
    return {(group, step): (count, median) for group, step, count, median in cells.to_numpy().tolist()}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "steps",
    [["/", "/basket"], ["/blog/*", "/basket", "order"], ["*", "/*", "*", "order"], ["lead", "/", "order"]],
)
@pytest.mark.parametrize(("window", "minutes"), [("30min", 30), ("1D", 1_440), ("session", None)])
def test_funnels(shop, steps, window, minutes):
    expected = plain_funnel(steps, minutes, by_visit=window == "session")
    frame = at.funnel(shop, steps, window=window)
    assert followed(frame) == expected
    counts = frame["count"].tolist()
    assert frame["name"].tolist() == steps
    assert frame["share"].tolist() == pytest.approx(
        [1.0, *(after / before if before else math.nan for before, after in itertools.pairwise(counts))],
        nan_ok=True,
    )
    assert frame["first_share"].tolist() == pytest.approx([count / counts[0] for count in counts])


def test_funnels_by_group_and_period(shop):
    def country(taken):
        return None if taken[5] is None else VISITS[taken[5] - 1]["country"]

    grouped = at.funnel(shop, ["/*", "order"], group_by="geo.countryCode", window=timedelta(days=1))
    assert followed(grouped) == plain_funnel(["/*", "order"], 1_440, key=country)
    first = grouped[grouped["step"] == 1]["count"]
    assert first.is_monotonic_decreasing
    bounds = {"since": BEGIN, "until": BEGIN + timedelta(minutes=400)}
    limited = plain_funnel(["/*", "order"], 1_440, within=lambda minute: minute <= 400)
    # The first step is within the period; a later one need not be.
    assert followed(at.funnel(shop, ["/*", "order"], **bounds)) == limited
    assert limited[None, 2] != plain_funnel(["/*", "order"], 1_440)[None, 2]


def test_a_funnel_that_nobody_enters_is_zeros(shop):
    nobody = at.funnel(shop, ["/nowhere", "order"])
    assert nobody["count"].tolist() == [0, 0]
    assert nobody[["share", "median_seconds"]].isna().all(axis=None)


def test_a_visited_page_is_a_conversion(shop):
    paths = at.conversion_paths(shop, conversion_page="/thank-you", level="channel")
    with_view = {view[3]: view for view in sorted(VIEWS, reverse=True) if view[2] == "/thank-you"}
    credits = at.attribute(paths, "last_touch")
    assert credits["conversions"].sum() == len(with_view)
    # A visit begins before its view, so the last touch is the visit itself, or one that began later.
    last = Counter()
    for minute, _, _, of_visit in with_view.values():
        user = VISITS[of_visit - 1]["user"]
        visits = [
            (each["begin"], place, each["node"])
            for place, each in enumerate(VISITS, start=1)
            if each["user"] == user and not each["bot"] and each["begin"] <= minute
        ]
        last[{"brand": "Search", "mail": "Mail"}[max(visits)[2]]] += 1
    assert dict(zip(credits["node_name"], credits["conversions"], strict=True)) == last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "event_type: pass either"),
        ({"event_type": "order", "conversion_page": "/"}, "event_type: pass either"),
        ({"conversion_page": "thanks"}, "^conversion_page: 'thanks' is not allowed; expected the path"),
    ],
)
def test_conversions_by_page_that_cannot_be(shop, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        at.conversion_paths(shop, **arguments)


def test_a_page_that_nobody_viewed_has_no_conversions(shop):
    with pytest.warns(InputWarning, match="no visit has a view of '/nowhere', so there are no conversions"):
        paths = at.conversion_paths(shop, conversion_page="/nowhere", level="channel")
    seen = at.conversion_paths(shop, conversion_page="/thank-you", level="channel")
    for each in (lambda paths: paths.to_pandas(), lambda paths: at.attribute(paths, "linear")):
        assert each(paths).dtypes.to_dict() == each(seen).dtypes.to_dict()
    assert paths.to_pandas().empty


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": ["/"]}, "steps: .*2 to 10"),
        (
            {"steps": ["/", "Order Placed"]},
            "steps/1: 'Order Placed' is not allowed; expected the path of a page",
        ),
        (
            {"steps": ["/", "order"], "window": "0D"},
            "window: '0D' is not allowed; expected 'session', or a time",
        ),
        ({"steps": ["/", "/a*" + "*b" * 20]}, "steps/1: .* with at most 20 [*]"),
        ({"steps": ["/", "ordre"]}, "steps: 'ordre' is not allowed .did you mean 'order'"),
        ({"steps": ["/", "order"], "window": "367D"}, "window: "),
        ({"steps": ["/", "order"], "group_by": "city"}, "group_by: .*did you mean"),
        ({"steps": ["/", "boots"]}, "'boots' was read as an event type, since a page begins with '/'"),
        ({"steps": {"/", "order"}}, "steps: a set has no order"),
        ({"steps": ["/", "order"], "window": None}, "window: None is not allowed"),
        ({"steps": ["/", "order"], "window": timedelta(milliseconds=1_500)}, "window: .*whole s, min"),
        (
            {"steps": ["/", "order"], "since": "2025-01-02", "until": "2025-01-01"},
            "until: 2025-01-01T23:59:59.999999Z is before since, 2025-01-02T00:00:00.000Z",
        ),
    ],
)
def test_funnels_that_cannot_be(shop, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        at.funnel(shop, **arguments)


def test_pages_of_no_period_are_refused(shop):
    with pytest.raises(InvalidRequest, match="until: .* is before since"):
        at.page_insights(shop, since="2025-01-02", until="2025-01-01")


def test_what_is_selected_leaves_an_event_in_its_visit():
    """A visit by mail follows one by search; the order is in the later one, and not in both."""

    def at_minute(minute):
        return f"2025-01-01T10:{minute:02}:00Z"

    nodes = ["brand", "mail"]
    visits = [
        visit(number, nodeId=node, startDate=at_minute(begin), endDate=at_minute(end), hitCount=1)
        for number, (node, begin, end) in enumerate(zip(nodes, [0, 5], [0, 8], strict=True), start=1)
    ]
    hits = [
        {
            "id": uuid(number),
            "sessionId": hex_id(number),
            "serverDate": row["startDate"],
            "pageUrl.pathname": path,
        }
        for number, (row, path) in enumerate(zip(visits, ["/a", "/b"], strict=True), start=1)
    ]
    with at.connect("shop", path=":memory:") as project:
        at.load(
            project,
            nodes=NODES,
            interactions=table(*visits),
            hits=table(*hits),
            events=table(order(1, eventDate=at_minute(10))),
        )
        searched = {"where": at.interaction("nodeId") == "brand"}
        for filters in ({}, searched):
            assert at.funnel(project, ["/a", "order"], window="session", **filters)["count"].tolist() == [
                1,
                0,
            ]
        # Within a time, the order counts with any visit, and has no group from another one.
        assert at.funnel(project, ["/a", "order"], **searched)["count"].tolist() == [1, 1]
        first = at.funnel(project, ["order", "/b"], group_by="channel", **searched)
        assert first["group"].isna().all()
        assert set(at.funnel(project, ["order", "/b"], group_by="channel")["group"]) == {"Mail"}


def test_the_day_of_the_last_view_is_in_part_to_come():
    """A visit over midnight begins on a whole day, and its last view lies on the next one."""
    dates = ["2025-01-01T23:50:00Z", "2025-01-02T00:10:00Z"]
    hits = [
        {"id": uuid(place), "sessionId": hex_id(1), "serverDate": date, "pageUrl.pathname": "/"}
        for place, date in enumerate(dates)
    ]
    with at.connect("shop", path=":memory:") as project:
        at.load(project, interactions=table(visit(1, startDate=dates[0], hitCount=2)), hits=table(*hits))
        assert at.page_insights(project, interval="day")["is_partial"].tolist() == [False, False]
        assert at.interaction_insights(project, interval="day")["is_partial"].tolist() == [False]


def test_visits_without_their_hits_are_no_pages_without_views():
    with at.connect("shop", path=":memory:") as project:
        assert at.page_insights(project).empty
        at.load(project, interactions=table(visit(1, hitCount=2)))
        with pytest.raises(InvalidRequest, match="visits without their hits"):
            at.page_insights(project)


def test_a_route_in_the_fragment_belongs_to_the_page():
    date = "2025-01-31T12:00:00Z"
    urls = [("/", "#/basket"), ("/", "#/basket/?x=1"), ("/", "#top"), ("/app/", None), ("/app/", "#!/b/")]
    urls += [("/", "#/"), ("/x", "#/"), ("/x/", "#!"), ("", "#!/"), ("/", "")]
    hits = [
        {
            "id": uuid(place),
            "sessionId": hex_id(1),
            "serverDate": date,
            "pageUrl.pathname": path,
            "pageUrl.hash": part,
        }
        for place, (path, part) in enumerate(urls)
    ]
    with at.connect("shop", path=":memory:") as project:
        at.load(project, interactions=table(visit(1, hitCount=len(urls))), hits=table(*hits))
        pages = at.page_insights(project)
        counts = dict(zip(pages["page"], pages["views"], strict=True))
        assert counts == {"/#/basket": 2, "/": 4, "/app": 1, "/app#!/b": 1, "/x": 2}
        # What is returned is accepted, and so is the URL that a browser shows.
        for page, count in counts.items():
            assert at.page_insights(project, page=page)[["page", "views"]].to_numpy().tolist() == [
                [page, count]
            ]
        for url in ("https://shop.example/?utm_source=a#/basket", "https://shop.example#/basket/?x=1"):
            assert at.page_insights(project, page=url)["views"].tolist() == [2]
        assert pd.isna(pages["group"]).all()


def test_pages_are_bounded(shop, monkeypatch):
    monkeypatch.setattr("attrib_ds.queries.insights.MOST_RECORDS", 3)
    with pytest.raises(InvalidRequest, match="more than 3 records"):
        at.page_insights(shop)
    assert len(at.page_insights(shop, limit=3)) == 3
