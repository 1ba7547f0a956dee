"""Key files: what they must hold, where they are found, and who may read them."""

import base64
import json
import warnings
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import json_values

from attrib_ds import connect, errors
from attrib_ds.contract.json_values import Refused, encode
from attrib_ds.transports.http.credentials import protect_key, read_credentials


def pem(private):
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def key_file(tmp_path, key):
    path = tmp_path / "key.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(key | {"type": "service_account"}))
    return path


def check(credentials, key):
    assert credentials.client_id == key["clientId"]
    assert credentials.email == key["serviceAccountEmail"]
    assert credentials.key_id == key["privateKeyId"]
    assert credentials.private_key.reveal() == key["privateKey"]


def test_a_key_is_a_path_a_text_or_a_mapping(key_file, key):
    for each in (key_file, str(key_file), dict(key), json.dumps(key), f"\n {json.dumps(key)}"):
        check(read_credentials(protect_key(each)), key)


def test_a_path_may_begin_at_home(key_file, key, monkeypatch):
    monkeypatch.setenv("HOME", str(key_file.parent))
    check(read_credentials("~/key.json"), key)


def test_a_key_file_that_others_may_read_is_warned_of(key_file, key):
    key_file.chmod(0o640)
    with pytest.warns(
        UserWarning, match=r"can be read by other users of this machine; .*chmod 600 .*key\.json"
    ):
        check(read_credentials(key_file), key)
    key_file.chmod(0o400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_credentials(key_file)


def test_the_warning_points_at_who_connects(key_file):
    key_file.chmod(0o644)
    with pytest.warns(UserWarning, match="chmod") as warned:
        connect("shop", url="http://127.0.0.1:1", key=key_file).close()
    assert warned[0].filename == __file__


@pytest.mark.parametrize("member", ["clientId", "serviceAccountEmail", "privateKeyId", "privateKey"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_each_member_is_needed(key, member, value):
    with pytest.raises(errors.InvalidRequest, match=rf"key: the content given has no {member}; a key file"):
        read_credentials(protect_key({**key, member: value}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("", "is not JSON"),
        ("[" * 9_000, "is not JSON"),
    ],
)
def test_files_that_are_none(tmp_path, content, words):
    path = tmp_path / "key.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(errors.InvalidRequest, match=rf"^key: '.*key\.json' {words}") as caught:
        read_credentials(path)
    assert caught.value.__context__ is None


def test_files_that_are_not_there_or_no_files(tmp_path):
    with pytest.raises(
        errors.InvalidRequest,
        match="gone.json' does not exist; pass the path of the service account.s JSON file",
    ):
        read_credentials(tmp_path / "gone.json")
    with pytest.raises(errors.InvalidRequest, match="is not a key file"):
        read_credentials(tmp_path)
    (tmp_path / "large").write_bytes(b" " * 70_000)
    with pytest.raises(errors.InvalidRequest, match="is not a key file"):
        read_credentials(tmp_path / "large")


def test_private_keys_that_cannot_sign(key):
    small = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    for private_key, words in (
        ("nonsense", "not an unencrypted private key in PEM"),
        (key["privateKey"][:400], "not an unencrypted private key in PEM"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "not an RSA key"),
        (pem(small), "of 1024 bits; allowed: 2048 or more"),
    ):
        with pytest.raises(errors.InvalidRequest, match=words) as caught:
            read_credentials(protect_key({**key, "privateKey": private_key}))
        assert private_key[:40] not in str(caught.value)
        assert caught.value.__context__ is None


MEMBERS = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")
NO_PEM = st.builds(
    "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n".format,
    st.sampled_from(
        ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE"]
    ),
    st.binary(max_size=60).map(lambda content: base64.b64encode(content).decode()),
)


@pytest.mark.slow
@pytest.mark.timeout(120)
@settings(max_examples=200, deadline=5_000)
@given(
    st.binary(max_size=50)
    | json_values(MEMBERS).map(
        lambda value: encode(value).encode("utf-8", "surrogatepass") if is_plain(value) else b""
    )
    | st.fixed_dictionaries({name: NO_PEM | st.text(min_size=1, max_size=20) for name in MEMBERS}).map(
        lambda members: json.dumps(members).encode()
    )
)
def test_any_file_is_a_key_file_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("keys") / "key.json"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with suppress(errors.InvalidRequest):
        read_credentials(protect_key(path))


def is_plain(value):
    try:
        encode(value)
    except Refused:
        return False
    return True
