"""Whatever an Arrow body holds, it is loaded, rejected row by row, or refused as a whole."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.json_values import NUMBERS, TEXTS

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store

NAMES = {
    "interactions": [
        "_id",
        "userId",
        "startDate",
        "hitCount",
        "duration",
        "geo.city",
        "isBot",
        "nodeId",
        "userData",
    ],
    "hits": ["id", "sessionId", "serverDate", "pageUrl", "type"],
    "events": ["_id", "userId", "eventDate", "eventTypeId", "metrics", "data", "createdAt", "userMap"],
    "nodes": ["_id", "parentId", "type", "name", "slug", "explicit", "medium"],
    "spend": ["_id", "campaignId", "amount.amount", "amount.currency", "startDate", "endDate"],
}
TYPES = [
    pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.null(),
    pa.decimal128(38, 10), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.date32(), pa.duration("us"),
    pa.list_(pa.string()), pa.struct([("amount", pa.string()), ("currency", pa.string())]),
    pa.dictionary(pa.int32(), pa.string()), pa.map_(pa.string(), pa.string()), pa.time64("us"),
]  # fmt: skip
#: JSON texts are read by the database, too.
JSON = [f'[{{"key": "turnover", "value": {number}}}]' for number in NUMBERS] + [
    f'{{"email": {number}}}' for number in NUMBERS
]
WORDS = [text for text in TEXTS if "\ud800" not in text] + [*NUMBERS, *JSON, "[" * 5_000, '{"a":' * 2_000]


@st.composite
def columns(draw, rows):
    kind = draw(st.sampled_from(TYPES))
    texts = st.lists(st.none() | st.sampled_from(WORDS), min_size=rows, max_size=rows)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        column = pa.array(draw(texts), pa.string())
        return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    if pa.types.is_binary(kind):
        return pa.array(draw(st.lists(st.none() | st.binary(max_size=9), min_size=rows, max_size=rows)), kind)
    if pa.types.is_floating(kind):
        return pa.array(draw(st.lists(st.none() | st.floats(), min_size=rows, max_size=rows)), kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [pa.array(draw(texts), pa.string()) for _ in range(2)], ["amount", "currency"]
        )
    if pa.types.is_list(kind):
        return pa.array([None if text is None else [text] for text in draw(texts)], kind)
    if pa.types.is_map(kind):
        return pa.array([None if text is None else [("a", text)] for text in draw(texts)], kind)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        return (
            pa.array(draw(st.lists(st.none() | st.booleans(), min_size=rows, max_size=rows))).cast(
                kind, safe=False
            )
            if (pa.types.is_boolean(kind))
            else pa.nulls(rows)
        )
    # Any eight (or sixteen) bytes are a value of these types.
    width = kind.bit_width // 8
    content = draw(st.binary(min_size=rows * width, max_size=rows * width))
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("resource", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_arrow_table_is_loaded_or_refused(resource, data):
    rows = data.draw(st.integers(0, 3))
    names = data.draw(st.lists(st.sampled_from(NAMES[resource]), unique=True, min_size=1))
    table = pa.table({name: data.draw(columns(rows)) for name in names})
    store = Store.open(":memory:", "shop")
    try:
        with suppress(InvalidRequest):
            counts, rejected = load_records(store, resource, table)
            assert rejected.num_rows <= rows
            assert all(count >= 0 for count in counts.values())
    finally:
        store.close()
