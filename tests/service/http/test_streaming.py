"""Searches that are sent while they are read (G-101, G-104, G-126)."""

import http.client
import json
import time
import tracemalloc
from contextlib import closing

import pyarrow as pa
import pytest
from service.http.conftest import MANY
from support.http_caller import TIMEOUT, answering
from support.service_records import hex_id

from attrib_ds.contract import OPERATIONS, build, from_wire
from attrib_ds.errors import Unavailable
from attrib_ds.service import Service
from attrib_ds.service.http import responses
from attrib_ds.service.interactions import search_interactions
from attrib_ds.service.store.store import Store

SEARCH = "/api/v1/projects/big-shop/interactions/search"
ARROW = "application/vnd.apache.arrow.stream"


def test_a_search_without_limit_answers_everything(call):
    page = call("POST", SEARCH, {"projection": ["_id"], "sort": {"_id": 1}}).json()
    assert (page["count"], page["total"], page["limit"]) == (MANY, MANY, None)
    assert [each["_id"] for each in page["data"]] == [hex_id(number) for number in range(MANY)]


@pytest.mark.slow
def test_it_is_sent_in_pieces_in_bounded_memory(call):
    received = 0
    with answering(call, {"limit": 40_000}) as response:
        assert response.status == 200
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert "Content-Length" not in response.headers
        # Server and client share this process; what DuckDB holds for sorting is not counted here.
        tracemalloc.start()
        try:
            while piece := response.read(1 << 16):
                received += len(piece)
            _, highest = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert received > 30_000_000
    assert highest < received / 2


def test_the_arrow_answer_is_sent_in_pieces_too(call):
    with answering(call, {"projection": ["_id"], "sort": {"_id": 1}}, Accept=ARROW) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        with pa.ipc.open_stream(response) as stream:
            assert stream.schema.metadata[b"total"] == str(MANY).encode()
            batches = list(stream)
    assert len(batches) > 10
    assert pa.Table.from_batches(batches)["_id"].to_pylist() == [hex_id(number) for number in range(MANY)]


def test_pages_at_an_offset_are_streamed_too(call):
    page = call(
        "POST", SEARCH, {"projection": ["_id"], "sort": {"_id": 1}, "offset": 10, "limit": 5_000}
    ).json()
    assert (page["offset"], page["limit"], page["count"], page["total"]) == (10, 5_000, 5_000, MANY)
    assert [each["_id"] for each in page["data"]] == [hex_id(number) for number in range(10, 5_010)]


@pytest.mark.slow
def test_a_client_that_leaves_lets_go_of_the_reader(call, server):
    for _ in range(3):
        with answering(call, {}) as response:
            assert response.read(10)
    # Others are served, and stopping the server at the end of the session waits for nobody.
    assert call("POST", SEARCH, {"limit": 1}).json()["total"] == MANY


@pytest.fixture
def big_store(tmp_path):
    operation = OPERATIONS["load_records"]
    numbers = range(10_000)
    table = pa.table(
        {
            "_id": [hex_id(number) for number in numbers],
            "userId": [hex_id(1)] * len(numbers),
            "nodeId": ["ads"] * len(numbers),
            "startDate": ["2025-01-01T00:00:00Z"] * len(numbers),
        }
    )
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        service.send(operation, build(operation, project_id="shop", resource="interactions", source=table))
    with closing(Store.open(tmp_path / "shop.duckdb", "shop")) as store:
        yield store


def search_of(store, body):
    operation = OPERATIONS["search_interactions"]
    return search_interactions(store, from_wire(operation, path={"projectId": "shop"}, body=body))


@pytest.mark.slow
def test_g104_rows_and_total_are_from_one_snapshot(big_store):
    found = search_of(big_store, {"projection": ["_id"]})
    pieces = responses.json_chunks(found, OPERATIONS["search_interactions"].answer)
    text = next(pieces)
    big_store.write(lambda connection: connection.execute("DELETE FROM interactions"))
    page = json.loads(text + b"".join(pieces))
    found.close()
    assert page["total"] == page["count"] == len(page["data"]) == 10_000
    later = search_of(big_store, {})
    assert (later.total, later.count, list(later)) == (0, 0, [])
    later.close()


def test_what_is_held_at_one_time_is_a_batch(big_store):
    found = search_of(big_store, {})
    assert [table.num_rows for table in found] == [2_048, 2_048, 2_048, 2_048, 1_808]
    found.close()


@pytest.mark.slow
def test_a_closed_store_is_told_before_anything_is_sent(big_store):
    big_store.close()
    with pytest.raises(Unavailable):
        search_of(big_store, {})


@pytest.mark.slow
def test_g126_an_answer_that_breaks_off_has_no_end(call, home, server, caplog):
    """Take away what the rows are made of while they are sent."""
    with answering(call, {}) as response:
        response.read(10)
        # The reader of the running search is the only one that is lent.
        broken = _break_readers()
        assert broken
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    deadline = time.monotonic() + TIMEOUT
    while "failed" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "failed" in caplog.text


def _break_readers() -> int:
    import gc

    from attrib_ds.service.store.connections import Connections

    lent = [
        each
        for found in gc.get_objects()
        if isinstance(found, Connections)
        for each in found._open
        if each.is_lent
    ]
    for each in lent:
        each.connection.interrupt()
    return len(lent)
