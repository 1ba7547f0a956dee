"""Keys of an embedded project: in the accounts of its folder, and never without a line in the audit log."""

from contextlib import closing

import pytest
from support.service_records import send

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.json_values import Refused
from attrib_ds.errors import NotFound, NotSupported
from attrib_ds.keys import make_key_pair
from attrib_ds.service import Service
from attrib_ds.service.account_keys import create_key
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import FILE
from attrib_ds.service.store.audit import AuditEntry
from attrib_ds.service.store.store import Store

KEY_ID = "0" * 40


@pytest.fixture(scope="module")
def pair():
    return make_key_pair()


def calls(pair):
    return {
        "list_keys": {},
        "create_key": {"public_key": pair.public},
        "revoke_key": {"key_id": KEY_ID},
    }


def test_a_project_in_memory_has_no_keys(pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(Service.open("shop", ":memory:")) as service:
        for name, arguments in calls(pair).items():
            with pytest.raises(NotSupported, match=r"in memory .* connect to one with a path"):
                send(service, name, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_reading_creates_no_accounts(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        assert send(service, "list_keys").read().num_rows == 0
        with pytest.raises(NotFound, match="key_id"):
            send(service, "revoke_key", key_id=KEY_ID)
    assert not (tmp_path / FILE).exists()


def test_a_read_only_project_changes_no_key(pair, tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        send(service, "create_key", public_key=pair.public)
    with closing(Service.open("shop", tmp_path / "shop.duckdb", read_only=True)) as service:
        assert send(service, "list_keys").read()["_id"].to_pylist() == [pair.key_id]
        for name, arguments in {
            "create_key": {"public_key": make_key_pair().public},
            "revoke_key": {"key_id": pair.key_id},
        }.items():
            with pytest.raises(NotSupported, match="read_only"):
                send(service, name, **arguments)
        assert send(service, "list_keys").read()["revokedAt"].to_pylist() == [None]


def test_the_accounts_are_those_of_a_server_of_the_folder(pair, tmp_path, monkeypatch):
    # A relative path is that of the folder in which the project was opened.
    monkeypatch.chdir(tmp_path)
    with closing(Service.open("shop", "shop.duckdb")) as service:
        send(service, "create_key", public_key=pair.public)
    with closing(Accounts.open(tmp_path)) as accounts:
        assert [(key.key_id, key.projects) for key in accounts.list_keys()] == [(pair.key_id, ("shop",))]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_a_key_whose_line_cannot_be_logged_does_not_work(pair, tmp_path):
    request = build(OPERATIONS["create_key"], project_id="shop", public_key=pair.public)
    line = AuditEntry(account=None, operation="create_key", subject="", details={"not": object()})
    with closing(Store.open(tmp_path / "shop.duckdb", "shop")) as store, pytest.raises(Refused):
        create_key(tmp_path, store, request, line)
    with closing(Accounts.open(tmp_path)) as accounts:
        (key,) = accounts.list_keys()
        assert key.revoked_at is not None
        assert accounts.find_key(key.client_id, key.key_id) is None
