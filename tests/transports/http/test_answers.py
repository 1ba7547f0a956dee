"""What a service may answer, right and wrong."""

import gzip
import io
import json

import pandas as pd
import pyarrow as pa
import pytest
from support.dtype_names import dtype_names
from support.scripted_service import Reply, page

from attrib_ds import errors, get_interaction, list_hits, search_interactions
from attrib_ds.schema import INTERACTION
from attrib_ds.transports.http import answers

ARROW = "application/vnd.apache.arrow.stream"
ID = "5f0c0ffee0ddba11ad0be123"


def arrow(table, **metadata) -> Reply:
    sink = io.BytesIO()
    told = {name: str(value) for name, value in metadata.items()}
    with pa.ipc.new_stream(sink, table.schema.with_metadata(told)) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch.replace_schema_metadata(told))
    return Reply(body=sink.getvalue(), media=ARROW)


def dated(text):
    return page({"_id": ID, "startDate": text})


def first(shop, **arguments):
    return search_interactions(shop, **arguments).iloc[0]


def test_records_are_asked_for_as_arrow_or_json_and_named(shop, service):
    service.script = [page()]
    search_interactions(shop, columns=["geo"], limit=3, offset=6)
    (asked,) = service.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/projects/shop/interactions/search")
    assert asked.headers["Accept"] == f"{ARROW}, application/json;q=0.9"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["User-Agent"].startswith("attrib-ds/")
    assert len(asked.headers["X-Request-Id"]) == 36
    assert "Cookie" not in asked.headers
    sent = json.loads(asked.body)
    assert (sent["projection"], sent["limit"], sent["offset"]) == (["_id", "geo"], 3, 6)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_columns_and_types_do_not_depend_on_rows_or_form(shop, service, count):
    records = [{"_id": f"{number:024x}", "hitCount": number} for number in range(count)]
    columns = pa.schema([INTERACTION.field(name) for name in ("_id", "hitCount", "startDate")])
    service.script = [page(*records, total=7), arrow(pa.Table.from_pylist(records, columns), total=count)]
    one, other = (search_interactions(shop, columns=["hitCount", "startDate"], limit=count) for _ in range(2))
    assert (one.attrs["total"], other.attrs["total"]) == (7, count)
    pd.testing.assert_frame_equal(one, other)
    assert dtype_names(one) == {
        "_id": "str",
        "hitCount": "Int64",
        "startDate": "datetime64[us, UTC]",
    }
    assert len(one) == count


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2025-01-31T12:00:00Z", "2025-01-31T12:00:00Z"),
        ("2025-01-31t12:00:00z", "2025-01-31T12:00:00Z"),
        ("2025-01-31 12:00:00.123456789Z", "2025-01-31T12:00:00.123456Z"),
        ("2025-01-31T12:00:00.1+05:30", "2025-01-31T06:30:00.1Z"),
        ("2025-01-31T12:00:00.000000Z", "2025-01-31T12:00:00Z"),
    ],
)
def test_instants_may_be_written_in_many_ways(shop, service, text, instant):
    service.script = [dated(text)]
    assert first(shop, columns=["startDate"])["startDate"] == pd.Timestamp(instant)


@pytest.mark.parametrize(
    ("number", "count"),
    [
        (b"1.0", 1),
        (b"1e2", 100),
        (b"9007199254740993", 9_007_199_254_740_993),
        (b"9007199254740993.0", 9_007_199_254_740_993),
        (b"null", pd.NA),
    ],
)
def test_counts_may_be_written_in_many_ways_and_lose_nothing(shop, service, number, count):
    body = b'{"total": 1.0, "data": [{"_id": "%s", "hitCount": %s}]}' % (ID.encode(), number)
    service.script = [Reply(body=body)]
    frame = search_interactions(shop, columns=["hitCount"])
    assert frame["hitCount"].dtype == "Int64"
    assert frame["hitCount"][0] is count or frame["hitCount"][0] == count
    assert frame.attrs["total"] == 1


def test_unknown_and_missing_properties_and_unknown_members_do_no_harm(shop, service):
    service.script = [page({"_id": ID, "new": {"deep": [1]}, "geo": None}, next="abc", took=1.5)]
    with pytest.warns(errors.UnknownFields, match=r"does not support: new; they are the last columns"):
        row = first(shop, columns=["geo.city", "hitCount"])
    assert row.isna().tolist() == [False, True, True, False]
    assert row["new"] == '{"deep": [1]}'


def test_a_bare_array_may_stand_for_a_page_and_a_page_for_an_array(shop, service):
    # An array does not say whether more records follow.
    visit = {"_id": ID, "startDate": "2025-01-31T12:00:00Z"}
    service.script = [Reply(body=[visit]), Reply(body=[visit]), page({"id": "h"}), Reply(body=None)]
    assert search_interactions(shop, columns=["_id"])["_id"].tolist() == [ID]
    assert list_hits(shop, ID)["id"].tolist() == ["h"]
    # Some services write null for a list that is empty.
    assert list_hits(shop, ID).empty


def test_packed_answers_are_unpacked(shop, service):
    packed = gzip.compress(page({"_id": ID}).content)
    service.script = [Reply(body=packed, headers={"Content-Encoding": "gzip"})]
    assert first(shop)["_id"] == ID


def test_packed_answers_that_break_off_are_asked_for_again(shop, service):
    packed = gzip.compress(page({"_id": ID}).content)
    gzipped = {"Content-Encoding": "gzip"}
    service.script = [
        Reply(body=packed[:-12], headers=gzipped),
        Reply(body=b"no gzip", headers=gzipped),
        page(),
    ]
    assert search_interactions(shop).empty
    assert len(service.asked) == 3


@pytest.mark.parametrize(
    "media", [None, "text/plain", "application/json; charset=utf-8", "application/vnd.api+json"]
)
def test_json_is_read_whatever_it_is_called(shop, service, media):
    service.script = [Reply(body=page({"_id": ID}).body, media=media)]
    assert first(shop)["_id"] == ID


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(body=b""), r"the response \(HTTP 200\) is empty; expected JSON"),
        (Reply(body=b"   "), "is empty; expected JSON"),
        (Reply(body=b"null"), "cannot be read"),
        (Reply(body=b'"text"'), "cannot be read"),
        (Reply(body=b"{}"), "missing required field `data`"),
        (Reply(body={"message": "welcome"}), "missing required field `data`; it says: welcome"),
        (Reply(body={"data": {"_id": ID}}), "Expected `array"),
        (Reply(body=b'{"data": [{"_id": "a"},]}'), "trailing comma"),
        (Reply(body=b'{"data": [{"_id": "a"} {"_id": "b"}]}'), "expected ',' or ']'"),
        (Reply(body=b'{"data": [{"_id": NaN}]}'), "invalid character"),
        (Reply(body=b'{"data": [{"_id": "\xff"}]}'), "it is not UTF-8"),
        (Reply(body=b'{"data": []} {"data": []}'), "trailing characters"),
        (Reply(body=b'{"data": [{"_id": "a"}'), "cannot be read"),
        (Reply(body=b"[" * 100_000), "cannot be read"),
        (Reply(body=b"no", media=ARROW), "cannot be read"),
    ],
)
def test_what_is_no_answer_is_told(shop, service, time, reply, words):
    service.script = [reply]
    with pytest.raises(errors.ServiceFailure, match=words) as caught:
        search_interactions(shop)
    assert str(caught.value).startswith("search_interactions: ")
    # What is truncated may be complete the next time.
    is_cut = reply.media == ARROW or "truncated" in str(caught.value)
    assert len(service.asked) == (6 if is_cut else 1)


def test_a_web_page_is_told_at_once(shop, service):
    service.script = [Reply(body=b"<html><title>Welcome</title></html>", media="text/html; charset=utf-8")]
    with pytest.raises(errors.ServiceFailure, match=r"the response is a web page \(Welcome\); check url="):
        search_interactions(shop)
    assert len(service.asked) == 1


def test_a_value_of_another_kind_is_told_at_once(shop, service):
    service.script = [page({"_id": ID, "hitCount": "three"})]
    with pytest.raises(errors.ServiceFailure, match="'three' for hitCount; expected a whole number"):
        search_interactions(shop)
    service.script = [arrow(pa.table({"_id": [ID], "startDate": ["2025"]}))]
    with pytest.raises(errors.ServiceFailure, match="startDate as string; expected timestamp"):
        search_interactions(shop, columns=["startDate"])


def test_arrow_columns_are_brought_into_order(shop, service):
    large = pa.table(
        {"more": [1], "hitCount": pa.array([2], pa.int32()), "_id": pa.array([ID], pa.large_string())}
    )
    service.script = [arrow(large, total=1)]
    frame = search_interactions(shop, columns=["hitCount", "geo.city"])
    assert frame.columns.tolist() == ["_id", "hitCount", "geo.city"]
    assert list(dtype_names(frame).values()) == ["str", "Int64", "str"]


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_arrow_that_breaks_off_is_asked_for_again(shop, service, keep):
    whole = arrow(pa.table({"_id": [f"{number:024x}" for number in range(9)]}), total=9, offset=0)
    broken = Reply(body=whole.body[: int(len(whole.body) * keep)], media=ARROW)
    cut = Reply(body=whole.body, media=ARROW, cut=int(len(whole.body) * keep))
    service.script = [broken, cut, whole]
    assert len(search_interactions(shop)) == 9
    assert len(service.asked) == 3


def test_arrow_that_ends_between_two_batches_is_not_taken_for_whole(shop, service):
    few, all_of_them = (pa.table({"_id": [f"{number:024x}" for number in range(count)]}) for count in (4, 9))
    service.script = [
        arrow(few, total=9, offset=0),
        arrow(few, total=9, offset=5),
        arrow(all_of_them, total=9),
    ]
    assert len(search_interactions(shop, offset=5, limit=10)) == 4
    assert len(service.asked) == 2


def test_one_record(shop, service):
    service.script = [Reply(body={"_id": ID, "hitCount": 2.0, "userData": {"email": "a@b.c"}})]
    record = get_interaction(shop, ID)
    assert (record["hitCount"], record["userData"]) == (2, '{"email": "a@b.c"}')
    service.script = [Reply(body=[])]
    with pytest.raises(errors.ServiceFailure, match=r"\[\] for a record; expected an object"):
        get_interaction(shop, ID)
    service.script = [arrow(pa.table({"_id": pa.array([], pa.string())}))]
    with pytest.raises(errors.ServiceFailure, match="0 records; expected one"):
        get_interaction(shop, ID)


UUID = "00000000-0000-7000-8000-00000000000a"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=UUID),
        Reply(body=UUID.encode(), media="text/html"),
        Reply(body=f' "{UUID.upper()}"\n'.encode()),
    ],
)
def test_the_id_of_an_event_may_be_json_or_text(shop, service, reply):
    service.script = [reply]
    sent = shop.send("create_event_sync", event_type="order", nonce="1", data={})
    assert sent.value.lower() == UUID


def test_outcomes_of_many_events(shop, service):
    trashed = {
        "statusCode": 400,
        "message": "/data/mail: missing; the event type requires it",
        "error": "Bad Request",
        "eventId": "e-2",
        "errors": [{"type": "missing-field", "field": {"ingestionKey": "mail"}, "value": None}],
    }
    taken = {"statusCode": 409, "message": "/nonce: is taken"}
    service.script = [Reply(body=[{"id": UUID}, {"error": trashed}, {"error": taken}, {"error": {}}])]
    events = [
        {"projectId": "shop", "eventType": "order", "nonce": str(number), "data": {}} for number in range(4)
    ]
    first, second, third, fourth = shop.send("create_events", events=events).value
    assert first == UUID
    assert isinstance(second, errors.InvalidRequest)
    assert second.message == "data/mail: missing; the event type requires it"
    assert second.details == [{**trashed["errors"][0], "eventId": "e-2"}]
    assert isinstance(third, errors.Conflict)
    assert (third.message, third.field) == ("nonce: is taken", "nonce")
    assert isinstance(fourth, errors.ServiceFailure)
    service.script = [Reply(body=[{}])]
    with pytest.raises(errors.ServiceFailure, match="an item is not an id or an error"):
        shop.send("create_events", events=events[:1])


EXPORT = {
    "path": "users",
    "columns": ["eventCount"],
    "format": "csv",
    "transformers": [],
}


def test_files_go_to_the_disk_and_are_asked_for_again_when_they_break_off(shop, service):
    content = b"_id,eventCount\n" + b"5f0c0ffee0ddba11ad0be123,1\n" * 10_000
    service.script = [
        Reply(body=content, cut=100_000, media="text/csv"),
        Reply(body=content, media="text/csv"),
    ]
    file = shop.send("export_users", **EXPORT).value
    pieces = list(file.pieces)
    file.close()
    assert len(pieces) > 1
    assert b"".join(pieces) == content
    assert service.asked[0].headers["Accept"] == "*/*"


def test_compressed_files_that_break_off_are_asked_for_again(shop, service):
    content = b"_id,eventCount\n" + b"5f0c0ffee0ddba11ad0be123,1\n" * 10_000
    halves = gzip.compress(content[:100_000]) + gzip.compress(content[100_000:])
    options = {"media": "text/csv", "headers": {"Content-Encoding": "gzip"}}
    # Each is all that its Content-Length says: in the first member, in the second, and without the checksum.
    cuts = [halves[:100], halves[:-200], halves[:-8]]
    service.script = [Reply(body=body, **options) for body in (*cuts, halves + b"\0" * 8)]
    file = shop.send("export_users", **EXPORT).value
    assert b"".join(file.pieces) == content
    file.close()
    assert len(service.asked) == 4


@pytest.mark.parametrize("interim", [(100,), (102, 103), (103, 103, 100)])
def test_interim_responses_are_skipped(shop, service, interim):
    service.script = [Reply(body=page({"_id": ID}).body, interim=interim)]
    assert [first(shop)["_id"] for _ in range(2)] == [ID, ID]
    assert len(service.asked) == 2


def test_files_are_sent_from_the_disk_each_time_from_the_beginning(shop, service, tmp_path):
    backup = tmp_path / "backup"
    backup.write_bytes(bytes(range(256)) * 1_000)
    service.script = [Reply(503, {"message": "later"}), Reply(body={"interactions": 7.0})]
    assert shop.send("restore_project", source=str(backup)).value == {"interactions": 7}
    assert [each.body == backup.read_bytes() for each in service.asked] == [True, True]
    assert service.asked[0].headers["Content-Type"] == "application/octet-stream"
    with pytest.raises(errors.InvalidRequest, match="gone' cannot be read: No such file"):
        shop.send("restore_project", source=str(tmp_path / "gone"))


def test_ids_and_counts_of_changes(shop, service):
    campaign = {"vendor_id": "ads", "campaign_slug": "spring", "name": "Spring"}
    service.script = [Reply(body={"id": "7"})]
    assert shop.send("create_campaign", **campaign).value == "7"
    service.script = [Reply(body=b'{"modifiedCount": 1.0}')]
    assert shop.send("update_campaign", vendor_id="ads", id="7", name="Summer").value == 1
    for body, id in (({}, None), ({"id": None}, None), ([], None), ({"id": 7}, "7")):
        service.script = [Reply(body=body)]
        assert shop.send("create_campaign", **campaign).value == id


def test_large_answers_are_read_as_they_arrive(shop, service):
    count = 5_000
    records = [{"_id": f"{number:024x}", "hitCount": number} for number in range(count)]
    service.script = [page(*records)]
    frame = search_interactions(shop, columns=["hitCount"])
    assert frame["hitCount"].tolist() == list(range(count))


def test_json_alone_can_be_asked_for(open_shop, service):
    shop = open_shop(accept=answers.JSON)
    service.script = [page()]
    search_interactions(shop)
    assert service.asked[0].headers["Accept"] == "application/json"
