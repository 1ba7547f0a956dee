"""Service accounts, their keys and tokens; public keys that clients send."""

import hashlib
import json
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from attrib_ds.errors import Conflict, InvalidRequest, NotFound, Unavailable
from attrib_ds.keys import make_key_pair
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import FILE, checked_public_key, create_key


def token_of(accounts, key, scopes=("full_access",), **once):
    return accounts.issue(accounts.find_key(key.clientId, key.privateKeyId), scopes, **once)


def test_r316_a_key_file_has_exactly_the_members_of_the_specification(key):
    content = json.loads(key.to_json())
    assert list(content) == ["clientId", "serviceAccountEmail", "privateKeyId", "privateKey"]
    private = serialization.load_pem_private_key(content["privateKey"].encode(), password=None)
    assert private.key_size == 2048


def test_only_the_public_key_is_stored(accounts, key, tmp_path):
    token = token_of(accounts, key)
    accounts.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"BEGIN PUBLIC KEY" in stored
    assert b"PRIVATE" not in stored
    assert key.privateKey.splitlines()[3].encode() not in stored
    assert token.text.encode() not in stored


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner mode")
def test_the_database_is_for_its_owner_alone(accounts, key, tmp_path):
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_secrets_do_not_show(accounts, key):
    token = token_of(accounts, key)
    assert token.text not in repr(token)
    assert "PRIVATE" not in repr(key)
    assert len(token.text) == 43  # 256 bits in base64url


def test_a_token_works_for_its_seconds(accounts, key, clock):
    token = token_of(accounts, key, ("events:read",))
    assert token.seconds == 3600
    access = accounts.find_access(token.text)
    assert access.client_id == key.clientId
    assert access.allows("events:read")
    assert not access.allows("events:write")
    clock.now += 3599
    assert accounts.find_access(token.text) is not None
    clock.now += 1
    assert accounts.find_access(token.text) is None


def test_full_access_allows_everything(accounts, key):
    access = accounts.find_access(token_of(accounts, key).text)
    assert access.allows("users:sql")


def test_an_unknown_token_allows_nothing(accounts, key):
    assert accounts.find_access("x" * 43) is None
    assert accounts.find_access("") is None
    assert accounts.find_access("\ud800") is None


def test_revoking_ends_tokens_at_once(accounts, key):
    token = token_of(accounts, key)
    accounts.revoke_key(key.privateKeyId)
    assert accounts.find_access(token.text) is None
    assert accounts.find_key(key.clientId, key.privateKeyId) is None
    assert accounts.has_account(key.clientId)


def test_a_key_ends_when_it_expires_and_its_tokens_with_it(accounts, clock):
    end = datetime.fromtimestamp(clock.now + 100, UTC)
    key = accounts.create(projects=None, expires_at=end)
    token = token_of(accounts, key)
    assert token.seconds == 100
    clock.now += 100
    assert accounts.find_key(key.clientId, key.privateKeyId) is None
    assert accounts.find_access(token.text) is None


def test_grants_are_per_project_or_for_all(accounts):
    some = accounts.create(projects=["shop", "other-shop"])
    every = accounts.create(projects=None)
    access = accounts.find_access(token_of(accounts, some).text)
    assert accounts.has_grant(access, "shop")
    assert accounts.has_grant(access, "other-shop")
    assert not accounts.has_grant(access, "third-shop")
    assert not accounts.has_grant(access, "SHOP")
    assert accounts.has_grant(accounts.find_access(token_of(accounts, every).text), "third-shop")


def test_a_key_of_another_account_is_not_found(accounts, key):
    other = accounts.create(projects=["shop"])
    assert accounts.find_key(other.clientId, key.privateKeyId) is None


def test_lists_keys_with_what_they_may(accounts, clock):
    first = accounts.create(projects=["shop"], scopes=["users:read", "interactions:read"])
    clock.now += 1
    second = accounts.create(projects=None)
    accounts.revoke_key(first.privateKeyId)
    listed = accounts.list_keys()
    assert [key.key_id for key in listed] == [first.privateKeyId, second.privateKeyId]
    assert [key.projects for key in listed] == [("shop",), None]
    assert listed[0].scopes == ("interactions:read", "users:read")
    assert listed[0].revoked_at == datetime(2025, 6, 15, 15, 6, 41, tzinfo=UTC)
    assert listed[1].revoked_at is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"projects": ["Shop"]}, "project_id"),
        ({"projects": []}, "projects"),
        ({"projects": None, "scopes": ["users:raed"]}, "did you mean 'users:read'"),
        ({"projects": None, "scopes": []}, "scopes"),
        ({"projects": None, "expires_at": datetime(2025, 1, 1, tzinfo=UTC)}, "expires_at"),
        ({"projects": None, "expires_at": datetime(2030, 1, 1)}, "time zone"),
    ],
)
def test_refuses_what_is_not_allowed(accounts, arguments, named):
    with pytest.raises(InvalidRequest, match=named):
        accounts.create(**arguments)
    assert accounts.list_keys() == []


def test_unknown_keys_and_accounts_are_told(accounts, key):
    with pytest.raises(NotFound, match="key_id"):
        accounts.revoke_key("nonsense")


def test_an_assertion_identifier_counts_once_until_it_ends(accounts, key, clock):
    token_of(accounts, key, once="a", until=clock.now + 10)
    assert token_of(accounts, key, once="a", until=clock.now + 10) is None
    other = accounts.create(projects=["shop"])
    token_of(accounts, other, once="a", until=clock.now + 10)
    clock.now += 10
    token_of(accounts, key, once="a", until=clock.now + 10)


@pytest.mark.large
@pytest.mark.slow
def test_another_process_revokes_a_key_while_the_accounts_are_open(accounts, key, tmp_path):
    token = token_of(accounts, key)
    command = [sys.executable, "-m", "attrib_ds", "keys", "revoke", key.privateKeyId, "--home", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert accounts.find_access(token.text) is None


def test_every_commit_is_flushed(accounts):
    with accounts._database.write() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        # On macOS, also out of the cache of the disk.
        assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)


def test_a_file_of_a_newer_version_is_not_opened(accounts, tmp_path):
    accounts.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(Unavailable, match="newer"):
        Accounts.open(tmp_path)


def test_a_file_that_is_something_else_is_not_opened(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(Unavailable, match="accounts"):
        Accounts.open(tmp_path)


def test_a_beat_fails_on_closed_accounts(accounts):
    accounts.probe()
    accounts.close()
    accounts.close()
    with pytest.raises(Unavailable):
        accounts.probe()


# -- keys that clients make, each for one project


@pytest.fixture(scope="module")
def pair():
    return make_key_pair()


def test_a_registered_key_opens_its_project_alone(accounts, pair):
    key, is_new = accounts.register(pair.public, project_id="shop", scopes=["users:read", "admin"])
    assert is_new
    assert (key.key_id, key.projects, key.scopes) == (pair.key_id, ("shop",), ("users:read", "admin"))
    found = accounts.find_key(key.client_id, pair.key_id)
    access = accounts.find_access(accounts.issue(found, found.scopes).text)
    assert access.scopes == {"users:read", "admin"}
    assert not access.has_all_projects
    assert [accounts.has_grant(access, project) for project in ("shop", "sho", "shop-2", "other")] == [
        True,
        False,
        False,
        False,
    ]


def test_the_same_key_registered_again_is_the_same_key(accounts, pair, clock):
    expiry = datetime.fromtimestamp(clock.now + 60, UTC)
    options = {"project_id": "shop", "scopes": ["admin"], "expires_at": expiry}
    key, is_new = accounts.register(pair.public, **options)
    assert is_new
    assert accounts.register(pair.public, **options) == (key, False)
    assert [listed.key_id for listed in accounts.list_keys()] == [pair.key_id]


@pytest.mark.parametrize(
    "changes",
    [{"project_id": "other"}, {"scopes": ["full_access"]}, {"expires_at": datetime(2099, 1, 1, tzinfo=UTC)}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_registered_key_cannot_be_registered_with_other_properties(accounts, pair, changes):
    options = {"project_id": "shop", "scopes": ["admin"]}
    accounts.register(pair.public, **options)
    before = accounts.list_keys()
    with pytest.raises(Conflict, match="public_key"):
        accounts.register(pair.public, **{**options, **changes})
    assert accounts.list_keys() == before


@pytest.mark.slow
def test_a_project_has_a_maximum_of_keys_that_work(accounts, clock, monkeypatch):
    monkeypatch.setattr("attrib_ds.service.accounts.accounts.MOST_KEYS", 2)
    pairs = [make_key_pair() for _ in range(5)]

    def register(pair, **options):
        return accounts.register(pair.public, **{"project_id": "shop", "scopes": ["admin"], **options})[0]

    first = register(pairs[0])
    register(pairs[1], expires_at=datetime.fromtimestamp(clock.now + 60, UTC))
    with pytest.raises(Conflict, match="2 valid keys"):
        register(pairs[2])
    assert register(pairs[0]) == first
    assert register(pairs[3], project_id="other").projects == ("other",)
    clock.now += 61
    register(pairs[2])
    accounts.revoke_key(first.key_id)
    register(pairs[4])
    assert len(accounts.list_keys_of_project("shop")) == 4


def test_a_revoked_key_cannot_be_registered_again(accounts, pair):
    accounts.register(pair.public, project_id="shop")
    accounts.revoke_key(pair.key_id)
    with pytest.raises(Conflict):
        accounts.register(pair.public, project_id="shop")
    assert accounts.find_key(accounts.list_keys()[0].client_id, pair.key_id) is None


@pytest.mark.parametrize("seconds", [-1, 0])
def test_a_key_cannot_expire_in_the_past(accounts, pair, clock, seconds):
    expiry = datetime.fromtimestamp(clock.now + seconds, UTC)
    with pytest.raises(InvalidRequest, match=r"expires_at: .* is in the past"):
        accounts.register(pair.public, project_id="shop", expires_at=expiry)
    with pytest.raises(InvalidRequest, match="expires_at: .* has no time zone"):
        accounts.register(pair.public, project_id="shop", expires_at=datetime(2099, 1, 1))
    assert accounts.list_keys() == []


def test_a_project_sees_and_revokes_keys_of_its_own_alone(accounts):
    own = accounts.create(projects=["shop"]).privateKeyId
    others = [
        accounts.create(projects=projects).privateKeyId
        for projects in (["other"], ["shop", "other"], ["shop-2"], None)
    ]
    assert [key.key_id for key in accounts.list_keys_of_project("shop")] == [own]
    for key_id in [*others, "0" * 40, "%", ""]:
        with pytest.raises(NotFound, match="key_id"):
            accounts.revoke_key_of_project("shop", key_id)
    assert accounts.revoke_key_of_project("shop", own)
    assert not accounts.revoke_key_of_project("shop", own)
    revoked = {key.key_id for key in accounts.list_keys() if key.revoked_at is not None}
    assert revoked == {own}


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner mode")
def test_a_key_file_holds_the_key_for_its_owner_alone(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"], scopes=["interactions:read"])
    assert (tmp_path / "key.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "key.json").read_text()) == {
        "clientId": key.clientId,
        "serviceAccountEmail": key.serviceAccountEmail,
        "privateKeyId": key.privateKeyId,
        "privateKey": key.privateKey,
    }


def test_a_file_that_is_there_is_not_overwritten_and_no_account_is_left(tmp_path):
    (tmp_path / "key.json").write_text("precious")
    with pytest.raises(InvalidRequest, match="out"):
        create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    assert (tmp_path / "key.json").read_text() == "precious"
    with closing(Accounts.open(tmp_path)) as accounts:
        assert accounts.list_keys() == []


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(InvalidRequest, match="projects"):
        create_key(tmp_path, tmp_path / "key.json", projects=[])
    assert not (tmp_path / "key.json").exists()


PEM = serialization.Encoding.PEM
PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo
PRIVATE = (PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def pem_of(private):
    return private.public_key().public_bytes(PEM, PUBLIC).decode()


def test_the_id_is_the_sha_256_of_the_key(pair):
    der = serialization.load_pem_public_key(pair.public.encode()).public_bytes(
        serialization.Encoding.DER, PUBLIC
    )
    assert checked_public_key(pair.public)[0] == hashlib.sha256(der).hexdigest()[:40] == pair.key_id


def test_the_same_key_has_one_id_however_it_is_written(pair):
    loaded = serialization.load_pem_public_key(pair.public.encode())
    pkcs1 = loaded.public_bytes(PEM, serialization.PublicFormat.PKCS1).decode()
    for written in (pkcs1, pair.public.replace("\n", "\r\n"), f"# our key\n{pair.public}\n# end"):
        assert checked_public_key(written) == (pair.key_id, pair.public)


def test_4096_bits_are_allowed():
    # The public key alone: a pair of this size takes a while to make.
    numbers = rsa.RSAPublicNumbers(65_537, (1 << 4_095) + 1)
    assert checked_public_key(numbers.public_key().public_bytes(PEM, PUBLIC).decode())


def test_other_keys_are_refused():
    wrong = {
        "short": pem_of(rsa.generate_private_key(65_537, 1_024)),
        "long": rsa.RSAPublicNumbers(65_537, (1 << 4_096) + 1).public_key().public_bytes(PEM, PUBLIC).decode(),
        "small exponent": rsa.RSAPublicNumbers(3, (1 << 2_047) + 1).public_key().public_bytes(PEM, PUBLIC).decode(),
        "large exponent": rsa.RSAPublicNumbers((1 << 2_000) + 1, (1 << 2_047) + 1)
        .public_key()
        .public_bytes(PEM, PUBLIC)
        .decode(),
        "elliptic": pem_of(ec.generate_private_key(ec.SECP256R1())),
        "edwards": pem_of(ed25519.Ed25519PrivateKey.generate()),
        "dsa": pem_of(dsa.generate_private_key(1_024)),
        "text": "x",
        "empty PEM": "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
    }  # fmt: skip
    for name, pem in wrong.items():
        with pytest.raises(InvalidRequest, match="^public_key: is not allowed; expected an RSA public key"):
            pytest.fail(f"{name}: {checked_public_key(pem)}")


def test_a_private_key_sent_by_mistake_is_refused_and_not_shown():
    private = rsa.generate_private_key(65_537, 2_048).private_bytes(*PRIVATE).decode()
    with pytest.raises(InvalidRequest) as caught:
        checked_public_key(private)
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert "BEGIN" not in shown
    assert not any(line in shown for line in private.splitlines()[1:-1])
