"""What is accepted is in the queue before the tables have it, and never lost or doubled (G-128 to G-131, G-235)."""

import os
import shutil
import sqlite3
import struct
import threading
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import duckdb
import msgspec
import pytest
from support.held_writer import held
from support.order_events import declare_order, order
from support.queued_records import queued
from support.service_records import send, uuid

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.interactions import read_hit
from attrib_ds.errors import Conflict, InvalidRequest, ServiceFailure, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.collection.hits import pending_hit
from attrib_ds.service.events import ingestion, processing
from attrib_ds.service.events.ingestion import EventIntake, raw_event
from attrib_ds.service.store.files import earlier_log_of, queue_files, queue_of
from attrib_ds.service.store.queue import EVENTS, Queue, read_accepted, read_earlier_log
from attrib_ds.service.store.tables import Uuids

ROWS = "SELECT nonce, _id FROM raw_events ORDER BY nonce"
AUDITED = "SELECT account, subject FROM audit WHERE operation = 'create_event'"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "running" / "shop.duckdb"
    with closing(Service.open("shop", file)) as service:
        declare_order(service)
    return file


@pytest.fixture
def service(path):
    opened = Service.open("shop", path)
    yield opened
    opened.close()


def accept(service, *nonces):
    return {nonce: send(service, "create_event", **order(nonce)).value for nonce in nonces}


def request(nonce, operation="create_event", **envelope):
    return build(OPERATIONS[operation], project_id="shop", **order(nonce, **envelope))


def rows(service, query=ROWS):
    with service._store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def killed(service, path, *nonces):
    """Accept events and copy the files before the tables have them; return the copy and the ids."""
    copy = path.parent.with_name("killed")
    with held(service):
        ids = accept(service, *nonces)
        shutil.copytree(path.parent, copy)
    return copy / path.name, ids


def killed_after_the_move(service, path, *nonces):
    """As :func:`killed`, but after the transaction that moves the events, and before the queue drops them."""
    copy, ids = killed(service, path, *nonces)
    send(service, "get_settings")
    for file in path.parent.iterdir():
        if file not in queue_files(path):
            shutil.copy2(file, copy.parent)
    return copy, ids


# -- the database ----------------------------------------------------------------------------------


def test_what_fails_is_not_in_the_queue():
    with closing(Queue(None, {})) as queue:
        with pytest.raises(KeyError), queue.transaction():
            queue.put(EVENTS, "a", b"1")
            raise KeyError
        with queue.transaction():
            assert queue.put(EVENTS, "a", b"2")
            assert queue.find(EVENTS, "a") == b"2"
        assert queue.first(EVENTS, 9) == [(1, b"2")]


def test_numbers_go_on_after_those_that_the_tables_have(tmp_path):
    file = tmp_path / "shop.duckdb"
    with closing(Queue(file, {})) as queue:
        for content in (b"[1,0]", b"[2,0]", b"[3,0]"):
            with queue.transaction():
                queue.put(EVENTS, None, content)
        queue.drop(EVENTS, 2)
        assert queue.first(EVENTS, 9) == [(3, b"[3,0]")]
    assert read_accepted(file) == {"events": 3, "hits": 0}
    with closing(Queue(file, {EVENTS: 7})) as queue:
        # An older copy of the queue: the tables have its records, and later ones.
        assert queue.first(EVENTS, 9) == []
        with queue.transaction():
            queue.put(EVENTS, "a", b"[8,0]")
        assert queue.first(EVENTS, 9) == [(8, b"[8,0]")]
        assert queue.accepted == {"events": 8, "hits": 0}


def test_the_files_of_the_queue_are_private(service, path):
    accept(service, "a")
    assert {file.name for file in queue_files(path)} <= {file.name for file in path.parent.iterdir()}
    assert {file.stat().st_mode & 0o777 for file in queue_files(path)} == {0o600}


def test_a_shared_queue_becomes_private(path):
    queue_of(path).chmod(0o644)
    Service.open("shop", path).close()
    assert queue_of(path).stat().st_mode & 0o777 == 0o600


def test_every_commit_is_flushed(service):
    connection = service._store.queue._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    # FULL: the log is flushed after each transaction.
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    # On macOS, also out of the cache of the disk.
    assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)


def test_a_queue_that_cannot_be_opened_leaves_no_connection(path, monkeypatch):
    connections, connect = [], sqlite3.connect

    def recorded(*arguments, **options):
        connections.append(connect(*arguments, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    with (
        closing(Queue(path, {}, is_exclusive=True)),
        pytest.raises(ServiceFailure, match="the queue of the project cannot be opened"),
    ):
        Queue(path, {}, is_exclusive=True)
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connections[1].execute("SELECT 1")


# -- a killed process -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_process_loses_no_accepted_event(service, path):
    copy, ids = killed(service, path, "a", "b", "c")
    assert [raw["nonce"] for raw, _ in queued(copy, "events")] == ["a", "b", "c"]
    with closing(Service.open("shop", copy)) as opened:
        assert send(opened, "create_event", **order("b")).value == ids["b"]
        assert send(opened, "check_project").read().num_rows == 0
        assert rows(opened) == sorted(ids.items())
        assert rows(opened, "SELECT _id FROM events ORDER BY _id") == sorted((id,) for id in ids.values())
    assert queued(copy, "events") == []


@pytest.mark.slow
def test_events_are_not_doubled_if_the_process_is_killed_before_the_queue_drops_them(service, path):
    copy, ids = killed_after_the_move(service, path, "a", "b")
    assert len(queued(copy, "events")) == 2
    with closing(Service.open("shop", copy)) as opened:
        assert accept(opened, "a") == {"a": ids["a"]}
        assert rows(opened) == sorted(ids.items())
        assert rows(opened, "SELECT count(*) FROM events") == [(2,)]


@pytest.mark.slow
def test_an_audit_entry_is_not_doubled_if_the_queue_kept_it(service, path):
    copy = path.parent.with_name("killed")
    with held(service):
        id = service.send(OPERATIONS["create_event"], request("a"), "client").value
        shutil.copytree(path.parent, copy)
    send(service, "get_settings")
    for file in path.parent.iterdir():
        if file not in queue_files(path):
            shutil.copy2(file, copy)
    with closing(Service.open("shop", copy / path.name)) as opened:
        assert rows(opened, AUDITED) == [("client", id)]
    assert rows(service, AUDITED) == [("client", id)]


@pytest.mark.slow
def test_a_repeat_is_audited_and_survives_a_kill(service, path):
    id = service.send(OPERATIONS["create_event"], request("a"), "client").value
    send(service, "get_settings")
    copy = path.parent.with_name("killed")
    with held(service):
        assert service.send(OPERATIONS["create_event"], request("a"), "client").value == id
        shutil.copytree(path.parent, copy)
    with closing(Service.open("shop", copy / path.name)) as opened:
        send(opened, "get_settings")
        assert rows(opened) == [("a", id)]
        assert rows(opened, f"SELECT count(*) FROM ({AUDITED})") == [(2,)]


def test_an_erased_event_does_not_come_back_from_the_queue(service, path):
    copy, _ = killed(service, path, "a")
    send(service, "get_settings")
    ((user,),) = rows(service, "SELECT userId FROM events")
    send(service, "delete_user", id=user, mode="delete")
    for file in path.parent.iterdir():
        if file not in queue_files(path):
            shutil.copy2(file, copy.parent)
    with closing(Service.open("shop", copy)) as opened:
        send(opened, "get_settings")
        assert rows(opened, "SELECT count(*) FROM events") == [(0,)]
        assert rows(opened, "SELECT count(*) FROM raw_events WHERE nonce = 'a'") == [(0,)]


@pytest.mark.slow
def test_a_killed_process_loses_no_awaited_event(service, path):
    copy = path.parent.with_name("killed")
    with held(service):
        id = (
            service.start(OPERATIONS["create_event_sync"], request("a", "create_event_sync")).result(30).value
        )
        shutil.copytree(path.parent, copy)
    with closing(Service.open("shop", copy / path.name)) as opened:
        assert send(opened, "get_event", id=id).read()["_id"].to_pylist() == [id]


def test_read_only_a_project_lacks_what_only_the_queue_has(service, path):
    copy, ids = killed(service, path, "a")
    before = {file: file.read_bytes() for file in copy.parent.iterdir() if not file.name.endswith("-shm")}
    with closing(Service.open("shop", copy, read_only=True)) as opened:
        assert rows(opened) == []
    assert {file: file.read_bytes() for file in before} == before
    with closing(Service.open("shop", copy)) as opened:
        send(opened, "get_settings")
        assert rows(opened) == sorted(ids.items())


# -- the two files are one project --------------------------------------------------------------------


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("left", [0, 0.5, 0.9], ids=["emptied", "half", "without its end"])
def test_g235_a_cut_log_of_the_queue_is_refused(service, path, left, read_only):
    copy, _ = killed(service, path, "a", "b")
    _, log, _ = queue_files(copy)
    log.write_bytes(log.read_bytes()[: int(left * log.stat().st_size)])
    with pytest.raises(Unavailable, match=r"lacks [12] of \d+ acknowledged writes"):
        Service.open("shop", copy, read_only=read_only)


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
def test_g235_a_removed_queue_is_refused_until_the_counter_is_removed(service, path, read_only):
    copy, _ = killed(service, path, "a", "b")
    for file in queue_files(copy):
        file.unlink()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"lacks 2 of \d+ .* remove '.*shop.duckdb.writes'"):
            Service.open("shop", copy, read_only=read_only)
    copy.with_name("shop.duckdb.writes").unlink()
    with closing(Service.open("shop", copy, read_only=read_only)) as opened:
        assert rows(opened) == []


@pytest.mark.slow
def test_g235_an_older_queue_is_refused(service, path):
    copy, _ = killed(service, path, "a")
    with held(service):
        accept(service, "b", "c")
        for file in path.parent.iterdir():
            if file not in queue_files(path):
                shutil.copy2(file, copy.parent)
    with pytest.raises(Unavailable, match=r"lacks 2 of \d+ acknowledged writes"):
        Service.open("shop", copy)


@pytest.mark.slow
def test_g235_a_queue_without_its_project_is_refused(service, path):
    copy, ids = killed(service, path, "a", "b")
    kept = copy.read_bytes()
    copy.unlink()
    with pytest.raises(
        Unavailable, match="is missing, and its queue '.*' has 2 accepted records. Put the file"
    ):
        Service.open("shop", copy)
    copy.write_bytes(kept)
    with closing(Service.open("shop", copy)) as opened:
        send(opened, "get_settings")
        assert rows(opened) == sorted(ids.items())


def test_a_project_whose_file_was_removed_begins_anew(path):
    path.unlink()
    with closing(Service.open("shop", path)) as opened:
        declare_order(opened)
        accept(opened, "a")


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"SQLite" + file.read_bytes()[6:100]),
        lambda file: file.write_bytes(b"not a database" * 500),
        lambda file: file.write_bytes(file.read_bytes()[:5_000]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"content BLOB", b"Content BLOB")),
    ],
    ids=["header alone", "other content", "cut", "other tables"],
)
def test_a_damaged_queue_is_refused_with_advice(path, damage, read_only):
    damage(queue_of(path))
    with pytest.raises(Unavailable, match="the queue '.*' cannot be read: .*backup .* remove it") as refusal:
        Service.open("shop", path, read_only=read_only)
    assert "\n" not in refusal.value.message
    queue_of(path).unlink()
    Service.open("shop", path, read_only=read_only).close()


def test_a_queue_that_another_program_has_open_is_not_called_damaged(path):
    """No message advises removing the file that holds accepted records."""
    queue = queue_of(path)
    queue.rename(queue.with_name("aside"))
    # SQLite opens no folder, as it opens no file on Windows that is held.
    queue.mkdir()
    with pytest.raises(
        Unavailable, match="queue '.*' cannot be opened: .*another program has it open"
    ) as refusal:
        Service.open("shop", path)
    assert "remove" not in refusal.value.message


@pytest.mark.slow
def test_a_file_copied_alone_is_complete(service, path, tmp_path):
    ids = accept(service, "a")
    service.close()
    copy = tmp_path / "copy.duckdb"
    shutil.copy(path, copy)
    with closing(Service.open("shop", copy)) as opened:
        assert accept(opened, "a", "b")["a"] == ids["a"]
    with closing(Service.open("shop", copy)) as opened:
        assert len(rows(opened)) == 2


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_can_be_read(service, path):
    accept(service, "a")
    service.close()
    path.parent.chmod(0o500)
    try:
        with closing(Service.open("shop", path, read_only=True)) as opened:
            assert len(rows(opened)) == 1
    finally:
        path.parent.chmod(0o700)


# -- repeats ------------------------------------------------------------------------------------------


def test_g130_a_repeat_is_answered_with_the_id_of_the_event_in_the_queue(service):
    with held(service):
        ids = accept(service, "a")
        assert accept(service, "a") == ids
        other = order("a", data={"mail": "other@example.com"})
        assert send(service, "create_event", **other).value == ids["a"]
    assert service._ingestion.nonce_conflicts == 1
    with pytest.raises(Conflict):
        send(service, "create_event_sync", **other)
    assert send(service, "create_event_sync", **order("a")).value == ids["a"]
    assert rows(service) == [("a", ids["a"])]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["delete", "anonymise"])
def test_g210_nonces_of_erased_events_are_known(service, mode):
    id = send(service, "create_event_sync", **order("a")).value
    user = send(service, "get_event", id=id).read()["userId"].to_pylist()[0]
    send(service, "delete_user", id=user, mode=mode)
    first = accept(service, "a")
    assert accept(service, "a") == first
    assert (first["a"] == id) is (mode == "anonymise")
    assert service._ingestion.nonce_conflicts == 0
    send(service, "get_settings")
    assert rows(service, "SELECT count(*) FROM raw_events WHERE nonce = 'a'") == [(0,)]


@pytest.mark.large
@pytest.mark.slow
def test_a_new_queue_knows_the_nonces_of_the_tables(service, path):
    ids = {
        nonce: send(service, "create_event_sync", **order(nonce)).value
        for nonce in ("a", "é" * 256, "erased")
    }
    user = send(service, "get_event", id=ids["erased"]).read()["userId"].to_pylist()[0]
    other = send(service, "create_event_sync", **order("b", data={"mail": "ben@example.com"})).value
    send(service, "delete_user", id=user, mode="delete")
    again = accept(service, "a")
    service.close()
    for file in queue_files(path):
        file.unlink(missing_ok=True)
    with closing(Service.open("shop", path)) as opened:
        assert accept(opened, "b", "a") == {"b": other} | again
        assert rows(opened, "SELECT nonce FROM raw_events WHERE nonce NOT LIKE 'erased %'") == [("b",)]


@pytest.mark.large
@pytest.mark.slow
def test_an_older_queue_learns_the_nonces_that_it_lacks(service, path, tmp_path):
    service.close()
    for file in queue_files(path):
        if file.exists():
            shutil.copy2(file, tmp_path)
    with closing(Service.open("shop", path)) as opened:
        ids = accept(opened, "a")
        send(opened, "get_settings")
    for file in queue_files(path):
        file.unlink(missing_ok=True)
        if (tmp_path / file.name).exists():
            shutil.copy2(tmp_path / file.name, file)
    with closing(Service.open("shop", path)) as opened:
        assert accept(opened, "a") == ids


def test_a_served_batch_is_answered_before_the_tables_have_it(path):
    with closing(Service.open("shop", path, is_served=True)) as service, held(service):
        (id,) = send(service, "create_events", events=[order_body("a")], wait=True).value
        assert rows(service) == []
        assert queued(path, "events")[0][0]["_id"] == id


def order_body(nonce):
    sent = {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": {"mail": "anna@example.com"}}
    return {**sent, "eventDate": "2025-01-31T12:00:00Z"}


def test_g132_a_repeat_is_answered_with_the_outcome_of_the_event_in_the_queue(service):
    invalid = order("a", event_type="unknown")
    id = send(service, "create_event", **invalid).value
    with pytest.raises(InvalidRequest, match="there is no event type 'unknown'") as refusal:
        send(service, "create_event_sync", **invalid)
    assert refusal.value.details[0]["eventId"] == id


def test_two_services_of_one_process_share_the_queue(service, path):
    with closing(Service.open("shop", path)) as other:
        with held(service):
            ids = accept(service, "a", "b")
            ids |= accept(other, "c")
            assert accept(other, "a") == {"a": ids["a"]}
        for each in (service, other):
            send(each, "get_settings")
        assert rows(service) == rows(other) == sorted(ids.items())
        assert rows(other, "SELECT count(*) FROM events") == [(3,)]


# -- group commit and moving --------------------------------------------------------------------------


def test_other_operations_find_the_events_accepted_before_them(service):
    # Nothing moves them unless somebody asks.
    service._ingestion.intake._seconds_to_gather = 60
    ids = accept(service, "a")
    assert send(service, "get_raw_event", id=ids["a"]).read()["nonce"].to_pylist() == ["a"]
    assert send(service, "get_event", id=ids["a"]).read().num_rows == 1
    accept(service, "b")
    assert send(service, "search_users", columns=["_id"]).total == 1


@pytest.mark.large
@pytest.mark.slow
def test_a_backup_has_what_was_accepted_before_it(service, tmp_path):
    ids = accept(service, "a", "b")
    hit = read_hit({"projectId": "shop", "pageUrl": "https://shop.example/"})
    service.start_hit(pending_hit(hit, id=uuid(1), tracker_id="t", user_agent="")).result(30)
    file = send(service, "back_up_project").value
    copy = tmp_path / "shop.duckdb"
    copy.write_bytes(b"".join(file.pieces))
    file.close()
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened) == sorted(ids.items())
        assert rows(opened, "SELECT id FROM hits") == [(uuid(1),)]


def test_an_awaited_event_of_a_server_is_answered_before_the_tables_have_it(service):
    operation = OPERATIONS["create_event_sync"]
    with held(service):
        id = service.start(operation, request("a", operation.name)).result(10).value
        unknown = service.start(operation, request("b", operation.name, event_type="unknown"))
        with pytest.raises(InvalidRequest, match="there is no event type 'unknown'") as refusal:
            unknown.result(10)
        assert rows(service) == []
    # Whoever asks finds them.
    assert send(service, "get_event", id=id).read().num_rows == 1
    trashed = send(service, "list_trashed_events").read().to_pylist()
    assert [row["_id"] for row in trashed] == [refusal.value.details[0]["eventId"]]


def test_the_tables_have_an_awaited_event_when_an_embedded_call_returns(service):
    id = send(service, "create_event_sync", **order("a")).value
    assert rows(service, "SELECT _id FROM events") == [(id,)]
    assert service.tables().events.count().to_pyarrow().as_py() == 1


def test_a_start_leaves_repeats_and_restorations_to_a_thread(service):
    operation = OPERATIONS["create_event_sync"]
    id = service.start(operation, request("a", operation.name)).result(30).value
    assert service.start(operation, request("a", operation.name)).result(30) is None
    with service._lock.exclusive(timeout=30):
        assert service.start(operation, request("a", operation.name)) is None
    # The start has released the lock.
    assert isinstance(service.start(operation, request("a", operation.name)), Future)
    assert send(service, "get_event", id=id).read().num_rows == 1


@pytest.mark.slow
def test_g133_a_timeout_says_what_to_do(service, monkeypatch):
    monkeypatch.setattr(ingestion, "_SECONDS_TO_WAIT", 0.1)
    with held(service):
        with pytest.raises(ServiceFailure, match="will be processed") as failure:
            send(service, "create_event_sync", **order("a"))
        with pytest.raises(Conflict, match="is still being processed"):
            send(service, "create_event_sync", **order("a"))
    monkeypatch.setattr(ingestion, "_SECONDS_TO_WAIT", 30)
    id = send(service, "create_event_sync", **order("a")).value
    assert failure.value.details == [{"eventId": id}]


def test_requests_that_wait_share_a_flush(service, monkeypatch):
    sizes, may_go_on = [], threading.Event()
    put = EventIntake._put

    def watched(self, items):
        sizes.append(len(items))
        may_go_on.wait(30)
        return put(self, items)

    monkeypatch.setattr(EventIntake, "_put", watched)
    operation = OPERATIONS["create_event"]
    futures = [service.start(operation, request("first"))]
    while not sizes:
        pass
    futures += [service.start(operation, request(f"n{number}")) for number in range(20)]
    may_go_on.set()
    assert len({future.result(30).value for future in futures}) == 21
    assert sizes == [1, 20]


def test_a_request_that_cannot_be_stored_fails_alone(service, monkeypatch):
    put = EventIntake._put

    def failing(self, items):
        if any(record["nonce"] == "bad" for sent in items for record in sent.records):
            raise sqlite3.OperationalError("broken")
        return put(self, items)

    monkeypatch.setattr(EventIntake, "_put", failing)
    with ThreadPoolExecutor(8) as pool:
        sent = {nonce: pool.submit(accept, service, nonce) for nonce in ("good", "bad", "last")}
        with pytest.raises(ServiceFailure, match="cannot be written: broken"):
            sent.pop("bad").result(30)
        assert all(future.result(30) for future in sent.values())
    send(service, "get_settings")
    assert [nonce for nonce, _ in rows(service)] == ["good", "last"]


def test_g140_more_than_may_wait_is_refused(service):
    service._ingestion.intake._most_waiting = 3
    with held(service):
        ids = accept(service, "a", "b", "c")
        with pytest.raises(Unavailable, match="3 events wait to be stored; try again later"):
            accept(service, "d")
    send(service, "get_settings")
    assert rows(service) == sorted(ids.items())
    accept(service, "d")


def test_many_events_are_moved_in_portions(service, monkeypatch):
    service._ingestion.intake._most = 2
    with held(service):
        ids = accept(service, *"abcde")
    send(service, "get_settings")
    assert rows(service) == sorted(ids.items())
    service._ingestion.intake.close(timeout=10)  # what was moved leaves the queue a moment later
    assert queued(service._store.path, "events") == []


@pytest.fixture
def failing(monkeypatch):
    """Events of which some text says that they are bad cannot be written."""
    write = processing.write

    def failing(connection, store, prepared):
        if any(event.outcome is None and "bad" in event.row["event"] for event in prepared):
            raise ValueError("bad")
        write(connection, store, prepared)

    monkeypatch.setattr(processing, "write", failing)


def test_an_event_that_cannot_be_written_is_trashed_and_holds_up_no_other(service, failing):
    with held(service):
        ids = accept(service, "a", "b")
        bad = send(service, "create_event", **order("c", data={"coupon": "bad"})).value
        ids |= accept(service, "d")
    trashed = send(service, "list_trashed_events").read().to_pylist()
    assert [(row["_id"], msgspec.json.decode(row["errors"])[0]["type"]) for row in trashed] == [
        (bad, "processing-error")
    ]
    assert rows(service, "SELECT _id FROM events ORDER BY _id") == sorted((id,) for id in ids.values())


@pytest.mark.parametrize(("count", "is_theirs"), [(10, True), (11, False)])
def test_ten_events_of_a_portion_can_be_bad_and_more_are_the_fault_of_something_else(
    service, failing, count, is_theirs
):
    with held(service):
        for number in range(count):
            send(service, "create_event", **order(f"n{number}", data={"coupon": "bad"}))
    if is_theirs:
        assert send(service, "list_trashed_events").read().num_rows == count
        return
    with pytest.raises(ValueError, match="bad"):
        send(service, "list_trashed_events")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "answer"),
    [
        ("No space left on device", (Unavailable, "the disk is full")),
        ("Input/output error", (ServiceFailure, "Input/output error")),
    ],
)
def test_records_stay_in_the_queue_while_the_disk_fails(service, monkeypatch, caplog, problem, answer):
    write, failures = EventIntake._write, [duckdb.IOException(problem)]

    def fail_once(self, connection, entries):
        if failures:
            raise failures.pop()
        write(self, connection, entries)

    monkeypatch.setattr(EventIntake, "_write", fail_once)
    ids = accept(service, "a")
    with pytest.raises(answer[0], match=answer[1]):
        send(service, "get_settings")
    assert "events of shop wait: the project's file could not be written" in caplog.text
    send(service, "get_settings")
    assert rows(service, "SELECT _id FROM events") == [(ids["a"],)]
    assert rows(service, "SELECT _id FROM trashed_events") == []


def test_what_another_service_has_moved_is_not_moved_again(service):
    intake = service._ingestion.intake
    with held(service):
        service.send(OPERATIONS["create_event"], request("a"), "client")
        waiting = service._store.queue.first(EVENTS, 9)
        entries = intake._read([row.content for row in waiting])
    send(service, "get_settings")
    intake._write_rows(waiting, entries)
    assert len(rows(service)) == len(rows(service, AUDITED)) == 1


def test_waiting_events_are_stored_before_a_project_is_closed(service, path):
    with held(service):
        futures = [service.start(OPERATIONS["create_event"], request(f"n{each}")) for each in range(20)]
    service.close()
    assert all(future.done() for future in futures)
    with closing(Service.open("shop", path, read_only=True)) as opened:
        assert len(rows(opened, "SELECT _id FROM events")) == 20


@pytest.mark.large
@pytest.mark.slow
def test_what_cannot_be_moved_in_time_is_left_to_the_next_process(service, path):
    with held(service):
        ids = accept(service, "a")
        service._ingestion.intake.close(timeout=0.1)
        with pytest.raises(Unavailable, match="closed"):
            accept(service, "b")
    service.close()
    with closing(Service.open("shop", path)) as opened:
        send(opened, "get_settings")
        assert rows(opened) == sorted(ids.items())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_refused_even_if_a_thread_of_its_parent_held_the_locks(service):
    intake = service._ingestion.intake
    with ThreadPoolExecutor(1) as thread:
        for lock in (intake._batches._changed, intake._changed, service._store.queue._lock):
            thread.submit(lock.acquire).result(30)
        for part in (intake, intake._batches, service._store.queue):
            part.abandon()
        with pytest.raises(Unavailable, match="forked"):
            accept(service, "a")
        with pytest.raises(Unavailable, match="closed"):
            service._store.queue.first(EVENTS, 1)


# -- what a release before the queue left ----------------------------------------------------------------


def earlier_group(number, nonces, *, audit=()):
    """Return a group of the log that releases before the queue kept beside the file."""
    records = [raw_event(request(nonce), Uuids()) for nonce in nonces]
    content = msgspec.json.encode({"kind": "events", "records": records, "audit": audit})
    checksum = zlib.crc32(content, zlib.crc32(number.to_bytes(8, "big")))
    return struct.pack(">QII", number, len(content), checksum) + content, records


@pytest.fixture
def earlier(path):
    """A project that a release before the queue left: two groups of its log are in no table."""
    with closing(Service.open("shop", path)) as opened:
        stored = accept(opened, "stored")
        send(opened, "get_settings")
        (moved,) = rows(opened, "SELECT CAST(value AS BIGINT) FROM settings WHERE name = 'appliedLogGroup'")[
            0
        ]
    for file in queue_files(path):
        file.unlink(missing_ok=True)
    line = {
        "_id": uuid(7),
        "date": "2025-01-31T12:00:00",
        "account": "client",
        "operation": "create_event",
        "subject": "x",
        "details": "{}",
    }
    groups = [
        earlier_group(moved, ["gone"]),
        earlier_group(moved + 1, ["a", "stored"], audit=[line]),
        earlier_group(moved + 2, ["b"]),
    ]
    earlier_log_of(path).write_bytes(b"".join(content for content, _ in groups) + groups[0][0][:-3])
    counter = path.with_name("shop.duckdb.writes")
    counter.write_bytes(b"%020d\n" % (int(counter.read_bytes()) + 2))
    ids = {record["nonce"]: record["_id"] for _, records in groups[1:] for record in records}
    return ids | stored


@pytest.mark.large
@pytest.mark.slow
def test_the_log_of_an_earlier_release_is_read_once(path, earlier):
    assert [number for number, _ in read_earlier_log(earlier_log_of(path))] == [1, 2, 3]
    for _ in range(2):
        with closing(Service.open("shop", path)) as opened:
            send(opened, "get_settings")
            assert rows(opened) == sorted(earlier.items())
            assert rows(opened, AUDITED) == [("client", "x")]
            assert rows(opened, "SELECT count(*) FROM events") == [(3,)]
            assert accept(opened, "b", "a", "stored") == earlier
        assert not earlier_log_of(path).exists()


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
def test_a_cut_log_of_an_earlier_release_is_refused(path, earlier, read_only):
    log = earlier_log_of(path)
    log.write_bytes(log.read_bytes()[:600])
    with pytest.raises(Unavailable, match=r"lacks [12] of \d+ acknowledged writes"):
        Service.open("shop", path, read_only=read_only)


@pytest.mark.large
@pytest.mark.slow
def test_pending_events_of_an_earlier_release_are_processed(path, service):
    id = send(service, "create_event_sync", **order("a")).value
    invalid = send(service, "create_event", **order("b", event_type="lead")).value
    send(service, "create_event_type", reference="lead", name="Lead")
    service._store.write(
        lambda connection: [
            connection.execute(f"DELETE FROM {table} WHERE {key} = ?", [id])
            for table, key in (("events", "_id"), ("metrics", "eventId"))
        ]
    )
    service._store.write(
        lambda connection: connection.executemany(
            "INSERT INTO pending_events VALUES (?)", [[id], [invalid]]
        ).fetchall()
    )
    service.close()
    with closing(Service.open("shop", path)) as opened:
        assert rows(opened, "SELECT _id FROM events ORDER BY _id") == sorted([(id,), (invalid,)])
        assert rows(opened, "FROM pending_events") == rows(opened, "FROM trashed_events") == []
        assert send(opened, "check_project").read().num_rows == 0


def _without_numbers(queue, _):
    queue.execute("UPDATE sqlite_sequence SET seq = 'x'")


def _with_a_strange_event(queue, _):
    queue.execute("INSERT INTO events (key, content) VALUES ('k', 'not JSON')")


def _with_a_strange_hit(queue, _):
    queue.execute("INSERT INTO hits (key, content) VALUES ('k', '{\"a\": 1}')")


def _of_another_project(queue, folder):
    create = OPERATIONS["create_event"]
    with closing(Service.open("other", folder / "other.duckdb")) as other:
        for nonce in "abcde":
            other.send(create, build(create, project_id="other", **order(nonce)))
    with closing(sqlite3.connect(queue_of(folder / "other.duckdb"))) as source:
        source.backup(queue)


@pytest.mark.parametrize(
    "change", [_without_numbers, _with_a_strange_event, _with_a_strange_hit, _of_another_project]
)
def test_a_queue_that_was_changed_or_replaced_is_told_in_a_line(path, change):
    with closing(sqlite3.connect(queue_of(path))) as queue, queue:
        change(queue, path.parent)
    with pytest.raises(Unavailable, match="the queue .* cannot be read: .* Put it back") as refused:
        Service.open("shop", path)
    assert "\n" not in refused.value.message


def test_the_queue_of_a_project_that_moved_is_its_own(path, tmp_path):
    moved = tmp_path / "shop.duckdb"
    for file in path.parent.iterdir():
        file.rename(tmp_path / file.name)
    with closing(Service.open("shop", moved)) as service:
        assert accept(service, "a")
