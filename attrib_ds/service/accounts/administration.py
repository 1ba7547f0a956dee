"""Create, list and revoke keys: the commands of an administrator."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.keys.key_files import KeyFile, new_key_file
from attrib_ds.service.accounts.accounts import Accounts, Key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


def create_key(
    home: str | Path,
    out: str | Path,
    *,
    projects: Iterable[str] | None = None,
    scopes: Iterable[str] = (FULL_ACCESS,),
    expires_at: datetime | None = None,
    client_id: str | None = None,
) -> KeyFile:
    """Create a key and write its file, readable only by its owner.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects.
    out : str or Path
        Path of the new file.
    projects : iterable of str, optional
        Projects granted to the new service account; None for all.
    scopes : iterable of str, default ("full_access",)
        Scopes of the new account.
    expires_at : datetime, optional
        Expiry of the key; aware.
    client_id : str, optional
        Existing account to add a key to, instead of a new account; ``projects`` and ``scopes`` are then
        ignored.

    Returns
    -------
    KeyFile
        Content of the file.

    Raises
    ------
    InvalidRequest
        If an argument is invalid or the file exists.
    NotFound
        If the account does not exist.
    Unavailable
        If the accounts cannot be used, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     key = create_key(home, f"{home}/key.json", projects=["shop"])
    ...     [listed.key_id == key.privateKeyId for listed in list_keys(home)]
    [True]
    """
    with new_key_file(Path(out), argument="out") as write, closing(Accounts.open(home)) as accounts:
        if client_id is None:
            key = accounts.create(projects=projects, scopes=scopes, expires_at=expires_at)
        else:
            key = accounts.add_key(client_id, expires_at=expires_at)
        write(key)
    return key


def list_keys(home: str | Path) -> list[Key]:
    """Return all keys, including revoked ones, oldest first."""
    with closing(Accounts.open(home)) as accounts:
        return accounts.list_keys()


def revoke_key(home: str | Path, key_id: str) -> None:
    """Revoke a key and its tokens immediately, also for a running server.

    Raises
    ------
    NotFound
        If the key does not exist.
    """
    with closing(Accounts.open(home)) as accounts:
        accounts.revoke_key(key_id)
