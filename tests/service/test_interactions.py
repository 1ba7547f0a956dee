"""Searching interactions: every parameter, pages that fit together, and one snapshot for all of it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.service_records import hex_id, send, table, utc, uuid, visit

from attrib_ds import schema
from attrib_ds.filters import interaction, node
from attrib_ds.service import Service


@pytest.fixture(scope="module")
def service():
    """Seven interactions in a tree of four nodes and a lone one."""
    opened = Service.open("shop", ":memory:")
    nodes = [("ads", None, "integration"), ("brand", "ads", "campaign"), ("shoes", "brand", "adset")]
    nodes += [("boots", "shoes", "ad"), ("letter", None, "channel")]
    records = [{"_id": n, "parentId": p, "type": t, "name": n.title()} for n, p, t in nodes]
    send(opened, "load_records", resource="nodes", source=table(*records))
    visits = [
        visit(1, startDate="2025-01-01T00:00:00Z", nodeId="ads", geo__city="Oslo", hitCount=3),
        visit(2, startDate="2025-01-02T00:00:00Z", nodeId="brand", geo__city=None, hitCount=1),
        visit(3, startDate="2025-01-03T00:00:00Z", nodeId="shoes", geo__city="Bergen", hitCount=3),
        visit(4, startDate="2025-01-04T00:00:00Z", nodeId="letter", type="offline", geo__city="x"),
        visit(5, startDate="2025-01-04T00:00:00Z", nodeId="boots", geo__city="Oslo", isBot=True, hitCount=2),
        visit(6, startDate="2025-01-05T00:00:00Z", nodeId="letter", trafficFilterId="office", hitCount=5),
        visit(
            7,
            startDate="2025-01-06T00:00:00Z",
            nodeId="brand",
            trafficFilterId="office",
            isBot=True,
            duration=9,
        ),
    ]
    visits[0] |= {"userData": '{"email":"a@b.no"}', "rawNodeData": "{}", "firstHitId": uuid(1)}
    send(opened, "load_records", resource="interactions", source=table(*visits))
    yield opened
    opened.close()


def search(service, **arguments):
    return send(service, "search_interactions", **arguments)


def numbers(answer):
    return [int(value) for value in answer.read()["_id"].to_pylist()]


# -- populations, bounds, filters -------------------------------------------------------------------


@pytest.mark.slow
def test_by_default_neither_bots_nor_filtered_traffic_the_latest_first(service):
    answer = search(service)
    assert numbers(answer) == [4, 3, 2, 1]
    assert (answer.total, answer.offset, answer.limit) == (4, 0, None)


@pytest.mark.parametrize(
    ("filtered", "bots", "expected"),
    [
        (False, False, [4, 3, 2, 1]),
        (True, False, [6]),
        (None, False, [6, 4, 3, 2, 1]),
        (False, True, [5]),
        (True, True, [7]),
        (None, True, [7, 5]),
        (False, None, [4, 5, 3, 2, 1]),
        (True, None, [7, 6]),
        (None, None, [7, 6, 4, 5, 3, 2, 1]),
    ],
)
def test_populations_have_three_states(service, filtered, bots, expected):
    assert numbers(search(service, filtered=filtered, bots=bots)) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (node("nodeId") == "ads", [5, 3, 2, 1]),
        (node("nodeId") == "brand", [5, 3, 2]),
        (node("nodeId") == "boots", [5]),
        (node("campaignName") == "Brand", [5, 3, 2]),
        (node("nodeId") != "brand", [4, 1]),
        (node("nodeId") == "nowhere", []),
    ],
)
def test_a_node_includes_its_descendants(service, nodes, expected):
    assert numbers(search(service, nodes=nodes, bots=None)) == expected


def test_all_criteria_hold_together(service):
    answer = search(
        service,
        where=interaction("geo.city").is_not_null(),
        nodes=node("nodeId") == "ads",
        since="2025-01-02T00:00:00Z",
        bots=None,
    )
    assert numbers(answer) == [5, 3]


# -- columns ----------------------------------------------------------------------------------------


def test_the_default_columns_are_all_but_the_personal_ones(service):
    answer = search(service)
    names = [name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST]
    assert answer.read().schema == part_of(schema.INTERACTION, names)


def part_of(whole, names):
    return pa.schema([whole.field(name) for name in names])


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["type"], ["_id", "type"]),
        (["_id"], ["_id"]),
        (["type", "_id"], ["_id", "type"]),
        (["geo.city"], ["_id", "geo.city"]),
        (["asn", "type"], ["_id", "asn.asnId", "asn.asnName", "type"]),
        (["asn.asnName", "asn"], ["_id", "asn.asnName", "asn.asnId"]),
        (["userAgent.browser"], ["_id", *(f"userAgent.browser.{n}" for n in ("name", "version", "major"))]),
        (["userData", "rawNodeData"], ["_id", "userData", "rawNodeData"]),
    ],
)
def test_columns_are_those_asked_for_and_the_id(service, columns, expected):
    answer = search(service, columns=columns)
    assert answer.read().schema == part_of(schema.INTERACTION, expected)
    assert answer.read().num_rows == 4


def test_no_rows_keep_the_schema(service):
    answer = search(service, where=interaction("geo.city") == "nowhere")
    assert answer.read().num_rows == answer.total == 0
    assert answer.read().schema == search(service).read().schema
    limited = search(service, limit=0)
    assert (limited.read().num_rows, limited.total, limited.limit) == (0, 4, 0)
    assert limited.read().schema == search(service).read().schema


# -- order and pages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ({"startDate": 1}, [1, 2, 3, 4, 5, 6, 7]),
        ({"startDate": -1}, [7, 6, 4, 5, 3, 2, 1]),
        ({"geo.city": 1}, [3, 1, 5, 2, 4, 6, 7]),
        ({"geo.city": -1}, [1, 5, 3, 2, 4, 6, 7]),
        ({"hitCount": 1}, [2, 5, 1, 3, 6, 4, 7]),
        ({"hitCount": -1, "geo.city": 1}, [6, 3, 1, 5, 2, 4, 7]),
        ({"_id": -1}, [7, 6, 5, 4, 3, 2, 1]),
        ({"isBot": 1, "_id": -1}, [6, 4, 3, 2, 1, 7, 5]),
    ],
)
def test_nulls_come_last_and_ids_break_ties(service, sort, expected):
    assert numbers(search(service, sort=sort, filtered=None, bots=None)) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ({"limit": 2}, [4, 3]),
        ({"offset": 1}, [3, 2, 1]),
        ({"offset": 1, "limit": 2}, [3, 2]),
        ({"offset": 4}, []),
        ({"offset": 100, "limit": 3}, []),
        ({"limit": 100}, [4, 3, 2, 1]),
        ({"limit": 0, "offset": 2}, []),
    ],
)
def test_pages_and_their_total(service, page, expected):
    answer = search(service, **page)
    assert numbers(answer) == expected
    assert (answer.total, answer.offset, answer.limit) == (4, page.get("offset", 0), page.get("limit"))


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    column=st.sampled_from(["startDate", "geo.city", "hitCount", "type", "nodeId", "trafficFilterId"]),
    direction=st.sampled_from([1, -1]),
    size=st.integers(1, 8),
)
def test_pages_are_disjoint_and_complete(service, column, direction, size):
    everything = {"sort": {column: direction}, "filtered": None, "bots": None, "columns": ["_id"]}
    pages = [numbers(search(service, limit=size, offset=start, **everything)) for start in range(0, 7, size)]
    joined = [number for page in pages for number in page]
    assert joined == numbers(search(service, **everything))
    assert sorted(joined) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.large
@pytest.mark.slow
def test_the_total_is_that_of_the_page_while_others_write():
    service = Service.open("shop", ":memory:")
    is_done = threading.Event()

    def add():
        for batch in range(8):
            records = [visit(10 * batch + number) for number in range(10)]
            send(service, "load_records", resource="interactions", source=table(*records))
        is_done.set()

    def look():
        totals = []
        while not is_done.is_set():
            # An offset of nothing and a limit beyond all make the total a query of its own.
            answer = search(service, limit=1_000)
            assert answer.total == answer.read().num_rows
            totals.append(answer.total)
        return totals

    with ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        pool.submit(add).result()
        for future in looking:
            totals = future.result()
            assert totals == sorted(totals)
            assert all(total % 10 == 0 for total in totals)
    assert search(service).total == 80
    service.close()


# -- one interaction and its hits -------------------------------------------------------------------


def test_one_interaction_has_every_property(service):
    answer = send(service, "get_interaction", id=hex_id(1))
    assert answer.read().schema == schema.INTERACTION
    (record,) = answer.read().to_pylist()
    assert record["userData"] == '{"email":"a@b.no"}'
    assert record["startDate"] == utc(2025, 1, 1)


def test_hits_of_a_session_come_oldest_first():
    service = Service.open("shop", ":memory:")
    records = [visit(1, firstHitId=uuid(3)), visit(2, firstHitId=uuid(9))]
    send(service, "load_records", resource="interactions", source=table(*records))
    seconds = {1: 5, 2: 2, 3: 1, 4: 2}
    hits = [
        {
            "id": uuid(value),
            "sessionId": hex_id(1),
            "serverDate": f"2025-01-31T12:00:0{second}Z",
            "pageUrl.port": "8080",
        }
        for value, second in seconds.items()
    ]
    send(service, "load_records", resource="hits", source=table(*hits))
    answer = send(service, "list_hits", first_hit_id=uuid(3))
    assert answer.read().schema == schema.HIT
    assert answer.read()["id"].to_pylist() == [uuid(3), uuid(2), uuid(4), uuid(1)]
    assert answer.read()["pageUrl.port"].to_pylist() == ["8080"] * 4
    assert answer.total is None
    (record,) = send(service, "get_interaction", id=hex_id(1)).read().to_pylist()
    assert record["hitCount"] == 4
    for other in (uuid(1), uuid(9), uuid(77), "no-uuid", hex_id(1)):
        answer = send(service, "list_hits", first_hit_id=other)
        assert answer.read().num_rows == 0
        assert answer.read().schema == schema.HIT
    service.close()
