"""Searches of many pages: complete, in order, in the columns of one answer, whatever the pages are."""

import gc
import itertools
import json
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.law_examples import examples
from support.limited_files import full_disk
from support.scripted_service import RESET, Reply, page
from support.service_records import hex_id
from support.streamed_frames import frames_of
from support.waiting import eventually
from transports.http.test_session import ID, arrow

import attrib_ds as at
from attrib_ds import Project, errors, interaction
from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import Unavailable
from attrib_ds.records.frames import TEXT
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.transport import Options, open_http

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
VISITS = 120


def start_of(number):
    """Return one of few instants: 30 visits at one of them, others in pairs, some a microsecond apart."""
    if number % 4 == 0:
        return BEGIN + timedelta(days=3)
    return BEGIN + timedelta(hours=number % 40, microseconds=number % 3)


def visits():
    numbers = range(VISITS)
    return pa.table(
        {
            "_id": [hex_id(number * 7_919 % 100_003) for number in numbers],
            "userId": [hex_id(1 + number**3 % 90_001) for number in numbers],
            "nodeId": ["ads"] * VISITS,
            "startDate": [start_of(number) for number in numbers],
            "hitCount": [number * 31 % 7 for number in numbers],
            "duration": [None if number % 5 == 0 else number % 3 / 2 for number in numbers],
            "geo.city": [(None, "Oslo", "Århus", "oslo")[number % 4] for number in numbers],
            "isBot": [number % 11 == 0 for number in numbers],
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    with at.connect("shop", path=folder / "shop.duckdb") as shop:
        assert at.load(shop, interactions=visits()).rejected.empty
    return folder


@pytest.fixture(scope="module")
def url(home, embedded):
    with running(home, options=ServerOptions(rate_limits=None)) as address:
        yield address


@pytest.fixture(scope="module")
def remote(home, url):
    """Open the project over HTTP in a options."""
    create_key(home, home / "key.json", projects=["shop"])
    with ExitStack() as stack:
        opened = {}

        def of(size, workers=3, accept=answers.EITHER):
            options = Options(page=size, workers=workers, accept=accept)
            if options not in opened:
                transport = open_http(Remote(url=url, key=home / "key.json"), options=options)
                opened[options] = stack.enter_context(Project("shop", transport))
            return opened[options]

        yield of


@pytest.fixture(scope="module")
def embedded(home, tmp_path_factory):
    """Open a copy of the project that is served."""
    path = shutil.copy(home / "shop.duckdb", tmp_path_factory.mktemp("own"))
    with at.connect("shop", path=path) as shop:
        yield shop


def pulling():
    return [thread for thread in threading.enumerate() if thread.name.startswith("attrib-ds page")]


SORTS = [
    None,
    "startDate",
    ["-startDate", "-_id"],
    "-_id",
    ["-geo.city", "duration"],
    "-duration",
    ["-isBot", "startDate", "-hitCount"],
]


NARROW = [None, ["geo.city"], ["hitCount", "startDate"]]


MANY = settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.large
@pytest.mark.slow
@given(
    size=st.sampled_from([3, 7, 30, 61, 119, 120, 10_000]),
    workers=st.integers(1, 5),
    sort=st.sampled_from(SORTS),
    columns=st.sampled_from(NARROW),
    offset=st.sampled_from([0, 1, 50, 119, 300]),
    limit=st.sampled_from([None, None, 0, 30, 100, 1_000]),
    accept=st.sampled_from([answers.EITHER, answers.JSON]),
    chunks=st.booleans(),
    since=st.sampled_from([None, "2025-01-01T09:00:00.000001Z"]),
    until=st.sampled_from([None, "2025-01-04T00:00:00Z", "2025-01-02T06:00:00.000001Z"]),
)
@MANY
def test_any_pages_give_the_frame_of_the_embedded_project(
    embedded, remote, size, workers, sort, columns, offset, limit, accept, chunks, since, until
):
    asked = {
        "since": since,
        "until": until,
        "sort": sort,
        "columns": columns,
        "offset": offset,
        "limit": limit,
        "bots": None,
    }
    expected = at.search_interactions(embedded, **asked)
    shop = remote(size, workers, accept)
    if chunks:
        frames = list(frames_of("search_interactions", shop, **asked))
        for frame in frames:
            assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
        found = pd.concat(frames, ignore_index=True)
    else:
        found = at.search_interactions(shop, **asked)
        assert found.attrs == expected.attrs
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.slow
@given(
    size=st.sampled_from([4, 10, 40, 10_000]),
    workers=st.integers(1, 5),
    sort=st.sampled_from([None, "_id", "-_id", "interactionCount", "-interactionCount"]),
    bounds=st.sampled_from([{}, {"idFrom": hex_id(20_000)}, {"idTo": hex_id(70_000), "idAfter": hex_id(2)}]),
    offset=st.sampled_from([0, 5]),
    limit=st.sampled_from([None, 20]),
    chunks=st.booleans(),
)
@MANY
def test_any_pages_give_the_users_of_the_embedded_project(
    embedded, remote, size, workers, sort, bounds, offset, limit, chunks
):
    asked = {"columns": ["interactionCount", "fields.email"], "sort": sort}
    asked |= bounds | {"offset": offset, "limit": limit}
    expected = embedded.send("search_users", **asked)
    shop = remote(size, workers)
    answer = (shop.stream if chunks else shop.send)("search_users", **asked)
    assert answer.read().equals(expected.read())
    assert chunks or answer.total == expected.total


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("sort", [None, "startDate", "geo.city"])
@pytest.mark.parametrize("size", [1, 2])
def test_the_smallest_pages_are_enough(embedded, remote, size, sort):
    asked = {"sort": sort, "until": "2025-01-01T06:00:00Z"}
    expected = at.search_interactions(embedded, **asked)
    found = pd.concat(list(frames_of("search_interactions", remote(size), **asked)), ignore_index=True)
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.slow
def test_lists_come_in_pages_too(embedded, remote, home):
    for name in ("list_nodes", "list_event_types", "list_trashed_events"):
        expected = getattr(at, name)(embedded)
        pd.testing.assert_frame_equal(getattr(at, name)(remote(2)), expected)


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("place", ["embedded", "remote"])
@pytest.mark.parametrize("where", [None, interaction("geo.city") == "Atlantis"])
def test_a_file_holds_what_the_frame_does(embedded, remote, tmp_path, place, where):
    shop = embedded if place == "embedded" else remote(30)
    path = tmp_path / "visits.parquet"
    assert at.export_interactions(shop, path, where=where) == path
    expected = at.search_interactions(embedded, where=where)
    written = pd.read_parquet(path)
    assert written["_id"].tolist() == expected["_id"].tolist()
    assert list(written.columns) == list(expected.columns)
    assert len(parquet.read_table(path)) == (
        sum(number % 11 != 0 for number in range(VISITS)) if where is None else 0
    )


def test_a_file_that_fails_leaves_the_old_one(remote, tmp_path):
    path = tmp_path / "visits.parquet"
    path.write_bytes(b"old")
    with pytest.raises(errors.InvalidRequest, match="since"):
        at.export_interactions(remote(7), path, since="soon")
    assert path.read_bytes() == b"old"
    with pytest.raises(errors.InvalidRequest, match="path: the folder .* does not exist"):
        at.export_interactions(remote(7), tmp_path / "none" / "visits.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["visits.parquet"]


def test_who_stops_reading_leaves_nothing_behind(remote):
    frames = frames_of("search_interactions", remote(7))
    next(frames)
    frames.close()
    assert not pulling()


@pytest.mark.slow
def test_who_fails_while_reading_leaves_nothing_behind(remote):
    def fail():
        for _ in frames_of("search_interactions", remote(7)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()
    for thread in pulling():
        # The traceback holds the iterator: pages that were begun end by themselves, and no other begins.
        thread.join(10)
    assert not pulling()


def test_an_embedded_project_can_be_closed_after_a_stream_is_left(tmp_path):
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        at.load(shop, interactions=visits())
        frames = frames_of("search_interactions", shop)
        next(frames)
        frames.close()
        del frames
    # A reader that is left would keep the file.
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        assert len(at.search_interactions(shop, bots=None)) == VISITS


# Against a service that misbehaves


class Shelf:
    """Answers searches of interactions out of a list, which a test changes between two pages."""

    def __init__(self, records):
        self.records = records
        self.before = lambda number, shelf: None
        self.alter = lambda number, reply: reply
        self.served = itertools.count(1)
        self.lock = threading.Lock()

    def __call__(self, asked):
        body = json.loads(asked.body)
        with self.lock:
            number = next(self.served)
            self.before(number, self)
            since, until = (moment(body.get(name)) for name in ("since", "until"))
            found = [
                each
                for each in self.records
                if (since is None or since <= moment(each["startDate"]))
                and (until is None or moment(each["startDate"]) <= until)
            ]
            for name, direction in reversed(body["sort"].items()):
                found.sort(key=lambda each, name=name: each[name], reverse=direction == -1)
            offset = body.get("offset", 0)
            chosen = found[offset : offset + body["limit"]]
            return self.alter(number, page(*chosen, total=len(found), offset=offset, limit=body["limit"]))


def moment(text):
    return None if text is None else datetime.fromisoformat(text)


def record(number, **others):
    start = (BEGIN + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {"_id": hex_id(number), "startDate": start} | others


@pytest.fixture
def shelf(service):
    shelf = Shelf([record(number) for number in range(40)])
    service.script = [shelf]
    return shelf


def ids(frame):
    return [int(each, 16) for each in frame["_id"]]


OLDEST_FIRST = {"sort": "startDate", "columns": ["startDate"]}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_rows_that_come_between_two_pages_move_none_of_the_others(open_shop, shelf, workers):
    def insert(number, shelf):
        shelf.records.insert(0, record(-number % 1_000 + 100_000, startDate="2024-01-01T00:00:00.000Z"))

    shelf.before = insert
    shop = open_shop(page=5, workers=workers)
    found = ids(at.search_interactions(shop, **OLDEST_FIRST))
    assert [each for each in found if each < 1_000] == list(range(40))
    assert len(set(found)) == len(found)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_rows_that_go_between_two_pages_take_none_of_the_others_with_them(open_shop, shelf, workers):
    gone = iter(range(100))

    def delete(number, shelf):
        if number > 1:
            first = next(gone)
            shelf.records[:] = [each for each in shelf.records if int(each["_id"], 16) != first]

    shelf.before = delete
    shop = open_shop(page=5, workers=workers)
    found = ids(at.search_interactions(shop, **OLDEST_FIRST))
    assert set(range(next(gone), 40)) <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.slow
def test_rows_that_go_out_of_one_long_instant_take_none_of_the_others_with_them(open_shop, shelf):
    for each in shelf.records:
        each["startDate"] = "2025-01-01T00:00:00.000Z"

    def delete(number, shelf):
        if number == 4:
            del shelf.records[:2]

    shelf.before = delete
    found = ids(at.search_interactions(open_shop(page=5), **OLDEST_FIRST))
    assert set(range(2, 40)) <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.slow
def test_a_service_that_gives_shorter_pages_than_asked_for_gives_all(open_shop, shelf):
    shelf.alter = lambda number, reply: page(*reply.body["data"][:3], total=reply.body["total"])
    assert ids(at.search_interactions(open_shop(page=8), **OLDEST_FIRST)) == list(range(40))


@pytest.mark.parametrize("records", [5, 10, 14])
@pytest.mark.parametrize("missing", [1, 2])
def test_a_total_that_is_too_small_loses_no_record(open_shop, shelf, records, missing):
    shelf.alter = lambda number, reply: Reply(body=reply.body | {"total": reply.body["total"] - missing})
    shelf.records = shelf.records[:records]
    assert ids(at.search_interactions(open_shop(page=4), **OLDEST_FIRST)) == list(range(records))


def test_the_size_of_a_page_as_its_total_loses_no_record(open_shop, shelf):
    shelf.alter = lambda number, reply: Reply(body=reply.body | {"total": reply.body["count"]})
    shelf.records = shelf.records[:14]
    assert ids(at.search_interactions(open_shop(page=5), **OLDEST_FIRST)) == list(range(14))
    shelf.records = [record(number) for number in range(40)]
    with pytest.raises(errors.ServiceFailure, match="records arrive faster than they can be read"):
        at.search_interactions(open_shop(page=5), **OLDEST_FIRST)


def test_a_slice_that_lacks_rows_once_is_read_again(open_shop, shelf):
    def lose(number, reply):
        # The second page tells of less than the first page of its slice promised.
        return page(*reply.body["data"][:1], total=1) if number == 3 else reply

    shelf.alter = lose
    shelf.records = shelf.records[:14]
    assert ids(at.search_interactions(open_shop(page=5), **OLDEST_FIRST)) == list(range(14))


def test_rows_that_no_page_tells_of_are_missed_at_the_end(open_shop, shelf):
    def lose(number, reply):
        # The page after the first one, which promised nine more; from the last record read on, there are ten.
        return page(*reply.body["data"][:1], total=1) if reply.body["total"] == 10 else reply

    shelf.alter = lose
    shelf.records = shelf.records[:14]
    with pytest.warns(errors.InputWarning, match="9 of 14 records are missing"):
        at.search_interactions(open_shop(page=5), **OLDEST_FIRST)


@pytest.mark.large
@pytest.mark.slow
def test_rows_that_stay_missing_are_told(open_shop, shelf):
    def lose(number, reply):
        promised = reply.body["total"]
        records = [each for each in reply.body["data"] if int(each["_id"], 16) not in (31, 32)]
        return page(*records, total=promised)

    shelf.alter = lose
    with pytest.warns(errors.InputWarning, match=r"2 of \d+ records are missing"):
        at.search_interactions(open_shop(page=5), **OLDEST_FIRST)
    with pytest.warns(errors.InputWarning, match=r"2 of \d+ records are missing"):
        list(frames_of("search_interactions", open_shop(page=5), **OLDEST_FIRST))


@pytest.mark.parametrize("wrong", ["order", "bounds"])
def test_a_service_that_does_not_do_as_asked_is_told(open_shop, shelf, wrong):
    def disobey(number, reply):
        records = reply.body["data"]
        records = records[::-1] if wrong == "order" else [record(0), *records[1:]]
        # Pages are asked for side by side: the fourth may be one with a single record.
        is_wrong = number >= 4 and len(records) > 1
        return page(*records, total=reply.body["total"]) if is_wrong else reply

    shelf.alter = disobey
    with pytest.raises(errors.ServiceFailure, match="ignores the requested order or bounds"):
        at.search_interactions(open_shop(page=5), **OLDEST_FIRST)


@pytest.mark.slow
def test_troubles_in_the_middle_are_got_over(open_shop, shelf, service, time):
    troubles = {
        2: Reply(401, {"statusCode": 401, "message": "expired"}),
        4: Reply(429, {"statusCode": 429, "message": "slower"}, {"Retry-After": "7"}),
        6: Reply(503, {"message": "later"}),
        8: RESET,
        10: Reply(body=page(record(1)).body, cut=20),
        12: Reply(body=b'{"total": 40, "data": [{"_id": "'),
    }
    shelf.alter = lambda number, reply: troubles.get(number, reply)
    shop = open_shop(page=4, workers=2)
    assert ids(at.search_interactions(shop, **OLDEST_FIRST)) == list(range(40))
    assert len(service.asked_tokens) == 2
    assert sum(time.slept) >= 7


def test_a_record_that_is_deleted_while_pages_are_read_is_not_missing(open_shop, shelf):
    def delete(number, shelf):
        if number == 2:
            del shelf.records[-1]

    shelf.before = delete
    shelf.records = shelf.records[:14]
    assert ids(at.search_interactions(open_shop(page=5), **OLDEST_FIRST)) == list(range(13))


def test_a_refusal_in_the_middle_is_told_and_ends_all(open_shop, shelf):
    forbidden = Reply(403, {"statusCode": 403, "message": "not any more"})
    shelf.alter = lambda number, reply: forbidden if number >= 6 else reply
    with pytest.raises(errors.Forbidden, match="not any more"):
        at.search_interactions(open_shop(page=3), **OLDEST_FIRST)
    assert not pulling()


def test_a_total_that_keeps_growing_ends_in_an_error(open_shop, service):
    def answer(asked):
        parts = dict(part.split("=") for part in asked.path.partition("?")[2].split("&"))
        offset, limit = int(parts["offset"]), int(parts["limit"])
        nodes = [{"_id": f"n{number:06}"} for number in range(offset, offset + limit)]
        return page(*nodes, total=offset + 2 * limit, offset=offset)

    service.script = [answer]
    with pytest.raises(errors.ServiceFailure, match=r"records arrive faster than they can be read"):
        at.list_nodes(open_shop(page=5))
    # Twice the first total and one page more, in pages of 5.
    assert len(service.asked) < 10


def test_a_walk_by_time_that_never_ends_is_an_error(open_shop, service):
    def answer(asked):
        body = json.loads(asked.body)
        since = moment(body.get("since"))
        start = 0 if since is None else int((since - BEGIN).total_seconds()) // 60
        return page(*(record(number) for number in range(start, start + body["limit"])), total=15)

    service.script = [answer]
    with pytest.raises(errors.ServiceFailure, match=r"records arrive faster than they can be read"):
        at.search_interactions(open_shop(page=5, workers=1), **OLDEST_FIRST)


def test_a_record_that_the_service_repeats_is_returned_once_with_a_warning(open_shop, shelf):
    def repeat(number, reply):
        again = [
            each | {"_id": hex_id(0)} if each["_id"] == hex_id(30) else each for each in reply.body["data"]
        ]
        return page(*again, total=reply.body["total"], offset=reply.body["offset"])

    shelf.alter = repeat
    shop = open_shop(page=5)
    with pytest.warns(errors.InputWarning, match=r"_id '0{24}'.*`attrib-ds check shop --repair`"):
        visits = at.search_interactions(shop, **OLDEST_FIRST)
    assert visits["_id"].is_unique
    assert hex_id(0) in visits["_id"].tolist()
    with pytest.warns(errors.InputWarning, match="repeats records"):
        assert at.search_interactions(open_shop(page=100), **OLDEST_FIRST)["_id"].is_unique


def test_a_list_that_moves_while_it_is_read_is_read_again(open_shop, service):
    nodes = [{"_id": f"n{number:02}", "name": f"N{number}"} for number in range(20)]
    served = itertools.count(1)

    def answer(asked):
        if next(served) == 2:
            del nodes[0]
        parts = dict(part.split("=") for part in asked.path.partition("?")[2].split("&"))
        offset, limit = int(parts["offset"]), int(parts["limit"])
        return page(*nodes[offset : offset + limit], total=len(nodes), offset=offset)

    service.script = [answer]
    found = at.list_nodes(open_shop(page=5))["_id"].tolist()
    assert found == [f"n{number:02}" for number in range(1, 20)]


@pytest.mark.slow
def test_fields_that_are_not_known_are_kept_and_told_once(open_shop, shelf):
    for number, each in enumerate(shelf.records):
        if number in (17, 30):
            each |= {"zeal": {"deep": [1.50]}, "geo": {"planet": "Earth"}}
    shop = open_shop(page=5)
    with pytest.warns(errors.UnknownFields) as caught:
        frame = at.search_interactions(shop, **OLDEST_FIRST)
    assert len(caught) == 1
    assert "geo.planet, zeal; they are the last columns" in str(caught[0].message)
    assert list(frame.columns) == ["_id", "startDate", "geo.planet", "zeal"]
    assert frame["zeal"].dtype == TEXT
    assert frame["zeal"].dropna().to_dict() == {17: '{"deep": [1.5]}', 30: '{"deep": [1.5]}'}
    with pytest.warns(errors.UnknownFields, match="they are left out") as caught:
        frames = list(frames_of("search_interactions", shop, **OLDEST_FIRST))
    assert len(caught) == 1
    assert {tuple(each.columns) for each in frames} == {("_id", "startDate")}


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interruption_while_pages_are_awaited_leaves_nothing_behind(open_shop, shelf):
    """Let the user press Ctrl-C while the service is silent; the page that is on its way is cut off after."""
    main = threading.main_thread().ident

    def interrupt(number, reply):
        if number == 6:
            signal.pthread_kill(main, signal.SIGINT)
        return reply

    shelf.alter = interrupt
    with pytest.raises(KeyboardInterrupt):
        at.search_interactions(open_shop(page=3, workers=2), **OLDEST_FIRST)
    # Who could ask for more has ended.
    assert not pulling()


def test_a_worker_that_waits_stops_when_nobody_wants_its_page(open_shop, shelf, time):
    later = Reply(429, {"statusCode": 429, "message": "slower"}, {"Retry-After": "100"})
    is_waiting, searches, naps = threading.Event(), [], []

    def sleep(seconds):
        naps.append(seconds)
        is_waiting.set()
        # Until the caller closes the search.
        assert searches[0].stop.wait(60)

    time.sleep = sleep
    shelf.alter = lambda number, reply: later if number > 3 else reply
    shop = open_shop(page=3, workers=1)
    begin = shop.transport._search
    shop.transport._search = lambda operation: searches.append(begin(operation)) or searches[-1]
    frames = frames_of("search_interactions", shop, **OLDEST_FIRST)
    next(frames)
    next(frames)
    assert is_waiting.wait(60)
    frames.close()
    # Neither the wait of the worker nor the pages behind it hold the caller up.
    assert not pulling()
    assert sum(naps) < 90


@pytest.mark.slow
def test_no_more_pages_wait_than_two_for_each_worker(open_shop, shelf, service):
    shelf.records = [record(number) for number in range(400)]
    frames = frames_of("search_interactions", open_shop(page=4, workers=2), **OLDEST_FIRST)
    for _ in range(2):
        next(frames)

    def are_idle():
        running = sys._current_frames()
        return all(running[thread.ident].f_code.co_name == "_worker" for thread in pulling())

    # The workers have no page to read until the caller takes one.
    eventually(are_idle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(service.asked) < 20
    frames.close()


@pytest.mark.slow
def test_pages_are_asked_for_by_the_contract(open_shop, shelf, service):
    at.search_interactions(open_shop(page=5), **OLDEST_FIRST)
    path = OPERATIONS["search_interactions"].path.format(projectId="shop")
    assert {each.path for each in service.asked} == {f"/api/v1{path}"}
    bodies = [json.loads(each.body) for each in service.asked]
    # One asks where the last record lies, and periods do the rest.
    assert sum(body.get("offset", 0) != 0 for body in bodies) == 1


@pytest.mark.slow
def test_no_page_is_fetched_twice(open_shop, shelf, service):
    shop = open_shop(page=5, workers=1)
    for _ in range(2):
        service.asked.clear()
        assert ids(at.search_interactions(shop, **OLDEST_FIRST)) == list(range(40))
        bodies = [request.body for request in service.asked]
        assert len(set(bodies)) == len(bodies)


def test_a_first_page_of_arrow_is_not_read_when_all_comes_in_one_answer(open_shop, service):
    records = pa.table({"_id": [hex_id(number) for number in range(20)]})

    def answer(asked):
        limit = json.loads(asked.body).get("limit")
        sink = pa.BufferOutputStream()
        metadata = {"total": "20", "offset": "0"} | ({} if limit is None else {"limit": str(limit)})
        with pa.ipc.new_stream(sink, records.schema.with_metadata(metadata)) as writer:
            writer.write_table(records.slice(0, limit).replace_schema_metadata(metadata))
        return Reply(body=sink.getvalue().to_pybytes(), media=answers.ARROW)

    service.script = [answer]
    shop = open_shop(page=5)
    for requests in (2, 1):
        service.asked.clear()
        assert ids(at.search_interactions(shop, columns=["geo.city"])) == list(range(20))
        assert len(service.asked) == requests
    assert json.loads(service.asked[0].body).get("limit") is None


IDS_ON_DISK = [f"{number:024x}" for number in range(20_000)]


def many(total=None):
    metadata = {"total": str(len(IDS_ON_DISK))} if total is None else {}
    starts = pa.array([0] * len(IDS_ON_DISK), pa.timestamp("us", "UTC"))
    return arrow(pa.table({"_id": IDS_ON_DISK, "startDate": starts}).replace_schema_metadata(metadata))


@pytest.fixture(params=[8_192, 1_000_000], ids=["buffer of Python 3.11", "larger buffer"])
def buffered(request, monkeypatch):
    """Let temporary files have a buffer, which is larger from Python 3.14 on."""
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(tempfile.TemporaryFile, buffering=request.param))


def test_a_spool_of_records(open_shop, service, buffered):
    # The first answer shows that the service offers Arrow; the second goes to disk.
    service.script = [arrow(pa.table({"_id": [ID]}).replace_schema_metadata({"total": "1"})), many()]
    shop = open_shop()
    at.search_interactions(shop, limit=1)
    with (
        full_disk(room=10_000),
        pytest.raises(Unavailable, match="temporary folder .* cannot be written") as caught,
    ):
        at.search_interactions(shop)
    assert "TMPDIR" in str(caught.value)
    # Once, since the disk stays full.
    assert len(service.asked) == 2


def test_a_file_of_users(open_shop, service, tmp_path, buffered):
    service.script = [Reply(body=b"_id\n" * 100_000, media="text/csv")]
    shop = open_shop()
    with full_disk(room=10_000), pytest.raises(Unavailable, match="temporary folder .* cannot be written"):
        at.export_users(shop, tmp_path / "users.csv", columns=["_id"])
    assert list(tmp_path.iterdir()) == []
    assert [asked.path.endswith("/users/export") for asked in service.asked].count(True) == 1


@pytest.mark.parametrize("room", [0, 10_000])
def test_a_parquet_file(open_shop, service, tmp_path, room):
    service.script = [arrow(pa.table({"_id": [ID]}).replace_schema_metadata({"total": "1"})), many()]
    shop = open_shop(page=len(IDS_ON_DISK))
    at.search_interactions(shop, limit=1)
    with full_disk(room=room), pytest.raises(Unavailable, match="cannot be written"):
        at.export_interactions(shop, tmp_path / "visits.parquet", limit=len(IDS_ON_DISK))
    assert list(tmp_path.iterdir()) == []
