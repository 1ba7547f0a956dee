"""JSON that arrives in pieces reads as JSON that arrives at once."""

import json
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import NUMBERS

from attrib_ds import errors
from attrib_ds.json_numbers import whole
from attrib_ds.records.json_records import decode, from_json
from attrib_ds.transports.http.bodies import Unreadable
from attrib_ds.transports.http.json_stream import read_records

COLUMNS = pa.schema([("_id", pa.string()), ("n", pa.int64()), ("geo.x", pa.float64())])
records = st.lists(
    st.fixed_dictionaries(
        {"_id": st.text(max_size=5), "n": st.integers(-(2**63), 2**63 - 1)},
        optional={
            "geo": st.fixed_dictionaries({"x": st.floats(allow_nan=False, allow_infinity=False)}),
            "other": st.recursive(st.none() | st.text(max_size=3), st.lists, max_leaves=4),
        },
    ),
    max_size=6,
)


def pieces(content, sizes):
    position = 0
    for size in sizes:
        yield content[position : position + size]
        position += size
    yield content[position:]


@settings(max_examples=60, deadline=None)
@given(records, st.lists(st.integers(0, 7), max_size=200), st.sampled_from([None, 1]), st.booleans())
@pytest.mark.slow
def test_pieces_make_no_difference(found, sizes, indent, escapes):
    page = {"total": len(found), "data": found, "next": [1, {"data": []}], "last": 12}
    content = json.dumps(page, indent=indent, ensure_ascii=escapes).encode()
    table, others = read_records(pieces(content, sizes), COLUMNS, most=10**6)
    assert table.equals(from_json(decode(content)["data"], COLUMNS))
    assert others == {"total": len(found), "next": [1, {"data": []}], "last": 12}


@settings(max_examples=60, deadline=None)
@given(records, st.lists(st.integers(0, 7), max_size=100), st.integers(1, 30))
def test_what_breaks_off_anywhere_is_told(found, sizes, missing):
    content = json.dumps({"total": len(found), "data": found}).encode()[:-missing]
    with pytest.raises(Unreadable):
        read_records(pieces(content, sizes), COLUMNS, most=10**6)


def test_every_split_in_two_of_a_page():
    content = (
        '{"total": 12, "data": [{"_id": "ü💡\\u00e9", "n": 1234}, {"n": -5, "geo": {"x": 1.5e3}}]} '.encode()
    )
    for split in range(len(content)):
        table, others = read_records([content[:split], content[split:]], COLUMNS, most=10**6)
        assert table.to_pylist() == [
            {"_id": "ü💡é", "n": 1234, "geo.x": None},
            {"_id": None, "n": -5, "geo.x": 1500.0},
        ]
        assert others == {"total": 12}


def test_many_batches_keep_their_order_and_few_are_held():
    count, ahead = 10_000, 0

    def arriving():
        nonlocal ahead
        yield b'{"data": ['
        for number in range(count):
            ahead = number
            yield b'%s{"n": %d}' % (b"," if number else b"", number)
        yield b"]}"

    table, _ = read_records(arriving(), COLUMNS, most=10**6)
    assert table["n"].to_pylist() == list(range(count))
    assert ahead == count - 1
    assert len(table.to_batches()) > 4


def test_values_that_do_not_fit_are_told():
    with pytest.raises(errors.ServiceFailure, match="'x' for n; expected a whole number"):
        read_records([b'[{"n": "x"}]'], COLUMNS, most=10**6)


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"nul", b"null", b"1", b'"data"', b"{", b"{}", b'{"data"}', b'{"data": }', b'{"data": 1}', b"[1 2]",
     b"[,]", b"[1,]", b"[]]", b"[] x", b"{'data': []}", b"\xff", b'["\xff"]', b'["\xc3', b"[NaN]", b"[-]", b'{"data": [],}',
     b'["\x01"]', b"[" * 3_000, b"[" + b"9" * 5_000 + b"]"],
)  # fmt: skip
def test_what_is_no_json_of_records_is_told(text):
    for sizes in ([], [1] * len(text)):
        with pytest.raises((Unreadable, errors.ServiceFailure)):
            read_records(pieces(text, sizes), COLUMNS, most=10**6)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_is_read_or_refused_at_once(number):  # G-221
    content = f'{{"total": {number}, "data": [{{"n": {number}, "geo": {{"x": {number}}}}}]}}'.encode()
    with suppress(Unreadable, errors.ServiceFailure):
        table, others = read_records([content[:20], content[20:]], COLUMNS, most=10**6)
        assert abs(table["n"][0].as_py()) < 2**63
        assert whole(others["total"]) == table["n"][0].as_py()


@pytest.mark.timeout(60)
@settings(deadline=2_000)
@given(
    st.lists(
        st.sampled_from(
            ['{"', '"}', "[", "]", '"data"', ":", ",", "1", "1e9", "-", "nul", "l", "\\ud800", "é"]
        ),
        max_size=30,
    )
)
def test_any_pieces_are_read_or_refused(pieces):
    with suppress(Unreadable, errors.ServiceFailure):
        read_records([piece.encode() for piece in pieces], COLUMNS, most=10**6)
