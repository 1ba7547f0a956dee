"""Keys of service accounts: their files, scopes and secrets."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

from attrib_ds import errors, local_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey


T = TypeVar("T")

REDACTED: Final = "[secret]"


class Secret(Generic[T]):
    """Hold a private key, an assertion or a token without displaying it.

    In logs, notebooks, errors and the locals of a traceback it appears as ``[secret]``. It has no
    ``__dict__``, copies are the same object, and it cannot be pickled.

    Parameters
    ----------
    value : object
        The secret.

    Examples
    --------
    >>> key = Secret("-----BEGIN PRIVATE KEY-----")
    >>> key, f"{key}", str({"key": key})
    ([secret], '[secret]', "{'key': [secret]}")
    >>> key.reveal()[:10]
    '-----BEGIN'
    """

    # Held in a closure: tools that print the attributes of an object show the function, not the value.
    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: Callable[[], T] = lambda: value

    def reveal(self) -> T:
        """Return the value; pass it on at once, and never bind it to a name."""
        return self._value()

    def redact(self, text: str) -> str:
        """Replace the value in a text by ``[secret]``."""
        value = self._value()
        return text.replace(value, REDACTED) if isinstance(value, str) and value else text

    def __repr__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled; call connect() in the process that needs the project")


# ruff: noqa: N802, N815  (members carry the specification's names)


_BITS: Final = 2_048
_EXPONENT: Final = 65_537
_DIGITS: Final = 40


@dataclass(frozen=True)
class KeyFile:
    """Content of a key file, with which a client authenticates.

    Parameters
    ----------
    clientId, serviceAccountEmail : str
        Id and email of the account.
    privateKeyId : str
        Id of the key.
    private : Secret of str
        Private key in PEM; the service keeps no copy.
    """

    clientId: str
    serviceAccountEmail: str
    privateKeyId: str
    private: Secret[str]

    @property
    def privateKey(self) -> str:
        """The private key in PEM; pass it on at once, and never bind it to a name."""
        return self.private.reveal()

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
        From :func:`key_id_of`.
    public : str
        Public key in PEM.
    private : Secret of str
        Private key in PEM, PKCS #8, unencrypted.
    """

    key_id: str
    public: str
    private: Secret[str]


def make_key_pair() -> KeyPair:
    """Generate an RSA key pair of 2048 bits.

    Examples
    --------
    >>> len(make_key_pair().key_id)
    40
    """
    # Slow to import, and of no use to those who have a key.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_BITS)
    public = key.public_key()
    return KeyPair(
        key_id_of(public),
        to_pem(public),
        Secret(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
        ),
    )


def to_pem(key: RSAPublicKey) -> str:
    """Return a public key in PEM."""
    from cryptography.hazmat.primitives import serialization

    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form).decode()


def key_id_of(key: RSAPublicKey) -> str:
    """Return the id of a key: the first 40 hexadecimal digits of the SHA-256 of its public key in DER.

    The same key has the same id for client and service, so that a repeated request registers it once.
    """
    from cryptography.hazmat.primitives import serialization

    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(encoding, form)).hexdigest()[:_DIGITS]


@contextmanager
def new_key_file(path: Path, *, argument: str) -> Iterator[Callable[[KeyFile], None]]:
    """Open a new file readable only by its owner; delete it if the block raises.

    The file is opened before the key is created, so that no account is left without its key.

    Parameters
    ----------
    path : Path
        Path of the new file.
    argument : str
        The argument with the path, for errors.

    Yields
    ------
    callable
        Writes the key.

    Raises
    ------
    InvalidRequest
        If the file exists.
    Unavailable
        If it cannot be written.
    """
    with local_files.writing(path, argument=argument):
        try:
            file = open(path, "x", encoding="utf-8", opener=local_files.open_private)  # noqa: SIM115  (closed below)
        except FileExistsError:
            raise errors.InvalidRequest(
                f"{argument}: {str(path)!r} already exists; choose a new file, since an overwritten key is "
                "lost"
            ) from None

    def write(key: KeyFile) -> None:
        with local_files.writing(path, argument=argument):
            file.write(key.to_json())
            file.flush()
            local_files.flush(file.fileno())

    try:
        yield write
    except BaseException:
        local_files.discard(file)
        local_files.clear([path])
        raise
    file.close()


#: Allows what every other scope allows.
FULL_ACCESS: Final = "full_access"
SCOPES: Final = (
    FULL_ACCESS, "interactions:read", "interactions:write", "hits:write", "events:read", "events:write",
    "users:read", "users:write", "users:export", "users:sql", "event-types:read", "event-types:write",
    "campaigns:read", "campaigns:write", "privacy:write", "admin",
)  # fmt: skip
