"""Streams of raw hits and events: disorder, repeats, bots, midnight, changes of campaign, people joined later."""

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pyarrow as pa
from support import sequential_sessions
from support.service_records import uuid

import attrib_ds as at
from attrib_ds.attribution.engines.engine import portable
from attrib_ds.attribution.paths.table_inputs import ExternalTables
from attrib_ds.queries import raw_hits
from attrib_ds.sql_results import read_arrow

SETTINGS = {
    "traffic_filters": ["hostname:test.shop.example", "address:203.0.113.0/24", "userAgent:Probe"],
    "excluded_referrers": ["www.login.example"],
    "domains": ["shop-checkout.example"],
}
START = datetime(2025, 1, 30, 20)
PAGES = [
    "https://shop.example/boots",
    "https://www.shop.example:8443/a/b?size=42#top",
    "https://anna@shop.example",
    "http://[2001:db8::1]/x?utm_source=ipv6",
    "https://shop.example/?utm_source=google&utm_medium=cpc&utm_campaign=spring",
    "https://shop.example/?utm_source=Newsletter&utm_medium=email&utm_campaign=j%C3%A4nner&utm_term=a+b",
    "https://shop.example/#/shop?mtm_campaign=piwik&mtm_source=mail",
    "https://shop.example/?gclid={click}",
    "https://shop.example/?x=1&amp;msclkid={click}&utm_term=boots",
    "https://shop.example/?ref=partner",
    "https://shop.example/?fbclid={click}",
    "https://test.shop.example/",
    "myapp://home/start",
]
REFERRERS = [
    None,
    " ",
    "https://www.google.com/",
    "https://www.shop.example/boots",
    "https://chatgpt.com/?q=boots",
    "https://blog.example./a?b#c",
    "https://help.shop.example/",
    "https://eu.shop-checkout.example/",
    "https://sites.google.com/view",
    "android-app://com.slack/",
    "https://pay.login.example/done",
    "https://www.paypal.com/checkout",
    "https://l.facebook.com/",
]
AGENTS = [
    None,
    "",
    "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Probe/2 Mozilla/5.0 (Windows NT 10.0; Win64; x64)",
]
#: Minutes to the next hit, with both sides of the timeout, and over midnight.
GAPS = [0, 0.5, 3, 10, 29.99, 30, 30.01, 45, 250, 800]


def streams(seeds, **sizes):
    """Return the hits and events of several streams, each with its own browsers and people."""
    hits, events = zip(*(stream(seed, **sizes) for seed in seeds), strict=True)
    return pa.concat_tables(hits), pa.concat_tables(events).sort_by(
        [("eventDate", "ascending"), ("_id", "ascending")]
    )


def stream(seed, *, hits=60, visitors=5, orders=3):
    """Return hits in the order of their arrival, and events in that of their dates."""
    chosen = random.Random(seed)
    rows = []
    for visitor in range(visitors):
        date = START + timedelta(minutes=chosen.randrange(600), milliseconds=chosen.randrange(1000))
        for _ in range(chosen.randrange(2, 2 * hits // visitors)):
            date += timedelta(minutes=chosen.choice(GAPS))
            rows.append(_hit(chosen, 1_000 * seed + len(rows), f"t{visitor}.{seed}", date))
    # A browser that reloads for more than a day and changes its campaign.
    date = START
    for _ in range(80):
        date += timedelta(minutes=chosen.choice([11, 29, 29.99]))
        rows.append(
            _hit(chosen, 1_000 * seed + len(rows), f"day.reload{seed}", date, marked=chosen.random() < 0.02)
        )
    events, people = [], [f"anna{seed}@shop.example", f"ben{seed}", f"Cléo{seed}", f"dora{seed}"]
    for number in range(orders):
        seen = chosen.choice(rows)
        events.append(
            {
                "_id": uuid(1_000 * seed + number),
                "trackerId": seen["trackerId"] if chosen.random() < 0.9 else f"other{number}.{seed}",
                "userId": chosen.choice([*people, None]),
                "eventType": "order",
                "eventDate": seen["date"] + timedelta(seconds=chosen.choice([-1, 1, 4_000])),
                "statistics.turnover": float(number),
            }
        )
    # Without events, which would tell that the visitor was there before.
    rows += _after_lost_pages(chosen, seed, len(rows))
    chosen.shuffle(rows)
    rows += [dict(row) for row in chosen.sample(rows, 10)]
    kinds = {"date": pa.timestamp("us"), "timezoneOffset": pa.float64(), "isBot": pa.bool_()}
    table = {name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in rows[0]}
    events.sort(key=lambda event: (event["eventDate"], event["_id"]))
    names = ["_id", "trackerId", "userId", "eventType", "eventDate", "statistics.turnover"]
    kinds = {"eventDate": pa.timestamp("us"), "statistics.turnover": pa.float64()}
    columns = {name: pa.array([row[name] for row in events], kinds.get(name, pa.string())) for name in names}
    return pa.table(table), pa.table(columns)


#: Pages whose URL is the referrer of the first hit that arrived.
LOST = [
    "https://www.shop.example/?utm_source=lost&utm_medium=email&gclid=Cj0KCQ-123456789",
    "https://shop.example/#/shop?MTM_SOURCE=lost&mtm_campaign=fragment",
    "https://shop.example/lost?size=42",
    "https://help.shop.example/?utm_source=lost&utm_medium=other-host",
]


def _after_lost_pages(chosen, seed, number):
    """Return visits whose landing page did not arrive, and the same of browsers that keep their id."""
    rows = []
    for place, lost in enumerate(LOST):
        for tracker in (f"day.lost{place}.{seed}", f"lost{place}.{seed}"):
            for minutes, marked in ((0, place == 1), (3, False)):
                hit = _hit(
                    chosen, 1_000 * seed + number + len(rows), tracker, START + timedelta(minutes=minutes)
                )
                page = "https://shop.example/boots" + "?utm_source=own" * marked
                rows.append(hit | {"pageUrl": page, "referrer": lost, "isBot": False})
    return rows


def _hit(chosen, number, tracker, date, *, marked=None):
    click = f"Cj0KCQ-{chosen.randrange(10**9)}"
    is_marked = chosen.random() < 0.4 if marked is None else marked
    page = chosen.choice(PAGES if is_marked else PAGES[:2]).format(click=click)
    return {
        "hitId": uuid(number).upper() if chosen.random() < 0.7 else None,
        "trackerId": tracker,
        "date": date,
        "pageUrl": page,
        "referrer": chosen.choice(REFERRERS) if marked is None else None,
        "userAgent": chosen.choice(AGENTS[:3] if chosen.random() < 0.8 else AGENTS),
        "hitType": chosen.choice([None, "pageview", "screen"]),
        "timezoneOffset": chosen.choice([None, 60.0]),
        "isBot": chosen.choice([None, False, False, False]),
        "ip": chosen.choice([None, "203.0.113.9", "198.51.100.7", "x"]) if chosen.random() < 0.1 else None,
        "geo.countryCode": chosen.choice(["FR", None]),
    }


def broken(hits):
    """Return the hits with a row that breaks each rule."""
    good = dict.fromkeys(hits.column_names) | {
        "trackerId": "t",
        "date": START,
        "pageUrl": "https://shop.example/",
    }
    wrong = [
        {"trackerId": " "},
        {"trackerId": "t t"},
        {"trackerId": "t" * 129},
        {"date": None},
        {"date": datetime(1989, 12, 31)},
        {"date": datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=25)},
        {"pageUrl": None},
        {"pageUrl": "shop.example/"},
        {"hitId": "1"},
        {"timezoneOffset": 1441.0},
    ]
    return pa.concat_tables([hits, pa.Table.from_pylist([good | row for row in wrong], schema=hits.schema)])


@cache
def loaded(seeds, **sizes):
    """Return what an embedded project stores, with hits and events in the order of their dates."""
    hits, events = streams(seeds, **sizes)
    person = {
        "type": "string",
        "entity": "user",
        "storageKey": "person",
        "discriminant": True,
        "optional": True,
    }
    with at.connect("shop", path=":memory:") as shop:
        at.admin.update_settings(shop, **SETTINGS)
        at.create_event_type(shop, "order", name="Order", fields=[person])
        bounds = [datetime.min, *events["eventDate"].to_pylist(), datetime.max]
        for number, (since, until) in enumerate(pairwise(bounds)):
            if number:
                event = events.slice(number - 1, 1).rename_columns({"userId": "data.person", "_id": "nonce"})
                sent = at.send_events(shop, event.drop_columns(["statistics.turnover"]))
                assert sent["status"].tolist() == ["processed"], sent["error"].tolist()
            is_now = [date is not None and since <= date < until for date in hits["date"].to_pylist()]
            if any(is_now):
                at.load(shop, hits=hits.filter(pa.array(is_now)))
        with shop.transport._store.cursor() as cursor:
            query = {
                "hits": "SELECT hits.*, firstHitId FROM hits JOIN interactions ON sessionId = interactions._id",
                "interactions": "SELECT *, userData->>'trackerId' AS trackerId FROM interactions",
                "nodes": "FROM nodes",
                "events": "SELECT nonce AS _id, userId FROM events JOIN raw_events USING (_id)",
            }
            return {name: read_arrow(cursor, sql) for name, sql in query.items()}


RULES = raw_hits.Settings("shop", **SETTINGS)
#: Columns that tell when a row was stored, or a list of what was known then.
_OTHER = {"ingestedAt", "createdAt", "updateDate", "updatedAt", "userData", "implicit", "path", "active"}


def computed(backend, hits, events):
    """The tables of hits, interactions, nodes and events that an engine makes of tables in it."""
    tables = ExternalTables(portable(backend), {})
    collected = raw_hits.collect(tables.read("hits", hits), RULES)
    visits, converted = raw_hits.assign_users(
        collected.sessions, tables.read("events", events, like="events of hits")
    )
    found = {"hits": collected.hits, "interactions": visits, "events": converted}
    return {name: table.to_pyarrow() for name, table in found.items()} | {"nodes": collected.nodes}


def rows(table, columns, key):
    """Rows by key, with numbers of sets of users in place of their ids."""
    found = {}
    for row in table.select(columns).to_pylist():
        for name, value in row.items():
            if hasattr(value, "tzinfo"):
                row[name] = value.replace(tzinfo=None)
        assert row[key] not in found
        found[row[key]] = row
    return found


def users(tables):
    """The sets of sessions and events of one user each."""
    groups = {}
    for name in ("interactions", "events"):
        for row in tables[name].select(["_id", "userId"]).to_pylist():
            groups.setdefault(row["userId"], set()).add((name, row["_id"]))
    return sorted(sorted(group) for group in groups.values())


def first_hits(hits):
    """The first hit of the session of each hit, by id."""
    opened = {(hit["trackerId"], hit["number"]): hit["id"] for hit in hits.to_pylist() if hit["is_opening"]}
    return {hit["id"]: opened[hit["trackerId"], hit["number"]] for hit in hits.to_pylist()}


def check(found, expected):
    for name, key in (("interactions", "_id"), ("nodes", "_id")):
        columns = [column for column in found[name].column_names if column not in {*_OTHER, "userId"}]
        assert rows(found[name], columns, key) == rows(expected[name], columns, key), name
    columns = ["id", "trackerId", "serverDate", "nodeId", "isBot", "isCampaign", "referrerType"]
    assert rows(found["hits"], columns, "id") == rows(expected["hits"], columns, "id")
    assert users(found) == users(expected)
    first = first_hits(found["hits"])
    kept = expected["hits"].select(["id", "firstHitId"]).to_pylist()
    assert first == {hit["id"]: hit["firstHitId"] for hit in kept}
    assert first == sequential_sessions.split(found["hits"].to_pylist())
