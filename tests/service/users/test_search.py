"""Searching users: every parameter, pages that fit together, and what each key returns."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.service_records import hex_id, send, table, visit
from support.user_projects import clear

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.operation import columns
from attrib_ds.errors import InvalidRequest
from attrib_ds.records import json_records
from attrib_ds.records.json_records import read_page
from attrib_ds.schema import user_columns
from attrib_ds.service import Service
from attrib_ds.service.http.responses import json_chunks

EVERYONE = [1, 2, 3, 4, 5, 6, 7, 8]
#: A key of each kind.
KEYS = [
    "fields.email",
    "fields.age",
    "eventTypesCount.order",
    "metrics.turnover.sum",
    "metrics.turnover.count",
    "metrics.state-delay-converted.average",
    "eventCount",
    "firstEventDate",
    "averageHitCount",
    "firstInteractionNodeId",
    "vendorUserIds",
    "audienceIds",
    "mostProbableLocation",
    "eventTypesCount",
    "eventTypeMeta",
    "metrics",
    "createdAt",
    "projectId",
]


def search(service, **arguments):
    return send(service, "search_users", **({"fields": []} | arguments))


def column(service, key, **arguments):
    return search(service, fields=[key], **arguments).read()[key].to_pylist()


# -- what is returned -------------------------------------------------------------------------------


def test_r235_r236_only_named_fields_and_the_id_are_returned(crowd):
    assert search(crowd, fields=[]).read().column_names == ["_id"]
    assert search(crowd, fields=["eventCount"]).read().column_names == ["_id", "eventCount"]
    assert search(crowd, fields=["hitCount", "_id", "hitCount"]).read().column_names == ["_id", "hitCount"]


def test_r238_keys_of_every_kind_are_returned_in_the_order_asked_for(crowd):
    answer = search(crowd, fields=KEYS)
    assert answer.read().schema == user_columns(KEYS)
    assert [name for name in answer.read().column_names if not name.startswith("mostProbable")] == [
        "_id",
        *(key for key in KEYS if key != "mostProbableLocation"),
    ]


def test_no_rows_keep_the_schema(crowd):
    answer = search(crowd, fields=KEYS, id_from=hex_id(3), id_to=hex_id(3))
    assert (answer.read().num_rows, answer.total) == (0, 0)
    assert answer.read().schema == user_columns(KEYS)


def test_r237_fields_are_lists_of_one_value_or_none(crowd):
    values = [json.loads(text) for text in column(crowd, "fields.email")]
    assert [[entry["current"] for entry in entries] for entries in values] == [
        ["anna@work.org"],
        ["ben@x.org"],
        [],
        [],
        [],
        [],
        [],
        [],
    ]
    assert values[0][0]["from"] == {"type": "event", "id": "00000000-0000-7000-8000-000000000002"}


def test_r242_metric_keys_hold_hyphens(crowd):
    assert column(crowd, "metrics.state-delay-converted.average")[3] == 0.0


def test_counts_are_those_of_single_keys(crowd):
    assert column(crowd, "eventTypesCount.order") == [2, 1, 1, 0, 1, 0, 0, 0]
    assert column(crowd, "metrics.turnover.sum") == [30.0, *[None] * 7]
    assert column(crowd, "metrics.turnover.count") == [2, *[0] * 7]
    assert column(crowd, "interactionCount") == [2, 0, 0, 0, 0, 1, 0, 1]
    assert column(crowd, "firstEventDate")[0] == datetime(2025, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("mode", "name", "email"),
    [
        ("latest", "anna", "anna@work.org"),
        ("earliest", "Anna", "anna@x.org"),
        ("alphabetical", "Anna", "anna@work.org"),
    ],
)
def test_r250_g105_a_mode_chooses_the_value(crowd, mode, name, email):
    keys = ["fields.first_name", "fields.email"]
    anna = search(crowd, fields=keys, multi_field_mode=mode, limit=1).read().to_pylist()[0]
    assert [[entry["current"] for entry in json.loads(anna[key])] for key in keys] == [[name], [email]]


# -- keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "closest"),
    [
        ("fields.emial", "fields.email"),
        ("eventTypesCount.ordr", "eventTypesCount.order"),
        ("metrics.turnovr.sum", "metrics.turnover.sum"),
        ("metrics.state-delay-convertd.max", "metrics.state-delay-converted.max"),
    ],
)
@pytest.mark.parametrize("argument", ["fields", "sort"])
def test_r240_r241_unknown_keys_are_refused_and_the_closest_is_named(crowd, argument, key, closest):
    given_key = {"fields": ["_id", key]} if argument == "fields" else {"sort": key}
    with pytest.raises(InvalidRequest, match=f"did you mean '{closest}'") as error:
        search(crowd, **given_key)
    assert error.value.field == ("columns/1" if argument == "fields" else "sort")


@pytest.mark.parametrize("key", ["metrics", "eventTypesCount", "eventTypeMeta", "mostProbableLocation"])
def test_objects_have_no_order(crowd, key):
    with pytest.raises(InvalidRequest, match="has no order"):
        search(crowd, sort=key)


def test_undeclared_keys_of_loaded_data_are_allowed():
    service = Service.open("shop", ":memory:")
    record = {"_id": "00000000-0000-7000-8000-000000000001", "userId": hex_id(1), "eventType": "call"}
    record |= {"eventDate": "2025-01-01T00:00:00Z", "user.nick": "Al", "statistics.minutes": 5.0}
    send(service, "load_records", resource="events", source=table(record))
    keys = ["fields.nick", "eventTypesCount.call", "metrics.minutes.max", "fields.phone"]
    row = search(service, fields=keys).read().to_pylist()[0]
    assert (row["eventTypesCount.call"], row["metrics.minutes.max"], row["fields.phone"]) == (1, 5.0, "[]")
    assert json.loads(row["fields.nick"])[0]["current"] == "Al"
    service.close()


# -- order ------------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sort", "ascending", "descending"),
    [
        (None, EVERYONE, EVERYONE[::-1]),
        ("_id", EVERYONE, EVERYONE[::-1]),
        ("projectId", EVERYONE, EVERYONE),
        ("eventCount", [6, 7, 8, 2, 3, 4, 5, 1], [1, 2, 3, 4, 5, 6, 7, 8]),
        ("metrics.turnover.sum", EVERYONE, EVERYONE),
        ("firstEventDate", [1, 2, 3, 4, 5, 6, 7, 8], [5, 3, 4, 2, 1, 6, 7, 8]),
        ("fields.age", [2, 1, 3, 4, 5, 6, 7, 8], [3, 1, 2, 4, 5, 6, 7, 8]),
        ("fields.birthday", [5, 1, 2, 3, 4, 6, 7, 8], [1, 5, 2, 3, 4, 6, 7, 8]),
        ("fields.first_name", [1, 2, 4, 3, 5, 6, 7, 8], [3, 2, 4, 1, 5, 6, 7, 8]),
        ("vendorUserIds", [1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_g099_g106_nulls_are_last_in_both_directions_and_ids_break_ties(
    find_numbers, sort, ascending, descending
):
    assert find_numbers(sort=sort) == find_numbers(sort=sort, order="ASC") == ascending
    assert find_numbers(sort=sort, order="DESC") == descending


def test_r251_a_mode_sorts_too(find_numbers):
    assert find_numbers(sort="fields.email", limit=2) == [1, 2]
    assert find_numbers(sort="fields.email", multi_field_mode="earliest", limit=2) == [1, 2]
    assert find_numbers(sort="fields.email", multi_field_mode="alphabetical", order="DESC", limit=2) == [
        2,
        1,
    ]


#: Letters that fold into one other letter, of several scripts and both cases.
FOLDING = "aAzZéÉσςΣжЖıſKkµμ1 _"


@pytest.fixture(scope="module")
def empty():
    service = Service.open("shop", ":memory:")
    yield service
    service.close()


@pytest.mark.slow
@given(st.lists(st.text(FOLDING, min_size=1, max_size=3).filter(str.strip), min_size=1, max_size=6))
@example(["straße", "STRASSE", "strasse", "strassd"])
@example(["ﬁn", "fim", "FIO"])
@settings(max_examples=examples(20))
def test_g106_text_sorts_by_code_point_of_its_folded_form(empty, names):
    clear(empty)
    visits = [visit(n, userId=hex_id(n), userData=json.dumps({"nick": name})) for n, name in enumerate(names)]
    send(empty, "load_records", resource="interactions", source=table(*visits))
    ids = search(empty, sort="fields.nick").read()["_id"].to_pylist()
    expected = sorted((name.casefold(), n) for n, name in enumerate(names))
    assert [int(value, 16) for value in ids] == [n for _, n in expected]


# -- pages ------------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("sort", [None, "eventCount", "fields.first_name"])
@pytest.mark.parametrize(("offset", "limit"), [(0, 3), (2, 3), (6, 5), (8, 1), (20, 2), (3, None), (0, 0)])
def test_r254_pages_are_parts_of_the_whole(crowd, find_numbers, sort, offset, limit):
    whole = find_numbers(sort=sort)
    answer = search(crowd, sort=sort, offset=offset, limit=limit)
    expected = whole[offset:] if limit is None else whole[offset : offset + limit]
    assert [int(value, 16) for value in answer.read()["_id"].to_pylist()] == expected
    assert (answer.total, answer.offset, answer.limit) == (8, offset, limit)


def test_r245_r246_r247_bounds_of_the_id(find_numbers):
    assert find_numbers(id_after=hex_id(6)) == [7, 8]
    assert find_numbers(id_from=hex_id(6)) == [6, 7, 8]
    assert find_numbers(id_to=hex_id(3)) == [1, 2]
    assert find_numbers(id_from=hex_id(3), id_to=hex_id(3)) == []
    assert find_numbers(id_from=hex_id(3), id_to=hex_id(4)) == [3]
    assert find_numbers(id_from=hex_id(9)) == []
    assert find_numbers(id_after=hex_id(2), order="DESC", limit=2) == [8, 7]


@pytest.mark.large
@pytest.mark.slow
def test_r249_a_walk_visits_everyone_once_while_users_are_created():
    service = Service.open("shop", ":memory:")

    def create(numbers):
        visits = [visit(number, userId=hex_id(number)) for number in numbers]
        send(service, "load_records", resource="interactions", source=table(*visits))

    create(range(0, 200, 2))
    stop = threading.Event()

    def keep_creating():
        for number in range(1, 2_000, 2):
            if stop.is_set():
                return
            create([number])

    writer = threading.Thread(target=keep_creating)
    writer.start()
    try:
        seen, last = [], None
        while True:
            page = search(service, fields=["interactionCount"], sort="_id", limit=7, id_after=last)
            ids = page.read()["_id"].to_pylist()
            seen += ids
            if len(ids) < 7:
                break
            last = ids[-1]
    finally:
        stop.set()
        writer.join()
        service.close()
    assert len(seen) == len(set(seen))
    assert {hex_id(number) for number in range(0, 200, 2)} <= set(seen)


# -- JSON -------------------------------------------------------------------------------------------


def over_json(service, **arguments):
    operation = OPERATIONS["search_users"]
    request = build(operation, project_id="shop", **arguments)
    answer = service.stream(operation, request)
    content = b"".join(json_chunks(answer, operation.answer))
    answer.close()
    return json_records.decode(content), read_page(content, columns(operation, request)).table


@pytest.mark.parametrize(
    "keys",
    [
        [],
        KEYS,
        ["metrics.turnover.sum", "eventCount", "metrics.turnover.count", "metrics"],
        ["metrics", "metrics.items.count", "metrics.items.average"],
        ["eventTypesCount", "eventTypesCount.order", "eventTypesCount.lead"],
        ["fields.email", "eventCount", "fields.first_name"],
    ],
)
def test_json_reads_back_as_the_same_table(crowd, keys):
    body, read = over_json(crowd, fields=keys, limit=6)
    answer = search(crowd, fields=keys, limit=6)
    assert read.schema == answer.read().schema
    assert plain(read) == plain(answer.read())
    assert (body["count"], body["total"], body["offset"], body["limit"]) == (6, 8, 0, 6)


@pytest.mark.parametrize(("offset", "limit", "count"), [(5, 6, 3), (5, None, 3), (2, 4, 4), (9, 1, 0)])
def test_r254_count_is_that_of_the_page(crowd, offset, limit, count):
    body, _ = over_json(crowd, fields=[], offset=offset, limit=limit)
    assert (body["count"], len(body["data"]), body["total"]) == (count, count, 8)


def plain(records):
    """Return rows with the JSON text of open objects parsed, whose numbers are written in several ways."""
    return [
        {
            name: json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value
            for name, value in row.items()
        }
        for row in records.to_pylist()
    ]


def test_json_is_nested_as_the_resource(crowd):
    keys = ["fields.first_name", "metrics.turnover.sum", "eventTypesCount.order", "eventCount"]
    (user,) = over_json(crowd, fields=keys, limit=1)[0]["data"]
    assert list(user) == ["_id", "fields", "metrics", "eventTypesCount", "eventCount"]
    assert user["fields"]["first_name"][0]["current"] == "anna"
    assert (user["metrics"], user["eventTypesCount"]) == ({"turnover": {"sum": 30}}, {"order": 2})
