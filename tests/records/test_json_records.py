"""Records as the specification writes them, from flat tables and back."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attrib_ds import instants
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.records.json_records import decode, read_page, to_json
from attrib_ds.schema import EVENT, HIT, INTERACTION, OUTLAY, RESOURCES, USER, is_json


def batch(schema, *records):
    """Return flat records as a batch; what they do not say is null."""
    arrays = [pa.array([record.get(field.name) for record in records], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def written(schema, *records, **named):
    return [json.loads(text) for text in to_json(batch(schema, *records), **named)]


def test_dotted_names_are_nested():
    schema = pa.schema([("a", pa.string()), ("b.c.d", pa.int64()), ("b.e", pa.bool_()), ("f", pa.int64())])
    rows = batch(schema, {"a": "x", "b.c.d": 1, "b.e": True}, {"f": 2})
    assert to_json(rows) == [
        '{"a":"x","b":{"c":{"d":1},"e":true},"f":null}',
        '{"a":null,"b":{"c":{"d":null},"e":null},"f":2}',
    ]


def test_g036_instants_have_milliseconds_or_all_their_digits():
    column = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    moments = [
        datetime(2025, 1, 31, 12, tzinfo=UTC),
        datetime(2025, 1, 31, 12, 0, 0, 120_000, tzinfo=UTC),
        datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        None,
    ]
    assert [entry["t"] for entry in written(column, *({"t": moment} for moment in moments))] == [
        "2025-01-31T12:00:00.000Z",
        "2025-01-31T12:00:00.120Z",
        "2025-01-31T12:00:00.123456Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999999Z",
        None,
    ]


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=1, max_size=30))
def test_instants_are_written_as_elsewhere(moments):
    column = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    records = written(column, *({"t": moment} for moment in moments))
    assert [entry["t"] for entry in records] == [instants.format(moment) for moment in moments]


def test_g042_amounts_are_the_shortest_exact_decimals():
    for amount, text in [
        ("10.500000", "10.5"),
        ("100", "100"),
        ("0.000001", "0.000001"),
        ("-3.10", "-3.1"),
        ("999999999999999999.999999", "999999999999999999.999999"),
        ("0", "0"),
    ]:
        (record,) = to_json(
            batch(OUTLAY, {"_id": "a", "amount.amount": Decimal(amount), "amount.currency": "EUR"})
        )
        assert f'"amount":{{"amount":{text},"currency":"EUR"}}' in record, (amount, text)


def test_floats_are_finite():
    column = pa.schema([("x", pa.float64())])
    values = [0.1, 1e300, -0.0, float("nan"), float("inf"), float("-inf"), None, 60.0]
    assert [text[5:-1] for text in to_json(batch(column, *({"x": value} for value in values)))] == [
        "0.1",
        "1e+300",
        "-0.0",
        "null",
        "null",
        "null",
        "null",
        "60.0",
    ]


def test_text_is_escaped_where_json_needs_it():
    column = pa.schema([('100% of "it"', pa.string())])
    text = 'a "quote", a \\ and a \n; Ærø 💡 %s \u2028'
    (record,) = to_json(batch(column, {'100% of "it"': text}))
    assert json.loads(record) == {'100% of "it"': text}
    assert "Ærø" in record


def test_json_text_is_an_object_of_the_record():
    (record,) = to_json(batch(EVENT, {"_id": "a", "event": '{"n": 0.10, "l": [1, null]}', "metrics": "[]"}))
    assert '"event":{"n": 0.10, "l": [1, null]}' in record
    assert json.loads(record)["metrics"] == []
    assert json.loads(record)["user"] is None


def test_text_that_only_the_database_takes_for_json_is_null():
    for text in ['{"a": NaN}', '{"a": 1,}', "", "{", '{"a": Infinity}', "[" * 5_000]:
        assert written(EVENT, {"_id": "a", "event": text})[0]["event"] is None, text


def test_g060_an_offline_interaction_has_no_session_properties():
    session, offline, unknown = written(
        INTERACTION,
        {"_id": "a", "type": "session", "hitCount": 2, "geo.city": "Oslo", "asn.asnId": "1"},
        {"_id": "b", "type": "offline", "hitCount": 2, "geo.city": "Oslo", "externalId": "e"},
        {"_id": "c"},
        resource="Interaction",
    )
    assert session["hitCount"] == 2
    assert session["geo"] == {
        "countryCode": None,
        "state": None,
        "city": "Oslo",
        "latitude": None,
        "longitude": None,
        "zipcode": None,
    }
    assert session["firstPageUrl"]["hostname"] is None
    gone = {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"}
    assert set(session) - set(offline) == gone
    assert offline["externalId"] == "e"
    assert offline["referrer"] is None
    assert unknown["hitCount"] is None


def test_only_interactions_have_types_that_decide():
    (user,) = written(USER, {"_id": "a", "hitCount": 3}, resource="User")
    assert user["hitCount"] == 3


def test_objects_that_nothing_is_known_of_are_left_out_or_null():
    (hit,) = written(HIT, {"id": "a"})
    assert "geo" not in hit
    assert "asn" not in hit
    assert hit["pageUrl"] == dict.fromkeys(
        ("protocol", "hostname", "port", "origin", "pathname", "search", "hash")
    )
    (user,) = written(USER, {"_id": "a"})
    assert "mostProbableLocation" not in user
    plain, expiring = written(EVENT, {"_id": "a"}, {"_id": "b", "expirationPolicy.piiFields": ["email"]})
    assert plain["expirationPolicy"] is None
    assert expiring["expirationPolicy"]["piiFields"] == ["email"]
    assert expiring["expirationPolicy"]["expiresAt"] is None


def test_a_record_may_begin_with_what_it_lacks():
    schema = pa.schema([("geo.city", pa.string()), ("hitCount", pa.int64()), ("type", pa.string())])
    assert to_json(batch(schema, {"type": "offline"}), resource="Interaction") == ['{"type":"offline"}']
    assert to_json(batch(pa.schema([("geo.city", pa.string())]), {})) == ["{}"]


def test_hidden_columns_decide_and_are_not_written():
    schema = pa.schema([("_id", pa.string()), ("hitCount", pa.int64()), ("type", pa.string())])
    rows = batch(schema, {"_id": "a", "hitCount": 1, "type": "offline"}, {"_id": "b", "type": "session"})
    assert to_json(rows, resource="Interaction", hidden=["type"]) == [
        '{"_id":"a"}',
        '{"_id":"b","hitCount":null}',
    ]


def test_lists_of_texts_and_numbers():
    coordinates = "mostProbableLocation.location.coordinates"
    (user,) = written(USER, {"_id": "a", "audienceIds": ["x", 'y"'], coordinates: [10.75, 59.9]})
    assert user["audienceIds"] == ["x", 'y"']
    assert user["vendorUserIds"] is None
    assert user["mostProbableLocation"]["location"]["coordinates"] == [10.75, 59.9]


def test_no_rows_are_no_records():
    assert to_json(batch(INTERACTION), resource="Interaction") == []


def values(field):
    kind = field.type
    if is_json(field):
        return st.sampled_from(['{"a":1}', "[]", '"text"', "true", '{"a":{"b":[1.5,null]}}'])
    if pa.types.is_list(kind):
        return st.lists(
            st.floats(-180, 180) if pa.types.is_floating(kind.value_type) else st.text(max_size=3), max_size=2
        )
    if pa.types.is_timestamp(kind):
        return st.datetimes(timezones=st.just(UTC))
    if pa.types.is_decimal(kind):
        return st.decimals(-(10**18) + 1, 10**18 - 1, places=6)
    if pa.types.is_integer(kind):
        return st.integers(-(2**63), 2**63 - 1)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.booleans() if pa.types.is_boolean(kind) else st.text(max_size=4)


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=40)
@given(st.sampled_from(sorted(RESOURCES)), st.data())
def test_reading_what_was_written_gives_the_table_back(name, data):
    schema = RESOURCES[name]
    # Many rows alike and many different ones are written in two ways.
    rows = data.draw(st.integers(0, 12))
    columns = [
        data.draw(st.lists(st.none() | values(field), min_size=rows, max_size=rows)) for field in schema
    ]
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    texts = [text for entry in table.to_batches() for text in to_json(entry)]
    assert read_page(f"[{','.join(texts)}]".encode(), schema).table.equals(table)


@given(st.binary(max_size=30))
@example(b"\xff")
@example(b"[1e999999999999999999]")
@example(b"9" * 5_000)
@example(b"[" * 100_000)
@example(b"-Infinity")
def test_any_bytes_are_read_or_refused(text):
    with suppress(InvalidRequest):
        decode(text)


def test_numbers_with_a_point_are_decimals():
    assert decode(b'{"a": 1.10, "b": 1, "c": 1e2, "d": null}') == {
        "a": Decimal("1.10"),
        "b": 1,
        "c": Decimal(100),
        "d": None,
    }
    assert str(decode(b"1.10")) == "1.10"


def test_numbers_without_bounds_stay_text():
    for text in [
        "1e999999999",
        "-1e999999999",
        "1e99999999999999999999",
        "1e401",
        "0e401",
        "1" * 4_200,
        "-" + "1" * 401,
    ]:
        (number,) = decode(f"[{text}]".encode())
        assert not isinstance(number, int | float | Decimal), text
        assert encode({"a": [number]}) == f'{{"a":[{text}]}}', text


@pytest.mark.timeout(60)
def test_records_with_odd_numbers_are_read_or_refused_at_once():
    for column in ["hitCount", "duration", "startDate", "isBot", "userId"]:
        for text in [
            "1e999999999",
            "1e400",
            "1e-999999999",
            "0e999999999",
            "1." + "0" * 5_000,
            "9" * 4_300,
            "1e18",
        ]:
            with suppress(ServiceFailure):
                page = read_page(f'[{{"{column}": {text}}}]'.encode(), pa.schema([INTERACTION.field(column)]))
                (value,) = page.table.column(0).to_pylist()
                assert value in {0, 1, 1e18} or column == "userId", (text, column)


@pytest.mark.parametrize(
    ("column", "value", "shown", "expected"),
    [
        ("startDate", '"yesterday"', "'yesterday'", "an instant"),
        ("startDate", "1735689600", "1735689600", "an instant"),
        ("hitCount", '"two"', "'two'", "a whole number"),
        ("hitCount", "1.5", "1.5", "a whole number"),
        ("hitCount", "1e999999999", "1e999999999", "a whole number"),
        ("hitCount", "1e18", "1E+18", "a whole number"),
        ("duration", "1e400", "1E+400", "a number"),
        ("duration", "1e999999999", "1e999999999", "a number"),
        ("hitCount", "true", "True", "a whole number"),
        ("hitCount", str(2**63), "9223372036854775808", "a whole number"),
        ("duration", '"long"', "'long'", "a number"),
        ("isBot", '"yes"', "'yes'", "true or false"),
        ("geo", '"Oslo"', "'Oslo'", "an object"),
        ("mostProbableLocation.location.coordinates", "[{}]", "[{}]", "a list"),
    ],
)
def test_a_value_that_does_not_fit_is_named(column, value, shown, expected):
    *parents, leaf = column.split(".")
    record = f'{{"{leaf}": {value}}}'
    for parent in reversed(parents):
        record = f'{{"{parent}": {record}}}'
    resource = USER if column.startswith("most") else INTERACTION
    columns = pa.schema([resource.field("geo.city" if column == "geo" else column)])
    with pytest.raises(ServiceFailure) as caught:
        read_page(f"[{{}}, {record}]".encode(), columns)
    assert f"{shown} for {column}; expected {expected}" in caught.value.message
