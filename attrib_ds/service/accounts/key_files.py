"""Generate the key of a service account and write its file."""

# ruff: noqa: N815  (members carry the specification's names)

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BITS: Final = 2_048
_EXPONENT: Final = 65_537
_OWNER_ONLY: Final = 0o600


@dataclass(frozen=True)
class KeyFile:
    """Content of a key file, with which a client authenticates.

    Parameters
    ----------
    clientId, serviceAccountEmail : str
        Id and email of the account.
    privateKeyId : str
        Id of the key.
    privateKey : str
        Private key in PEM; the service keeps no copy.
    """

    clientId: str
    serviceAccountEmail: str
    privateKeyId: str
    privateKey: str = field(repr=False)

    def to_json(self) -> str:
        """Return the content of the file."""
        names = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")
        return json.dumps({name: getattr(self, name) for name in names}, indent=2) + "\n"


@dataclass(frozen=True)
class KeyPair:
    """A new RSA key pair.

    Parameters
    ----------
    key_id : str
        40 random hexadecimal digits.
    public : str
        Public key in PEM.
    private : str
        Private key in PEM, PKCS #8, unencrypted.
    """

    key_id: str
    public: str
    private: str = field(repr=False)


def make_key_pair() -> KeyPair:
    """Generate an RSA key pair of 2048 bits.

    Examples
    --------
    >>> len(make_key_pair().key_id)
    40
    """
    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(secrets.token_hex(20), public.decode(), private.decode())


@contextmanager
def new_key_file(path: Path) -> Iterator[Callable[[KeyFile], None]]:
    """Open a new file readable only by its owner; delete it if the block raises.

    The file is opened before the key is created, so that no account is left without its key.

    Parameters
    ----------
    path : Path
        Path of the new file.

    Yields
    ------
    callable
        Writes the key.

    Raises
    ------
    InvalidRequest
        If the file exists.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
    except FileExistsError:
        raise InvalidRequest(
            f"out: {str(path)!r} already exists; choose a new file, since an overwritten key is lost",
            field="out",
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:

            def write(key: KeyFile) -> None:
                file.write(key.to_json())
                file.flush()
                os.fsync(file.fileno())

            yield write
    except BaseException:
        path.unlink(missing_ok=True)
        raise
