"""The key pair of a new key is made by the client: nothing that a service does gets at its private half."""

import json
from contextlib import ExitStack

import pytest
from support.limited_files import full_disk
from support.scripted_service import RESET, Reply
from transports.http.test_secrets import assert_clean, everything_about

from attrib_ds import errors
from attrib_ds.api.admin import create_key
from attrib_ds.service.accounts.accounts import checked_public_key

#: What every private RSA key in PEM has near its beginning, and no public key has.
CANARIES = ["PRIVATE KEY", "IBADANBgkqhkiG9w0BAQEFAASC"]
REVOKED = Reply(body={"modifiedCount": 1})


def registered(asked, **changes):
    """Answer as a service does that registers the key."""
    body = json.loads(asked.body)
    key = {
        "_id": checked_public_key(body["publicKey"])[0],
        "clientId": "client-2",
        "serviceAccountEmail": "new@shop.example",
        "scopes": body["scopes"],
        "createdAt": "2025-01-01T00:00:00.000Z",
        "expiresAt": None,
        "revokedAt": None,
    }
    return Reply(201, {name: value for name, value in {**key, **changes}.items() if value is not ...})


def test_the_private_key_is_in_the_file_and_nowhere_else(open_shop, service, tmp_path, caplog):
    service.script = [registered]
    with caplog.at_level("DEBUG"):
        key = create_key(open_shop(), tmp_path / "new.json", scopes=["admin"])
    (asked,) = service.asked
    assert sorted(json.loads(asked.body)) == ["publicKey", "scopes"]
    content = (tmp_path / "new.json").read_text()
    assert all(canary in content for canary in CANARIES)
    assert json.loads(content)["clientId"] == "client-2"
    assert_clean(repr(key.to_dict()) + caplog.text + str(asked), CANARIES)


def test_a_lost_answer_does_not_make_a_second_key(open_shop, service, tmp_path):
    service.script = [RESET, Reply(503, {"message": "later"}), registered]
    key = create_key(open_shop(), tmp_path / "new.json")
    bodies = {asked.body for asked in service.asked}
    assert (len(service.asked), len(bodies)) == (3, 1)
    assert key["_id"] == checked_public_key(json.loads(bodies.pop())["publicKey"])[0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_a_refusal_leaves_no_file(open_shop, service, tmp_path, status):
    service.script = [Reply(status, {"message": "no"})]
    with pytest.raises(errors.AttribError) as caught:
        create_key(open_shop(), tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []
    assert {asked.method for asked in service.asked} == {"POST"}
    assert_clean(everything_about(caught.value), CANARIES)


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_key_whose_file_cannot_be_written_is_revoked(open_shop, service, tmp_path, is_revoked):
    shop = open_shop()
    with ExitStack() as limit:

        def fill_disk(asked):
            limit.enter_context(full_disk(room=100))
            return registered(asked)

        def revoke(asked):
            limit.close()
            return REVOKED if is_revoked else Reply(403, {"message": "no"})

        service.script = [fill_disk, revoke]
        with pytest.raises(errors.Unavailable, match=r"path: .*new\.json' cannot be written") as caught:
            create_key(shop, tmp_path / "new.json")
    posted, deleted = service.asked
    key_id = checked_public_key(json.loads(posted.body)["publicKey"])[0]
    assert (deleted.method, deleted.path) == ("DELETE", f"/api/v1/projects/shop/keys/{key_id}")
    assert list(tmp_path.iterdir()) == []
    notes = getattr(caught.value, "__notes__", [])
    assert notes == [] if is_revoked else key_id in notes[0]
    assert_clean(everything_about(caught.value), CANARIES)


@pytest.mark.parametrize(
    "changes",
    [{"_id": "0" * 40}, {"clientId": ...}, {"clientId": ""}, {"serviceAccountEmail": None}],
    ids=["another id", "no account", "an empty account", "no email"],
)
def test_an_answer_about_another_key_is_refused(open_shop, service, tmp_path, changes):
    service.script = [lambda asked: registered(asked, **changes), REVOKED]
    with pytest.raises(errors.ServiceFailure, match="key") as caught:
        create_key(open_shop(), tmp_path / "new.json")
    assert [asked.method for asked in service.asked] == ["POST", "DELETE"]
    assert list(tmp_path.iterdir()) == []
    assert_clean(everything_about(caught.value), CANARIES)
