"""Reads the key of a service account."""

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
from attrib_ds.transports.http.secret import Secret

if TYPE_CHECKING:
    from typing import TypeAlias

    #: A path, or the content behind a veil.
    KeySource: TypeAlias = str | Path | Secret[Mapping[str, Any]] | Secret[str]

_MEMBERS: Final = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")
_FEWEST_BITS: Final = 2_048
_LARGEST: Final = 65_536
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Credentials:
    """What a service account proves itself by.

    Parameters
    ----------
    client_id, email : str
        The account.
    key_id : str
        The key.
    private_key : Secret of str
        PEM.
    """

    client_id: str
    email: str
    key_id: str
    private_key: Secret[str]


def veiled(key: str | Path | Mapping[str, Any]) -> KeySource:
    """Return a key as it was given, its content (not its path) behind a veil; never fails.

    Examples
    --------
    >>> veiled({"privateKey": "-----BEGIN PRIVATE KEY-----"}), veiled("key.json")
    ([secret], 'key.json')
    """
    if isinstance(key, Mapping):
        return Secret[Mapping[str, Any]](dict(key))
    if isinstance(key, str) and key.lstrip().startswith("{"):
        return Secret(key)
    return key


def read_credentials(key: KeySource, *, argument: str = "key") -> Credentials:
    """Read a key.

    Parameters
    ----------
    key : str, Path or Secret
        The path of a key file, or its content from :func:`veiled`.
    argument : str, default "key"
        Where it was named, for an error.

    Returns
    -------
    Credentials
        Complete, with a private key that can sign.

    Raises
    ------
    InvalidRequest
        If there is no such file, a member is missing, or the private key is none. No message shows the key.

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
        problem = f"has no text as {' and '.join(missing)}; a key file holds {', '.join(_MEMBERS)}"
    problem = problem or _problem_of_private_key(members["privateKey"])
    if problem is not None:
        raise InvalidRequest(f"{argument}: {shown} {problem}", field=argument)
    client_id, email, key_id, private_key = (members[name] for name in _MEMBERS)
    return Credentials(client_id.reveal(), email.reveal(), key_id.reveal(), private_key)


def _content(path: Path) -> tuple[Secret[str] | None, str | None]:
    """Return the content of a file, or what is wrong with it."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or path.stat().st_size > _LARGEST:
            return None, "is no key file"
        content = Secret(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, "is not there; name the JSON file that came with the service account"
    except (OSError, UnicodeDecodeError) as error:
        return None, f"cannot be read ({type(error).__name__})"
    if os.name == "posix" and mode & _OTHERS:
        warnings.warn(
            f"key: {str(path)!r} can be read by other users of this machine; make it yours alone: "
            f"chmod 600 {path}",
            stacklevel=5,
        )
    return content, None


def _parsed(content: Secret[Any]) -> tuple[dict[str, Secret[str]], str | None]:
    """Return the members that are text; the plain content ends with this frame, which never raises."""
    try:
        held = content.reveal()
        held = json.loads(held) if isinstance(held, str) else held
    except (ValueError, RecursionError):
        return {}, "is not JSON"
    if not isinstance(held, Mapping):
        return {}, "is not a JSON object"
    return {
        name: Secret(held[name]) for name in _MEMBERS if isinstance(held.get(name), str) and held[name]
    }, None


def _problem_of_private_key(private_key: Secret[str]) -> str | None:
    try:
        loaded = load_pem_private_key(private_key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "has a privateKey that is no private key in PEM (with line breaks as \\n), or is encrypted"
    if not isinstance(loaded, RSAPrivateKey):
        return "has a privateKey that is not of the kind RSA"
    if loaded.key_size < _FEWEST_BITS:
        return f"has a privateKey of {loaded.key_size} bits; allowed: {_FEWEST_BITS} or more"
    return None
