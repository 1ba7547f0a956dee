"""What was erased is gone from the files of a project, too (G-244)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from datetime import timedelta

import pytest
from support.identified_users import declare, user_of
from support.service_records import send
from support.user_invariants import rows_of
from support.waiting import eventually

from attrib_ds import instants
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.interactions import CollectHit
from attrib_ds.errors import NotSupported, Unavailable
from attrib_ds.service import Service, backup
from attrib_ds.service.collection.hits import pending_hit

#: What only one person has: an email, a name, a browser, an order, a page.
TEXTS = {
    "email": "anna.qvzx@example.com",
    "name": "Annaqvzx",
    "vendor": "vendor-qvzx-1",
    "tracker": "tracker-qvzx-1",
    "nonce": "order-qvzx-1",
    "page": "from=anna-qvzx",
}


def hit(service, tracker, number, url):
    view = CollectHit(projectId="shop", trackerId=tracker, pageUrl=url)
    id = f"00000000-0000-7000-8000-{number:012}"
    service.start_hit(pending_hit(view, id=id, tracker_id=tracker, user_agent="Firefox")).result()


def event(service, nonce, tracker, *, account="crm", **data):
    operation = OPERATIONS["create_event_sync"]
    request = build(
        operation, project_id="shop", event_type="view", nonce=nonce, tracker_id=tracker, data=data
    )
    return service.send(operation, request, account).value


def fill(service):
    """Let many people come, and Anna among them; return her id."""
    for number in range(40):
        hit(service, f"browser-{number}", number + 100, f"https://shop.example/?from={number}")
        event(service, f"nonce-{number}", f"browser-{number}", email=f"ben{number}@example.com")
    hit(service, TEXTS["tracker"], 1, f"https://shop.example/?{TEXTS['page']}")
    named = {"email": TEXTS["email"], "firstName": TEXTS["name"], "vendorUserId": TEXTS["vendor"]}
    ordered = event(service, TEXTS["nonce"], TEXTS["tracker"], **named)
    # Somebody else claims her email without a token, and an event of hers was trashed.
    event(service, "claimed", "mine", account=None, email=TEXTS["email"])
    trashed = build(
        OPERATIONS["create_event"],
        project_id="shop",
        event_type="none",
        nonce="t",
        data={"email": TEXTS["email"]},
    )
    service.send(OPERATIONS["create_event"], trashed, "crm")
    service._hits.settle()
    return user_of(service, ordered)


def found(folder, texts=TEXTS):
    """Return which texts are in which files, however they are written there."""
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return sorted(
        (name, text)
        for name, content in contents.items()
        for text, value in texts.items()
        if any(value.encode(encoding) in content for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
    )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "shop.duckdb"


@pytest.fixture
def filled(file):
    with closing(Service.open("shop", file, is_served=True)) as service:
        declare(service)
        yield service, fill(service)


@pytest.mark.parametrize("mode", ["delete", "anonymise"])
def test_nothing_of_an_erased_person_is_in_any_file(file, filled, mode):
    service, anna = filled
    answer = send(service, "delete_user", id=anna, mode=mode).value
    assert answer["modifiedCount"] == 1
    until = instants.parse(answer["inFilesUntil"], argument="inFilesUntil")
    assert timedelta(hours=23) < until - instants.now() <= timedelta(days=1)
    assert found(file.parent), "the files had nothing to begin with"
    # What a restoration set aside, and what a killed process left.
    aside = ("shop.duckdb.wal.0a.old", "shop.format-3.duckdb")
    for name in (*aside, ".shop.duckdb.0b.part", ".shop.backup.0c.part", ".0d.upload"):
        path = file.with_name(name)
        path.write_text(TEXTS["email"])
        os.utime(path, (0, 0))
    recent = file.with_name(".shop.duckdb.0e.part")
    recent.touch()
    sizes = send(service, "compact_project").value
    assert sizes["bytesAfter"] == file.stat().st_size
    assert found(file.parent) == []
    assert recent.exists()
    # All else is there, and the project goes on.
    assert rows_of(service, "SELECT count(*) FROM events WHERE eventType = 'view'")[0][0] >= 40
    assert send(service, "check_project").read().num_rows == 0
    later = event(service, "later", "browser-1", email="ben1@example.com")
    assert user_of(service, later) == user_of(
        service, event(service, "nonce-1", "browser-1", email="ben1@example.com")
    )
    assert rows_of(service, "SELECT count(*) FROM audit WHERE operation = 'compact_project'") == [(1,)]


def test_a_project_opens_after_compaction_with_all_that_its_queue_knows(file, filled):
    service, _ = filled
    send(service, "compact_project")
    service.close()
    with closing(Service.open("shop", file, is_served=True)) as again:
        again_id = event(again, "nonce-1", "browser-1", email="ben1@example.com")
        assert rows_of(again, "SELECT count(*) FROM raw_events WHERE nonce = 'nonce-1'") == [(1,)]
        assert rows_of(again, f"SELECT nonce FROM raw_events WHERE _id = '{again_id}'") == [("nonce-1",)]


_CRASH = """
import os, sys
from pathlib import Path
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.service import Service, backup, compaction
owner, name = {"copy": (backup, "copy_database"), "queue": (compaction.queue, "compact"),
               "swap": (backup, "replace_durably")}[sys.argv[2]]
original = getattr(owner, name)
def die(*arguments):
    if sys.argv[3] == "after":
        original(*arguments)
    os._exit(9)
setattr(owner, name, die)
operation = OPERATIONS["compact_project"]
Service.open("shop", sys.argv[1]).send(operation, build(operation, project_id="shop"))
"""


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["copy", "queue", "swap"])
def test_a_crash_leaves_the_former_file_or_the_new_one(file, filled, step, when):
    service, _ = filled
    before = rows_of(service, "SELECT _id FROM events ORDER BY 1")
    service.close()
    died = subprocess.run([sys.executable, "-c", _CRASH, file, step, when], check=False)
    assert died.returncode == 9
    with closing(Service.open("shop", file)) as again:
        assert rows_of(again, "SELECT _id FROM events ORDER BY 1") == before
        assert send(again, "check_project").read().num_rows == 0
        send(again, "compact_project")


def test_a_failure_leaves_the_file_as_it_is(file, filled, monkeypatch):
    service, anna = filled

    def fail(*_):
        raise OSError(28, "No space left on device")

    send(service, "delete_user", id=anna)
    with monkeypatch.context() as patched:
        patched.setattr(backup, "replace_durably", fail)
        with pytest.raises(Unavailable, match="the disk is full"):
            send(service, "compact_project")
    assert [path.name for path in file.parent.iterdir() if path.name.endswith(".part")] == []
    send(service, "compact_project")
    assert found(file.parent) == []


def age_erasure(service, hours):
    since = json.dumps(instants.format(instants.now() - timedelta(hours=hours)))
    service._store.write(
        lambda connection: connection.execute(
            "UPDATE settings SET value = ? WHERE name = 'erasedSince'", [since]
        )
    )


def test_the_service_compacts_by_itself_half_a_day_after_an_erasure(file, filled):
    service, anna = filled
    send(service, "delete_user", id=anna)
    age_erasure(service, 11)
    service._compact_if_due()
    assert found(file.parent) != []
    age_erasure(service, 13)
    service.close()
    with closing(Service.open("shop", file)) as again:
        eventually(lambda: found(file.parent) == [])
        # The file is new; the project opens it again in a moment, and a request waits for that.
        assert send(again, "check_project").read().num_rows == 0
        assert rows_of(again, "SELECT count(*) FROM settings WHERE name = 'erasedSince'") == [(0,)]


@pytest.mark.parametrize("part", ["project", "store"])  # the interpreter closes stores alone when it exits
def test_nothing_is_said_of_a_closed_project(part, caplog):
    service = Service.open("shop", ":memory:")
    (service if part == "project" else service._store).close()
    service._compact_if_due()
    service.close()
    assert caplog.messages == []


def test_closing_ends_a_compaction(file, filled, monkeypatch):
    service, _ = filled
    begun, original = threading.Event(), backup.copy_database

    def slow(connection, catalog, part):
        begun.set()
        connection.execute("SELECT count(*) FROM range(1_000_000_000_000_000) AS a").fetchall()
        original(connection, catalog, part)

    monkeypatch.setattr(backup, "copy_database", slow)
    failures = []

    def compact():
        try:
            send(service, "compact_project")
        except Unavailable as error:
            failures.append(error.message)

    worker = threading.Thread(target=compact)
    worker.start()
    assert begun.wait(60)
    service.close()
    worker.join()
    assert len(failures) == 1
    with closing(Service.open("shop", file)) as again:
        assert send(again, "check_project").read().num_rows == 0


def test_hits_that_arrive_during_a_compaction_wait(file, filled):
    service, _ = filled
    with service._lock.exclusive(timeout=5):
        waiting = threading.Thread(target=service.wait)
        waiting.start()
        assert service.start_hit({}) is None
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_project_in_memory_has_no_files():
    with closing(Service.open("shop", ":memory:")) as service:
        declare(service)
        user = user_of(service, event(service, "a", "t", email="anna@example.com"))
        assert send(service, "delete_user", id=user).value == {"modifiedCount": 1, "inFilesUntil": None}
        with pytest.raises(NotSupported, match="no files to compact"):
            send(service, "compact_project")
