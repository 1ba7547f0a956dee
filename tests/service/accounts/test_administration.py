"""Key files, and what an administrator does with keys."""

from __future__ import annotations

import json
import sys

import pytest

from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.service.accounts.administration import create_key, list_keys, revoke_key


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner mode")
def test_a_key_file_is_for_its_owner_alone(tmp_path):
    create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    assert (tmp_path / "key.json").stat().st_mode & 0o777 == 0o600


def test_writes_lists_and_revokes(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"], scopes=["interactions:read"])
    assert json.loads((tmp_path / "key.json").read_text()) == {
        "clientId": key.clientId,
        "serviceAccountEmail": key.serviceAccountEmail,
        "privateKeyId": key.privateKeyId,
        "privateKey": key.privateKey,
    }
    second = create_key(tmp_path, tmp_path / "second.json", client_id=key.clientId)
    assert second.serviceAccountEmail == key.serviceAccountEmail
    revoke_key(tmp_path, key.privateKeyId)
    assert [listed.revoked_at is None for listed in list_keys(tmp_path)] == [False, True]


def test_a_file_that_is_there_is_not_overwritten_and_no_account_is_left(tmp_path):
    (tmp_path / "key.json").write_text("precious")
    with pytest.raises(InvalidRequest, match="out"):
        create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    assert (tmp_path / "key.json").read_text() == "precious"
    assert list_keys(tmp_path) == []


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(NotFound):
        create_key(tmp_path, tmp_path / "key.json", client_id="nonsense")
    assert not (tmp_path / "key.json").exists()
