"""Creates, lists and revokes keys, for the command line."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.service.accounts.accounts import Accounts, Key
from attrib_ds.service.accounts.key_files import KeyFile, new_key_file

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
    """Create a key and write its file, accessible to its owner only.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects.
    out : str or Path
        The file; must not exist yet.
    projects : iterable of str, optional
        Projects that the new service account may use; None for all.
    scopes : iterable of str, default ("full_access",)
        Scopes of the new account.
    expires_at : datetime, optional
        End of validity of the key, aware.
    client_id : str, optional
        Existing account that gets a further key; its projects and scopes stay as they are.

    Returns
    -------
    KeyFile
        Content of the file.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the file exists.
    NotFound
        If there is no such account.
    Unavailable
        If the accounts cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     key = create_key(home, f"{home}/key.json", projects=["shop"])
    ...     [listed.key_id == key.privateKeyId for listed in list_keys(home)]
    [True]
    """
    with new_key_file(Path(out)) as write, closing(Accounts.open(home)) as accounts:
        if client_id is None:
            key = accounts.create(projects=projects, scopes=scopes, expires_at=expires_at)
        else:
            key = accounts.add_key(client_id, expires_at=expires_at)
        write(key)
    return key


def list_keys(home: str | Path) -> list[Key]:
    """Return every key, revoked ones included, the oldest first."""
    with closing(Accounts.open(home)) as accounts:
        return accounts.list_keys()


def revoke_key(home: str | Path, key_id: str) -> None:
    """End a key and its tokens, at once, also for a server that runs; NotFound if it is not known."""
    with closing(Accounts.open(home)) as accounts:
        accounts.revoke_key(key_id)
