"""Read and check the key of a service account."""

from __future__ import annotations

import json
import os
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attrib_ds.errors import InvalidRequest
from attrib_ds.keys.secret import Secret

if TYPE_CHECKING:
    from typing import TypeAlias

    #: A path, or the content as a secret.
    KeySource: TypeAlias = str | Path | Secret[Mapping[str, Any]] | Secret[str]

_MEMBERS: Final = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")
_FEWEST_BITS: Final = 2_048
_LARGEST: Final = 65_536
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Credentials:
    """Key of a service account.

    Parameters
    ----------
    client_id, email : str
        Id and email of the account.
    key_id : str
        Id of the key.
    private_key : Secret of str
        Private key in PEM.
    """

    client_id: str
    email: str
    key_id: str
    private_key: Secret[str]


def protect_key(key: str | Path | Mapping[str, Any]) -> KeySource:
    """Wrap the content of a key in a secret; a path stays as it is. Never raises.

    Examples
    --------
    >>> protect_key({"privateKey": "-----BEGIN PRIVATE KEY-----"}), protect_key("key.json")
    ([secret], 'key.json')
    """
    if isinstance(key, Mapping):
        return Secret[Mapping[str, Any]](dict(key))
    if isinstance(key, str) and key.lstrip().startswith("{"):
        return Secret(key)
    return key


def read_credentials(key: KeySource, *, argument: str = "key") -> Credentials:
    """Read and check a key.

    Parameters
    ----------
    key : str, Path or Secret
        Path of a key file, or its content from :func:`protect_key`.
    argument : str, default "key"
        Name of the argument, for errors.

    Returns
    -------
    Credentials
        Complete, with a private key that can sign.

    Raises
    ------
    InvalidRequest
        If the file does not exist, a member is missing, or the private key is invalid. No message shows the
        key.

    Warns
    -----
    UserWarning
        If users other than its owner may read the file.
    """
    shown = "the content given" if isinstance(key, Secret) else repr(str(key))
    if isinstance(key, Secret):
        members, problem = _parsed(key)
    else:
        content, problem = _content(Path(key).expanduser())
        members, problem = _parsed(content) if content is not None else ({}, problem)
    missing = [name for name in _MEMBERS if name not in members]
    if problem is None and missing:
        problem = f"has no {' and '.join(missing)}; a key file contains {', '.join(_MEMBERS)} as strings"
    problem = problem or _problem_of_private_key(members["privateKey"])
    if problem is not None:
        raise InvalidRequest(f"{argument}: {shown} {problem}", field=argument)
    client_id, email, key_id, private_key = (members[name] for name in _MEMBERS)
    return Credentials(client_id.reveal(), email.reveal(), key_id.reveal(), private_key)


def _content(path: Path) -> tuple[Secret[str] | None, str | None]:
    """Return the content of a file, or a description of the problem."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or path.stat().st_size > _LARGEST:
            return None, "is not a key file"
        content = Secret(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, "does not exist; pass the path of the service account's JSON file"
    except (OSError, UnicodeDecodeError) as error:
        return None, f"cannot be read ({type(error).__name__})"
    if os.name == "posix" and mode & _OTHERS:
        warnings.warn(
            f"key: {str(path)!r} can be read by other users of this machine; restrict it to yourself: "
            f"chmod 600 {path}",
            stacklevel=5,
        )
    return content, None


def _parsed(content: Secret[Any]) -> tuple[dict[str, Secret[str]], str | None]:
    """Return the members that are strings; never raises, so that no traceback holds the plain content."""
    try:
        plain = content.reveal()
        plain = json.loads(plain) if isinstance(plain, str) else plain
    except (ValueError, RecursionError):
        return {}, "is not JSON"
    if not isinstance(plain, Mapping):
        return {}, "is not a JSON object"
    return {
        name: Secret(plain[name]) for name in _MEMBERS if isinstance(plain.get(name), str) and plain[name]
    }, None


def _problem_of_private_key(private_key: Secret[str]) -> str | None:
    try:
        loaded = load_pem_private_key(private_key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "has a privateKey that is not an unencrypted private key in PEM (with line breaks as \\n)"
    if not isinstance(loaded, RSAPrivateKey):
        return "has a privateKey that is not an RSA key"
    if loaded.key_size < _FEWEST_BITS:
        return f"has a privateKey of {loaded.key_size} bits; allowed: {_FEWEST_BITS} or more"
    return None
