"""Sources: what users hand over becomes one table, and nothing of it is lost in silence."""

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import ROW, instant, literal, open_source, quoted


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        yield opened


def rows_of(connection, source, *columns):
    names = ", ".join(quoted(name) for name in (ROW, *(columns or source.columns)))
    return connection.execute(f"SELECT {names} FROM {source.relation} ORDER BY {quoted(ROW)}").fetchall()


def values_of(connection, source, expression):
    query = f"SELECT {expression} FROM {source.relation} ORDER BY {quoted(ROW)}"
    return [value for (value,) in connection.execute(query).fetchall()]


# -- frames and Arrow -------------------------------------------------------------------------------


def test_a_frame_an_arrow_table_and_a_reader_give_the_same_table(connection):
    table = pa.table({"userId": ["a", None, "c"], "geo.city": ["Paris", "Oslo", None]})
    expected = [(0, "a", "Paris"), (1, None, "Oslo"), (2, "c", None)]
    for handed_over in (
        table,
        table.to_pandas(),
        table.to_batches()[0],
        table.to_reader(),
        duckdb.connect().from_arrow(table),
    ):
        source = open_source(connection, handed_over, argument="interactions")
        assert source.columns == ("userId", "geo.city")
        assert source.rows == 3
        assert source.unreadable.num_rows == 0
        assert rows_of(connection, source) == expected


def test_structs_become_dotted_columns_but_opaque_ones_stay_whole(connection):
    place = pa.struct({"city": pa.string(), "at": pa.struct({"latitude": pa.float64()})})
    table = pa.table(
        {
            "geo": pa.array([{"city": "Paris", "at": {"latitude": 1.5}}, None], place),
            "userData": [{"email": "a@b.fr"}, None],
        }
    )
    source = open_source(connection, table, argument="interactions", opaque={"userData"})
    assert source.columns == ("geo.city", "geo.at.latitude", "userData")
    assert values_of(connection, source, source.text("userData")) == ['{"email":"a@b.fr"}', None]
    assert rows_of(connection, source, "geo.city", "geo.at.latitude") == [(0, "Paris", 1.5), (1, None, None)]


def test_open_objects_in_a_frame_keep_their_own_keys_only(connection):
    frame = pd.DataFrame({"userData": [{"email": "a"}, None, {"phone": None}]})
    source = open_source(connection, frame, argument="interactions", opaque={"userData"})
    texts = values_of(connection, source, source.text("userData"))
    assert [text and json.loads(text) for text in texts] == [{"email": "a"}, None, {"phone": None}]


@pytest.mark.parametrize("values", [[1, "x", None, 2.5], [1, 2**64, None]])
def test_a_column_of_mixed_objects_or_long_integers_becomes_text(connection, values):
    frame = pd.DataFrame({"nodeId": pd.Series(values, dtype=object)})
    source = open_source(connection, frame, argument="interactions")
    texts = [value and str(value) for value in values]
    assert values_of(connection, source, source.text("nodeId")) == texts


def test_the_frame_is_not_changed(connection):
    frame = pd.DataFrame({"userData": [{"a": 1}], "mixed": pd.Series([1], dtype=object)})
    before = frame.copy(deep=True)
    open_source(connection, frame, argument="interactions", opaque={"userData"})
    pd.testing.assert_frame_equal(frame, before)


def test_no_rows_keep_the_columns(connection):
    source = open_source(connection, pd.DataFrame({"a": [], "b": []}), argument="nodes")
    assert (source.columns, source.rows) == (("a", "b"), 0)


# -- delimited text ---------------------------------------------------------------------------------


def write(folder, name, content):
    path = folder / name
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["visits.csv", "visits.CSV.gz"])
def test_delimiter_and_byte_order_mark_are_recognised(connection, tmp_path, delimiter, name):
    content = "﻿_id,userId\n1,Zoë\n2,\n".replace(",", delimiter)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    source = open_source(connection, str(path), argument="interactions")
    assert rows_of(connection, source) == [(0, "1", "Zoë"), (1, "2", None)]
    assert source.columns == ("_id", "userId")


def test_quoted_empty_text_is_text_and_an_empty_cell_is_missing(connection, tmp_path):
    path = write(tmp_path, "visits.csv", 'a,b\n"",\n"x, ""y""\nz",2\n')
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source) == [(0, "", None), (1, 'x, "y"\nz', "2")]


def test_records_with_the_wrong_number_of_cells_are_listed_and_the_rest_goes_on(connection, tmp_path):
    path = write(tmp_path, "visits.csv", 'a,b\n1\n2,"x\ny"\n3,4,5\n6\n7,8\n')
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source) == [(1, "2", "x\ny"), (4, "7", "8")]
    assert source.unreadable.to_pylist() == [
        {"row": 0, "reason": "1 cell where the header has 2: '1'"},
        {"row": 2, "reason": "3 cells where the header has 2"},
        {"row": 3, "reason": "1 cell where the header has 2: '6'"},
    ]


@pytest.mark.slow
def test_row_numbers_hold_in_a_file_of_many_blocks(connection, tmp_path):
    short = {5, 6, 400_000, 599_999}
    # 600,000 records of 43 bytes are more than one block of 16 MiB.
    lines = (f"{i}" if i in short else f"{i:010},{'x' * 31}" for i in range(600_000))
    path = write(tmp_path, "visits.csv", "a,b\n" + "\n".join(lines) + "\n")
    source = open_source(connection, path, argument="interactions")
    assert source.rows == 599_996
    assert source.unreadable["row"].to_pylist() == sorted(short)
    moved = f"SELECT count(*) FROM {source.relation} WHERE {quoted(ROW)} <> CAST(a AS BIGINT)"
    assert connection.execute(moved).fetchone() == (0,)


def test_records_that_are_not_utf_8_are_listed(connection, tmp_path):
    path = write(tmp_path, "visits.csv", b"a,b\n1\n2,caf\xe9\n3,caf\xc3\xa9\n")
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source) == [(2, "3", "café")]
    assert [row["reason"] for row in source.unreadable.to_pylist()] == [
        "1 cell where the header has 2: '1'",
        "not UTF-8 text",
    ]


def test_a_quotation_mark_that_is_never_closed_does_not_swallow_lines_in_silence(connection, tmp_path):
    path = write(tmp_path, "visits.csv", 'a,b\n1,2\n3,"4\n5,6\n')
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source) == [(0, "1", "2")]
    (listed,) = source.unreadable.to_pylist()
    assert listed["row"] == 1
    assert "never closed" in listed["reason"]


def test_a_closed_quotation_mark_at_the_end_is_fine(connection, tmp_path):
    path = write(tmp_path, "visits.csv", 'a,b\n1,"2\n3"\n')
    assert rows_of(connection, open_source(connection, path, argument="nodes")) == [(0, "1", "2\n3")]


# -- JSON lines -------------------------------------------------------------------------------------


def test_properties_are_found_over_all_lines(connection, tmp_path):
    lines = [{"_id": str(i)} for i in range(3_000)]
    lines.append({"_id": "last", "geo": {"city": "Oslo", "more": {"deep/er": 1}}, "flag": True})
    path = write(tmp_path, "visits.ndjson", "\n".join(json.dumps(line) for line in lines))
    source = open_source(connection, path, argument="interactions")
    assert set(source.columns) == {"_id", "flag", "geo.city", "geo.more.deep/er"}
    last = rows_of(connection, source, "_id", "flag", "geo.city", "geo.more.deep/er")[-1]
    assert last == (3_000, "last", "true", "Oslo", "1")


def test_json_lines_that_cannot_be_read_are_listed(connection, tmp_path):
    path = write(tmp_path, "visits.jsonl.gz", '{"a": 1}\n{"a": \n\n[1, 2]\n"text"\n{"a": "é"}\r\n')
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source, "a") == [(0, "1"), (4, "é")]
    assert source.unreadable.to_pylist() == [
        {"row": 1, "reason": "not valid JSON"},
        {"row": 2, "reason": "not a JSON object"},
        {"row": 3, "reason": "not a JSON object"},
    ]


def test_a_property_that_is_an_object_in_some_lines_only_keeps_both(connection, tmp_path):
    lines = ['{"geo": {"city": "Oslo"}}', '{"geo": "NO"}', '{"geo": null}', '{"geo.city": "Bergen"}']
    path = write(tmp_path, "visits.ndjson", "\n".join(lines))
    source = open_source(connection, path, argument="interactions")
    assert rows_of(connection, source, "geo", "geo.city") == [
        (0, None, "Oslo"),
        (1, "NO", None),
        (2, None, None),
        (3, None, "Bergen"),
    ]


def test_open_objects_and_arrays_stay_json_text(connection, tmp_path):
    line = {"userData": {"a": {"b": None}}, "tags": [1, {"x": 2}], "none": None, "empty": {}}
    path = write(tmp_path, "visits.ndjson", json.dumps(line))
    source = open_source(connection, path, argument="interactions", opaque={"userData"})
    ((_, data, tags, none),) = rows_of(connection, source, "userData", "tags", "none")
    assert (json.loads(data), json.loads(tags), none) == (line["userData"], line["tags"], None)


def test_objects_nested_too_deep_name_the_place(connection, tmp_path):
    path = tmp_path / "events.ndjson"
    path.write_text('{"a":' * 17 + "1" + "}" * 17)
    with pytest.raises(InvalidRequest, match="events: objects are nested more than 16 deep, below 'a.a"):
        open_source(connection, path, argument="events")
    path.write_text('{"a":' * 16 + "1" + "}" * 16)
    assert ".".join("a" * 16) in open_source(connection, path, argument="events").types


def test_g261_lines_that_are_nested_too_deeply_are_rejected_alone(connection, tmp_path):
    path = tmp_path / "visits.ndjson"
    lines = [f'{{"_id": "{depth}", "tags": {"[" * depth}{"]" * depth}}}' for depth in (63, 64, 2_000)]
    path.write_text("\n".join(lines))
    source = open_source(connection, path, argument="interactions")
    assert [row[1] for row in rows_of(connection, source, "_id")] == ["63"]
    reason = "nested too deeply; expected at most 64 levels"
    assert source.unreadable.to_pylist() == [{"row": row, "reason": reason} for row in (1, 2)]


def test_too_many_properties_name_the_place(connection, tmp_path):
    lines = "\n".join(json.dumps({"counts": {f"key{i}": 1}}) for i in range(2_001))
    path = write(tmp_path, "visits.ndjson", lines)
    with pytest.raises(InvalidRequest, match=r"interactions: .* more than 2000 .* below 'counts\.'"):
        open_source(connection, path, argument="interactions")


# -- Parquet ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parquet_keeps_its_types_and_its_order(connection, tmp_path):
    table = pa.table(
        {
            "position": range(300_000),
            "amount": pa.array([Decimal("1.25")] * 300_000),
            "geo": [{"city": "Oslo"}] * 300_000,
        }
    )
    path = tmp_path / "a [b]*'.parquet"
    pa.parquet.write_table(table, path, row_group_size=50_000)
    source = open_source(connection, path, argument="interactions")
    assert source.types == {"position": "BIGINT", "amount": "DECIMAL(3,2)", "geo.city": "VARCHAR"}
    moved = f"SELECT count(*) FROM {source.relation} WHERE {quoted(ROW)} <> position"
    assert connection.execute(moved).fetchone() == (0,)


# -- reading the cells ------------------------------------------------------------------------------


def test_text_of_any_type(connection):
    table = pa.table(
        {
            "whole": [75001.0, None],
            "broken": [1.5, float("inf")],
            "flag": [True, None],
            "bytes": pa.array([b"ok", b"\xff"]),
            "word": ["  x ", "   "],
            "kind": pa.array(["a", None]).dictionary_encode(),
            "list": [["p", "q"], None],
        }
    )
    source = open_source(connection, table, argument="interactions")

    def texts(name):
        return values_of(connection, source, source.text(name))

    assert texts("whole") == ["75001", None]
    assert texts("broken") == ["1.5", "inf"]
    assert texts("flag") == ["true", None]
    assert texts("bytes") == ["ok", None]
    assert texts("word") == ["  x ", "   "]
    assert texts("kind") == ["a", None]
    assert texts("list") == ['["p","q"]', None]
    assert values_of(connection, source, source.word("word")) == ["x", None]


def test_numbers_and_flags_of_any_type(connection):
    table = pa.table(
        {
            "text": ["1.5", "x", " 2 ", ""],
            "number": [1.5, float("nan"), 2.0, None],
            "span": pa.array([1_500_000, None, 0, 60_000_000], pa.duration("us")),
            "count": pa.array([1, 2, None, 3], pa.uint8()),
            "yes": ["TRUE", "0", "maybe", None],
            "is": [True, False, None, True],
            "as_number": [1.0, 0.0, 2.0, None],
        }
    )
    source = open_source(connection, table, argument="interactions")
    numbers = {name: values_of(connection, source, source.number(name)) for name in source.columns[:4]}
    assert numbers["text"] == [1.5, None, 2.0, None]
    assert numbers["number"][0::2] == [1.5, 2.0]
    assert np.isnan(numbers["number"][1])
    assert numbers["span"] == [1.5, None, 0.0, 60.0]
    assert numbers["count"] == [1.0, 2.0, None, 3.0]
    assert values_of(connection, source, source.flag("yes")) == [True, False, None, None]
    assert values_of(connection, source, source.flag("is")) == [True, False, None, True]
    assert values_of(connection, source, source.flag("as_number")) == [True, False, None, None]


def test_typed_instants_become_utc(connection):
    moment = datetime(2025, 1, 31, 12)
    frame = pd.DataFrame(
        {
            "naive": pd.to_datetime(["2025-01-31 12:00:00", None]),
            "paris": pd.to_datetime(["2025-01-31 13:00:00", None]).tz_localize("Europe/Paris"),
            "nanoseconds": pd.to_datetime(["2025-01-31 12:00:00.000000999", None]).astype("datetime64[ns]"),
            "seconds": pd.to_datetime(["2025-01-31 12:00:00", None]).astype("datetime64[s]"),
            "objects": pd.Series([datetime(2025, 1, 31, 12, tzinfo=UTC), None], dtype=object),
        }
    )
    source = open_source(connection, frame, argument="interactions")
    for name in source.columns:
        assert values_of(connection, source, source.instant(name)) == [moment, None], name


def test_days_and_numbers_are_no_instants(connection):
    table = pa.table({"day": pa.array([20_000], pa.date32()), "epoch": [1_738_324_800]})
    source = open_source(connection, table, argument="interactions")
    assert values_of(connection, source, source.instant("day")) == [None]
    assert values_of(connection, source, source.instant("epoch")) == [None]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_session_time_zone_does_not_matter(connection, zone):
    connection.execute(f"SET TimeZone = '{zone}'")
    for text in ("2025-01-31T12:00:00", "2025-01-31T12:00:00Z", "2025-01-31T13:00:00+01:00"):
        read = connection.execute(f"SELECT {instant(literal(text))}").fetchone()
        assert read == (datetime(2025, 1, 31, 12),)


digits = st.integers(0, 99).map("{:02}".format)
almost_instants = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["0000", "0001", "1990", "2024", "2025", "9999", "25"]),
    st.one_of(st.integers(0, 13).map("{:02}".format), digits),
    st.one_of(st.integers(0, 32).map("{:02}".format), digits),
    st.sampled_from(["T", "t", " ", "_", ""]),
    st.one_of(st.integers(0, 24).map("{:02}".format), digits),
    st.one_of(st.integers(0, 60).map("{:02}".format), digits),
    st.one_of(st.integers(0, 61).map("{:02}".format), digits),
    st.sampled_from(["", ".", ".5", ".123456", ".1234567890", ".999999999"]),
    st.one_of(
        st.sampled_from(["", "Z", "z", "+02", "+0200", " +02:00", "+24:00", "-00:00"]),
        st.builds("{}{}:{}".format, st.sampled_from("+-"), st.integers(0, 25).map("{:02}".format), digits),
    ),
)


def parsed(text):
    try:
        return instants.parse_exact(text, argument="text").replace(tzinfo=None)
    except InvalidRequest:
        return None


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=25)
@given(texts=st.lists(almost_instants, min_size=20, max_size=60))
@example(texts=["2025-01-31", "20250131", "", "soon", "2025-02-30T00:00:00Z", "2024-02-29T23:59:60.5Z"])
@example(texts=["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "2025-01-31T12:00Z"])
@example(texts=["2025-01-31T24:00:00Z", "2025-01-31T12:00:00Z\n", "２025-01-31T12:00:00Z"])
def test_sql_reads_an_instant_exactly_as_python_does(texts):
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE texts AS SELECT unnest($texts::VARCHAR[]) AS t", {"texts": texts})
        read = [value for (value,) in connection.execute(f"SELECT {instant('t')} FROM texts").fetchall()]
    assert read == [parsed(text) for text in texts]


# -- what cannot be opened --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handed_over", "message"),
    [
        ([1, 2], "nodes: cannot read an object of type list; give a DataFrame, an Arrow table or a path"),
        (None, "nodes: cannot read an object of type NoneType"),
        ("nothing.csv", "nodes: 'nothing.csv' does not exist"),
        (
            "nodes.ods",
            "nodes: the name 'nodes.ods' does not say what is in the file; allowed endings: .csv",
        ),
        ("nodes.parquet.gz", "nodes: the name 'nodes.parquet.gz' does not say"),
        ("nodes", "nodes: the name 'nodes' does not say"),
        (pd.DataFrame(), "nodes: has no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "nodes: the column 'a' is given twice"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "nodes: the column 'A' differs from 'a' in case only"),
        (pd.DataFrame([[1]]), "nodes: the name of column 1 is 0, not text. If pandas numbered the columns"),
        (pa.table([[1], [2]], names=["a", "a"]), "nodes: the column 'a' is given twice"),
        (pa.table({"g": [{"x": 1}], "g.x": [2]}), "nodes: the column 'g.x' is given twice"),
        (pa.table({"": [1]}), "nodes: column 1 has no name"),
        (pa.table({ROW: [1]}), "nodes: the column '#row' is given twice"),
    ],
)
def test_what_cannot_be_opened_says_why(connection, handed_over, message):
    with pytest.raises(InvalidRequest) as refusal:
        open_source(connection, handed_over, argument="nodes")
    assert str(refusal.value).startswith(message)
    assert refusal.value.field == "nodes"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nodes.csv", b"", "is empty"),
        ("nodes.csv", b"\n\n", "is empty"),
        ("nodes.ndjson", b"", "is empty"),
        ("nodes.ndjson", b"\n\n", "is empty"),
        ("nodes.parquet", b"", "is empty"),
        ("nodes.parquet", b"no parquet", "cannot be read"),
        ("nodes.csv", b"a,\xfc\n1,2\n", "the header of 'nodes.csv' is not UTF-8 text"),
        ("nodes.csv", b"a,b,a\n1,2,3\n", "the column 'a' is given twice"),
        ("nodes.csv", b",b\n0,2\n", "column 1 has no name; leave it out"),
        ("nodes.ndjson", b'{"a": 1, "A": 2}\n', "differs from"),
    ],
)
def test_files_that_cannot_be_opened_say_why(connection, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidRequest) as refusal:
        open_source(connection, path, argument="nodes")
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("nodes: ")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised_by_its_bytes(connection, tmp_path, encoding):
    (tmp_path / "nodes.csv").write_bytes('a;b\r\nMünchen;"x\r\ny"\r\n1;2;3\r\n'.encode(encoding))
    source = open_source(connection, tmp_path / "nodes.csv", argument="nodes")
    rows = connection.execute(f'SELECT a, b FROM {source.relation} ORDER BY "#row"').fetchall()
    assert rows == [("München", "x\r\ny")]
    assert source.unreadable["reason"].to_pylist() == ["3 cells where the header has 2"]


def test_another_encoding_can_be_given(connection, tmp_path):
    (tmp_path / "nodes.csv").write_bytes("Stadt,b\nKöln,5 €\n".encode("cp1252"))
    source = open_source(connection, tmp_path / "nodes.csv", argument="nodes", encoding="cp1252")
    assert connection.execute(f"SELECT Stadt, b FROM {source.relation}").fetchall() == [("Köln", "5 €")]
    with pytest.raises(InvalidRequest, match="nodes: .*cannot be read: .*codec can't decode"):
        (tmp_path / "other.csv").write_bytes(b"a\n\x81\n")
        open_source(connection, tmp_path / "other.csv", argument="nodes", encoding="cp1252")


def test_a_broken_gzip_file_and_a_folder_say_why(connection, tmp_path):
    (tmp_path / "nodes.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(InvalidRequest, match="nodes: .*nodes.csv.gz' cannot be read"):
        open_source(connection, tmp_path / "nodes.csv.gz", argument="nodes")
    (tmp_path / "nodes.csv").mkdir()
    with pytest.raises(InvalidRequest, match="is a folder, not a file"):
        open_source(connection, tmp_path / "nodes.csv", argument="nodes")


def test_a_file_with_unreadable_lines_only_is_listed_whole(connection, tmp_path):
    path = write(tmp_path, "nodes.ndjson", "x\ny\n")
    source = open_source(connection, path, argument="nodes")
    assert (source.columns, source.rows, source.unreadable.num_rows) == ((), 0, 2)


@pytest.mark.parametrize(
    "column",
    [
        # Microseconds of a day; DuckDB closes the whole database when it converts this one.
        pa.Array.from_buffers(
            pa.time64("us"), 1, [None, pa.py_buffer((-(10**11)).to_bytes(8, "little", signed=True))]
        ),
        # Text that is not UTF-8.
        pa.Array.from_buffers(
            pa.string(),
            1,
            [None, pa.py_buffer(bytes(4) + (2).to_bytes(4, "little")), pa.py_buffer(b"\xff\xff")],
        ),
    ],
    ids=["time", "text"],
)
def test_malformed_arrow_data_are_refused(column):
    connection = duckdb.connect()
    for source in (pa.table({"_id": column}), pa.table({"_id": column}).to_reader()):
        with pytest.raises(InvalidRequest, match="source: cannot be read"):
            open_source(connection, source, argument="source")
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_an_array_that_is_nested_without_end_is_refused(connection, tmp_path):
    file = tmp_path / "deep.json"
    file.write_text("[" * 8_000 + "]" * 8_000)
    with pytest.raises(InvalidRequest, match=r"nodes: .*deep.json' is nested too deeply"):
        open_source(connection, file, argument="nodes")
