"""Files of projects are private to their owner, also where the process would share new files."""

import os
import stat
import sys

import duckdb
import pytest

import attrib_ds as at
from attrib_ds import local_files
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.store import files
from attrib_ds.service.store.files import withdraw_permissions
from attrib_ds.service.store.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")

ORDER = {"event_type": "order", "trackers": ["t"]}


@pytest.fixture
def home(tmp_path):
    """A folder that does not exist, in a process that shares the files it creates."""
    before = os.umask(0o002)
    yield tmp_path / "users" / "home"
    os.umask(before)


def shared(folder):
    """Return the names of files and folders that others than the owner may use."""
    paths = [folder, *folder.rglob("*")]
    return {path.name for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077}


def put(id):
    return lambda connection: connection.execute("INSERT INTO pending_events VALUES (?)", [id])


def test_a_new_project_is_private(home):
    store = Store.open(home / "shop.duckdb", "shop")
    endings = ("", ".queue", ".queue-shm", ".queue-wal", ".wal", ".writes")
    assert {path.name for path in home.iterdir()} == {f"shop.duckdb{ending}" for ending in endings}
    assert shared(home) == set()
    store.write(put("a"))
    assert shared(home) == set()
    store.close()
    assert shared(home) == set()


def test_a_log_begun_after_a_checkpoint_is_private(home):
    store = Store.open(home / "shop.duckdb", "shop")
    with store.cursor() as cursor:
        cursor.execute("CHECKPOINT")
    assert not (home / "shop.duckdb.wal").exists()
    store.write(put("a"))
    assert (home / "shop.duckdb.wal").exists()
    assert shared(home) == set()
    store.close()


def test_a_shared_file_becomes_private_when_it_is_opened(home):
    Store.open(home / "shop.duckdb", "shop").close()
    (home / "shop.duckdb").chmod(0o644)
    Store.open(home / "shop.duckdb", "shop", read_only=True).close()
    assert shared(home) == {"shop.duckdb"}
    Store.open(home / "shop.duckdb", "shop").close()
    assert shared(home) == set()


def test_what_is_no_regular_file_keeps_its_permissions(tmp_path):
    """Root may change those of /dev/null, which every program needs."""
    for path, make in ((tmp_path / "pipe", os.mkfifo), (tmp_path / "folder", os.mkdir)):
        make(path)
        path.chmod(0o666)
        withdraw_permissions(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_an_existing_folder_keeps_its_permissions(home):
    home.mkdir(parents=True, mode=0o775)
    Store.open(home / "shop.duckdb", "shop").close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o775


def test_accounts_and_their_folder_are_private(home):
    accounts = Accounts.open(home)
    assert shared(home) == set()
    accounts.close()


def test_backups_and_restored_projects_are_private(home, tmp_path):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        copy = at.admin.back_up(shop, tmp_path / "copy.duckdb")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with at.connect("shop", path=home / "shop.duckdb"):
        pass
    assert shared(home) == set()


def test_on_macos_files_are_flushed_out_of_the_cache_of_the_disk(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="Windows flushes in one way")
    commands = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: commands.append(command))
    with (tmp_path / "part").open("wb") as part:
        local_files.flush(part.fileno())
    assert commands == [51]


def test_the_release_of_duckdb_that_made_a_file_is_read_from_it(tmp_path):
    duckdb.connect(tmp_path / "shop.duckdb").close()
    assert files.written_by(tmp_path / "shop.duckdb") == duckdb.__version__
