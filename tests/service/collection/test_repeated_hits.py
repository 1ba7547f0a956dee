"""A hit that is sent again is the same hit: one row, chosen by a rule, whatever the order and the way in."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from support.http_caller import Caller
from support.service_records import send, table, uuid

import attrib_ds as at
from attrib_ds.contract.interactions import read_hit
from attrib_ds.errors import NotFound
from attrib_ds.service import Service
from attrib_ds.service.collection import hits
from attrib_ds.service.collection.collector import part_rows
from attrib_ds.service.collection.hits import HitIntake, pending_hit
from attrib_ds.service.consistency_check import run_checks
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import insert_records
from attrib_ds.sql_results import read_arrow

SECONDS = 30
NOON = datetime(2025, 1, 31, 12)
FIREFOX, PHONE = "Firefox/130.0", "Safari/604.1"
DAY, EVENING, KEPT, OTHER = "day.5f p-1", "day.a8 p-1", "c-1 day.5f", "b-1 day.a8"


def record(number, tracker, minutes=0.0, *, agent=FIREFOX, page="/", referrer=""):
    hit = read_hit({"projectId": "shop", "pageUrl": f"https://shop.example{page}", "referrer": referrer})
    pending = pending_hit(hit, id=uuid(number), tracker_id=tracker, user_agent=agent)
    return pending | {"serverDate": NOON + timedelta(minutes=minutes)}


def rows(store, query):
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def findings(store):
    with store.cursor() as cursor:
        return run_checks(cursor).to_pylist()


def collect(store, *portions):
    for portion in portions:
        intake = HitIntake(store)
        for each in portion:
            intake.submit(each).result(SECONDS)
        intake.close(timeout=SECONDS)


def load_parts(store, *portions):
    for portion in portions:
        texts = [
            each | {name: each[name].isoformat() for name in ("serverDate", "ingestedAt")} for each in portion
        ]
        load_records(store, "hits", part_rows(texts, project_id="shop"))


def load_raw(store, *portions):
    for portion in portions:
        found = [
            {
                "hitId": each["id"],
                "trackerId": each["trackerId"].split(" ")[0],
                "date": each["serverDate"].replace(tzinfo=UTC).isoformat(),
                "pageUrl": each["pageUrl"],
                "userAgent": each["userAgent"],
            }
            for each in portion
        ]
        load_records(store, "hits", table(*found))


RARELY = [pytest.mark.large, pytest.mark.slow]
WAYS = {"collected": collect, "parts": load_parts, "raw hits": load_raw}


@pytest.fixture
def store():
    with closing(Store.open(":memory:", "shop")) as store:
        yield store


HITS = "SELECT id, trackerId, serverDate, userAgent FROM hits ORDER BY id"


@pytest.mark.few(2)
@pytest.mark.large
@pytest.mark.parametrize(
    ("way", "is_together"),
    [
        ("collected", False),
        pytest.param("collected", True, marks=RARELY),
        pytest.param("parts", True, marks=RARELY),
        pytest.param("raw hits", False, marks=RARELY),
    ],
)
@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        # The earliest date, then the texts of the tracker and of the agent; an id that the browser keeps before them.
        ([(KEPT, 0, PHONE), (KEPT, 0, FIREFOX)], ("c-1", 0, FIREFOX)),
        ([(DAY, 0, FIREFOX), (DAY, 1, PHONE)], ("day.5f", 0, FIREFOX)),
        ([(DAY, 1, FIREFOX), (EVENING, 0, PHONE)], ("day.a8", 0, PHONE)),
        ([(DAY, 0, FIREFOX), (EVENING, 0, PHONE)], ("day.5f", 0, FIREFOX)),
        ([(DAY, 0, FIREFOX), (KEPT, 2, PHONE)], ("c-1", 2, PHONE)),
        ([(KEPT, 1, FIREFOX), (OTHER, 0, PHONE)], ("b-1", 0, PHONE)),
        ([("hit.1", 0, FIREFOX), ("c-1", 40, FIREFOX), (DAY, 1, PHONE)], ("c-1", 40, FIREFOX)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_g247_one_of_the_hits_with_an_id_counts_in_any_order(way, is_together, arrivals, expected):
    sent = [record(1, *arrival[:2], agent=arrival[2]) for arrival in arrivals]
    # A later page of the first browser, and one of somebody else.
    others = [record(2, sent[0]["trackerId"], 3), record(3, "z-1", 5)]
    tracker, minutes, agent = expected
    for order in itertools.permutations(sent):
        with closing(Store.open(":memory:", "shop")) as store:
            every = [order[0], others[0], *order[1:], others[1]]
            WAYS[way](store, *([every] if is_together else [[each] for each in every]))
            first, *rest = rows(store, HITS)
            assert first == (uuid(1), tracker, NOON + timedelta(minutes=minutes), agent)
            assert [id for id, *_ in rest] == [uuid(2), uuid(3)]
            assert findings(store) == []
            assert rows(store, "SELECT sum(hitCount) FROM interactions") == [(3,)]


@pytest.mark.parametrize("is_together", [True, False])
def test_g247_a_try_that_does_not_count_lends_no_campaign(is_together, store):
    """The first page of one browser has the campaign of its lost landing page; the second of another has not."""
    opener = "https://shop.example/boots?gclid=x"
    first = record(1, KEPT, page="/boots?gclid=x")
    sent = [first, *(record(2, tracker, 40, referrer=opener) for tracker in (KEPT, "day.5f p-2"))]
    load_parts(store, *([sent] if is_together else [[each] for each in sent]))
    assert rows(store, "SELECT trackerId, nodeId FROM hits ORDER BY id") == [
        ("c-1", "google/cpc"),
        ("c-1", "direct"),
    ]


@pytest.mark.parametrize("mode", ["anonymise", "delete"])
@pytest.mark.parametrize("way", WAYS)
def test_g209_a_hit_of_an_erased_person_does_not_return_under_another_id(way, mode):
    """The person agreed on the page; the first try had the ids of the day and of the page."""
    with closing(Service.open("shop", ":memory:")) as service:
        store = service._store
        collect(store, [record(1, DAY)], [record(1, KEPT)])
        ((user,),) = rows(store, "SELECT userId FROM interactions")
        send(service, "delete_user", id=user, mode=mode)
        for tracker in (DAY, KEPT, EVENING, OTHER):
            WAYS[way](store, [record(1, tracker)])
        assert rows(store, "SELECT count(*) FROM hits WHERE trackerId IS NOT NULL") == [(0,)]
        assert rows(store, "SELECT count(*) FROM interactions") == [(int(mode == "anonymise"),)]
        assert rows(store, "SELECT count(*) FROM identities") == [(0,)]


def test_an_erased_person_leaves_no_waiting_hit():
    with closing(Service.open("shop", ":memory:")) as service:
        store = service._store
        collect(store, [record(1, KEPT)])
        store.write(lambda connection: insert_records(connection, "pending_hits", [record(2, KEPT)]))
        ((user,),) = rows(store, "SELECT userId FROM interactions")
        send(service, "delete_user", id=user, mode="delete")
        assert rows(store, "SELECT count(*) FROM pending_hits") == [(0,)]


@pytest.mark.slow
def test_g247_the_ways_in_do_not_matter():
    sent = [record(1, DAY, 1), record(1, EVENING, 0, agent=PHONE), record(1, DAY, 2)]
    for ways in itertools.permutations(WAYS.values()):
        with closing(Store.open(":memory:", "shop")) as store:
            for way, each in zip(ways, sent, strict=True):
                way(store, [each])
            assert rows(store, HITS) == [(uuid(1), "day.a8", NOON, PHONE)]
            assert findings(store) == []


def test_g247_a_hit_that_moves_takes_its_session_along(store):
    """Two sessions, and the hit that opened the second one is found to be the first one of both."""
    collect(store, [record(1, "c-1", 0), record(2, "c-1", 60), record(3, "c-1", 70)])
    before = dict(rows(store, "SELECT firstHitId, _id FROM interactions"))
    assert before.keys() == {uuid(1), uuid(2)}
    collect(store, [record(2, "c-1", -10)])
    sessions = rows(
        store, "SELECT firstHitId, hitCount, userLifetimeIndex FROM interactions ORDER BY startDate"
    )
    assert sessions == [(uuid(2), 2, 1), (uuid(3), 1, 2)]
    assert rows(store, "SELECT count(*) FROM users") == [(1,)]
    assert findings(store) == []
    # A session has the id of the hit that gave it, wherever that is now.
    assert rows(store, f"SELECT _id FROM interactions WHERE firstHitId = '{uuid(2)}'") == [(before[uuid(2)],)]


def test_g247_an_only_hit_that_moves_keeps_its_user(store):
    collect(store, [record(1, "c-1", 0)])
    query = "SELECT userId, _id, startDate FROM interactions"
    ((user, session, _),) = rows(store, query)
    collect(store, [record(1, "c-1", -5_000)])
    assert rows(store, query) == [(user, session, NOON - timedelta(minutes=5_000))]
    collect(store, [record(1, "b-1", -6_000)])
    ((user_of_other, _, _),) = rows(store, query)
    assert user_of_other != user
    assert rows(store, "SELECT _id FROM users") == [(user_of_other,)]
    assert findings(store) == []


def test_a_session_that_was_merged_away_answers_to_its_former_id():
    with closing(Service.open("shop", ":memory:")) as service:
        load = partial(send, service, "load_records", resource="hits")
        visits = [
            {"trackerId": "c-1", "pageUrl": "https://shop.example/", "hitId": uuid(n)} for n in range(3)
        ]
        moments = [NOON, NOON + timedelta(minutes=40), NOON + timedelta(minutes=20)]
        dated = [
            each | {"date": moment.replace(tzinfo=UTC).isoformat()}
            for each, moment in zip(visits, moments, strict=True)
        ]
        load(source=table(*dated[:2]))
        first, second = send(service, "search_interactions", sort={"startDate": 1}).read()["_id"].to_pylist()
        load(source=table(dated[2]))
        for id in (first, second):
            found = send(service, "get_interaction", id=id).read().to_pylist()
            assert [(each["_id"], each["hitCount"]) for each in found] == [(first, 3)]
        with pytest.raises(NotFound):
            send(service, "get_interaction", id="f" * 24)


USERS = "SELECT value, dense_rank() OVER (ORDER BY userId) FROM identities WHERE kind = 'trackerId' ORDER BY value"


@pytest.mark.slow
@pytest.mark.parametrize("is_together", [True, False])
def test_g247_a_page_whose_address_changes_is_one_browser(is_together):
    sent = [record(1, DAY, 0), record(1, EVENING, 0.1), record(2, EVENING, 1), record(3, "day.a8 p-2", 2)]
    # Each of the four comes first in some of these orders and last in another.
    for order in itertools.islice(itertools.permutations(sent), 0, None, 5):
        with closing(Store.open(":memory:", "shop")) as store:
            collect(store, *([order] if is_together else [[each] for each in order]))
            assert rows(store, USERS) == [("day.5f", 1), ("day.a8", 1), ("p-1", 1), ("p-2", 1)]
            assert rows(store, "SELECT count(*) FROM users") == [(1,)]
            assert findings(store) == []


TOLD = "SELECT list(value ORDER BY value) FROM identities GROUP BY userId ORDER BY 1"


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        # The page view of the day that arrives after the consent is that of the browser, and the next one is not.
        ([(1, KEPT, 0), (1, DAY, 0), (2, DAY, 1)], [["c-1"], ["day.5f", "p-1"]]),
        # A page view of before the consent that comes again tells nothing of who has the address now.
        (
            [(1, DAY, 0), (1, KEPT, 0), (2, "day.5f p-2", 1), (1, DAY, 0), (3, "day.5f p-3", 2)],
            [["c-1", "p-1"], ["day.5f", "p-2", "p-3"]],
        ),
        ([(1, DAY, 0), (1, KEPT, 0), (1, DAY, 0), (2, "day.5f p-2", 1)], [["c-1", "p-1"], ["day.5f", "p-2"]]),
        # The browser takes its page along. Whoever has the address and user agent afterwards is somebody else.
        ([(1, DAY, 0), (1, KEPT, 0), (2, "day.5f p-2", 1)], [["c-1", "p-1"], ["day.5f", "p-2"]]),
        # Page p-1 was open at two addresses, or under Global Privacy Control too: one visitor, who has another
        # page view. Whose that is, the consent does not tell.
        (
            [(1, DAY, 0), (1, EVENING, -5), (2, DAY, 9), (1, "c-1 day.a8", 0)],
            [["c-1"], ["day.5f", "day.a8", "p-1"]],
        ),
        (
            [(1, DAY, 0), (1, "page.p-1 p-1", -2), (2, DAY, -4_000), (1, KEPT, -3)],
            [["c-1"], ["day.5f", "p-1", "page.p-1"]],
        ),
    ],
    ids=["late try", "again beside", "again before", "somebody else", "two addresses", "privacy control"],
)
def test_g239_hits_at_once_have_the_users_of_hits_one_by_one(arrivals, expected):
    sent = [
        record(*arrival) | {"ingestedAt": NOON + timedelta(days=9, seconds=second)}
        for second, arrival in enumerate(arrivals)
    ]
    for portions in ([[each] for each in sent], [sent[::-1]]):
        with closing(Store.open(":memory:", "shop")) as store:
            collect(store, *portions)
            assert rows(store, TOLD) == [(each,) for each in expected]
            assert findings(store) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_an_order_has_the_visitor_of_its_page_whenever_it_comes(is_first):
    """The hit first has no visitor of the day; the try that counts has one, and page p-1."""
    with closing(Service.open("shop", ":memory:")) as service:
        send(service, "create_event_type", reference="order", name="Order")
        steps = [
            partial(collect, service._store, [record(1, "page.p-2 p-2")], [record(1, DAY, -5)]),
            partial(
                send, service, "create_event_sync", nonce="n", event_type="order", tracker_id="p-1", data={}
            ),
        ]
        for step in reversed(steps) if is_first else steps:
            step()
        assert rows(service._store, TOLD) == [(["day.5f", "p-1"],), (["p-2", "page.p-2"],)]
        assert rows(
            service._store,
            "SELECT count(DISTINCT userId) FROM (FROM events JOIN interactions USING (userId))",
        ) == [(1,)]


@pytest.mark.parametrize("place", [0, 2, 3])
@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        # Page p-1 was open in c-1, whose only hit turns out to be that of b-1.
        ([(1, DAY, 0), (1, KEPT, 0), (1, OTHER, -5)], [["b-1"], ["c-1", "p-1"]]),
        # The same without consent; the visitor of the day comes back.
        (
            [(1, DAY, 0), (1, "day.a8 p-2", -5), (2, "day.5f p-3", 1)],
            [["day.5f", "p-1", "p-3"], ["day.a8", "p-2"]],
        ),
    ],
    ids=["consent", "no consent"],
)
def test_orders_have_the_browser_of_their_page_though_its_hit_is_that_of_another_one(
    arrivals, expected, place
):
    with closing(Service.open("shop", ":memory:")) as service:
        send(service, "create_event_type", reference="order", name="Order")
        steps = [partial(collect, service._store, [record(*arrival)]) for arrival in arrivals]
        order = partial(send, service, "create_event_sync", event_type="order", tracker_id="p-1", data={})
        steps.insert(place, partial(order, nonce="n"))
        for step in steps:
            step()
        assert rows(service._store, TOLD) == [(each,) for each in expected]
        assert findings(service._store) == []


def test_a_browser_that_is_told_apart_from_its_day_keeps_all_of_its_sessions(store):
    """The second time that it agrees, the day has a page view that may be somebody else's."""
    collect(store, *[[record(*each)] for each in [(1, DAY, 0), (1, KEPT, 0), (2, DAY, 1), (3, DAY, 2)]])
    collect(store, [record(3, KEPT, 2)])
    assert rows(store, USERS) == [("c-1", 2), ("day.5f", 1), ("p-1", 1)]
    sessions = "SELECT list(id[-1] ORDER BY id) FROM hits JOIN interactions ON sessionId = interactions._id GROUP BY userId ORDER BY 1"
    assert rows(store, sessions) == [(["1", "3"],), (["2"],)]
    assert findings(store) == []


def test_a_browser_that_joins_no_visit_holds_up_none(store):
    """Two portions with new browsers whose visit of the day has another first page."""
    for number in (1, 5):
        day = f"day.{number}"
        first = record(number, f"{day} p-{number}", 0, page="/a"), record(number + 1, f"{day} q-{number}", 1)
        joining = record(number + 2, f"c-{number} {day}", 2, page="/b") | {
            "referrer": "https://shop.example/"
        }
        collect(store, first, [joining])
    assert rows(store, "SELECT count(*) FROM pending_hits") == [(0,)]
    assert rows(store, "SELECT count(*) FROM hits") == [(6,)]


@pytest.mark.parametrize("way", ["collected", "raw hits"])
def test_g247_hits_that_would_be_stored_twice_are_set_aside_once(way, store, monkeypatch, caplog):
    """A mistake where hits are chosen does not spoil the tables."""
    WAYS[way](store, [record(1, "c-1", 0), record(2, "b-1", 1)])

    def all_of_them(_, relation):
        return relation if relation.startswith("(") else f"(FROM {relation})"

    monkeypatch.setattr(hits, "_find_new", all_of_them)
    monkeypatch.setattr("attrib_ds.service.loading.interactions._reject_repeated", lambda *_: None)
    with caplog.at_level("ERROR"):
        WAYS[way](store, [record(1, "c-1", 3), record(3, "a-1", 5), record(2, "b-1", 1)])
    assert [id for id, *_ in rows(store, HITS)] == [uuid(1), uuid(2), uuid(3)]
    assert len(caplog.records) == 1, caplog.text
    assert rows(store, "SELECT id, reason FROM trashed_hits ORDER BY id") == [
        (uuid(1), "its id is stored already"),
        (uuid(2), "its id is stored already"),
    ]
    assert [finding["check"] for finding in findings(store)] == ["trash"]


def test_g247_a_session_that_was_loaded_is_not_stored_twice(store, caplog):
    """The same hits come raw into a project that has their sessions from another one of the same name."""
    sent = [record(1, "c-1", 0), record(2, "c-1", 1), record(3, "c-1", 100), record(4, "b-1", 1)]
    collect(store, sent)
    columns = "_id, userId, nodeId, startDate, endDate, hitCount, firstHitId"
    with store.cursor() as cursor:
        sessions = read_arrow(cursor, f"SELECT {columns} FROM interactions WHERE hitCount = 2")
    with closing(Store.open(":memory:", "shop")) as mirror:
        load_records(mirror, "interactions", sessions)
        collect(mirror, sent)
        assert rows(mirror, "SELECT count(*), count(DISTINCT _id) FROM interactions") == [(3, 3)]
        assert rows(mirror, "SELECT id FROM hits ORDER BY id") == [(uuid(3),), (uuid(4),)]
        assert rows(mirror, "SELECT id FROM trashed_hits ORDER BY id") == [(uuid(1),), (uuid(2),)]
        assert [finding["check"] for finding in findings(mirror)] == ["trash"]
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1


HOME, OFFICE = "203.0.113.7", "198.51.100.7"


def poster(call):
    def view(number, *, tracker="p-1", keeps=False, address=HOME, agent=FIREFOX, **headers):
        body = {"projectId": "shop", "hitId": uuid(number), "trackerId": tracker, "isPersistent": keeps}
        headers |= {"X_Forwarded_For": address, "User_Agent": agent}
        body |= {"pageUrl": "https://shop.example/"}
        assert call("POST", "/c", json.dumps(body), **headers).status == 202

    return view


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "again",
    [
        {},
        {"agent": PHONE},
        {"address": OFFICE},
        {"keeps": True, "tracker": "c-1"},
        {"tracker": "p-9"},
        {"Sec_GPC": "1"},
    ],
    ids=lambda again: "-".join(again) or "as it was",
)
def test_a_hit_that_is_posted_twice_counts_once(tmp_path, again):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    with running(tmp_path, options=ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))) as url:
        view = poster(Caller(url))
        view(1)
        view(1, **again)
        threads = [threading.Thread(target=view, args=(1,), kwargs=again) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        for number in range(2, 6):
            # Later hits of the same browsers.
            view(number)
            view(number, **again)
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        assert at.admin.check(shop).to_dict("records") == []
        visits = at.search_interactions(shop)
        assert visits["hitCount"].sum() == 5
        assert visits["_id"].is_unique
