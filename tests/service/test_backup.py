"""Backups: copies of one moment, taken while others write, and put in place while others read."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing

import duckdb
import pytest
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, NotSupported, ProjectInUse, Unavailable
from attrib_ds.service import Service
from attrib_ds.service import service as service_module
from attrib_ds.service.backup import restore
from attrib_ds.service.store.store import Store


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A project with an event type and one event."""
    folder = tmp_path_factory.mktemp("project")
    with closing(Service.open("shop", folder / "shop.duckdb")) as service:
        declare_order(service)
        send(service, "create_event_sync", **order("first"))
    return folder


@pytest.fixture
def path(files, tmp_path):
    return shutil.copytree(files, tmp_path, dirs_exist_ok=True) / "shop.duckdb"


def copy(service, file):
    """Write a backup to a file."""
    answer = send(service, "back_up_project").value
    with closing(answer), file.open("xb") as sink:
        for piece in answer.pieces:
            sink.write(piece)
    return file


@pytest.fixture
def backup(path, tmp_path):
    with closing(Service.open("shop", path)) as service:
        return copy(service, tmp_path / "backup.duckdb")


def nonces(file):
    with closing(Store.open(file, "shop", read_only=True)) as store, store.cursor() as cursor:
        return {nonce for (nonce,) in cursor.execute("SELECT nonce FROM raw_events").fetchall()}


def names(folder):
    return sorted(value.name for value in folder.iterdir() if value.is_file())


@pytest.mark.large
@pytest.mark.slow
def test_a_backup_taken_under_load_is_of_one_moment(path, tmp_path):
    with closing(Service.open("shop", path)) as service:
        is_over = threading.Event()
        written = []

        def write():
            for number in itertools.count():
                if is_over.is_set():
                    return

                # Both rows or none.
                def job(connection, number=number):
                    connection.execute("INSERT INTO settings VALUES (?, '1')", [f"s{number}"])
                    connection.execute("INSERT INTO tombstones VALUES ('k', ?, now())", [f"s{number}"])

                service._store.write(job)
                written.append(number)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            files = [copy(service, tmp_path / f"{number}.duckdb") for number in range(3)]
        finally:
            is_over.set()
            thread.join()
    counts = []
    for file in files:
        with closing(Service.open("shop", file)) as service, service._store.cursor() as cursor:
            settings = cursor.execute(
                "SELECT name FROM settings WHERE name LIKE 's%' ORDER BY ALL"
            ).fetchall()
            assert settings == cursor.execute("SELECT hash FROM tombstones ORDER BY ALL").fetchall()
            counts.append(len(settings))
            assert send(service, "check_project").read().num_rows == 0
            # The nonce is as unique in the copy.
            with pytest.raises(duckdb.ConstraintException, match="first"):
                cursor.execute("INSERT INTO raw_events (nonce) VALUES ('first')")
    assert counts == sorted(counts)
    assert counts[-1] <= len(written)
    whole = [f"{name}.duckdb" for name in ("0", "1", "2", "shop")]
    assert [
        name for name in names(tmp_path) if not name.endswith((".writes", ".wal", ".queue", "-wal", "-shm"))
    ] == whole


def test_a_backup_of_a_project_that_is_only_read(path, tmp_path):
    with closing(Service.open("shop", path, read_only=True)) as service:
        copy(service, tmp_path / "backup.duckdb")
    assert nonces(tmp_path / "backup.duckdb") == {"first"}


def test_a_backup_that_is_not_fetched_leaves_nothing_behind(path, tmp_path):
    with closing(Service.open("shop", path)) as service:
        answer = send(service, "back_up_project").value
        assert len(next(answer.pieces)) > 0
        answer.close()
        answer.close()
        assert [name for name in names(tmp_path) if not name.startswith("shop.duckdb")] == []


def test_a_file_is_restored(backup, tmp_path):
    target = tmp_path / "new" / "shop.duckdb"
    counts = restore(backup, target, "shop")
    assert counts["raw_events"] == counts["events"] == 1
    assert "audiences" not in counts
    assert nonces(target) == {"first"}
    assert names(target.parent) == ["shop.duckdb"]
    assert backup.exists()


@pytest.mark.slow
def test_a_project_is_replaced_only_on_demand(backup, path):
    with closing(Service.open("shop", path)) as service:
        send(service, "create_event_sync", **order("second"))
    with pytest.raises(Conflict, match="--replace"):
        restore(backup, path, "shop")
    assert nonces(path) == {"first", "second"}
    restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}


@pytest.mark.large
@pytest.mark.slow
def test_the_log_of_a_lost_file_is_not_read_into_the_new_one(backup, path):
    code = (
        "import os, sys; from attrib_ds.service import Service; "
        "from support.service_records import send; from support.order_events import order; "
        "service = Service.open('shop', sys.argv[1]); "
        "send(service, 'create_event_sync', **order('second')); os._exit(0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", "."])}
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=environment)
    log = path.with_name("shop.duckdb.wal")
    assert log.stat().st_size > 0
    # There while DuckDB was moving the log into the file.
    passing = path.with_name("shop.duckdb.wal.checkpoint")
    passing.write_bytes(log.read_bytes())
    path.write_bytes(b"broken")
    restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}
    assert not passing.exists()
    assert len(list(path.parent.glob("shop.duckdb.wal.*.old"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("is_here", [True, False])
def test_a_project_that_is_open_is_not_replaced(backup, path, is_here):
    before = path.read_bytes()
    if is_here:
        with closing(Service.open("shop", path)), pytest.raises(ProjectInUse):
            restore(backup, path, "shop", replace=True)
    else:
        code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            with pytest.raises(ProjectInUse):
                restore(backup, path, "shop", replace=True)
            os.kill(process.pid, signal.SIGTERM)
    assert path.read_bytes()[:4096] == before[:4096]
    assert nonces(path) == {"first"}
    assert not list(path.parent.glob(".*"))


def damaged(file, *statements):
    with duckdb.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE meta SET project_id = 'other'"], "source: holds the project 'other', not 'shop'"),
        (["UPDATE meta SET schema_version = 99"], "source: has format version 99, .*; upgrade attrib-ds"),
        (
            ["UPDATE meta SET schema_version = 1"],
            "source: has format version 1, .* the release that wrote it",
        ),
        (["DROP TABLE meta"], "source: is not the file of a project"),
        (
            ["DROP TABLE users", "CREATE VIEW users AS SELECT 1 AS _id"],
            "source: is not the file of a project",
        ),
        (["CREATE MACRO m() AS 1"], "source: is not the file of a project"),
        (
            ["ALTER TABLE users ADD COLUMN x VARCHAR"],
            "source: has missing, unexpected or changed tables: users",
        ),
        (
            [
                "CREATE TABLE o AS FROM raw_events",
                "DROP TABLE raw_events",
                "ALTER TABLE o RENAME TO raw_events",
            ],
            "source: has missing, unexpected or changed tables: raw_events",
        ),
    ],
)
def test_other_backups_are_refused(backup, path, statements, message):
    damaged(backup, *statements)
    with pytest.raises(InvalidRequest, match=message):
        restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}
    assert not list(path.parent.glob(".*"))


def test_a_file_that_is_not_a_database_is_refused(tmp_path, path):
    other = tmp_path / "other"
    other.write_text("no database" * 1000)
    with pytest.raises(InvalidRequest, match="source: is not the file of a project"):
        restore(other, path, "shop", replace=True)
    with pytest.raises(NotFound, match="there is no file"):
        restore(tmp_path / "none", path, "shop", replace=True)


@pytest.mark.slow
def test_a_damaged_backup_is_refused(backup, path):
    content = bytearray(backup.read_bytes())
    for start in range(12_288, len(content), 262_144):
        content[start + 100] ^= 1
    backup.write_bytes(content)
    with pytest.raises(InvalidRequest, match="source: .*damaged"):
        restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}


@pytest.mark.slow
@pytest.mark.parametrize("left", [100, 5_000, 12_288, 300_000, -1], ids=str)
def test_a_truncated_backup_is_refused_without_its_path(backup, path, left):
    backup.write_bytes(backup.read_bytes()[:left])
    with pytest.raises(InvalidRequest, match="source: the file is damaged") as refused:
        restore(backup, path, "shop", replace=True)
    assert str(backup) not in refused.value.message
    assert nonces(path) == {"first"}


@pytest.mark.slow
def test_a_backup_that_is_in_use_is_refused(backup, path):
    with (
        closing(Service.open("shop", backup)),
        pytest.raises(ProjectInUse, match="back it up and restore the backup"),
    ):
        restore(backup, path, "shop", replace=True)


# -- of a project in use ----------------------------------------------------------------------------


def count_events(service):
    with service._store.cursor() as cursor:
        return cursor.execute("SELECT count(*) FROM raw_events").fetchone()[0]


@pytest.mark.slow
def test_a_project_in_use_is_restored(backup, path):
    with closing(Service.open("shop", path)) as service:
        send(service, "create_event_sync", **order("second"))
        counts = send(service, "restore_project", source=backup).value
        assert counts["raw_events"] == 1
        assert count_events(service) == 1
        send(service, "create_event_sync", **order("second"))
        assert count_events(service) == 2
    assert nonces(path) == {"first", "second"}


@pytest.mark.large
@pytest.mark.slow
def test_requests_go_on_while_a_project_is_restored(backup, path):
    """Each request is answered, from before or from after; none fails."""
    with closing(Service.open("shop", path)) as service:
        is_over, failures, answered = threading.Event(), [], [0] * 4

        def work(number):
            while not is_over.is_set():
                try:
                    send(service, "create_event_sync", **order(f"{number}-{answered[number]}"))
                    send(service, "list_trashed_events")
                except Exception as error:  # noqa: BLE001
                    failures.append(error)
                answered[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            before = sum(answered)
            send(service, "restore_project", source=backup)
            while sum(answered) < before + 8:
                pass
        is_over.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert send(service, "check_project").read().num_rows == 0


@pytest.mark.large
@pytest.mark.slow
def test_a_restoration_waits_for_rows_that_are_read(backup, path, monkeypatch):
    monkeypatch.setattr(service_module, "_SECONDS_TO_BE_ALONE", 0.1)
    with closing(Service.open("shop", path)) as service:
        search = OPERATIONS["search_interactions"]
        from attrib_ds.contract import build

        rows = service.stream(search, build(search, project_id="shop"))
        with pytest.raises(Unavailable, match="still running"):
            send(service, "restore_project", source=backup)
        assert send(service, "list_trashed_events").total == 0
        rows.close()
        rows.close()
        send(service, "restore_project", source=backup)


@pytest.mark.slow
def test_a_failed_restoration_leaves_the_project_as_it_was(backup, path, monkeypatch):
    def fail(*_):
        raise Unavailable("no")

    with closing(Service.open("shop", path)) as service:
        send(service, "create_event_sync", **order("second"))
        with monkeypatch.context() as patched:
            patched.setattr(service_module.backup, "exchange", fail)
            with pytest.raises(Unavailable, match="no"):
                send(service, "restore_project", source=backup)
        assert count_events(service) == 2
        damaged(backup, "DROP TABLE meta")
        with pytest.raises(InvalidRequest):
            send(service, "restore_project", source=backup)
        send(service, "create_event_sync", **order("third"))
        assert count_events(service) == 3
    assert nonces(path) == {"first", "second", "third"}


@pytest.mark.slow
def test_a_project_that_another_thread_keeps_open_is_not_replaced(backup, path):
    """What the thread has would be of a file that is gone."""
    with closing(Service.open("shop", path)) as service:
        has_tables, is_over = threading.Event(), threading.Event()

        def keep():
            tables = service.tables()
            has_tables.set()
            is_over.wait()
            del tables

        thread = threading.Thread(target=keep)
        thread.start()
        has_tables.wait()
        with pytest.raises(ProjectInUse):
            send(service, "restore_project", source=backup)
        assert count_events(service) == 1
        is_over.set()
        thread.join()


@pytest.mark.slow
def test_a_project_without_a_file_cannot_be_restored(backup, path):
    with closing(Service.open("shop", ":memory:")) as service, pytest.raises(NotSupported, match="memory"):
        send(service, "restore_project", source=backup)
    with closing(Service.open("shop", path, read_only=True)) as service, pytest.raises(NotSupported):
        send(service, "restore_project", source=backup)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retentionDurationInDays", '"x"'),
        ("retentionDurationInDays", "-1"),
        ("respectGpc", "5"),
        ("trafficFilters", '["bogus"]'),
        ("holdouts", '["bogus"]'),
        ("holdoutKey", "5"),
        ("tombstoneSalt", "[5]"),
        ("appliedLogGroup", "-5"),
        ("appliedHits", "x"),
        ("visitorSecret", "not JSON"),
        ("erasedSince", "1"),
    ],
)
def test_a_backup_whose_settings_are_wrong_is_refused(path, backup, name, value):
    with closing(duckdb.connect(backup)) as connection:
        connection.execute("DELETE FROM settings WHERE name = ?", [name])
        connection.execute("INSERT INTO settings VALUES (?, ?)", [name, value])
    with pytest.raises(InvalidRequest, match=f"settings with values that are not allowed: {name}$"):
        restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}
