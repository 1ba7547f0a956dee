"""A file that lost acknowledged writes is refused, whatever became of its log."""

import os
import shutil
from pathlib import Path

import pytest

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.store import Store


def put(id):
    return lambda connection: connection.execute("INSERT INTO pending_events VALUES (?)", [id])


def ids(store):
    with store.cursor() as cursor:
        return sorted(id for (id,) in cursor.execute("FROM pending_events").fetchall())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of a project whose process was killed after four acknowledged writes, all in the log."""
    folder = tmp_path_factory.mktemp("killed")
    store = Store.open(folder / "running" / "shop.duckdb", "shop")
    with store.cursor() as cursor:
        cursor.execute("CHECKPOINT")
    for id in "abcd":
        store.write(put(id))
    shutil.copytree(folder / "running", folder / "killed")
    store.close()
    return folder / "killed"


@pytest.fixture
def killed(files, tmp_path):
    return shutil.copytree(files, tmp_path / "killed") / "shop.duckdb"


@pytest.mark.slow
def test_a_killed_process_loses_nothing(killed):
    store = Store.open(killed, "shop")
    assert ids(store) == ["a", "b", "c", "d"]
    store.write(put("e"))
    store.close()
    assert ids(Store.open(killed, "shop", read_only=True)) == ["a", "b", "c", "d", "e"]


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("left", [0, 0.3, 0.9], ids=["emptied", "cut early", "cut late"])
def test_a_cut_log_is_refused(killed, left, read_only):
    log = killed.with_name("shop.duckdb.wal")
    content = log.read_bytes()
    log.write_bytes(content[: int(left * len(content))])
    with pytest.raises(Unavailable, match=r"lacks \d of 4 acknowledged writes; its write-ahead log or"):
        Store.open(killed, "shop", read_only=read_only)


@pytest.mark.slow
def test_a_removed_log_is_refused_until_the_counter_is_removed(killed):
    killed.with_name("shop.duckdb.wal").unlink()
    with pytest.raises(Unavailable, match="lacks 4 of 4 .* remove '.*shop.duckdb.writes'"):
        Store.open(killed, "shop")
    killed.with_name("shop.duckdb.writes").unlink()
    store = Store.open(killed, "shop")
    assert ids(store) == []
    store.write(put("e"))
    store.close()
    assert ids(Store.open(killed, "shop")) == ["e"]


def test_an_older_copy_of_the_file_is_refused(killed, tmp_path):
    store = Store.open(killed, "shop")
    store.close()
    shutil.copy(killed, tmp_path / "older.duckdb")
    store = Store.open(killed, "shop")
    store.write(put("e"))
    store.close()
    shutil.copy(tmp_path / "older.duckdb", killed)
    with pytest.raises(Unavailable, match="lacks 1 of 5"):
        Store.open(killed, "shop")


def test_a_commit_that_was_not_counted_is_no_loss(killed):
    killed.with_name("shop.duckdb.writes").write_bytes(b"%020d\n" % 3)
    assert ids(Store.open(killed, "shop")) == ["a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        b"-5",
        b"abc",
        "٣".encode(),
        b"1_0",
        b"",
        b"%019d\n" % 4,
        b"%020d" % 4,
        b"%020d\n\n" % 4,
        b"+%019d\n" % 4,
    ],
)
def test_a_counter_that_is_no_number_is_refused(killed, content, read_only):
    killed.with_name("shop.duckdb.writes").write_bytes(content)
    with pytest.raises(Unavailable, match="write counter '.*shop.duckdb.writes' cannot be read: .*remove it"):
        Store.open(killed, "shop", read_only=read_only)


@pytest.mark.skipif(os.name != "posix", reason="named pipes and links")
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_a_counter_that_is_no_file_is_refused(killed, make):
    counter = killed.with_name("shop.duckdb.writes")
    counter.unlink()
    make(counter)
    with pytest.raises(Unavailable, match="write counter .* cannot be read"):
        Store.open(killed, "shop")
    killed.unlink()
    with pytest.raises(Unavailable, match="write counter .* cannot be read"):
        Store.open(killed, "shop")


def test_an_empty_counter_is_fine_before_the_first_write(tmp_path):
    file = tmp_path / "shop.duckdb"
    Store.open(file, "shop").close()
    file.with_name("shop.duckdb.writes").write_bytes(b"")
    store = Store.open(file, "shop")
    store.write(put("a"))
    store.close()
    assert ids(Store.open(file, "shop")) == ["a"]


def test_a_copied_file_is_counted_from_when_it_is_opened(killed, tmp_path):
    Store.open(killed, "shop").close()
    shutil.copy(killed, tmp_path / "alone.duckdb")
    store = Store.open(tmp_path / "alone.duckdb", "shop")
    assert (tmp_path / "alone.duckdb.writes").read_bytes() == b"00000000000000000004\n"
    assert not list(tmp_path.glob("*.part"))
    store.close()


@pytest.mark.slow
def test_a_file_copied_alone_is_complete(killed, tmp_path):
    Store.open(killed, "shop").close()
    shutil.copy(killed, tmp_path / "alone.duckdb")
    assert ids(Store.open(tmp_path / "alone.duckdb", "shop")) == ["a", "b", "c", "d"]


def test_a_counter_left_behind_does_not_refuse_a_new_project(killed):
    killed.unlink()
    killed.with_name("shop.duckdb.wal").unlink()
    assert ids(Store.open(killed, "shop")) == []


@pytest.mark.slow
def test_a_file_opened_again_while_it_is_written(killed):
    first = Store.open(killed, "shop")
    for id in range(20):
        first.write(put(str(id)))
        Store.open(killed, "shop").close()
    first.close()


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 10, 20_000], ids=["emptied", "in its header", "in its blocks"])
def test_a_cut_file_is_refused_with_advice(killed, left):
    Store.open(killed, "shop").close()
    content = killed.read_bytes()
    assert len(content) > left
    killed.write_bytes(content[:left])
    with pytest.raises(Unavailable, match=r"cannot be opened: .*put a backup in its place"):
        Store.open(killed, "shop")
