"""What a restoration does not undo: who was erased stays erased, and the audit log goes on."""

import time
from contextlib import closing

import duckdb
import pytest
from support.identified_users import declare, see, user_of, users
from support.service_records import hex_id, send, table, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.backup import restore
from attrib_ds.service.store.tables import TABLES

ANNA = {"email": "anna.secret@example.com", "vendorUserId": "vendor-anna", "note": "for Annabel"}
NAMES = ("anna.secret", "vendor-anna", "annabel", "nonce-of-anna", "browser-of-anna")
MODES = pytest.mark.parametrize("mode", ["anonymise", "delete"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.duckdb"


@pytest.fixture
def service(path):
    opened = Service.open("shop", path)
    declare(opened)
    see(opened, "n-ben", "browser-of-ben", email="ben@example.com")
    yield opened
    opened.close()
    # Some tests end it themselves.
    with closing(Service.open("shop", path)) as again:
        assert_users_agree(again)


@pytest.fixture
def anna(service):
    """A user who is there in an event, an interaction and the trash."""
    user = user_of(
        service, see(service, "nonce-of-anna-1", "browser-of-anna", confirmed=1, product="hat", **ANNA)
    )
    with pytest.raises(InvalidRequest):
        send(
            service,
            "create_event_sync",
            event_type="none",
            nonce="nonce-of-anna-2",
            data={"a": ANNA["email"]},
        )
    seen = visit(1, userId=user, userData='{"email":"anna.secret@example.com"}')
    assert send(service, "load_records", resource="interactions", source=table(seen)).read().num_rows == 0
    return user


def copied(service, file):
    with closing(send(service, "back_up_project").value) as answer:
        file.write_bytes(b"".join(answer.pieces))
    return file


def everything(service):
    return str([rows_of(service, f"SELECT * FROM {name}") for name in TABLES if name != "settings"]).lower()


def log(service):
    rows = send(service, "list_audit").read().to_pylist()
    return [(row["operation"], row["subject"]) for row in reversed(rows)]


@pytest.mark.large
@pytest.mark.slow
@MODES
def test_g209_an_older_backup_does_not_restore_erased_users(service, anna, tmp_path, mode):
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "delete_user", id=anna, mode=mode)
    after = {
        name: len(rows_of(service, f"FROM {name}")) for name in ("events", "interactions", "metrics", "users")
    }
    see(service, "n-later", "browser-of-later")
    assert [name for name in NAMES if name in everything(service)] == []
    for _ in range(2):
        send(service, "restore_project", source=backup)
        stored = everything(service)
        assert [name for name in NAMES if name in stored] == []
        assert "ben@example.com" in stored
        assert {name: len(rows_of(service, f"FROM {name}")) for name in after} == after
        assert (anna in users(service)) == (mode == "anonymise")
        # As before the restoration: a repeat stores nothing, and neither does what is from before.
        see(service, "nonce-of-anna-1", "browser-of-anna", confirmed=1, product="hat", **ANNA)
        assert {name: len(rows_of(service, f"FROM {name}")) for name in after} == after
    assert log(service) == [("delete_user", anna), ("restore_project", "shop"), ("restore_project", "shop")]


@pytest.mark.large
@pytest.mark.slow
def test_g209_restoring_a_closed_project_does_not_either(service, anna, tmp_path, path):
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "delete_user", id=anna)
    service.close()
    restore(backup, path, "shop", replace=True)
    with closing(Service.open("shop", path)) as again:
        assert [name for name in NAMES if name in everything(again)] == []
        assert log(again) == [("delete_user", anna)]


@pytest.mark.large
@pytest.mark.slow
def test_g209_nor_does_one_in_which_they_were_two(service, anna, tmp_path):
    other = user_of(service, see(service, "nonce-of-anna-3", "browser-of-anna-2"))
    assert other != anna
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "merge_users", id=other, userId=anna)
    send(service, "delete_user", id=anna, mode="delete")
    send(service, "restore_project", source=backup)
    assert [name for name in NAMES if name in everything(service)] == []
    assert not {anna, other} & users(service)


@pytest.mark.large
@pytest.mark.slow
def test_who_was_parted_from_the_erased_one_stays(service, anna, tmp_path):
    ben = user_of(service, see(service, "n-ben-2", email="ben@example.com"))
    send(service, "merge_users", id=ben, userId=anna)
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "split_user", id=ben, userId=anna)
    send(service, "delete_user", id=anna, mode="delete")
    send(service, "restore_project", source=backup)
    stored = everything(service)
    assert [name for name in NAMES if name in stored] == []
    assert "ben@example.com" in stored
    assert ben in users(service)


@pytest.mark.large
@pytest.mark.slow
def test_who_came_back_after_the_erasure_stays(service, anna, tmp_path):
    send(service, "delete_user", id=anna, mode="delete")
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
    again = user_of(service, see(service, "n-again", date=later, email=ANNA["email"]))
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "update_settings", retention_duration_in_days=9)
    send(service, "restore_project", source=backup)
    assert again in users(service)
    assert rows_of(service, "SELECT userId FROM identities WHERE value = 'anna.secret@example.com'") == [
        (again,)
    ]
    # What was chosen is as in the backup, and the log tells that it was different.
    assert send(service, "get_settings").read()["retentionDurationInDays"].to_pylist() == [0]
    assert [name for name, _ in log(service)] == ["delete_user", "update_settings", "restore_project"]


@pytest.mark.large
@pytest.mark.slow
def test_g209_erasures_of_files_that_went_different_ways_all_last(service, anna, tmp_path):
    """Each of the two files has a salt of its own then."""
    backup = copied(service, tmp_path / "backup.duckdb")
    with closing(Service.open("shop", backup)) as other:
        ben = user_of(other, see(other, "n-ben", "browser-of-ben", email="ben@example.com"))
        send(other, "delete_user", id=ben)
        repeated = see(other, "n-ben", "browser-of-ben", email="ben@example.com")
    send(service, "delete_user", id=anna, mode="delete")
    send(service, "restore_project", source=backup)
    stored = everything(service)
    assert [name for name in (*NAMES, "ben@example.com", "n-ben") if name in stored] == []
    before = rows_of(service, "FROM events"), rows_of(service, "FROM raw_events")
    assert see(service, "n-ben", "browser-of-ben", email="ben@example.com") == repeated
    see(service, "nonce-of-anna-1", "browser-of-anna", confirmed=1, product="hat", **ANNA)
    see(service, "n-new", "browser-of-anna", date="2025-01-01T00:00:00Z", email="ben@example.com")
    assert (rows_of(service, "FROM events"), rows_of(service, "FROM raw_events")) == before


@pytest.mark.large
@pytest.mark.slow
def test_an_erasure_whose_line_is_lost_is_still_done(service, anna, tmp_path):
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "delete_user", id=anna)
    service._store.write(lambda connection: connection.execute("DELETE FROM audit"))
    send(service, "restore_project", source=backup)
    assert [name for name in NAMES if name in everything(service)] == []
    assert anna not in users(service)


@pytest.mark.large
@pytest.mark.slow
def test_a_file_of_a_version_before_erasures_tells_of_none(service, anna, tmp_path, path):
    backup = copied(service, tmp_path / "backup.duckdb")
    service.close()
    with duckdb.connect(path) as old:
        old.execute("DROP TABLE tombstones")
    restore(backup, path, "shop", replace=True)
    with closing(Service.open("shop", path)) as again:
        assert anna in users(again)


@pytest.mark.large
@pytest.mark.slow
def test_a_restoration_that_cannot_carry_over_leaves_the_project_as_it_was(
    service, anna, tmp_path, monkeypatch
):
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "delete_user", id=anna, mode="delete")
    see(service, "n-later", "browser-of-later")

    def fail(*_):
        raise duckdb.IOException("the disk is full")

    monkeypatch.setattr("attrib_ds.service.backup.carry_over", fail)
    with pytest.raises(Exception, match="cannot be replaced"):
        send(service, "restore_project", source=backup)
    assert "n-later" in everything(service)
    assert [name for name in NAMES if name in everything(service)] == []
    assert sorted(value.name for value in tmp_path.iterdir() if "part" in value.name) == []


@pytest.mark.large
@pytest.mark.slow
def test_the_users_of_a_loaded_interaction_stay_erased_too(service, tmp_path):
    seen = visit(
        7, userId=hex_id(77), userData='{"email":"anna.secret@example.com"}', referrer="https://vendor-anna/"
    )
    send(service, "load_records", resource="interactions", source=table(seen))
    backup = copied(service, tmp_path / "backup.duckdb")
    send(service, "delete_user", id=hex_id(77), mode="anonymise")
    send(service, "restore_project", source=backup)
    assert hex_id(77) in users(service)
    assert [name for name in NAMES if name in everything(service)] == []
