"""Keys from Python: the private key is made here and stays here."""

import json
import stat
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.api.admin import create_key, list_audit, list_keys, revoke_key
from attrib_ds.service.http.server import ServerOptions, running


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "projects"
    folder.mkdir()
    return folder


@pytest.fixture
def shop(home):
    with at.connect("shop", path=home / "shop.duckdb") as project:
        yield project


def test_the_file_is_for_its_owner_alone_and_has_the_only_private_key(shop, tmp_path):
    path = tmp_path / "key.json"
    expiry = datetime(2099, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    key = create_key(shop, path, scopes=["users:read", "interactions:read"], expires_at=expiry)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert list(content) == ["clientId", "serviceAccountEmail", "privateKeyId", "privateKey"]
    assert key.name == key["_id"] == content["privateKeyId"]
    assert (key["clientId"], key["serviceAccountEmail"]) == (
        content["clientId"],
        content["serviceAccountEmail"],
    )
    assert key["scopes"].tolist() == ["interactions:read", "users:read"]
    assert key["expiresAt"] == pd.Timestamp("2099-01-01T00:00:00Z")
    assert content["privateKey"].splitlines()[1] not in repr(key.to_dict())
    listed = list_keys(shop)
    assert listed["_id"].tolist() == [key["_id"]]
    assert listed.columns.tolist() == key.index.tolist()
    details = list_audit(shop)[["operation", "subject", "details"]].to_numpy().tolist()
    assert details == [["create_key", key["_id"], "{}"]]


@pytest.mark.slow
def test_a_key_reads_what_its_scopes_allow_and_no_more(shop, home, tmp_path):
    create_key(shop, tmp_path / "reader.json", scopes=["interactions:read"])
    shop.close()
    with (
        running(home, options=ServerOptions(rate_limits=None)) as url,
        at.connect("shop", url=url, key=tmp_path / "reader.json") as remote,
    ):
        assert at.search_interactions(remote).empty
        with pytest.raises(errors.Forbidden):
            list_keys(remote)


@pytest.mark.slow
def test_the_key_opens_the_project_on_a_server_until_it_is_revoked(shop, home, tmp_path):
    create_key(shop, tmp_path / "first.json")
    shop.close()
    with ExitStack() as stack:
        url = stack.enter_context(running(home, options=ServerOptions(rate_limits=None)))
        remote = stack.enter_context(at.connect("shop", url=url, key=tmp_path / "first.json"))
        second = create_key(remote, tmp_path / "second.json")
        assert list_keys(remote)["_id"].tolist()[1:] == [second["_id"]]
        other = stack.enter_context(at.connect("shop", url=url, key=tmp_path / "second.json"))
        assert len(at.list_nodes(other)) == 0
        assert (revoke_key(remote, second["_id"]), revoke_key(remote, second["_id"])) == (1, 0)
        with pytest.raises(errors.Unauthorized):
            at.list_nodes(other)
        assert list_keys(remote)["revokedAt"].isna().tolist() == [True, False]


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_not_overwritten_and_nothing_is_asked(shop, tmp_path, kind):
    path = tmp_path / "key.json"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(errors.InvalidRequest, match=r"path: .* already exists"):
        create_key(shop, path)
    assert kind != "file" or path.read_text() == "precious"
    assert not (tmp_path / "elsewhere.json").exists()
    assert len(list_keys(shop)) == len(list_audit(shop)) == 0


def test_a_file_in_no_folder_is_an_error_before_anything_is_asked(shop, tmp_path):
    with pytest.raises(errors.Unavailable, match=r"path: .*No such file or directory") as caught:
        create_key(shop, tmp_path / "nowhere" / "key.json")
    assert caught.value.field == "path"
    assert len(list_keys(shop)) == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes/0"),
        ({"scopes": "admin"}, "scopes"),
        ({"expires_at": datetime(2099, 1, 1)}, "expires_at"),
        ({"expires_at": pd.Timestamp("2099-01-01")}, "expires_at"),
        ({"expires_at": pd.NaT}, "expires_at"),
        ({"expires_at": "2099-01-01T00:00:00.123"}, "expires_at"),
        ({"expires_at": datetime.now(UTC) - timedelta(seconds=1)}, "expires_at"),
        ({"expires_at": 4_070_908_800}, "expires_at"),
    ],
)
def test_wrong_arguments_leave_no_file_and_no_key(shop, tmp_path, arguments, field):
    with pytest.raises(errors.InvalidRequest) as caught:
        create_key(shop, tmp_path / "key.json", **arguments)
    assert caught.value.field == field
    assert not (tmp_path / "key.json").exists()
    assert len(list_keys(shop)) == 0


def test_a_project_in_memory_has_no_keys_and_no_file_is_left(tmp_path):
    with at.connect("shop", path=":memory:") as shop:
        with pytest.raises(errors.NotSupported, match="a project in memory has no keys"):
            create_key(shop, tmp_path / "key.json")
        with pytest.raises(errors.NotSupported, match="a project in memory has no keys"):
            list_keys(shop)
    assert not (tmp_path / "key.json").exists()
