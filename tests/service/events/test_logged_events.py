"""Events of a server are in its log before the tables have them, and never lost or doubled (G-129, G-233)."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from support.held_writer import held
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import Conflict, InvalidRequest, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.events.logged_events import replay
from attrib_ds.service.store.append_log import append_log_of, read_groups

ROWS = "SELECT nonce, _id FROM raw_events ORDER BY nonce"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "running" / "shop.duckdb"
    with closing(Service.open("shop", file)) as service:
        declare_order(service)
    return file


@pytest.fixture
def service(path):
    opened = Service.open("shop", path, has_log=True)
    yield opened
    opened.close()


def accept(service, *nonces):
    return {nonce: send(service, "create_event", **order(nonce)).value for nonce in nonces}


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


@pytest.mark.parametrize("has_log", [True, False], ids=["served", "embedded"])
def test_a_killed_process_loses_no_accepted_event(service, path, has_log):
    copy, ids = killed(service, path, "a", "b", "c")
    assert len(read_groups(append_log_of(copy))) == 3
    with closing(Service.open("shop", copy, has_log=has_log)) as opened:
        assert rows(opened) == sorted(ids.items())
        assert send(opened, "create_event", **order("b")).value == ids["b"]
    assert not append_log_of(copy).exists()
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened, "SELECT _id FROM events ORDER BY _id") == sorted((id,) for id in ids.values())
        assert send(opened, "check_project").read().num_rows == 0


def test_events_are_not_doubled_if_the_process_is_killed_before_it_empties_the_log(service, path):
    copy, ids = killed(service, path, "a", "b")
    send(service, "get_settings")
    # The tables have the events, and so has the log.
    for file in path.parent.iterdir():
        if file.name != append_log_of(path).name:
            shutil.copy2(file, copy.parent)
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened) == sorted(ids.items())
        assert rows(opened, "SELECT count(*) FROM events") == [(2,)]
        assert rows(opened, "SELECT count(*) FROM pending_events") == [(0,)]


def test_an_audit_entry_is_not_doubled_if_the_log_was_not_emptied(service, path):
    operation = OPERATIONS["create_event"]
    request = build(operation, project_id="shop", **order("a"))
    copy = path.parent.with_name("killed")
    with held(service):
        id = service.send(operation, request, "client").value
        shutil.copytree(path.parent, copy)
    send(service, "get_settings")
    for file in path.parent.iterdir():
        if file.name != append_log_of(path).name:
            shutil.copy2(file, copy)
    entries = "SELECT account, subject FROM audit WHERE operation = 'create_event'"
    with closing(Service.open("shop", copy / path.name)) as opened:
        assert rows(opened, entries) == [("client", id)]
    assert rows(service, entries) == [("client", id)]


def test_a_killed_process_opens_again_if_its_log_has_repeats_only(service, path):
    operation = OPERATIONS["create_event"]
    request = build(operation, project_id="shop", **order("a"))
    id = service.send(operation, request, "client").value
    send(service, "get_settings")
    copy = path.parent.with_name("killed")
    with held(service):
        assert service.send(operation, request, "client").value == id
        shutil.copytree(path.parent, copy)
    assert len(read_groups(append_log_of(copy / path.name))) == 1
    with closing(Service.open("shop", copy / path.name)) as opened:
        assert rows(opened) == [("a", id)]
        assert rows(opened, "SELECT count(*) FROM audit WHERE operation = 'create_event'") == [(2,)]


def test_groups_that_are_replayed_twice_are_in_the_tables_once(service, path):
    operation = OPERATIONS["create_event"]
    request = build(operation, project_id="shop", **order("a"))
    with held(service):
        id = service.send(operation, request, "client").value
        groups = read_groups(append_log_of(path))
    send(service, "get_settings")
    replay(service._store, groups)
    assert rows(service) == [("a", id)]
    assert rows(service, "SELECT count(*) FROM audit WHERE operation = 'create_event'") == [(1,)]
    assert rows(service, "SELECT count(*) FROM pending_events") == [(0,)]


def test_an_erased_event_does_not_come_back_from_the_log(service, path):
    copy, _ = killed(service, path, "a")
    send(service, "get_settings")
    ((user,),) = rows(service, "SELECT userId FROM events")
    send(service, "delete_user", id=user, mode="delete")
    for file in path.parent.iterdir():
        if file.name != append_log_of(path).name:
            shutil.copy2(file, copy.parent)
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened, "SELECT count(*) FROM events") == [(0,)]
        assert rows(opened, "SELECT count(*) FROM raw_events WHERE nonce = 'a'") == [(0,)]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("left", [0, 0.5, 0.9], ids=["emptied", "half", "without its end"])
def test_g233_a_cut_log_is_refused(service, path, left, read_only):
    copy, _ = killed(service, path, "a", "b")
    log = append_log_of(copy)
    log.write_bytes(log.read_bytes()[: int(left * log.stat().st_size)])
    with pytest.raises(Unavailable, match=r"lacks [12] of \d+ acknowledged writes"):
        Service.open("shop", copy, read_only=read_only)


def test_g233_a_removed_log_is_refused(service, path):
    copy, _ = killed(service, path, "a", "b")
    append_log_of(copy).unlink()
    with pytest.raises(Unavailable, match=r"lacks 2 of \d+ acknowledged writes"):
        Service.open("shop", copy)


def test_a_group_that_was_not_acknowledged_is_left_out(service, path):
    copy, ids = killed(service, path, "a")
    content = append_log_of(copy).read_bytes()
    append_log_of(copy).write_bytes(content + content[: len(content) // 2])
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened) == sorted(ids.items())


def test_g130_a_repeat_is_answered_with_the_id_of_the_logged_event(service):
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


def test_other_operations_find_the_events_accepted_before_them(service):
    ids = accept(service, "a")
    assert send(service, "get_raw_event", id=ids["a"]).read()["nonce"].to_pylist() == ["a"]
    assert send(service, "get_event", id=ids["a"]).read().num_rows == 1
    accept(service, "b")
    assert send(service, "search_users", columns=["_id"]).total == 1


def test_a_backup_has_the_events_accepted_before_it(service, tmp_path):
    ids = accept(service, "a", "b")
    file = send(service, "back_up_project").value
    copy = tmp_path / "shop.duckdb"
    copy.write_bytes(b"".join(file.pieces))
    file.close()
    with closing(Service.open("shop", copy)) as opened:
        assert rows(opened) == sorted(ids.items())


def test_invalid_events_are_trashed_as_without_a_log(service):
    id = send(service, "create_event", **order("a", event_type="unknown")).value
    trashed = send(service, "list_trashed_events").read().to_pylist()
    assert [row["_id"] for row in trashed] == [id]
    with pytest.raises(InvalidRequest, match="there is no event type 'unknown'"):
        send(service, "replay_event", id=id)


def test_an_awaited_event_is_answered_before_the_tables_have_it(service):
    with held(service), ThreadPoolExecutor(2) as threads:
        sent = threads.submit(send, service, "create_event_sync", **order("a"))
        unknown = threads.submit(send, service, "create_event_sync", **order("b", event_type="unknown"))
        id = sent.result(10).value
        with pytest.raises(InvalidRequest, match="there is no event type 'unknown'") as refusal:
            unknown.result(10)
        assert rows(service) == []
    # Whoever asks finds them.
    assert send(service, "get_event", id=id).read().num_rows == 1
    trashed = send(service, "list_trashed_events").read().to_pylist()
    assert [row["_id"] for row in trashed] == [refusal.value.details[0]["eventId"]]


def test_a_killed_process_loses_no_awaited_event(service, path):
    copy = path.parent.with_name("killed")
    with held(service):
        id = send(service, "create_event_sync", **order("a")).value
        shutil.copytree(path.parent, copy)
    with closing(Service.open("shop", copy / path.name)) as opened:
        assert rows(opened) == [("a", id)]
        opened._ingestion._processing.close(timeout=30)
        assert rows(opened, "SELECT _id FROM events") == [(id,)]


def test_g132_a_repeat_of_a_logged_event_is_answered_with_its_outcome(service):
    invalid = order("a", event_type="unknown")
    id = send(service, "create_event", **invalid).value
    with pytest.raises(InvalidRequest, match="there is no event type 'unknown'") as refusal:
        send(service, "create_event_sync", **invalid)
    assert refusal.value.details[0]["eventId"] == id


def test_g135_an_awaited_event_is_answered_after_pending_ones(service):
    processing = service._ingestion._processing
    # As while its thread is at work on something else.
    processing._thread = threading.Thread()
    operation = OPERATIONS["create_event_sync"]
    started = service.start(operation, build(operation, project_id="shop", **order("a")))
    with pytest.raises(TimeoutError):
        started.future.result(0.2)
    processing._thread = None
    processing.wake()
    id = started.future.result(30).value
    assert rows(service, "SELECT _id FROM events") == [(id,)]


def test_another_service_of_the_process_leaves_the_log_alone(service, path):
    with held(service):
        ids = accept(service, "a")
        with closing(Service.open("shop", path, has_log=True)) as other:
            assert append_log_of(path).stat().st_size > 0
            assert rows(other) == []
    send(service, "get_settings")
    assert rows(service) == sorted(ids.items())


def test_an_event_that_another_service_stored_meanwhile_holds_up_no_other(service, path):
    with closing(Service.open("shop", path)) as other, ThreadPoolExecutor(1) as thread:
        with held(service):
            logged = accept(service, "a", "b", "c")
            stored = thread.submit(accept, other, "b")
        stored.result(30)
        send(service, "get_settings")
        assert [nonce for nonce, _ in rows(service)] == ["a", "b", "c"]
        assert {nonce: id for nonce, id in rows(service) if nonce != "b"} == {
            nonce: id for nonce, id in logged.items() if nonce != "b"
        }
