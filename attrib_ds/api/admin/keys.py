"""The keys of service accounts, with which clients of a server authenticate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.errors import AttribError, ServiceFailure
from attrib_ds.keys.key_files import KeyFile, make_key_pair, new_key_file
from attrib_ds.records.frames import to_pandas, to_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pandas as pd

    from attrib_ds.project import Project


def create_key(
    project: Project,
    path: str | Path,
    *,
    scopes: Sequence[str] = (FULL_ACCESS,),
    expires_at: datetime | str | None = None,
) -> pd.Series[Any]:
    """Create a service account of this project alone, and the file of its key.

    The key pair is made on this machine. Only its public half is sent to the service, so that the file is the
    only copy of the private key. If the file cannot be written, the key is revoked.

    The key of an embedded project is for clients of ``attrib-ds serve`` in the folder of the project's file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.
    path : str or Path
        The new file, which only its owner can read. An existing file is an error.
    scopes : sequence of str, default ("full_access",)
        What the key may do, which must be part of what the key of a remote project may do:
        ``"full_access"``, or some of ``"interactions:read"``, ``"interactions:write"``, ``"events:read"``,
        ``"events:write"``, ``"users:read"``, ``"users:write"``, ``"users:export"``, ``"users:sql"``,
        ``"event-types:read"``, ``"event-types:write"``, ``"campaigns:read"``, ``"campaigns:write"``,
        ``"privacy:write"`` and ``"admin"``.
    expires_at : datetime or str, optional
        First instant at which the key is refused, in the future and with a time zone. By default the key does
        not expire.

    Returns
    -------
    Series
        ``_id`` (id of the key), ``clientId`` and ``serviceAccountEmail`` (of the account), ``scopes``,
        ``createdAt``, ``expiresAt`` and ``revokedAt``. The private key is only in the file.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the file exists; the message names it.
    Forbidden
        If the key of this project lacks one of the scopes.
    NotSupported
        If the project is in memory or read-only.
    Unavailable
        If the file or the accounts cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         key = at.admin.create_key(shop, f"{home}/key.json", scopes=["interactions:read"])
    ...         at.admin.list_keys(shop)["_id"].tolist() == [key["_id"]]
    True
    """
    with new_key_file(Path(path).expanduser(), argument="path") as write:
        pair = make_key_pair()
        created = project.send("create_key", public_key=pair.public, scopes=scopes, expires_at=expires_at)
        key = to_record(created.read())
        try:
            if key["_id"] != pair.key_id:
                raise ServiceFailure("the service answered another key than the one it was sent")
            write(
                KeyFile(_text(key, "clientId"), _text(key, "serviceAccountEmail"), pair.key_id, pair.private)
            )
        except BaseException as error:
            _withdraw(project, pair.key_id, error)
            raise
    return key


def list_keys(project: Project) -> pd.DataFrame:
    """List the keys of service accounts whose only project is this one, oldest first.

    Keys that also open other projects are listed by ``attrib-ds keys list`` on the server's machine.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.

    Returns
    -------
    DataFrame
        One row per key, including expired and revoked ones: ``_id``, ``clientId`` and ``serviceAccountEmail``
        of its account, ``scopes``, ``createdAt``, ``expiresAt`` and ``revokedAt`` (missing if it does not
        expire, or is not revoked).

    Raises
    ------
    NotSupported
        If the project is in memory.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         len(at.admin.list_keys(shop))
    0
    """
    return to_pandas(project.send("list_keys").read())


def revoke_key(project: Project, key_id: str) -> int:
    """Revoke a key and its tokens at once.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.
    key_id : str
        ``_id`` in :func:`attrib_ds.admin.list_keys`, and ``privateKeyId`` in the key file.

    Returns
    -------
    int
        1, or 0 if it was revoked before.

    Raises
    ------
    NotFound
        If the project has no such key, or the key also opens other projects.
    NotSupported
        If the project is in memory or read-only.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         key = at.admin.create_key(shop, f"{home}/key.json")
    ...         at.admin.revoke_key(shop, key["_id"]), at.admin.revoke_key(shop, key["_id"])
    (1, 0)
    """
    return cast("int", project.send("revoke_key", key_id=key_id).value)


def _text(key: pd.Series[Any], name: str) -> str:
    value = key[name]
    if not isinstance(value, str) or not value:
        raise ServiceFailure(f"the service answered a key without {name}")
    return value


def _withdraw(project: Project, key_id: str, cause: BaseException) -> None:
    """Revoke a key whose file could not be written."""
    try:
        project.send("revoke_key", key_id=key_id)
    except AttribError as error:
        # Nobody has its private key.
        cause.add_note(f"the key {key_id} could not be revoked either: {error}")
