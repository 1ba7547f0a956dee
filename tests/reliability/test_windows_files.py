"""Projects under Windows' rules for open files: all goes on, or is refused in words, and nothing is lost."""

import itertools
import os
import re
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from support.order_events import declare_order, order
from support.service_records import send
from support.windows_files import WORDS, Windows

import attrib_ds as at
from attrib_ds import local_files
from attrib_ds.errors import ProjectInUse, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.backup import restore
from attrib_ds.service.store.migration import OLDEST

FORMATS = Path(__file__).parents[1] / "service" / "store" / "formats"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "shop.duckdb"


@pytest.fixture
def windows(monkeypatch):
    return Windows(monkeypatch)


@pytest.fixture
def service(path, windows):
    """A project with one order, under the rules."""
    with closing(Service.open("shop", path)) as service:
        declare_order(service)
        send(service, "create_event_sync", **order("first"))
        yield service


def back_up(service, file):
    answer = send(service, "back_up_project").value
    with closing(answer):
        file.write_bytes(b"".join(answer.pieces))
    return file


def nonces(path):
    with duckdb.connect(path, read_only=True) as connection:
        return {nonce for (nonce,) in connection.execute("SELECT nonce FROM raw_events").fetchall()}


def contents(folder):
    """Return what is in the files of a folder, without empty logs."""
    return {file.name: content for file in folder.iterdir() if (content := file.read_bytes())}


def test_the_rules_hold(path, windows):
    path.parent.mkdir()
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        for forbidden in (
            lambda: path.rename(path.with_suffix(".old")),
            lambda: path.with_name("part").write_bytes(b"") or path.with_name("part").replace(path),
            path.unlink,
            path.read_bytes,
            lambda: path.parent.rename(path.parent.with_name("elsewhere")),
            lambda: os.open(path, os.O_RDWR),
        ):
            with pytest.raises(PermissionError):
                forbidden()
    assert path.read_bytes()
    with path.open("rb"), path.open("r+b"), pytest.raises(PermissionError):
        path.unlink()
    path.unlink()


def test_a_project_is_opened_twice_in_one_process(service, path):
    with closing(Service.open("shop", path)) as second:
        send(second, "create_event_sync", **order("second"))
        send(service, "create_event_sync", **order("third"))
        for each in (service, second):
            assert send(each, "search_events").total == 3


def test_files_are_compacted(service, path, windows):
    before = path.stat().st_ino
    sizes = send(service, "compact_project").value
    assert sizes["bytesAfter"] == path.stat().st_size
    assert path.stat().st_ino != before
    send(service, "create_event_sync", **order("second"))
    service.close()
    assert nonces(path) == {"first", "second"}


def test_a_project_is_restored_while_it_is_served_and_while_it_is_closed(service, path, tmp_path):
    backup = back_up(service, tmp_path / "backup.duckdb")
    send(service, "create_event_sync", **order("second"))
    send(service, "restore_project", source=backup)
    assert send(service, "search_events").total == 1
    send(service, "create_event_sync", **order("third"))
    service.close()
    restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}
    with closing(Service.open("shop", path)) as again:
        send(again, "create_event_sync", **order("fourth"))
    assert nonces(path) == {"first", "fourth"}


@pytest.mark.parametrize("words", WORDS)
def test_a_busy_project_is_neither_opened_nor_replaced(service, path, tmp_path, windows, words):
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    before = contents(path.parent)
    windows.renamed.clear()
    windows.hold(path, words)
    with pytest.raises(ProjectInUse, match="another process holds"):
        at.connect("shop", path=path)
    with pytest.raises(ProjectInUse):
        restore(backup, path, "shop", replace=True)
    # Only what it had written itself was removed.
    assert [file for file in windows.renamed if ".part" not in file.name] == []
    windows.let_go()
    assert contents(path.parent) == before


def test_a_file_that_the_system_does_not_open_is_not_damaged(service, path, tmp_path, monkeypatch):
    """Such as one that its user may not read: there are more reasons than a lock, in all languages."""
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    before, connect = contents(path.parent), duckdb.connect

    def refuse(file, *arguments, **options):
        if file == path:
            raise duckdb.IOException(f'IO Error: Cannot open file "{file}": Zugriff verweigert')
        return connect(file, *arguments, **options)

    monkeypatch.setattr(duckdb, "connect", refuse)
    with pytest.raises(Unavailable, match="cannot be replaced: .*Zugriff verweigert"):
        restore(backup, path, "shop", replace=True)
    assert contents(path.parent) == before


@pytest.mark.slow
def test_a_damaged_file_is_replaced_unless_a_process_has_it_open(service, path, tmp_path, windows):
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    path.write_bytes(b"broken")
    before = contents(path.parent)
    with path.open("rb"), pytest.raises(Unavailable, match="cannot be replaced"):
        restore(backup, path, "shop", replace=True)
    assert contents(path.parent) == before
    restore(backup, path, "shop", replace=True)
    assert nonces(path) == {"first"}


@pytest.mark.few(2)
@pytest.mark.parametrize("version", range(OLDEST, OLDEST + len(list(FORMATS.glob("*.sql")))))
def test_an_earlier_format_is_brought_up_to_date(path, windows, version):
    path.parent.mkdir()
    with duckdb.connect(path) as connection:
        connection.execute((FORMATS / f"format-{version}.sql").read_text())
    before = path.read_bytes()
    with at.connect("shop", path=path) as shop:
        assert len(at.search_events(shop)) == 1
    assert path.with_name(f"shop.format-{version}.duckdb").read_bytes() == before


@pytest.fixture
def scanner(monkeypatch):
    """Let another program have the project's file open for some attempts to replace it; returns the pauses."""
    pauses = []
    monkeypatch.setattr(local_files.time, "sleep", pauses.append)

    def scan(path, attempts):
        replace, left = os.replace, itertools.count(attempts, -1)

        def refuse(source, target):
            if Path(target) == path and next(left) > 0:
                raise PermissionError(13, "The file is being used by another process", str(target))
            replace(source, target)

        monkeypatch.setattr(os, "replace", refuse)
        return pauses

    return scan


@pytest.mark.parametrize("attempts", [3, 99])
def test_a_replacement_is_tried_for_seconds_and_undone_if_it_fails(
    service, path, tmp_path, scanner, attempts
):
    backup = back_up(service, tmp_path / "backup.duckdb")
    send(service, "create_event_sync", **order("second"))
    service.close()
    # Of a process that was killed: its records are in the queue and in the log alone.
    path.with_name("shop.duckdb.wal.checkpoint").write_bytes(b"log")
    before = contents(path.parent)
    pauses = scanner(path, attempts)
    if attempts == 3:
        restore(backup, path, "shop", replace=True)
        assert len(pauses) == 3
        assert nonces(path) == {"first"}
        return
    with pytest.raises(Unavailable, match="cannot be replaced"):
        restore(backup, path, "shop", replace=True)
    assert 3 < sum(pauses) < 30
    assert contents(path.parent) == before
    with closing(Service.open("shop", path)) as again:
        assert send(again, "search_events").total == 2


def test_a_failed_compaction_changes_nothing(service, path, scanner):
    service.close()
    with closing(Service.open("shop", path)) as again:
        scanner(path, 99)
        with pytest.raises(Unavailable, match="cannot be compacted"):
            send(again, "compact_project")
        send(again, "create_event_sync", **order("second"))
    assert nonces(path) == {"first", "second"}


def test_what_is_written_between_two_attempts_is_not_replaced(service, path, monkeypatch):
    """On Windows, another process can open the file while this one waits, and close it again."""
    replace = os.replace

    def refuse(source, target):
        if Path(target) == path:
            monkeypatch.setattr(os, "replace", replace)
            with closing(Service.open("shop", path)) as other:
                send(other, "create_event_sync", **order("second"))
            raise PermissionError(13, "The file is being used by another process", str(target))
        replace(source, target)

    monkeypatch.setattr(local_files.time, "sleep", lambda _: None)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ProjectInUse, match="another process has written"):
        send(service, "compact_project")
    assert send(service, "search_events").total == 2


@pytest.fixture
def held(monkeypatch):
    """Let another program have files open, those whose names match, for some attempts of each operation."""
    monkeypatch.setattr(local_files.time, "sleep", lambda _: None)

    def refusing(owner, name, is_held, left):
        function = getattr(owner, name)

        def refuse(path, *arguments, **options):
            is_read = name == "open" and not {"+", "w"} & set(str(arguments))
            if is_held(Path(path).name) and os.path.lexists(path) and not is_read and next(left) > 0:
                raise PermissionError(13, "The file is being used by another process", str(path))
            return function(path, *arguments, **options)

        monkeypatch.setattr(owner, name, refuse)

    def hold(is_held, attempts=99, operations=("replace", "unlink")):
        for name in operations:
            refusing(Path if name == "open" else os, name, is_held, itertools.count(attempts, -1))

    return hold


def test_files_that_cannot_be_named_as_before_are_told_and_the_others_are(service, path, tmp_path, held):
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    before = contents(path.parent)
    assert {"shop.duckdb.queue", "shop.duckdb.writes"} <= before.keys()
    # Scanners open what was renamed just now.
    held(
        re.compile(r"\.shop\.duckdb\.\w+\.part|shop\.duckdb\.queue\.\w+\.old").fullmatch,
        operations=["replace"],
    )
    with pytest.raises(Unavailable, match="Before you open the project, rename") as caught:
        restore(backup, path, "shop", replace=True)
    (old,) = path.parent.glob("*.old")
    assert f"rename {str(old)!r} to 'shop.duckdb.queue'" in caught.value.message
    old.rename(path.with_name("shop.duckdb.queue"))
    assert contents(path.parent) == before


def test_a_restoration_that_fails_leaves_no_copy(service, path, tmp_path, held):
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    before = contents(path.parent)
    held(re.compile(r".*\.part\.writes\.\w+\.part").fullmatch, operations=["replace"])
    with pytest.raises(Unavailable, match=r"cannot be opened: .*\.part\.writes"):
        restore(backup, path, "shop", replace=True)
    assert contents(path.parent) == before


def test_a_copy_that_is_scanned_for_a_moment_is_removed(service, path, tmp_path, held):
    backup = back_up(service, tmp_path / "backup.duckdb")
    service.close()
    held(lambda name: name.endswith(".part.writes"), 3, ["unlink"])
    restore(backup, path, "shop", replace=True)
    assert not list(path.parent.glob(".*"))


def test_a_file_for_a_user_fails_in_words_if_neither_it_nor_its_copy_can_be_changed(
    service, path, tmp_path, held
):
    service.close()
    held(lambda name: name.endswith(".part"))
    with (
        at.connect("shop", path=path) as shop,
        pytest.raises(Unavailable, match=r"interactions\.parquet.* cannot be written"),
    ):
        at.export_interactions(shop, tmp_path / "interactions.parquet")


def test_an_upgrade_fails_in_words_if_its_copy_can_be_neither_renamed_nor_removed(path, held):
    path.parent.mkdir()
    with duckdb.connect(path) as connection:
        connection.execute((FORMATS / "format-7.sql").read_text(encoding="utf-8"))
    before = path.read_bytes()
    held(lambda name: name.endswith(".part"))
    with pytest.raises(Unavailable, match="cannot be brought up to date.*it was not changed"):
        Service.open("shop", path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("attempts", [3, 99])
def test_the_counter_of_writes_is_opened_again_and_again(service, path, held, attempts):
    service.close()
    before = contents(path.parent)
    held(lambda name: name.endswith(".writes"), attempts, ["open"])
    if attempts == 3:
        with closing(Service.open("shop", path)) as again:
            assert send(again, "search_events").total == 1
        return
    with pytest.raises(Unavailable, match=r"cannot be opened: .*shop\.duckdb\.writes"):
        Service.open("shop", path)
    assert contents(path.parent) == before


def test_a_project_that_is_scanned_for_a_moment_is_compacted_and_restored(service, path, tmp_path, held):
    backup = back_up(service, tmp_path / "backup.duckdb")
    held(lambda name: name.startswith((".shop", "shop.duckdb")), 3, ["open"])
    send(service, "compact_project")
    service.close()
    held(lambda name: name.startswith((".shop", "shop.duckdb")), 3, ["open"])
    restore(backup, path, "shop", replace=True)


def test_a_report_that_a_person_has_open_is_refused_in_words(tmp_path, held):
    sequences = pd.DataFrame({"path": ["search > email"], "n": [4]})
    paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    credits = at.attribute(paths, "linear")
    files = [tmp_path / name for name in ("report.html", "report.xlsx", "credits.xlsx")]
    for file in files:
        file.write_bytes(b"earlier")
    held(lambda name: name.startswith((".", "report", "credits")), operations=["open", "replace"])
    for file in files:
        with pytest.raises(Unavailable, match="cannot be written"):
            at.to_excel(credits, file) if file == files[-1] else at.report(credits, file, paths=paths)
    assert contents(tmp_path) == {file.name: b"earlier" for file in files}


@pytest.mark.parametrize("attempts", [3, 99])
def test_a_file_of_an_earlier_format_that_is_scanned_is_brought_up_to_date_or_left(path, held, attempts):
    path.parent.mkdir()
    with duckdb.connect(path) as connection:
        connection.execute((FORMATS / "format-7.sql").read_text(encoding="utf-8"))
    held(lambda name: name == "shop.duckdb", attempts, ["open"])
    if attempts == 3:
        Service.open("shop", path).close()
        return
    with pytest.raises(ProjectInUse, match="is in use, or not writable"):
        Service.open("shop", path)
    assert not list(path.parent.glob("*.part"))


def test_the_sample_project_is_loaded(windows, own_home):
    with at.sample_project() as shop:
        assert len(at.list_nodes(shop)) > 10
