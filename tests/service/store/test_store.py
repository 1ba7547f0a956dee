"""The store: durable writes in groups, snapshots for readers, and errors that name the way out."""

import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import duckdb
import pytest
from support.waiting import eventually

from attrib_ds import schema
from attrib_ds.errors import (
    AttribError,
    InvalidRequest,
    NotFound,
    NotSupported,
    ProjectInUse,
    ServiceFailure,
    Unavailable,
)
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import VERSION


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statements", "name"),
    [
        (["ALTER TABLE nodes RENAME TO others", "CREATE VIEW nodes AS FROM others"], "nodes"),
        (["CREATE MACRO lower(x) AS 'a'"], "lower"),
    ],
    ids=["view", "macro"],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_with_views_or_macros_is_refused(tmp_path, statements, name, read_only):
    file = tmp_path / "shop.duckdb"
    Store.open(file, "shop").close()
    with duckdb.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(InvalidRequest, match=f"has views, macros or other objects .*: {name}; drop them"):
        Store.open(file, "shop", read_only=read_only)


@pytest.mark.parametrize("path", ["a\0b.duckdb", "\ud800.duckdb", "~nobody-has-this-name/a.duckdb"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(InvalidRequest, match="path: ") as refused:
        Store.open(path, "shop")
    assert refused.value.field == "path"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "homes" / "shop.duckdb"


@pytest.fixture
def store(path):
    opened = Store.open(path, "shop")
    yield opened
    opened.close()


def add(store, name):
    return store.write(
        lambda connection: connection.execute("INSERT INTO hits (id) VALUES (?)", [name]).fetchall()
    )


def ids(store):
    with store.read() as backend:
        return sorted(backend.table("hits").id.to_pyarrow().to_pylist())


# -- opening ----------------------------------------------------------------------------------------


def test_a_new_file_is_made_with_its_folders_and_remembers_the_project(path):
    before = datetime.now(UTC)
    with_settings = Store.open(path, "shop", currency="NOK", timezone="Europe/Oslo")
    with_settings.close()
    again = Store.open(path, "shop", currency="EUR")
    assert (again.meta.project_id, again.meta.currency, again.meta.timezone) == ("shop", "NOK", "Europe/Oslo")
    assert before <= again.meta.created_at <= datetime.now(UTC)
    again.close()


def test_tables_have_the_columns_of_the_schema(store):
    with store.read() as backend:
        assert backend.table("interactions").columns == tuple(schema.INTERACTION.names)
        assert backend.table("hits").columns[: len(schema.HIT.names)] == tuple(schema.HIT.names)
        assert backend.table("nodes").columns == (*schema.NODE.names, "implicit")
        assert backend.table("outlays").columns == tuple(schema.OUTLAY.names)
        events = set(schema.EVENT.names) - {"attributable", "metrics"}
        assert set(backend.table("events").columns) == events | {"eventTypeVersion", "isAnonymous"}
        assert "amount" in backend.table("metrics").columns


@pytest.mark.parametrize("project_id", ["Shop", None])
def test_a_project_id_of_the_wrong_form_is_refused(project_id):
    with pytest.raises(InvalidRequest, match="project_id: .* is not allowed; expected 3 to 64 lower-case"):
        Store.open(":memory:", project_id)


def test_another_project_in_the_file_is_refused_and_the_file_let_go(path):
    Store.open(path, "shop").close()
    with pytest.raises(InvalidRequest, match="holds the project 'shop', not 'other'"):
        Store.open(path, "other")
    # DuckDB refuses another mode while the file is open in this process.
    Store.open(path, "shop", read_only=True).close()


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 2_000)
    empty = tmp_path / "empty.duckdb"
    empty.touch()
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(foreign) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    odd = tmp_path / "odd.duckdb"
    with duckdb.connect(odd) as connection:
        connection.execute("CREATE TABLE meta (id INTEGER)")
    for wrong in (text, empty, foreign, odd, tmp_path):
        with pytest.raises(InvalidRequest, match="is not the file of a project"):
            Store.open(wrong, "shop")


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("version", "remedy"), [(99, "upgrade attrib-ds"), (2, "open it with the release that wrote it")]
)
def test_a_file_of_another_format_version_is_refused_and_left_as_it_is(path, version, remedy, read_only):
    Store.open(path, "shop").close()
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE meta SET schema_version = ?", [version])
    with pytest.raises(Unavailable) as caught:
        Store.open(path, "shop", read_only=read_only)
    assert caught.value.message == (
        f"path: {str(path)!r} has format version {version}, and this release of attrib-ds reads version "
        f"{VERSION} only; {remedy}"
    )
    with duckdb.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT schema_version FROM meta").fetchall() == [(version,)]


def test_a_file_in_the_format_of_a_later_duckdb_names_the_release_that_wrote_it(path, monkeypatch):
    """The words are those of DuckDB 1.5.6 for a file of 2.0.1."""
    path.parent.mkdir(exist_ok=True)
    duckdb.connect(path).close()
    before, written_by = path.read_bytes(), duckdb.__version__

    def refuse(*arguments, **options):
        raise duckdb.IOException(
            "IO Error: Trying to read a database file with version number 69, but we can only read versions "
            "between 64 and 68.\nThe database file was created with a newer version of DuckDB."
        )

    monkeypatch.setattr(duckdb, "connect", refuse)
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    with pytest.raises(Unavailable) as caught:
        Store.open(path, "shop")
    assert caught.value.message == (
        f"path: {str(path)!r} was written by DuckDB {written_by}, in a format that DuckDB 1.5.6 cannot read; "
        "upgrade duckdb"
    )
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_created_raises(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot be opened"):
        Store.open(tmp_path / "file" / "shop.duckdb", "shop")


def test_the_memory_of_a_project_can_be_bounded(path, monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_MEMORY", "300 MiB")
    with closing(Store.open(path, "shop")) as store, store.cursor() as cursor:
        assert cursor.execute("SELECT current_setting('memory_limit')").fetchall() == [("300.0 MiB",)]
    monkeypatch.setenv("ATTRIB_DS_MEMORY", "20 MiB")
    with (
        closing(Store.open(path, "shop")) as store,
        pytest.raises(ServiceFailure, match="set ATTRIB_DS_MEMORY to more"),
        store.read() as backend,
    ):
        backend.con.execute("SELECT len(list(range)) FROM range(3_000_000)").fetchall()
    monkeypatch.setenv("ATTRIB_DS_MEMORY", "much")
    with pytest.raises(Unavailable, match="memory"):
        Store.open(path, "shop")


def test_reading_only(path):
    with pytest.raises(NotFound, match="does not exist"):
        Store.open(path, "shop", read_only=True)
    with pytest.raises(InvalidRequest, match="read_only: "):
        Store.open(":memory:", "shop", read_only=True)
    writing = Store.open(path, "shop")
    add(writing, "kept")
    with pytest.raises(ProjectInUse, match="read_only=True"):
        Store.open(path, "shop", read_only=True)
    writing.close()
    readers = [Store.open(path, "shop", read_only=True) for _ in range(2)]
    assert [ids(reader) for reader in readers] == [["kept"], ["kept"]]
    with pytest.raises(NotSupported, match="read_only=True"):
        add(readers[0], "not kept")
    for reader in readers:
        reader.close()


OPEN_ELSEWHERE = """
import sys
from attrib_ds.errors import AttribError
from attrib_ds.service.store.store import Store
for read_only in (False, True):
    try:
        Store.open(sys.argv[1], "shop", read_only=read_only)
    except AttribError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.large
@pytest.mark.slow
def test_a_file_open_in_another_process_names_the_way_out(store, path):
    command = [sys.executable, "-c", OPEN_ELSEWHERE, str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("ProjectInUse path: another process holds")
        assert "attrib-ds serve" in line
        assert "read_only=True" in line


# -- writing ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(store):
    names = [f"{i:03}" for i in range(300)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: add(store, name), names))
    assert ids(store) == names


def test_jobs_that_wait_share_one_transaction(store):
    started, may_end = threading.Event(), threading.Event()

    def hold(connection):
        started.set()
        may_end.wait(10)

    def transactions(connection):
        return connection.execute("SELECT writes FROM meta").fetchone()[0]

    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(store.write, hold)
        started.wait(10)
        later = [pool.submit(store.write, transactions) for _ in range(8)]
        wait_until_queued(store, 8)
        may_end.set()
        first.result()
        assert {future.result() for future in later} == {2}


def wait_until_queued(store, count):
    eventually(lambda: store._writer._batches.size >= count)


def test_a_failing_job_among_good_ones_fails_alone(store):
    started, may_end = threading.Event(), threading.Event()

    def hold(connection):
        started.set()
        may_end.wait(10)

    def fail(connection):
        connection.execute("INSERT INTO hits (id) VALUES ('of the failing job')")
        raise InvalidRequest("id: is taken", field="id")

    def break_sql(connection):
        connection.execute("INSERT INTO hits (id) VALUES ('of the broken job')")
        connection.execute("SELECT * FROM nowhere")

    with ThreadPoolExecutor(9) as pool:
        pool.submit(store.write, hold)
        started.wait(10)
        good = [pool.submit(add, store, name) for name in ("a", "b", "c", "d")]
        bad = pool.submit(store.write, fail)
        broken = pool.submit(store.write, break_sql)
        good.append(pool.submit(add, store, "e"))
        wait_until_queued(store, 7)
        may_end.set()
        for future in good:
            future.result()
        with pytest.raises(InvalidRequest, match="id: is taken"):
            bad.result()
        with pytest.raises(ServiceFailure, match="nowhere") as failure:
            broken.result()
    assert isinstance(failure.value.__cause__, duckdb.Error)
    assert ids(store) == ["a", "b", "c", "d", "e"]


def test_a_job_that_waits_for_another_job_is_refused_not_stuck(store):
    with pytest.raises(RuntimeError, match="wait for itself"):
        store.write(lambda connection: add(store, "inner"))
    add(store, "after")
    assert ids(store) == ["after"]


@pytest.mark.slow
def test_two_stores_on_one_file_in_one_process_take_turns(path):
    stores = [Store.open(path, "shop") for _ in range(2)]

    def add_once(turn):
        """Add the next number; two transactions at once would both see the same one."""

        def job(connection):
            (count,) = connection.execute("SELECT count(*) FROM hits").fetchone()
            connection.execute("INSERT INTO hits (id) VALUES (?)", [f"{count:03}"])

        stores[turn % 2].write(job)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_once, range(100)))
    assert ids(stores[0]) == [f"{i:03}" for i in range(100)]
    stores[0].close()
    assert len(ids(stores[1])) == 100
    stores[1].close()


@pytest.mark.large
@pytest.mark.slow
def test_two_threads_that_make_one_file_both_get_it(path):
    for turn in range(10):
        file = path.with_name(f"{turn}.duckdb")
        with ThreadPoolExecutor(4) as pool:
            stores = list(pool.map(lambda _, file=file: Store.open(file, "shop"), range(4)))
        assert len({value.meta.created_at for value in stores}) == 1
        for item in stores:
            item.close()


WRITE_AND_DIE = """
import sys, threading
from attrib_ds.service.store.store import Store
store = Store.open(sys.argv[1], "shop")
lock = threading.Lock()
def work(number):
    for i in range(100000):
        name = f"{number}-{i}"
        store.write(lambda c: c.execute("INSERT INTO hits (id) VALUES (?)", [name]).fetchall())
        with lock:
            print(name, flush=True)
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.large
@pytest.mark.slow
def test_acknowledged_writes_survive_a_kill(path):
    command = [sys.executable, "-c", WRITE_AND_DIE, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        acknowledged = [process.stdout.readline().strip() for _ in range(200)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.stdout.read().split("\n")[:-1]
    store = Store.open(path, "shop")
    stored = ids(store)
    store.close()
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    # At most the write of each thread that was under way is there without having been acknowledged.
    assert len(stored) <= len(acknowledged) + 4


# -- reading ----------------------------------------------------------------------------------------


def test_a_reader_keeps_its_snapshot(store):
    add(store, "before")
    with store.read() as backend:
        hits = backend.table("hits")
        assert hits.count().to_pyarrow().as_py() == 1
        add(store, "after")
        assert hits.count().to_pyarrow().as_py() == 1
    assert ids(store) == ["after", "before"]


def test_a_failing_query_is_a_failure_of_the_service(store):
    with pytest.raises(ServiceFailure, match="could not be read"), store.read() as backend:
        backend.raw_sql("SELECT * FROM nowhere")


def test_scratch_tables_are_seen_by_write_jobs_and_are_gone_afterwards(store):
    def databases():
        with store.cursor() as cursor:
            return cursor.execute("SELECT count(*) FROM duckdb_databases()").fetchone()[0]

    before = databases()
    with store.scratch() as connection:
        connection.execute("CREATE TABLE found AS SELECT 'x' AS id")
        (name,) = connection.execute("SELECT current_database()").fetchone()
        store.write(lambda writer: writer.execute(f'INSERT INTO hits (id) SELECT id FROM "{name}".found'))
        assert connection.execute(f"SELECT id FROM {store.catalog}.hits").fetchall() == [("x",)]
    assert ids(store) == ["x"]
    assert databases() == before
    with pytest.raises(ValueError, match="broken off"), store.scratch():
        raise ValueError("broken off")
    assert databases() == before


# -- closing ----------------------------------------------------------------------------------------


def test_closing_drains_the_queue_and_can_be_repeated(path):
    store = Store.open(path, "shop")
    started, may_end = threading.Event(), threading.Event()

    def hold(connection):
        started.set()
        may_end.wait(10)

    with ThreadPoolExecutor(9) as pool:
        pool.submit(store.write, hold)
        started.wait(10)
        running = [pool.submit(add, store, f"{i:02}") for i in range(40)]
        wait_until_queued(store, 1)
        may_end.set()
        store.close()
        store.close()
    refusals = {future.exception() for future in running} - {None}
    assert all(
        isinstance(refusal, Unavailable) and "the project is closed" in str(refusal) for refusal in refusals
    )
    written = [f"{i:02}" for i, value in enumerate(running) if value.exception() is None]
    with pytest.raises(Unavailable, match="the project is closed"):
        add(store, "late")
    with pytest.raises(Unavailable, match="the project is closed"):
        ids(store)
    assert not path.with_name(path.name + ".wal").exists()
    again = Store.open(path, "shop")
    assert ids(again) == written
    again.close()


@pytest.mark.large
@pytest.mark.slow
def test_a_store_without_references_is_closed(path):
    store = Store.open(path, "shop")
    add(store, "kept")
    del store
    gc.collect()
    again = Store.open(path, "shop", read_only=True)
    assert ids(again) == ["kept"]
    again.close()


def test_reading_a_closed_project_raises(path):
    store = Store.open(path, "shop")
    with pytest.raises((Unavailable, AttribError)) as refusal, store.read() as backend:
        store.close()
        backend.table("hits").count().to_pyarrow()
    assert "closed" in str(refusal.value)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "raise ValueError('end')"])
def test_the_interpreter_ends_without_closing(path, ending):
    script = f"""
import sys
from attrib_ds.service.store.store import Store
store = Store.open({str(path)!r}, "shop")
store.write(lambda c: c.execute("INSERT INTO hits (id) VALUES ('kept')").fetchall())
{ending}
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == (1 if ending else 0)
    assert ("ValueError" in ended.stderr) == ("ValueError" in ending)
    store = Store.open(path, "shop")
    assert ids(store) == ["kept"]
    store.close()


def test_files_have_a_format_that_every_supported_duckdb_reads(path):
    Store.open(path, "shop").close()
    with duckdb.connect(path, read_only=True) as connection:
        query = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE path IS NOT NULL"
        assert connection.execute(query).fetchall() == [("v1.5.0+",)]
