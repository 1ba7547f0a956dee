"""Pages of JSON records as Arrow tables: native code gives what the slow reference gives, or leaves it alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrib_ds.errors import ServiceFailure
from attrib_ds.records import json_pages
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.json_pages import read_page
from attrib_ds.records.json_records import decode, from_json, to_json
from attrib_ds.schema import (
    EVENT,
    INTERACTION,
    METRIC,
    OUTLAY,
    RAW_EVENT,
    RESOURCES,
    USER,
    is_json,
    properties,
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


def native(content, columns, **options):
    """Read by the fast way alone; None where it leaves the answer to the slow one."""
    try:
        names = json_pages.names_of(columns, options.pop("known", None))
        return json_pages.read_natively(content, columns, options.get("kind", "page"), names)
    except json_pages.LEFT_TO_THE_REFERENCE:
        return None


def outcome(call):
    """Return what a call returns, or the message of its failure."""
    try:
        return call()
    except ServiceFailure as failure:
        return failure.message


def unknown_fields(record, known, path=""):
    """Return new fields of a record by name, as Python values."""
    found = {}
    for key, value in record.items():
        name = f"{path}{json.dumps(key, ensure_ascii=False) if '.' in key else key}"
        literal = f"{path}{key}" if "." not in key else None
        if literal in known and any(item.startswith(f"{literal}.") for item in known):
            found |= unknown_fields(value, known, f"{literal}.") if isinstance(value, dict) else {}
        elif literal not in known:
            found[name] = value
    return found


def assert_as_reference(content, columns, *, kind="page", known=None):
    """Compare an answer with the one that Python's own parser and ``from_json`` give, errors included."""
    answer = decode(content)
    records = {"page": lambda: answer["data"], "array": lambda: answer, "record": lambda: [answer]}[kind]()
    expected = outcome(lambda: from_json(records, columns))
    if isinstance(expected, str):
        assert outcome(lambda: read_page(content, columns, kind=kind, known=known)) == expected
        assert native(content, columns, kind=kind, known=known) is None
        return
    page = read_page(content, columns, kind=kind, known=known)
    assert page.table.schema.equals(columns, check_metadata=True)
    assert parsed(page.table) == parsed(expected)
    names = properties(
        pa.schema([*columns, *(field for field in known or () if field.name not in columns.names)])
    )
    new = [unknown_fields(record, names) for record in records]
    every = dict.fromkeys(name for fields in new for name in fields)
    assert list(page.unknown.column_names) == list(every)
    assert parsed(page.unknown) == ([{name: row.get(name) for name in every} for row in new] if every else [])
    assert all(is_json(field) for field in page.unknown.schema)
    assert page.count == len(records)


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
MISFITS = st.sampled_from(
    [
        "true",
        "7",
        "1.5",
        '"text"',
        '"1.5"',
        "[]",
        "{}",
        '[{"a":1}]',
        "9223372036854775808",
        '"2025-01-31"',
        '"2025-01-31T12Z"',
        '"2025-01-31T12:00Z"',
        '"0000-01-01T00:00:00Z"',
        '"0001-01-01T00:00:00+01:00"',
        '"2025-02-29T00:00:00Z"',
        '""',
        '"\\ud800"',
        "0.1234567",
        "1" * 400,
    ]
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
def records(draw, schema, *, odd):
    """JSON text of one record: keys may be missing, and where ``odd``, new, of another type, or hold null."""
    tree = {}
    for field in schema:
        if draw(st.integers(0, 3)):
            text = draw(st.just("null") | fitting(field))
            if odd and not draw(st.integers(0, 60)):
                text = draw(MISFITS)
            *parents, leaf = field.name.split(".")
            holder = tree
            for parent in parents:
                holder = holder.setdefault(parent, {})
            holder[leaf] = text
    return _written(draw, tree, odd)


def _written(draw, tree, odd):
    members = []
    for key, part in tree.items():
        text = _written(draw, part, odd) if isinstance(part, dict) else part
        if isinstance(part, dict) and odd and not draw(st.integers(0, 9)):
            text = draw(st.sampled_from(["null", "{}", " { } "]))
        members.append(f"{json.dumps(key)}:{text}")
    if odd and not draw(st.integers(0, 6)):
        new = draw(st.sampled_from(["new", "later", "ge\\u006f2", "with.point", "x y", "Ærø"]))
        members.insert(draw(st.integers(0, len(members))), f'"{new}": {draw(OPEN)}')
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    return f"{{{f'{space},'.join(members)}{space}}}"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(RESOURCES)), st.booleans())
def test_any_page_is_read_as_the_reference_reads_it(data, name, odd):
    schema = RESOURCES[name]
    rows = data.draw(st.lists(records(schema, odd=odd), max_size=4))
    assert_as_reference(paged(*rows), schema)
    assert_as_reference(f"[{','.join(rows)}]".encode(), schema, kind="array")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(RESOURCES)))
def test_any_part_of_the_columns_is_read(data, name):
    schema = RESOURCES[name]
    chosen = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, max_size=4, unique=True))
    columns = pa.schema([schema.field(item) for item in chosen])
    rows = data.draw(st.lists(records(schema, odd=False), max_size=3))
    assert_as_reference(paged(*rows), columns, known=schema)
    for row in rows:
        assert_as_reference(row.encode(), columns, kind="record", known=schema)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(sorted(RESOURCES)))
def test_a_split_into_pages_changes_nothing(data, name):
    schema = RESOURCES[name]
    rows = data.draw(st.lists(records(schema, odd=False), min_size=1, max_size=4))
    tables = [read_page(paged(row), schema).table for row in rows]
    whole = read_page(paged(*rows), schema).table
    assert pa.concat_tables(tables).equals(whole)
    assert to_pandas(read_page(paged(), schema).table).dtypes.equals(to_pandas(whole).dtypes)


# What the fast way has to do itself -----------------------------------------------------------------------


def test_the_usual_page_is_read_by_native_code():
    page = native(paged('{"_id":"a","geo":{"city":"Troms\\u00f8"}}', '{"_id":"b"}', '{"geo":null}'), CITIES)
    assert page.table.to_pylist() == [
        {"_id": "a", "geo.city": "Tromsø"},
        {"_id": "b", "geo.city": None},
        {"_id": None, "geo.city": None},
    ]
    assert page.unknown.num_columns == 0


@pytest.mark.parametrize("name", RESOURCES)
def test_what_this_package_writes_is_read_by_native_code(name):
    schema = RESOURCES[name]
    sample = {"int64": 3, "double": 1.5, "bool": True, "string": "x", "list<item: string>": ["x"]}
    sample |= {"list<item: double>": [1.5], "decimal128(24, 6)": Decimal("0.10")}
    sample |= {"timestamp[us, tz=UTC]": datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)}
    row = {field.name: '{"a":0.10}' if is_json(field) else sample[str(field.type)] for field in schema}
    table = pa.Table.from_pylist([row, {}], schema=schema)
    texts = [text for batch in table.to_batches() for text in to_json(batch, resource=name)]
    page = native(paged(*texts), schema)
    assert page.table.equals(table)
    assert page.unknown.num_columns == 0


def test_offline_interactions_lack_the_session_properties():
    content = paged(
        '{"_id":"a","type":"session","hitCount":3,"geo":{},"asn":{"asnId":"1"}}',
        '{"_id":"b","type":"offline","externalId":"e"}',
    )
    table = native(content, INTERACTION).table
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
    page = native(content, RAW_EVENT)
    assert page.table["data"].to_pylist() == [*sent, None, None]
    assert page.table["_id"].to_pylist() == ["0", "1", "2", "3", None, None]


def test_open_objects_lie_inside_others_too():
    content = paged(
        '{"_id":"m","data":{"type":"number","raw":0.10,"current":{"a":[1]},"new":1.0}}', '{"data":null}'
    )
    page = native(content, METRIC)
    assert page.table["data.raw"].to_pylist() == ["0.10", None]
    assert page.table["data.current"].to_pylist() == ['{"a":[1]}', None]
    assert page.table["data.type"].to_pylist() == ["number", None]
    assert page.unknown.to_pylist() == [{"data.new": "1.0"}, {"data.new": None}]


def test_new_fields_are_kept_as_json_text_at_any_depth():
    content = paged(
        '{"_id":"a","later":0.10,"geo":{"city":"Oslo","planet":{"name":"Earth"}}}',
        '{"_id":"b","geo.city":"none","later":null}',
    )
    page = native(content, CITIES)
    assert page.table.to_pylist() == [{"_id": "a", "geo.city": "Oslo"}, {"_id": "b", "geo.city": None}]
    assert page.unknown.to_pylist() == [
        {"later": "0.10", "geo.planet": '{"name":"Earth"}', '"geo.city"': None},
        {"later": None, "geo.planet": None, '"geo.city"': '"none"'},
    ]


def test_columns_that_were_not_asked_for_are_not_new():
    content = paged(
        '{"_id":"a","type":"session","userData":{"x":1},"geo":{"city":"Oslo","state":"O","new":1}}'
    )
    page = native(content, CITIES, known=INTERACTION)
    assert page.unknown.to_pylist() == [{"geo.new": "1"}]
    assert set(native(content, CITIES).unknown.column_names) == {"type", "userData", "geo.state", "geo.new"}


def test_keys_of_users_are_columns_too():
    columns = user_columns(["fields.email", "eventTypesCount.order", "metrics.turnover.sum", "eventCount"])
    content = paged(
        '{"_id":"a","fields":{"email":[{"raw":"A@B.C","n":0.10}],"age":[1]},"eventTypesCount":{"order":3},"new":1}',
        '{"_id":"b","fields":{},"metrics":{"turnover":{"sum":12}},"eventTypesCount":null}',
    )
    for known in (USER, None):
        page = native(content, columns, known=known)
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
        assert parsed(page.table) == parsed(from_json(decode(content)["data"], columns))


def test_a_column_may_be_a_part_of_another():
    columns = user_columns(
        ["metrics", "metrics.turnover.sum", "metrics.turnover.count", "fields", "fields.email"]
    )
    content = paged('{"metrics":{"turnover":{"sum":0.50}},"fields":{"email":[ 1.0 ]}}', "{}")
    page = read_page(content, columns)
    assert page.unknown.num_columns == 0
    assert page.table.to_pylist() == [
        {
            "_id": None,
            "metrics": '{"turnover":{"sum":0.50}}',
            "metrics.turnover.sum": 0.5,
            "metrics.turnover.count": 0,
            "fields": '{"email":[ 1.0 ]}',
            "fields.email": "[1]",
        },
        dict.fromkeys(columns.names) | {"metrics.turnover.count": 0},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-31T13:00:00+01:00",
        "2025-01-31t12:00:00z",
        "2025-01-31 12:00:00",
        "2025-01-31T12:00:00.0000009Z",
    ],
)
def test_one_odd_instant_does_not_make_the_page_slow(text):
    page = native(paged('{"startDate":"2025-01-31T12:00:00.000Z"}', f'{{"startDate":"{text}"}}', "{}"), START)
    assert values(page) == [datetime(2025, 1, 31, 12, tzinfo=UTC)] * 2 + [None]


def test_null_after_a_brace_inside_a_text_is_text():
    content = paged('{"_id":"}null","geo":{"city":"} null"}}', "{}")
    assert native(content, CITIES).table.to_pylist()[0] == {"_id": "}null", "geo.city": "} null"}


def test_blanks_around_a_page():
    content = paged('{"_id":"a"}')
    for blanks in (b" \r\n\t", b" " * 1_000):
        assert native(blanks + content + blanks, CITIES).table["_id"].to_pylist() == ["a"]


def test_counters_of_a_page():
    page = native(paged("{}", "{}", counters='"offset":20,"limit":null,"count":2,"total":22,'), CITIES)
    assert (page.offset, page.limit, page.count, page.total) == (20, None, 2, 22)
    page = native(paged("{}"), CITIES)
    assert (page.offset, page.limit, page.count, page.total) == (None, None, 1, None)
    later = b'{"data":[{"_id":"a"}],"next":{"x":[1]},"total":5.0}'
    assert read_page(later, CITIES).total == 5
    assert read_page(later, CITIES).unknown.num_columns == 0


# What it must leave to the slow way -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "value", "expected"),
    [
        (HITS, "1.0", 1),
        (HITS, "12e1", 120),
        (DURATION, "1e300", 1e300),
        (AMOUNT, "1.50000000", None),
    ],
)
def test_odd_numbers_are_read_by_the_slow_way(columns, value, expected):
    (name,) = columns.names
    content = f'{{"{name}":{value}}}' if "." not in name else f'{{"amount":{{"amount":{value}}}}}'
    assert values(read_page(paged(content), columns)) == [Decimal("1.5") if expected is None else expected]


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        (DURATION, "1" * 400),  # Arrow: infinite
        (DURATION, '"1.5"'),
        (DURATION, "true"),
        (HITS, "1.5"),
        (HITS, "9223372036854775808"),
        (HITS, '"1"'),
        (AMOUNT, '{"amount":"1.5"}'),  # Arrow: 1.5
        (AMOUNT, '{"amount":0.1234567}'),
        (AMOUNT, '{"amount":true}'),
        (START, '"2025-01-31"'),
        (START, '"2025-01-31T12Z"'),  # Arrow: noon
        (START, '"2025-01-31T12:00Z"'),  # Arrow: noon
        (START, '"0000-01-01T00:00:00Z"'),  # Arrow: the year before the year 1
        (START, '"0001-01-01T00:00:00+00:01"'),
        (START, "1738324800"),
        (START, '"2025-02-30T00:00:00Z"'),
        (CITIES, '"Oslo"'),
        (CITIES, "[]"),
        (pa.schema([USER.field("audienceIds")]), '"x"'),
        (pa.schema([USER.field("audienceIds")]), "[1]"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(columns, value):
    member = columns.names[-1].split(".")[0]
    content = paged("{}", f'{{"{member}":{value}}}')
    assert native(content, columns) is None
    with pytest.raises(ServiceFailure, match=f"for {columns.names[-1]}; expected"):
        read_page(content, columns)
    assert_as_reference(content, columns)


@pytest.mark.parametrize(
    "token", ["NaN", "Infinity", "-Infinity", "Inf", "nan", "+1", "01", "1.", ".5", "0x1", "1_0"]
)
@pytest.mark.parametrize("member", ["duration", "hitCount", "new", "userData", "total"])
def test_tokens_that_are_no_json_are_refused_wherever_they_are(token, member):
    place = f'{{"{member}":{token}}}' if member != "total" else "{}"
    content = paged(place, counters=f'"total":{token},' if member == "total" else "")
    assert native(content, INTERACTION) is None
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(content, INTERACTION)


def test_tokens_that_are_no_json_are_refused_inside_lists():
    content = paged('{"mostProbableLocation":{"location":{"coordinates":[1.5,NaN]}}}')
    assert native(content, USER) is None
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(content, USER)


@pytest.mark.parametrize("place", ["_id", "new", "userData"])
@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\n", b"\\x41", b"\\u12g4"]
)
def test_bytes_that_are_no_text_are_refused(place, text):
    content = b'{"data":[{"%b":"%b"}]}' % (place.encode(), text)
    assert native(content, INTERACTION) is None
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(content, INTERACTION)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00 x"', '"\\ud800\\u0041"'])
def test_halves_of_surrogate_pairs_are_refused(text):
    for record in (f'{{"_id":{text}}}', f'{{"userData":[{text}]}}', f'{{"new":{text}}}', f"{{{text}:1}}"):
        assert native(paged(record), INTERACTION) is None
        with pytest.raises(ServiceFailure):
            read_page(paged(record), INTERACTION)


@pytest.mark.parametrize("text", ['"\\ud83d\\ude00"', '"😀"', '"a\\u0000b"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"'])
def test_escapes_are_read(text):
    content = paged(f'{{"_id":{text}}}')
    assert native(content, CITIES).table["_id"].to_pylist() == [json.loads(text)]


def test_the_last_of_equal_keys_counts():
    content = paged('{"_id":"a","_id":"b","geo":{"city":"Oslo"},"geo":{"city":"Bergen","city":"Hamar"}}')
    assert read_page(content, CITIES).table.to_pylist() == [{"_id": "b", "geo.city": "Hamar"}]
    assert read_page(paged('{"geo":{"city":"Oslo"},"geo":{}}'), CITIES).table["geo.city"].to_pylist() == [
        None
    ]
    assert values(read_page(paged('{"data":{"a":1},"data":{"a":2}}'), DATA)) == ['{"a":2}']
    assert values(read_page(paged('{"data":{"a":1},"d\\u0061ta":null}'), DATA)) == [None]
    assert read_page(paged('{"new":1,"new":2}'), CITIES).unknown.to_pylist() == [{"new": "2"}]
    doubled = b'{"total":1,"total":2,"data":[{"_id":"a"}],"data":[{"_id":"b"}]}'
    assert read_page(doubled, CITIES).total == 2
    assert read_page(doubled, CITIES).table["_id"].to_pylist() == ["b"]


def test_equal_keys_inside_open_objects_are_kept_as_sent():
    (text,) = values(read_page(paged('{"data":{"a":1,"a":2}}'), DATA))
    assert json.loads(text) == {"a": 2}


WHOLE = paged('{"_id":"a","geo":{"city":"Oslo"},"new":[1,"x"]}', counters='"total":1,')


@pytest.mark.parametrize("end", range(len(WHOLE)))
def test_a_page_that_breaks_off_is_refused(end):
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(WHOLE[:end], CITIES)


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
    assert native(content, CITIES) is None
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(content, CITIES)


@pytest.mark.parametrize("kind", ["page", "array", "record"])
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
def test_what_is_no_json_is_refused(content, kind):
    assert native(content, CITIES, kind=kind) is None
    with pytest.raises(ServiceFailure, match="not JSON"):
        read_page(content, CITIES, kind=kind)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("page", b"[]"),
        ("page", b"null"),
        ("page", b"{}"),
        ("page", b'{"data":null}'),
        ("page", b'{"data":{}}'),
        ("page", b'{"data":[null]}'),
        ("page", b'{"data":[[]]}'),
        ("page", b'{"data":[{},1]}'),
        ("page", b'{"data":[],"total":"1"}'),
        ("page", b'{"data":[],"total":1.5}'),
        ("page", b'{"data":[{}],"count":2}'),
        ("page", b'{"data":[{}],"count":0}'),
        ("array", b"{}"),
        ("array", b"null"),
        ("array", b"[null]"),
        ("array", b"[1]"),
        ("record", b"[]"),
        ("record", b"null"),
        ("record", b'"x"'),
    ],
)
@pytest.mark.parametrize("columns", [CITIES, DATA, AMOUNT], ids=["plain", "open", "decimal"])
def test_json_that_is_no_such_answer_is_refused(kind, content, columns):
    with pytest.raises(ServiceFailure, match="the service answered"):
        read_page(content, columns, kind=kind)


@pytest.mark.parametrize("depth", [70, 2_000, 1_000_000])
@pytest.mark.parametrize("parts", ["[]", '{"a":}'])
@pytest.mark.parametrize("member", ["_id", "userData", "new"])
def test_deep_nesting_is_refused_and_stops_nothing(depth, parts, member):
    content = paged(f'{{"{member}":{parts[:-1] * depth}1{parts[-1] * depth}}}')
    assert native(content, INTERACTION) is None
    with pytest.raises(ServiceFailure):
        read_page(content, INTERACTION)


def test_long_open_texts_are_looked_at_and_kept():
    wide = json.dumps([{"a": [row]} for row in range(3_000)])
    assert values(native(paged(f'{{"data":{wide}}}'), DATA)) == [wide]
    with pytest.raises(ServiceFailure):
        read_page(paged(f'{{"data":[{"1" * 5_000}]}}'), DATA)


@pytest.mark.parametrize("name", RESOURCES)
@pytest.mark.parametrize("kind", ["page", "array"])
def test_no_records_have_all_columns(name, kind):
    schema = RESOURCES[name]
    page = native(paged() if kind == "page" else b"[]", schema, kind=kind)
    assert page.table.schema.equals(schema, check_metadata=True)
    assert page.table.num_rows == page.count == page.unknown.num_rows == 0


def test_one_record_is_an_answer_too():
    page = native(b' {"_id":"a","event":{"n":0.10},"attributable":true} ', EVENT, kind="record")
    assert page.table.num_rows == 1
    assert page.table["event"].to_pylist() == ['{"n":0.10}']
    assert native(b'{"_id":"a"}', CITIES, kind="record").table["_id"].to_pylist() == ["a"]
    assert read_page(b'{"hitCount":1.0}', HITS, kind="record").table["hitCount"].to_pylist() == [1]


@pytest.mark.parametrize(
    "odd", ['"hitCount":2.0', '"hitCount":1,"hitCount":2', '"hitCount":2e0', '"hitCount":2,"later":[1]']
)
def test_an_odd_record_does_not_send_its_page_to_the_reference(odd):
    columns = pa.schema([INTERACTION.field("_id"), INTERACTION.field("hitCount")])
    page = native(paged('{"_id":"a","hitCount":1}', f'{{"_id":"b",{odd}}}'), columns)
    assert page is not None
    assert page.table["hitCount"].to_pylist() == [1, 2]


# Odd pages stay fast -------------------------------------------------------------------------------------


@pytest.fixture
def without_structs(monkeypatch):
    """Fail where records are decoded into Python values."""
    monkeypatch.setattr(json_pages, "decode_structs", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.0", 2), ("12e1", 120), ("9007199254740993.0", 2**53 + 1), ("-9223372036854775808.0", -(2**63))],
)
@pytest.mark.usefixtures("without_structs")
def test_whole_numbers_with_a_point_are_read_by_arrow(text, expected):
    page = native(paged('{"hitCount":1}', f'{{"hitCount":{text}}}', "{}"), HITS)
    assert values(page) == [1, expected, None]


@pytest.mark.parametrize("member", ["", ',"new":1'])
def test_numbers_with_a_point_let_no_text_pass_as_a_number(member):
    for text in ('"1"', '"1.0"', "1.5", "9223372036854775808.0", "1e400"):
        content = paged('{"hitCount":2.0}', f'{{"hitCount":{text}{member}}}')
        assert native(content, HITS) is None
        assert_as_reference(content, HITS)


def test_many_new_members_are_read_by_native_code():
    names = [f"new{number}" for number in range(40)]
    content = paged("{}", *(f'{{"_id":"a","{name}":{{"n":1.0}}}}' for name in names))
    page = native(content, CITIES)
    assert page.unknown.column_names == names
    assert page.unknown["new39"].to_pylist() == [None] * 40 + ['{"n":1.0}']


def test_more_new_members_than_are_kept_are_left_out():
    names = [f"new{number}" for number in range(1_001)]
    content = paged("{" + ",".join(f'"{name}":1' for name in names) + "}")
    assert read_page(content, CITIES).unknown.column_names == names[:-1]


def test_new_members_are_in_their_order_of_appearance_whatever_object_has_them():
    content = paged('{"geo":{"sea":1,"city":"Oslo"},"later":2}', '{"earlier":3,"geo":{"fjord":4}}')
    for page in (native(content, CITIES), read_page(content, CITIES)):
        assert page.unknown.column_names == ["geo.sea", "later", "earlier", "geo.fjord"]


def test_records_before_the_first_new_member_are_parsed_in_parts(monkeypatch):
    read, sizes = json_pages._read_known, []

    def counted(answer, *others):
        sizes.append(len(json.loads(bytes(answer.data))))
        return read(answer, *others)

    monkeypatch.setattr(json_pages, "_read_known", counted)
    records = [f'{{"_id":"{number}","geo":{{"city":"Oslo"}}}}' for number in range(999)]
    assert_as_reference(paged(*records, '{"_id":"last","new":1.50}'), CITIES)
    # 1,000 records in parts of 256; read twice, by each way that the helper compares.
    assert set(sizes) == {1_000 - 3 * 256}


@pytest.mark.parametrize(
    "odd", ['{"_id":"x","new":[1.0]}', '{"geo":{"sea":null}}', '{"_id":"x","_id":"y"}', "{}", '{"geo":null}']
)
@pytest.mark.parametrize("place", range(6))
def test_a_page_read_in_parts_is_read_as_a_whole(monkeypatch, odd, place):
    monkeypatch.setattr(json_pages, "_SMALLEST_PART", 2)
    monkeypatch.setattr(json_pages, "_PARTS", 3)
    records = [f'{{"_id":"{number}","geo":{{"city":"Oslo"}}}}' for number in range(5)]
    records.insert(place, odd)
    assert_as_reference(paged(*records, '{"_id":"z","late":0.10}', counters='"total":9,'), CITIES)


def test_a_member_given_twice_is_decoded_only_once(monkeypatch):
    monkeypatch.setattr(json_pages, "_read_known", None)
    page = native(paged('{"hitCount":1}', '{"hitCount":1.0,"hitCount":2.0}'), HITS)
    assert values(page) == [1, 2]


@pytest.mark.usefixtures("without_structs")
def test_digits_after_the_microseconds_are_cut_off():
    page = native(paged('{"startDate":"2025-01-31T12:00:00.123456789Z"}'), START)
    assert values(page) == [datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)]
