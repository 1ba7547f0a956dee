"""Pages of JSON records as Arrow tables: each value exactly, or an error that shows it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrib_ds import instants
from attrib_ds.errors import ServiceFailure
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.json_records import Unreadable, decode, read_page, to_json
from attrib_ds.schema import (
    EVENT,
    INTERACTION,
    METRIC,
    OUTLAY,
    RAW_EVENT,
    RESOURCES,
    USER,
    is_json,
    user_columns,
)

CITIES = pa.schema([INTERACTION.field("_id"), INTERACTION.field("geo.city")])
START = pa.schema([INTERACTION.field("startDate")])
DURATION = pa.schema([INTERACTION.field("duration")])
HITS = pa.schema([INTERACTION.field("hitCount")])
AMOUNT = pa.schema([OUTLAY.field("amount.amount")])
DATA = pa.schema([RAW_EVENT.field("data")])


def paged(*records, counters=""):
    return f'{{{counters}"data":[{",".join(records)}]}}'.encode()


def values(page):
    """Return the only column of a page."""
    (column,) = page.table.columns
    return column.to_pylist()


def parsed(table):
    """Return rows whose JSON texts are parsed, numbers exact, so that two writings of one value are equal."""
    rows = table.to_pylist()
    texts = [field.name for field in table.schema if is_json(field)]
    return [
        row | {name: None if row[name] is None else decode(row[name].encode()) for name in texts}
        for row in rows
    ]


def read(content, columns, **options):
    """Read a page; return its columns and those of new members apart."""
    page = read_page(content, columns, **options)
    names = page.table.column_names
    assert names[: len(columns)] == columns.names
    return SimpleNamespace(
        table=page.table.select(columns.names),
        unknown=page.table.select(names[len(columns) :]),
        counters=page.counters,
    )


def expected_value(field, record):
    """Return a value that fits its column, read by Python's own parser."""
    value = record
    for part in field.name.split("."):
        value = None if value is None else value.get(part)
    kind = field.type
    if is_json(field) or value is None:
        return 0 if value is None and not field.nullable else value
    if pa.types.is_timestamp(kind):
        return instants.parse_exact(value, argument="value")
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_list(kind):
        return [float(item) if isinstance(item, int | Decimal) else item for item in value]
    return value


def plain(text):
    return json.loads(text, parse_float=Decimal)


def assert_read(content, columns, texts, **options):
    """Compare a page with the records that Python's own parser finds in it."""
    table = read(content, columns, **options).table
    assert table.schema.equals(columns, check_metadata=True)
    rows = [{field.name: expected_value(field, plain(text)) for field in columns} for text in texts]
    kept = [field.name for field in columns if is_json(field)]
    found = [
        row | {name: None if row[name] is None else plain(row[name]) for name in kept}
        for row in table.to_pylist()
    ]
    assert found == rows


# Random pages ---------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def quoted(draw, words=WORDS):
    """JSON text of a text, escaped in any of the ways there are."""
    word = draw(words)
    return json.dumps(word, ensure_ascii=draw(st.booleans())).replace(
        "/", draw(st.sampled_from(["/", "\\/"]))
    )


OPEN = st.recursive(
    st.sampled_from(
        ["null", "true", "0.10", "9007199254740993", "1e2", "-0.0", "12345678901234567890.123456789", "1E-7"]
    )
    | quoted(),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[ {', '.join(items)}]")
        | st.lists(st.tuples(quoted(), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{key} :{value}" for key, value in pairs) + " }"
        )
    ),
    max_leaves=6,
)
INSTANTS = st.sampled_from(
    [
        "2025-01-31T12:00:00Z",
        "2025-01-31T12:00:00.123Z",
        "2025-01-31T12:00:00.123456Z",
        "2025-01-31T12:00:00.123456789Z",
        "2025-01-31T12:00:00.9999999999Z",
        "2025-01-31t12:00:00z",
        "2025-01-31 12:00:00Z",
        "2025-01-31 12:00:00",
        "2025-01-31T13:00:00+01:00",
        "2025-01-31T00:30:00.5-05:30",
        "2025-12-31T23:59:60Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ]
).map(json.dumps) | st.datetimes(timezones=st.just(UTC)).map(
    lambda moment: json.dumps(moment.isoformat().replace("+00:00", "Z"))
)


def fitting(field):
    """JSON texts of values that fit a column, usual ones and odd ones."""
    kind = field.type
    if is_json(field):
        return OPEN
    if pa.types.is_list(kind):
        return st.lists(fitting(kind.value_field) | st.just("null"), max_size=2).map(
            lambda items: f"[{','.join(items)}]"
        )
    if pa.types.is_timestamp(kind):
        return INSTANTS
    if pa.types.is_decimal(kind):
        return st.sampled_from(["0.10", "1", "-3.5e1", "999999999999999999.999999", "1.50000000", "0", "-0"])
    if pa.types.is_integer(kind):
        return st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(
            ["1.0", "-0", "1e3", "20E-1", "-2.00", "9007199254740993.0"]
        )
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
            [
                "1",
                "-0",
                "1e2",
                "9007199254740993",
                "123456789012345678901234567890",
                "1e-400",
                "1e308",
                "1e-500",
                "0e500",
                "4.9E-324",
            ]
        )
    return st.sampled_from(["true", "false"]) if pa.types.is_boolean(kind) else quoted()


@st.composite
def records(draw, schema):
    """JSON text of one record: members may be missing, null or in objects that are null."""
    tree = {}
    for field in schema:
        if draw(st.integers(0, 3)):
            *parents, leaf = field.name.split(".")
            holder = tree
            for parent in parents:
                holder = holder.setdefault(parent, {})
            holder[leaf] = draw(st.just("null") | fitting(field))
    return _written(draw, tree)


def _written(draw, tree):
    members = []
    for key, part in tree.items():
        text = _written(draw, part) if isinstance(part, dict) else part
        if isinstance(part, dict) and not draw(st.integers(0, 9)):
            text = draw(st.sampled_from(["null", "{}", " { } "]))
        members.append(f"{json.dumps(key)}:{text}")
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    return f"{{{f'{space},'.join(members)}{space}}}"


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(RESOURCES)))
def test_any_page_is_read_exactly(data, name):
    schema = RESOURCES[name]
    rows = data.draw(st.lists(records(schema), max_size=4))
    assert_read(paged(*rows), schema, rows)
    assert_read(f"[{','.join(rows)}]".encode(), schema, rows)
    chosen = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, max_size=4, unique=True))
    columns = pa.schema([schema.field(item) for item in chosen])
    assert_read(paged(*rows), columns, rows, known=schema)
    for row in rows[:1]:
        assert_read(row.encode(), columns, [row], known=schema, is_record=True)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data(), st.sampled_from(sorted(RESOURCES)))
def test_a_split_into_pages_changes_nothing(data, name):
    schema = RESOURCES[name]
    rows = data.draw(st.lists(records(schema), min_size=1, max_size=4))
    tables = [read(paged(row), schema).table for row in rows]
    whole = read(paged(*rows), schema).table
    assert pa.concat_tables(tables).equals(whole)
    assert to_pandas(read(paged(), schema).table).dtypes.equals(to_pandas(whole).dtypes)


# What is read ----------------------------------------------------------------------------------------------


def test_the_usual_page():
    page = read(paged('{"_id":"a","geo":{"city":"Troms\\u00f8"}}', '{"_id":"b"}', '{"geo":null}'), CITIES)
    assert page.table.to_pylist() == [
        {"_id": "a", "geo.city": "Tromsø"},
        {"_id": "b", "geo.city": None},
        {"_id": None, "geo.city": None},
    ]
    assert page.unknown.num_columns == 0


def test_what_this_package_writes_is_read():
    for name in RESOURCES:
        schema = RESOURCES[name]
        sample = {"int64": 3, "double": 1.5, "bool": True, "string": "x", "list<item: string>": ["x"]}
        sample |= {"list<item: double>": [1.5], "decimal128(24, 6)": Decimal("0.10")}
        sample |= {"timestamp[us, tz=UTC]": datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)}
        row = {field.name: '{"a":0.10}' if is_json(field) else sample[str(field.type)] for field in schema}
        table = pa.Table.from_pylist([row, {}], schema=schema)
        texts = [text for batch in table.to_batches() for text in to_json(batch, resource=name)]
        page = read(paged(*texts), schema)
        assert page.table.equals(table), name
        assert page.unknown.num_columns == 0, name


def test_offline_interactions_lack_the_session_properties():
    content = paged(
        '{"_id":"a","type":"session","hitCount":3,"geo":{},"asn":{"asnId":"1"}}',
        '{"_id":"b","type":"offline","externalId":"e"}',
    )
    table = read(content, INTERACTION).table
    assert table["hitCount"].to_pylist() == [3, None]
    assert table["asn.asnId"].to_pylist() == ["1", None]
    assert table["geo.city"].null_count == 2


def test_open_objects_keep_the_text_that_was_sent():
    sent = [
        '{ "n": 9007199254740993, "d": 0.10,\n "e": 1E+2 }',
        '{"deep":{"l":[1.00,{}]}}',
        "[]",
        '"\\u00e6"',
    ]
    content = paged(
        *(f'{{"_id":"{row}", "data": {text} }}' for row, text in enumerate(sent)), '{"data":null}', "{}"
    )
    page = read(content, RAW_EVENT)
    assert page.table["data"].to_pylist() == [*sent, None, None]
    assert page.table["_id"].to_pylist() == ["0", "1", "2", "3", None, None]


def test_open_objects_lie_inside_others_too():
    content = paged(
        '{"_id":"m","data":{"type":"number","raw":0.10,"current":{"a":[1]},"new":1.0}}', '{"data":null}'
    )
    page = read(content, METRIC)
    assert page.table["data.raw"].to_pylist() == ["0.10", None]
    assert page.table["data.current"].to_pylist() == ['{"a":[1]}', None]
    assert page.table["data.type"].to_pylist() == ["number", None]
    assert page.unknown.to_pylist() == [{"data.new": "1.0"}, {"data.new": None}]


def test_new_fields_are_kept_as_json_text_at_any_depth():
    content = paged(
        '{"_id":"a","later":0.10,"geo":{"city":"Oslo","planet":{"name":"Earth"}}}',
        '{"_id":"b","geo.town":"none","later":null}',
    )
    page = read(content, CITIES)
    assert page.table.to_pylist() == [{"_id": "a", "geo.city": "Oslo"}, {"_id": "b", "geo.city": None}]
    assert page.unknown.to_pylist() == [
        {"later": "0.10", "geo.planet": '{"name":"Earth"}', '"geo.town"': None},
        {"later": None, "geo.planet": None, '"geo.town"': '"none"'},
    ]


def test_columns_that_were_not_asked_for_are_not_new():
    content = paged(
        '{"_id":"a","type":"session","userData":{"x":1},"geo":{"city":"Oslo","state":"O","new":1}}'
    )
    page = read(content, CITIES, known=INTERACTION)
    assert page.unknown.to_pylist() == [{"geo.new": "1"}]
    assert set(read(content, CITIES).unknown.column_names) == {"type", "userData", "geo.state", "geo.new"}


def test_keys_of_users_are_columns_too():
    columns = user_columns(["fields.email", "eventTypesCount.order", "metrics.turnover.sum", "eventCount"])
    content = paged(
        '{"_id":"a","fields":{"email":[{"raw":"A@B.C","n":0.10}],"age":[1]},"eventTypesCount":{"order":3},"new":1}',
        '{"_id":"b","fields":{},"metrics":{"turnover":{"sum":12}},"eventTypesCount":null}',
    )
    for known in (USER, None):
        page = read(content, columns, known=known)
        assert page.table.to_pylist() == [
            {
                "_id": "a",
                "fields.email": '[{"raw":"A@B.C","n":0.10}]',
                "eventTypesCount.order": 3,
                "metrics.turnover.sum": None,
                "eventCount": None,
            },
            {
                "_id": "b",
                "fields.email": None,
                "eventTypesCount.order": 0,
                "metrics.turnover.sum": 12.0,
                "eventCount": None,
            },
        ]
        assert page.unknown.to_pylist()[0] == {"new": "1"} | ({} if known else {"fields.age": "[1]"})


def test_a_column_may_be_a_part_of_another():
    columns = user_columns(
        ["metrics", "metrics.turnover.sum", "metrics.turnover.count", "fields", "fields.email"]
    )
    content = paged('{"metrics":{"turnover":{"sum":0.50}},"fields":{"email":[ 1.0 ]}}', "{}")
    page = read(content, columns)
    assert page.unknown.num_columns == 0
    assert page.table.to_pylist() == [
        {
            "_id": None,
            "metrics": '{"turnover":{"sum":0.50}}',
            "metrics.turnover.sum": 0.5,
            "metrics.turnover.count": 0,
            "fields": '{"email":[ 1.0 ]}',
            "fields.email": "[ 1.0 ]",
        },
        dict.fromkeys(columns.names) | {"metrics.turnover.count": 0},
    ]


def test_one_odd_instant_does_not_make_the_page_slow():
    for text in [
        "2025-01-31T13:00:00+01:00",
        "2025-01-31t12:00:00z",
        "2025-01-31 12:00:00",
        "2025-01-31T12:00:00.0000009Z",
    ]:
        page = read(
            paged('{"startDate":"2025-01-31T12:00:00.000Z"}', f'{{"startDate":"{text}"}}', "{}"), START
        )
        assert values(page) == [datetime(2025, 1, 31, 12, tzinfo=UTC)] * 2 + [None], text


def test_null_after_a_brace_inside_a_text_is_text():
    content = paged('{"_id":"}null","geo":{"city":"} null"}}', "{}")
    assert read(content, CITIES).table.to_pylist()[0] == {"_id": "}null", "geo.city": "} null"}


def test_blanks_around_a_page():
    content = paged('{"_id":"a"}')
    for blanks in (b" \r\n\t", b" " * 1_000):
        assert read(blanks + content + blanks, CITIES).table["_id"].to_pylist() == ["a"]


def test_counters_of_a_page():
    page = read(paged("{}", "{}", counters='"offset":20,"limit":null,"count":2,"total":22,'), CITIES)
    assert page.counters == {"offset": 20, "limit": None, "count": 2, "total": 22}
    assert read(paged("{}"), CITIES).counters == dict.fromkeys(["offset", "limit", "count", "total"])
    assert read(b"[{}]", CITIES).counters is None
    later = b'{"data":[{"_id":"a"}],"next":{"x":[1]},"total":5.0}'
    assert read(later, CITIES).counters["total"] == 5
    assert read(later, CITIES).unknown.num_columns == 0


# What is refused, or written oddly -------------------------------------------------------------------------


def test_odd_numbers_are_read_by_the_slow_way():
    for columns, value, expected in [
        (HITS, "1.0", 1),
        (HITS, "12e1", 120),
        (DURATION, "1e300", 1e300),
        (AMOUNT, "1.50000000", None),
    ]:
        (name,) = columns.names
        content = f'{{"{name}":{value}}}' if "." not in name else f'{{"amount":{{"amount":{value}}}}}'
        assert values(read(paged(content), columns)) == [Decimal("1.5") if expected is None else expected], (
            columns,
            value,
        )


@pytest.mark.parametrize(
    ("columns", "value", "expected"),
    [
        (DURATION, '"1.5"', 1.5),
        (HITS, '"1"', 1),
        (HITS, '"1.0"', 1),
        (AMOUNT, '{"amount":"1.50"}', Decimal("1.5")),
        (AMOUNT, '{"amount":0.30000000000000004}', Decimal("0.3")),
        (AMOUNT, '{"amount":"-0.1234567"}', Decimal("-0.123457")),
        (AMOUNT, '{"amount":999999999999999999.9999990}', Decimal("999999999999999999.999999")),
        (CITIES, "[]", None),
        (CITIES, '""', None),
        (START, '""', None),
        (pa.schema([USER.field("audienceIds")]), '"x"', ["x"]),
        (pa.schema([USER.field("audienceIds")]), "[1, null]", ["1", None]),
        (pa.schema([USER.field("audienceIds")]), "[{}]", ["{}"]),
        (pa.schema([INTERACTION.field("userId")]), "7", "7"),
        (pa.schema([INTERACTION.field("userId")]), "true", "true"),
        (pa.schema([INTERACTION.field("isBot")]), "0", False),
        (pa.schema([INTERACTION.field("isBot")]), '"TRUE"', True),
    ],
)
def test_values_of_other_json_types_are_understood_beside_usual_ones(columns, value, expected):
    name = columns.names[-1].partition(".")[0]
    table = read(paged("{}", f'{{"{name}":{value}}}'), columns).table
    assert table[columns.names[-1]].to_pylist()[1] == expected


def test_flat_keys_are_the_nested_ones():
    columns = user_columns(["fields.email", "eventTypesCount.Order 2.0", "metrics.net.value.sum"])
    content = paged(
        '{"_id":"a","fields.email":[{"raw":1}],"eventTypesCount.Order 2.0":3,"metrics.net.value.sum":0.5}',
        '{"_id":"b","fields":{"email":[]},"eventTypesCount":{"Order 2.0":4},"metrics":{"net.value":{"sum":1}}}',
    )
    page = read(content, columns, known=USER)
    assert page.table.to_pylist() == [
        {
            "_id": "a",
            "fields.email": '[{"raw":1}]',
            "eventTypesCount.Order 2.0": 3,
            "metrics.net.value.sum": 0.5,
        },
        {"_id": "b", "fields.email": "[]", "eventTypesCount.Order 2.0": 4, "metrics.net.value.sum": 1.0},
    ]
    assert not page.unknown.column_names


def test_flat_keys_are_known_beside_unknown_ones():
    page = read(paged('{"geo.city":"Oslo","geo.pop":1,"new":2}'), CITIES)
    assert page.table["geo.city"].to_pylist() == ["Oslo"]
    assert sorted(page.unknown.column_names) == ['"geo.pop"', "new"]


@pytest.mark.parametrize(
    ("content", "total"),
    [
        ('{"data":null,"total":"12","count":"x"}', 12),
        ('{"items":[],"total":2.0,"next":null}', 2),
        ('{"total":"0","next":null}', 0),
    ],
)
def test_counters_may_be_text_and_lists_absent_or_named_otherwise(content, total):
    page = read_page(content.encode(), CITIES)
    assert page.table.num_rows == 0
    assert page.counters == {"offset": None, "limit": None, "count": None, "total": total}


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        (DURATION, "1" * 400),  # Arrow: infinite
        (DURATION, "true"),
        (HITS, "1.5"),
        (HITS, "9223372036854775808"),
        (AMOUNT, '{"amount":1e18}'),
        (AMOUNT, '{"amount":true}'),
        (START, '"2025-01-31"'),
        (START, '"2025-01-31T12Z"'),  # Arrow: noon
        (START, '"2025-01-31T12:00Z"'),  # Arrow: noon
        (START, '"0000-01-01T00:00:00Z"'),  # Arrow: the year before the year 1
        (START, '"0001-01-01T00:00:00+00:01"'),
        (START, "1738324800"),
        (START, '"2025-02-30T00:00:00Z"'),
        (CITIES, '"Oslo"'),
    ],
)
def test_a_value_that_does_not_fit_is_refused(columns, value):
    member = columns.names[-1].split(".")[0]
    content = paged("{}", f'{{"{member}":{value}}}')
    with pytest.raises(ServiceFailure, match=f"for ({columns.names[-1]}|{member}); expected"):
        read(content, columns)


@pytest.mark.parametrize(
    "token", ["NaN", "Infinity", "-Infinity", "Inf", "nan", "+1", "01", "1.", ".5", "0x1", "1_0"]
)
@pytest.mark.parametrize("member", ["duration", "hitCount", "new", "userData", "total"])
def test_tokens_that_are_no_json_are_refused_wherever_they_are(token, member):
    place = f'{{"{member}":{token}}}' if member != "total" else "{}"
    content = paged(place, counters=f'"total":{token},' if member == "total" else "")
    with pytest.raises(Unreadable):
        read(content, INTERACTION)


def test_tokens_that_are_no_json_are_refused_inside_lists():
    content = paged('{"mostProbableLocation":{"location":{"coordinates":[1.5,NaN]}}}')
    with pytest.raises(Unreadable):
        read(content, USER)


@pytest.mark.parametrize("place", ["_id", "new", "userData"])
@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\n", b"\\x41", b"\\u12g4"]
)
def test_bytes_that_are_no_text_are_refused(place, text):
    content = b'{"data":[{"%b":"%b"}]}' % (place.encode(), text)
    with pytest.raises(Unreadable):
        read(content, INTERACTION)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00 x"', '"\\ud800\\u0041"'])
def test_halves_of_surrogate_pairs_are_refused(text):
    for record in (f'{{"_id":{text}}}', f'{{"userData":[{text}]}}', f'{{"new":{text}}}', f"{{{text}:1}}"):
        with pytest.raises((ServiceFailure, Unreadable)):
            read(paged(record), INTERACTION)


def test_escapes_are_read():
    for text in ['"\\ud83d\\ude00"', '"😀"', '"a\\u0000b"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"']:
        content = paged(f'{{"_id":{text}}}')
        assert read(content, CITIES).table["_id"].to_pylist() == [json.loads(text)], text


def test_the_last_of_equal_keys_counts():
    content = paged('{"_id":"a","_id":"b","geo":{"city":"Oslo"},"geo":{"city":"Bergen","city":"Hamar"}}')
    assert read(content, CITIES).table.to_pylist() == [{"_id": "b", "geo.city": "Hamar"}]
    assert read(paged('{"geo":{"city":"Oslo"},"geo":{}}'), CITIES).table["geo.city"].to_pylist() == [None]
    assert values(read(paged('{"data":{"a":1},"data":{"a":2}}'), DATA)) == ['{"a":2}']
    assert values(read(paged('{"data":{"a":1},"d\\u0061ta":null}'), DATA)) == [None]
    assert read(paged('{"new":1,"new":2}'), CITIES).unknown.to_pylist() == [{"new": "2"}]
    doubled = b'{"total":1,"total":2,"data":[{"_id":"a"}],"data":[{"_id":"b"}]}'
    assert read(doubled, CITIES).counters["total"] == 2
    assert read(doubled, CITIES).table["_id"].to_pylist() == ["b"]


def test_equal_keys_inside_open_objects_are_kept_as_sent():
    (text,) = values(read(paged('{"data":{"a":1,"a":2}}'), DATA))
    assert json.loads(text) == {"a": 2}


WHOLE = paged('{"_id":"a","geo":{"city":"Oslo"},"new":[1,"x"]}', counters='"total":1,')


@pytest.mark.parametrize("end", range(len(WHOLE)))
def test_a_page_that_breaks_off_is_refused(end):
    with pytest.raises(Unreadable):
        read(WHOLE[:end], CITIES)


@pytest.mark.parametrize(
    "rest",
    [
        b"x",
        b",",
        b"]",
        b"}",
        b"{}",
        b"\n{}",
        b"\x00",
        b" null",
        b"null",
        b"\n\r\t null{}",
        b"null" * 9,
        b'{"data":[{"_id":"b"}]}',
        b"{}null",
        WHOLE,
        b"\n" + WHOLE,
    ],
)
def test_what_follows_a_page_is_refused(rest):
    content = paged('{"_id":"a"}') + rest
    with pytest.raises(Unreadable):
        read(content, CITIES)


@pytest.mark.parametrize("is_record", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"[1,]",
        b'{"data":[{}],}',
        b"\xef\xbb\xbf[]",
        b'[{}],"x":[{}]',
        b"[{}],[{}]",
        b"{},{}",
        b'{}],"x":[{}',
        b"[",
        b"nul",
        b"null null",
        b" null{}",
        b"[]}null",
        b'[]} null {"data":[]',
        b"{}]}\tnull",
    ],
)
def test_what_is_no_json_is_refused(content, is_record):
    with pytest.raises(Unreadable):
        read(content, CITIES, is_record=is_record)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"null", Unreadable),
        (b"{}", Unreadable),
        (b'{"total":3}', Unreadable),
        (b'{"data":{}}', Unreadable),
        (b'{"data":[],"total":1e400}', Unreadable),
        (b'{"data":[null]}', ServiceFailure),
        (b'{"data":[[]]}', ServiceFailure),
        (b'{"data":[{},1]}', ServiceFailure),
        (b'{"items":[1],"total":0}', ServiceFailure),
        (b"[null]", ServiceFailure),
        (b"[1]", ServiceFailure),
    ],
)
@pytest.mark.parametrize("columns", [CITIES, DATA, AMOUNT], ids=["plain", "open", "decimal"])
def test_json_that_is_no_such_answer_is_refused(content, error, columns):
    with pytest.raises(error):
        read(content, columns)


@pytest.mark.parametrize("content", [b"[]", b"null", b'"x"'])
def test_a_record_is_an_object(content):
    with pytest.raises(ServiceFailure, match="for a record; expected an object"):
        read(content, CITIES, is_record=True)


def test_more_records_than_requested_are_refused():
    assert read(b"[{},{}]", CITIES, most=2).table.num_rows == 2
    with pytest.raises(ServiceFailure, match="more than the 1 records"):
        read(b"[{},{}]", CITIES, most=1)


def test_many_records_keep_their_order_and_their_new_members():
    texts = [f'{{"_id":"{number}"}}' for number in range(2_000)]
    texts[700] = '{"_id":"700","new":1.50,"geo":{"city":"Oslo"}}'
    texts[1_900] = '{"_id":"1900","later":[],"geo":null}'
    page = read(paged(*texts), CITIES)
    assert page.table["_id"].to_pylist() == [str(number) for number in range(2_000)]
    assert page.unknown.column_names == ["new", "later"]
    assert [(row, text) for row, text in enumerate(page.unknown["new"].to_pylist()) if text] == [
        (700, "1.50")
    ]
    assert [(row, text) for row, text in enumerate(page.unknown["later"].to_pylist()) if text] == [
        (1_900, "[]")
    ]


@pytest.mark.parametrize("depth", [2_000, 1_000_000])
@pytest.mark.parametrize("parts", ["[]", '{"a":}'])
@pytest.mark.parametrize("member", ["_id", "userData", "new"])
def test_deep_nesting_is_refused_and_stops_nothing(depth, parts, member):
    content = paged(f'{{"{member}":{parts[:-1] * depth}1{parts[-1] * depth}}}')
    with pytest.raises((ServiceFailure, Unreadable)):
        read(content, INTERACTION)


def test_long_open_texts_are_kept():
    wide = json.dumps([{"a": [row]} for row in range(3_000)])
    assert values(read(paged(f'{{"data":{wide}}}'), DATA)) == [wide]


def test_no_records_have_all_columns():
    for kind in ["page", "array"]:
        for name in RESOURCES:
            schema = RESOURCES[name]
            page = read(paged() if kind == "page" else b"[]", schema)
            assert page.table.schema.equals(schema, check_metadata=True), (name, kind)
            assert page.table.num_rows == page.unknown.num_columns == 0, (name, kind)


def test_one_record_is_an_answer_too():
    page = read(b' {"_id":"a","event":{"n":0.10},"attributable":true} ', EVENT, is_record=True)
    assert page.table.num_rows == 1
    assert page.table["event"].to_pylist() == ['{"n":0.10}']
    assert read(b'{"_id":"a"}', CITIES, is_record=True).table["_id"].to_pylist() == ["a"]
    assert read(b'{"hitCount":1.0}', HITS, is_record=True).table["hitCount"].to_pylist() == [1]


def test_an_odd_record_does_not_send_its_page_to_the_reference():
    for odd in ['"hitCount":2.0', '"hitCount":1,"hitCount":2', '"hitCount":2e0', '"hitCount":2,"later":[1]']:
        columns = pa.schema([INTERACTION.field("_id"), INTERACTION.field("hitCount")])
        page = read(paged('{"_id":"a","hitCount":1}', f'{{"_id":"b",{odd}}}'), columns)
        assert page is not None, odd
        assert page.table["hitCount"].to_pylist() == [1, 2], odd


# Odd pages -------------------------------------------------------------------------------------------------


def test_whole_numbers_with_a_point_are_read():
    for text, expected in [("2.0", 2), ("12e1", 120), ("9007199254740993.0", 2**53 + 1)]:
        page = read(paged('{"hitCount":1}', f'{{"hitCount":{text}}}', "{}"), HITS)
        assert values(page) == [1, expected, None], (text, expected)


def test_many_new_members_are_read():
    names = [f"new{number}" for number in range(40)]
    content = paged("{}", *(f'{{"_id":"a","{name}":{{"n":1.0}}}}' for name in names))
    page = read(content, CITIES)
    assert page.unknown.column_names == names
    assert page.unknown["new39"].to_pylist() == [None] * 40 + ['{"n":1.0}']


def test_more_new_members_than_are_kept_are_left_out():
    names = [f"new{number}" for number in range(1_001)]
    content = paged("{" + ",".join(f'"{name}":1' for name in names) + "}")
    assert read(content, CITIES).unknown.column_names == names[:-1]


def test_new_members_are_in_their_order_of_appearance_whatever_object_has_them():
    content = paged('{"geo":{"sea":1,"city":"Oslo"},"later":2}', '{"earlier":3,"geo":{"fjord":4}}')
    for page in (read(content, CITIES), read(content, CITIES)):
        assert page.unknown.column_names == ["geo.sea", "later", "earlier", "geo.fjord"]


def test_digits_after_the_microseconds_are_cut_off():
    page = read(paged('{"startDate":"2025-01-31T12:00:00.123456789Z"}'), START)
    assert values(page) == [datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)]
