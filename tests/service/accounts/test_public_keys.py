"""Public keys that clients send: RSA of 2,048 bits or more, and nothing that makes signatures slow to check."""

from __future__ import annotations

import hashlib
import traceback

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from attrib_ds.errors import InvalidRequest
from attrib_ds.keys.key_files import make_key_pair
from attrib_ds.service.accounts.accounts import checked_public_key

PEM = serialization.Encoding.PEM
PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo
PRIVATE = (PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def pem_of(private):
    return private.public_key().public_bytes(PEM, PUBLIC).decode()


@pytest.fixture(scope="module")
def pair():
    return make_key_pair()


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
