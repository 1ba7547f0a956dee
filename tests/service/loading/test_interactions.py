"""Loading interactions: every rule by name, the tree and the order of a user's visits derived."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.service_records import hex_id, lines, reasons, table, utc, visit

from attrib_ds import schema
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.loading import REJECTED, load_records
from attrib_ds.service.store.store import Store
from attrib_ds.sql_results import read_arrow


def load(store, *records):
    return load_records(store, "interactions", table(*records))


def test_a_plain_session_gets_its_defaults(memory_store, rows):
    counts, rejected = load(memory_store, {**visit(1), "_id": None})
    assert counts == {"interactions": 1, "implicit_nodes": 1}
    assert rejected.schema == REJECTED
    assert rejected.num_rows == 0
    columns = "projectId, type, userLifetimeIndex, startDate = endDate, duration, isBot, createdAt, hitCount"
    assert rows(f"SELECT {columns} FROM interactions") == [
        ("shop", "session", 1, True, 0.0, False, None, None)
    ]
    ((new_id, ingested),) = rows(
        "SELECT _id, ingestedAt > now()::TIMESTAMP - INTERVAL 1 MINUTE FROM interactions"
    )
    assert len(new_id) == 24
    assert ingested


TREE = [
    {"_id": "tv", "parentId": None, "type": "integration", "name": "TV", "integrationId": "i-7"},
    {"_id": "spot", "parentId": "tv", "type": "campaign", "name": "Spot", "integrationId": None},
]


@pytest.mark.parametrize("order", ["nodes first", "sessions first"])
def test_a_session_takes_the_integration_of_its_nodes_root(memory_store, rows, order):
    """G-225: whichever is loaded first; one that is given stays, and offline interactions get none."""
    loads = [
        lambda: load_records(memory_store, "nodes", table(*TREE)),
        lambda: load(
            memory_store,
            visit(1, nodeId="spot"),
            visit(2, nodeId="spot", integrationId="own"),
            visit(3, nodeId="spot", type="offline"),
            visit(4, nodeId="elsewhere"),
        ),
    ]
    for step in loads if order == "nodes first" else reversed(loads):
        step()
    assert rows("SELECT integrationId FROM interactions ORDER BY _id") == [
        ("i-7",),
        ("own",),
        (None,),
        (None,),
    ]


def test_sessions_without_an_integration_are_unchanged_when_loaded_again(memory_store):
    load_records(memory_store, "nodes", table(*TREE))
    sessions = table(visit(1, nodeId="spot", integrationId=None, ingestedAt="2025-02-01T00:00:00Z"))
    for count in (1, 0):
        counts, _ = load_records(memory_store, "interactions", sessions, replace=True)
        assert counts["interactions"] == count


def test_every_property_is_kept(memory_store, rows, tmp_path):
    session = {
        "_id": hex_id(1),
        "projectId": "shop",
        "type": "session",
        "userId": hex_id(2),
        "userLifetimeIndex": 77,
        "startDate": "2025-01-31T13:00:00+01:00",
        "endDate": "2025-01-31T12:01:30.5Z",
        "duration": 90.5,
        "ingestedAt": "2025-02-01T00:00:00Z",
        "createdAt": "2025-02-01T00:00:01Z",
        "updateDate": "2025-02-01T00:00:02Z",
        "userData": {"email": "anna@example.org", "more": [1, None]},
        "integrationId": "i",
        "nodeId": "n",
        "externalId": "x",
        "firstHitId": "00000000-0000-7000-8000-00000000000A",
        "hitCount": 3,
        "isBot": False,
        "referrer": "https://example.org/",
        "referrerType": "search",
        "trafficFilterId": "office",
        "partialResolvedVendorId": "v",
        "vendorUpdateDate": "2025-02-01T00:00:03Z",
        "rawUserData": {"a": 1},
        "rawNodeData": {"vendorId": "v"},
        "firstPage": "/start",
        "firstPageUrl": {part: part for part in schema.URL_PARTS},
        "userAgent": {
            "ua": "ua",
            "browser": {"name": "a", "version": "b", "major": "c"},
            "engine": {"name": "d", "version": "e"},
            "os": {"name": "f", "version": "g"},
            "device": {"vendor": "h", "model": "i", "type": "j"},
            "cpu": {"architecture": "k"},
        },
        "asn": {"asnId": "1", "asnName": "net"},
        "geo": {
            "countryCode": "FR",
            "state": "IDF",
            "city": "Paris",
            "latitude": 48.85,
            "longitude": 2.35,
            "zipcode": "75001",
        },
    }
    counts, rejected = load_records(memory_store, "interactions", lines(tmp_path / "visits.ndjson", session))
    assert (counts["interactions"], rejected.num_rows) == (1, 0)
    with memory_store.cursor() as cursor:
        (stored,) = read_arrow(cursor, "SELECT * FROM interactions").to_pylist()

    def expected(name):
        value = session
        for part in name.split("."):
            value = value[part]
        return value

    times = {"startDate", "endDate", "ingestedAt", "createdAt", "updateDate", "vendorUpdateDate"}
    changed = {"userLifetimeIndex", "firstHitId", "userData", "rawUserData", "rawNodeData"}
    for name in schema.INTERACTION.names:
        if name not in times | changed:
            assert stored[name] == expected(name), name
    assert stored["userLifetimeIndex"] == 1
    assert stored["firstHitId"] == session["firstHitId"].lower()
    assert stored["userData"] == '{"email":"anna@example.org","more":[1,null]}'
    assert stored["rawNodeData"] == '{"vendorId":"v"}'
    assert stored["startDate"] == utc(2025, 1, 31, 12).replace(tzinfo=None)
    assert stored["endDate"] == utc(2025, 1, 31, 12, 1, 30, 500_000).replace(tzinfo=None)
    assert stored["vendorUpdateDate"] == utc(2025, 2, 1, 0, 0, 3).replace(tzinfo=None)


def test_an_offline_interaction_has_no_session_only_properties(memory_store, rows):
    load(
        memory_store,
        visit(1, type="offline", hitCount=3, firstPage="/", geo__city="Paris", asn__asnId="1", referrer="r"),
    )
    assert rows(
        'SELECT hitCount, firstPage, "geo.city", "asn.asnId", referrer, createdAt IS NOT NULL FROM interactions'
    ) == [(None, None, None, None, "r", True)]


@pytest.mark.parametrize(
    ("times", "end", "duration"),
    [
        ({}, "2025-01-31 12:00:00", 0.0),
        ({"duration": 1.5}, "2025-01-31 12:00:01.5", 1.5),
        ({"duration": 0.1}, "2025-01-31 12:00:00.1", 0.1),
        ({"endDate": "2025-01-31T12:00:02Z"}, "2025-01-31 12:00:02", 2.0),
        ({"endDate": "2025-01-31T12:00:02.0004Z", "duration": 2.0}, "2025-01-31 12:00:02", 2.0),
    ],
)
def test_end_and_duration_follow_from_each_other(memory_store, rows, times, end, duration):
    _, rejected = load(memory_store, visit(1, **times))
    assert rejected.num_rows == 0
    ((stored_end, stored_duration),) = rows("SELECT endDate::VARCHAR, duration FROM interactions")
    assert (stored_end, stored_duration) == (end, duration)


@pytest.mark.few(12)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"_id": "5F" * 12}, "_id: '5F5F5F5F5F5F5F5F5F5F5F5F' is not 24 lower-case hexadecimal digits"),
        ({"userId": None}, "userId: is missing"),
        ({"userId": "  "}, "userId: is missing"),
        ({"userId": "anna"}, "userId: 'anna' is not 24 lower-case hexadecimal digits"),
        ({"nodeId": None}, "nodeId: is missing"),
        ({"nodeId": "n" * 129}, f"nodeId: '{'n' * 79}…' is not text of 1 to 128 characters"),
        ({"startDate": None}, "startDate: is missing"),
        (
            {"startDate": "2025-01-31"},
            "startDate: '2025-01-31' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        (
            {"startDate": "1738324800"},
            "startDate: '1738324800' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        ({"startDate": "1970-01-20T00:00:00Z"}, "startDate: '1970-01-20T00:00:00Z' is before 1990"),
        ({"endDate": "soon"}, "endDate: 'soon' is not a date with a time, such as 2025-01-31T12:00:00Z"),
        (
            {"updateDate": "soon"},
            "updateDate: 'soon' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        ({"endDate": "2025-01-31T11:59:59Z"}, "startDate: is later than endDate: '2025-01-31T11:59:59Z'"),
        ({"duration": "-1"}, "duration: '-1' is not 0 or more"),
        ({"duration": "nan"}, "duration: 'nan' is not a finite number"),
        ({"duration": "inf"}, "duration: 'inf' is not a finite number"),
        ({"duration": "long"}, "duration: 'long' is not a finite number"),
        (
            {"duration": "3", "endDate": "2025-01-31T12:00:02Z"},
            "duration: '3' is not the 2.0 seconds from startDate to endDate",
        ),
        ({"type": "phone"}, "type: 'phone' is not one of session, offline"),
        ({"type": "offline", "isBot": "true"}, "isBot: is true on an offline interaction"),
        ({"isBot": "maybe"}, "isBot: 'maybe' is not true or false"),
        ({"hitCount": "1.5"}, "hitCount: '1.5' is not a whole number of 0 or more"),
        ({"hitCount": "-1"}, "hitCount: '-1' is not a whole number of 0 or more"),
        ({"firstHitId": "first"}, "firstHitId: 'first' is not a UUID"),
        ({"geo.latitude": "90.5"}, "geo.latitude: '90.5' is not from -90 to 90"),
        ({"geo.longitude": "-181"}, "geo.longitude: '-181' is not from -180 to 180"),
        ({"geo.latitude": "NaN"}, "geo.latitude: 'NaN' is not a finite number"),
        ({"userData": "[1]"}, "userData: '[1]' is not a JSON object"),
        ({"userData": "{"}, "userData: '{' is not a JSON object"),
        ({"projectId": "other"}, "projectId: 'other' is not this project, 'shop'"),
        ({"geo": "FR"}, "geo: 'FR' is not an object"),
    ],
)
def test_a_row_that_breaks_a_rule_is_rejected_with_that_reason(memory_store, rows, change, reason):
    usual, wrong = visit(1), {**visit(2), **change}
    counts, rejected = load(memory_store, usual, wrong)
    assert counts["interactions"] == 1
    assert rejected.to_pylist() == [{"row": 1, "id": wrong["_id"], "reason": reason}]
    assert rows("SELECT _id FROM interactions") == [(hex_id(1),)]


def test_all_violated_rules_of_a_row_are_reported(memory_store):
    _, rejected = load(memory_store, {"_id": "x", "startDate": "soon", "type": "y", "geo.latitude": 91.0})
    assert set(reasons(rejected)[0].split("; ")) == {
        "_id: 'x' is not 24 lower-case hexadecimal digits",
        "userId: is missing",
        "nodeId: is missing",
        "startDate: 'soon' is not a date with a time, such as 2025-01-31T12:00:00Z",
        "type: 'y' is not one of session, offline",
        "geo.latitude: '91' is not from -90 to 90",
    }


def test_of_rows_with_one_id_the_first_good_one_is_kept(memory_store, rows):
    _, rejected = load(
        memory_store,
        visit(1, nodeId=None),
        visit(1, nodeId="kept"),
        visit(2),
        visit(1, nodeId="late"),
        visit(1, nodeId=None),
    )
    assert reasons(rejected) == {
        0: "nodeId: is missing",
        3: f"_id: '{hex_id(1)}' is also the id of row 1",
        4: f"nodeId: is missing; _id: '{hex_id(1)}' is also the id of row 1",
    }
    assert rows("SELECT nodeId FROM interactions ORDER BY _id") == [("kept",), ("ads",)]


def test_loading_the_same_twice_adds_nothing(memory_store, rows):
    load(memory_store, visit(1), visit(2))
    counts, rejected = load(memory_store, visit(2), visit(3))
    assert counts == {"interactions": 1, "implicit_nodes": 0}
    assert rejected.to_pylist() == [
        {"row": 0, "id": hex_id(2), "reason": f"_id: '{hex_id(2)}' is already loaded"}
    ]
    assert len(rows("FROM interactions")) == 3


def test_implicit_nodes_are_created_once(memory_store, rows):
    load_records(memory_store, "nodes", table({"_id": "ads", "type": "integration", "name": "Ads"}))
    counts, _ = load(memory_store, visit(1), visit(2, nodeId="new"), visit(3, nodeId="new"))
    assert counts["implicit_nodes"] == 1
    assert rows("SELECT _id, name, type, path, active, implicit FROM nodes ORDER BY _id") == [
        ("ads", "Ads", "integration", [], True, False),
        ("new", "new", "channel", [], True, True),
    ]


def test_rejected_rows_make_no_nodes(memory_store, rows):
    load(memory_store, visit(1, userId=None, nodeId="ghost"))
    assert rows("FROM nodes") == []


def test_the_visits_of_a_user_are_counted_in_order_of_start_and_id(memory_store, rows):
    def day(number, day, user=900):
        return visit(number, startDate=f"2025-01-{day:02}T00:00:00Z", userId=hex_id(user))

    def indexes():
        return dict(rows("SELECT ltrim(_id, '0'), userLifetimeIndex FROM interactions"))

    load(memory_store, day(4, 10), day(2, 5), day(3, 10), day(5, 1, user=901))
    assert indexes() == {"2": 1, "3": 2, "4": 3, "5": 1}
    # Earlier, between and equal to what is there: the stored ones move.
    load(memory_store, day(1, 1), day(6, 7), day(7, 10))
    assert indexes() == {"1": 1, "2": 2, "6": 3, "3": 4, "4": 5, "7": 6, "5": 1}


def test_unknown_columns_stop_the_load_and_name_the_closest(memory_store, rows):
    with pytest.raises(InvalidRequest) as refusal:
        load(memory_store, visit(1), visit(2, startdate="2025-01-31T12:00:00Z"))
    assert "interactions: " in str(refusal.value)
    with pytest.raises(InvalidRequest, match="'geo.cty' is not known .did you mean 'geo.city'") as refusal:
        load(memory_store, visit(1, geo__cty="Paris"))
    assert refusal.value.field == "interactions"
    assert rows("FROM interactions") == []


def test_an_unknown_resource_lists_the_allowed_ones(memory_store):
    with pytest.raises(
        InvalidRequest, match="resource: 'visits' is not allowed .*; allowed: events, hits, inter"
    ):
        load_records(memory_store, "visits", table(visit(1)))


@pytest.mark.large
@pytest.mark.slow
def test_all_forms_of_a_source_load_the_same(tmp_path, rows):
    records = [visit(1, geo__city="Paris", duration=1.5), visit(2, geo__city=None, duration=None)]
    arrow = table(*records)
    frame = arrow.to_pandas()
    pa.parquet.write_table(arrow, tmp_path / "visits.parquet")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    frame.to_csv(tmp_path / "visits.csv.gz", index=False, sep=";")
    nested = [
        {"geo": {"city": item.pop("geo.city")}, **item} for item in (dict(record) for record in records)
    ]
    typed = frame.assign(startDate=pd.to_datetime(frame["startDate"]))
    naive = typed.assign(startDate=typed["startDate"].dt.tz_localize(None).astype("datetime64[ns]"))
    loaded = []
    for source in (
        arrow,
        arrow.to_reader(),
        frame,
        typed,
        naive,
        tmp_path / "visits.parquet",
        tmp_path / "visits.csv",
        str(tmp_path / "visits.csv.gz"),
        lines(tmp_path / "visits.ndjson", *nested),
    ):
        store = Store.open(":memory:", "shop")
        counts, _ = load_records(store, "interactions", source)
        assert counts == {"interactions": 2, "implicit_nodes": 1}
        with store.cursor() as cursor:
            query = 'SELECT _id, startDate, endDate, duration, "geo.city" FROM interactions ORDER BY _id'
            loaded.append(cursor.execute(query).fetchall())
        store.close()
    assert loaded[0][0][2:] == (utc(2025, 1, 31, 12, 0, 1, 500_000).replace(tzinfo=None), 1.5, "Paris")
    assert all(value == loaded[0] for value in loaded)


def test_lines_that_cannot_be_read_are_rejected_with_their_rows(memory_store, tmp_path):
    path = tmp_path / "visits.ndjson"
    lines(path, visit(1), visit(2, userId=None), visit(3))
    path.write_text("oops\n" + path.read_text())
    counts, rejected = load_records(memory_store, "interactions", path)
    assert counts["interactions"] == 2
    assert rejected.to_pylist() == [
        {"row": 1, "id": None, "reason": "not valid JSON"},
        {"row": 3, "id": hex_id(2), "reason": "userId: is missing"},
    ]


def test_no_rows_load_nothing(memory_store):
    counts, rejected = load_records(memory_store, "interactions", table(visit(1)).slice(0, 0))
    assert counts == {"interactions": 0, "implicit_nodes": 0}
    assert rejected.schema == REJECTED


@pytest.mark.slow
def test_a_load_is_seen_whole_or_not_at_all(memory_store):
    seen, is_done = set(), threading.Event()

    def watch():
        while not is_done.is_set():
            with memory_store.read() as backend:
                interactions = backend.table("interactions").count().to_pyarrow().as_py()
                nodes = backend.table("nodes").count().to_pyarrow().as_py()
                seen.add((interactions, nodes))

    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(watch)
        batches = [
            [visit(batch * 1_000 + i, nodeId=f"node {batch}") for i in range(500)] for batch in range(4)
        ]
        list(pool.map(lambda batch: load(memory_store, *batch), batches))
        is_done.set()
        watching.result()
    assert seen <= {(500 * done, done) for done in range(5)}
    with memory_store.read() as backend:
        assert backend.table("interactions").count().to_pyarrow().as_py() == 2_000


def test_a_load_that_fails_leaves_nothing(memory_store, rows):
    memory_store.write(lambda connection: connection.execute('ALTER TABLE interactions DROP "asn.asnName"'))
    with pytest.raises(Exception, match="asnName"):
        load(memory_store, visit(1, asn__asnName="net", nodeId="new"))
    assert rows("FROM interactions") == []
    assert rows("FROM nodes") == []
    counts, _ = load(memory_store, visit(1))
    assert counts["interactions"] == 1


def test_a_closed_project_says_so(memory_store):
    memory_store.close()
    with pytest.raises(Unavailable, match="closed"):
        load(memory_store, visit(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": [1,]}', '{"a": -Infinity}', '{"a": 1, }', '{"a": nan}']
)
def test_only_standard_json_is_accepted(memory_store, rows, text):
    """DuckDB takes more, which whoever reads the record would fail on."""
    good = '{"a": "NaN, inf ,]", "b\\": [1,]": "\\\\", "c": "Infinity"}'
    source = table(visit(1, userData=text), visit(2, userData=good))
    counts, rejected = load_records(memory_store, "interactions", source)
    assert counts["interactions"] == 1
    problem = "has NaN, Infinity or a trailing comma, which JSON does not allow"
    assert rejected["reason"].to_pylist() == [f"userData: '{text}' {problem}"]
    assert rows("SELECT userData FROM interactions") == [(good,)]
