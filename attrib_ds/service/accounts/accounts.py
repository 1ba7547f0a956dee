"""Store service accounts, their keys and their access tokens."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.keys.key_files import KeyFile, make_key_pair
from attrib_ds.service.accounts import scopes as all_scopes
from attrib_ds.service.accounts.database import Database
from attrib_ds.service.accounts.oauth_error import OAuthError
from attrib_ds.service.accounts.public_keys import checked_public_key

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

#: Name of the file in the folder of embedded projects.
FILE: Final = "accounts.sqlite"
#: Lifetime of an access token (G-173).
TOKEN_SECONDS: Final = 3_600
#: Maximum number of keys of one project that can be registered and work at the same time.
MOST_KEYS: Final = 1_000
_EMAIL_DOMAIN: Final = "attrib-ds.internal"


@dataclass(frozen=True)
class Key:
    """A key of a service account, without the key itself.

    Parameters
    ----------
    key_id, client_id, email : str
        Id of the key; id and email of its account.
    projects : tuple of str, optional
        Projects granted to the account; None for all.
    scopes : tuple of str
        Scopes of the account.
    created_at : datetime
        Aware, in UTC.
    expires_at, revoked_at : datetime, optional
        Aware, in UTC; ``revoked_at`` is that of the key or of its account, whichever came first.
    """

    key_id: str
    client_id: str
    email: str
    projects: tuple[str, ...] | None
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class PublicKey:
    """Public key for verifying assertions.

    Parameters
    ----------
    key_id, client_id, email : str
        Id of the key; id and email of its account.
    pem : str
        Public key in PEM.
    scopes : tuple of str
        Scopes of the account.
    """

    key_id: str
    client_id: str
    email: str
    pem: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Token:
    """A new access token.

    Parameters
    ----------
    text : str
        The token; only its hash is stored.
    seconds : int
        Lifetime.
    scopes : tuple of str
        Scopes of the token.
    """

    text: str = field(repr=False)
    seconds: int
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Access:
    """Permissions of an access token.

    Parameters
    ----------
    client_id : str
        Id of the account.
    scopes : frozenset of str
        Scopes of the token.
    has_all_projects : bool
        Whether all projects are granted.
    """

    client_id: str
    scopes: frozenset[str]
    has_all_projects: bool

    def allows(self, scope: str) -> bool:
        """Return whether the token has a scope."""
        return all_scopes.allows(self.scopes, scope)


class Accounts:
    """The service accounts of one folder of projects.

    Created by :meth:`open`. Thread-safe.

    Attributes
    ----------
    clock : callable
        Returns the Unix time.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self.clock = clock

    @classmethod
    def open(cls, home: str | Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the accounts of a folder of projects; several processes may share it.

        Parameters
        ----------
        home : str or Path
            The folder; created if it does not exist.
        clock : callable, optional
            Returns the Unix time.

        Returns
        -------
        Accounts
            To be closed by the caller.

        Raises
        ------
        Unavailable
            If the file cannot be used.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as home:
        ...     accounts = Accounts.open(home)
        ...     key = accounts.create(projects=["shop"], scopes=["interactions:read"])
        ...     [listed.projects for listed in accounts.list_keys()]
        ...     accounts.close()
        [('shop',)]
        """
        return cls(Database(Path(home).expanduser() / FILE), clock)

    def create(
        self,
        *,
        projects: Iterable[str] | None,
        scopes: Iterable[str] = (FULL_ACCESS,),
        expires_at: datetime | None = None,
    ) -> KeyFile:
        """Create a service account with one key.

        Parameters
        ----------
        projects : iterable of str, optional
            Projects to grant, existing or not; None for all present and future projects.
        scopes : iterable of str, default ("full_access",)
            Scopes of the account.
        expires_at : datetime, optional
            Expiry of the key; aware.

        Returns
        -------
        KeyFile
            The only copy of the private key.

        Raises
        ------
        InvalidRequest
            If a project id, a scope or the expiry is invalid.
        """
        project_ids = None if projects is None else _checked_projects(projects)
        granted_scopes, expiry = all_scopes.checked(scopes), self._checked_expiry(expires_at)
        pair = make_key_pair()
        key = self._new_account_key(pair.key_id, project_ids, granted_scopes, expiry)
        with self._database.write() as connection:
            _insert_account(connection, key)
            _insert_key(connection, key, pair.public)
        return KeyFile(key.client_id, key.email, pair.key_id, pair.private)

    def register(
        self,
        public_key: str,
        *,
        project_id: str,
        scopes: Iterable[str] = (FULL_ACCESS,),
        expires_at: datetime | None = None,
    ) -> tuple[Key, bool]:
        """Create a service account of one project, for a key pair that its client has made; idempotent.

        Parameters
        ----------
        public_key : str
            In PEM.
        project_id : str
            The only project to grant.
        scopes : iterable of str, default ("full_access",)
            Scopes of the account.
        expires_at : datetime, optional
            Expiry of the key; aware.

        Returns
        -------
        tuple of Key and bool
            The key, and whether it is new.

        Raises
        ------
        InvalidRequest
            If the public key, a scope or the expiry is invalid.
        Conflict
            If the public key is registered with other properties, for another project, or was revoked; or if
            :data:`MOST_KEYS` keys of the project work.
        """
        public = checked_public_key(public_key)
        granted_scopes, expiry = all_scopes.checked(scopes), self._checked_expiry(expires_at)
        key = self._new_account_key(public.key_id, _checked_projects([project_id]), granted_scopes, expiry)
        with self._database.write() as connection:
            if connection.execute("SELECT 1 FROM keys WHERE key_id = ?", (public.key_id,)).fetchone():
                existing = _find_key_of_project(connection, project_id, public.key_id)
                same = (key.scopes, key.expires_at, key.revoked_at)
                if existing is None or (existing.scopes, existing.expires_at, existing.revoked_at) != same:
                    raise Conflict(
                        "public_key: was registered before; make a new key pair", field="public_key"
                    )
                return existing, False
            self._check_number(_read_keys_of_project(connection, project_id))
            _insert_account(connection, key)
            _insert_key(connection, key, public.pem)
        return key, True

    def _check_number(self, keys: Iterable[Key]) -> None:
        now = self._now()
        working = [
            key for key in keys if key.revoked_at is None and (key.expires_at is None or key.expires_at > now)
        ]
        if len(working) >= MOST_KEYS:
            raise Conflict(f"the project has {len(working):,} keys that work, the maximum; revoke one first")

    def add_key(self, client_id: str, *, expires_at: datetime | None = None) -> KeyFile:
        """Create a further key for a service account, for example to rotate keys.

        Parameters
        ----------
        client_id : str
            Id of the account.
        expires_at : datetime, optional
            Expiry of the key; aware.

        Returns
        -------
        KeyFile
            The only copy of the private key.

        Raises
        ------
        NotFound
            If the account does not exist or is revoked.
        """
        expiry = self._checked_expiry(expires_at)
        pair = make_key_pair()
        with self._database.write() as connection:
            found = connection.execute(
                "SELECT email FROM accounts WHERE client_id = ? AND revoked_at IS NULL", (client_id,)
            ).fetchone()
            if found is None:
                raise NotFound(f"client_id: there is no service account {client_id!r}", field="client_id")
            key = Key(pair.key_id, client_id, found[0], (), (), self._now(), expiry, None)
            _insert_key(connection, key, pair.public)
        return KeyFile(client_id, found[0], pair.key_id, pair.private)

    def list_keys(self) -> list[Key]:
        """Return all keys, including revoked ones, oldest first."""
        with self._database.read() as connection:
            return _read_keys(connection)

    def list_keys_of_project(self, project_id: str) -> list[Key]:
        """Return the keys, including revoked ones, of accounts whose only project is this one, oldest first.

        Parameters
        ----------
        project_id : str
            Id of the project.
        """
        with self._database.read() as connection:
            return _read_keys_of_project(connection, project_id)

    def revoke_key(self, key_id: str) -> None:
        """Revoke a key and its tokens immediately; idempotent.

        Parameters
        ----------
        key_id : str
            Id of the key.

        Raises
        ------
        NotFound
            If the key does not exist.
        """
        self._revoke("keys", "key_id", key_id)

    def revoke_key_of_project(self, project_id: str, key_id: str) -> bool:
        """Revoke a key of :meth:`list_keys_of_project` and its tokens immediately; idempotent.

        Parameters
        ----------
        project_id, key_id : str
            Ids of the project and the key.

        Returns
        -------
        bool
            Whether it was not revoked before.

        Raises
        ------
        NotFound
            If the project has no such key.
        """
        with self._database.read() as connection:
            key = _find_key_of_project(connection, project_id, key_id)
        if key is None:
            raise NotFound(f"key_id: the project has no key {key_id!r}", field="key_id")
        self.revoke_key(key_id)
        return key.revoked_at is None

    def revoke_account(self, client_id: str) -> None:
        """Revoke a service account with its keys and tokens immediately; idempotent.

        Parameters
        ----------
        client_id : str
            Id of the account.

        Raises
        ------
        NotFound
            If the account does not exist.
        """
        self._revoke("accounts", "client_id", client_id)

    def _revoke(self, table: str, column: str, value: str) -> None:
        with self._database.write() as connection:
            changed = connection.execute(
                f"UPDATE {table} SET revoked_at = coalesce(revoked_at, ?) WHERE {column} = ?",
                (self.clock(), value),
            ).rowcount
        if not changed:
            raise NotFound(f"{column}: {value!r} does not exist", field=column)

    def has_account(self, client_id: str) -> bool:
        """Return whether a service account exists and is not revoked."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT 1 FROM accounts WHERE client_id = ? AND revoked_at IS NULL", (client_id,)
            )
            return found.fetchone() is not None

    def find_key(self, client_id: str, key_id: str) -> PublicKey | None:
        """Return a key of an account; None if it does not exist, has expired or is revoked."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT key_id, client_id, email, public_key, scopes FROM keys "
                "JOIN accounts USING (client_id) WHERE key_id = ? AND client_id = ? "
                "AND keys.revoked_at IS NULL AND accounts.revoked_at IS NULL "
                "AND coalesce(keys.expires_at > ?, 1)",
                (key_id, client_id, self.clock()),
            ).fetchone()
        if found is None:
            return None
        found_id, owner, email, pem, scopes = found
        return PublicKey(found_id, owner, email, pem, tuple(scopes.split()))

    def issue(
        self, key: PublicKey, scopes: tuple[str, ...], *, once: str | None = None, until: float = 0.0
    ) -> Token:
        """Issue an access token for a key.

        Parameters
        ----------
        key : PublicKey
            From :meth:`find_key`.
        scopes : tuple of str
            Scopes of the token.
        once : str, optional
            Id of an assertion that may be used only once (``jti``).
        until : float, optional
            Unix time until which its reuse is prevented.

        Returns
        -------
        Token
            The only copy of the token.

        Raises
        ------
        OAuthError
            If the assertion was used before.
        """
        now = self.clock()
        text = secrets.token_urlsafe(32)
        with self._database.write() as connection:
            for table in ("tokens", "assertions"):
                connection.execute(f"DELETE FROM {table} WHERE expires_at <= ?", (now,))
            if once is not None:
                inserted = connection.execute(
                    "INSERT OR IGNORE INTO assertions VALUES (?, ?, ?)", (key.client_id, _hash(once), until)
                ).rowcount
                if not inserted:
                    raise OAuthError("invalid_grant", "the assertion was used before (jti)")
            # A token does not outlive its key.
            expires_at, seconds = connection.execute(
                "SELECT min(end, ?), CAST(min(end, ?) - ? AS INTEGER) FROM "
                "(SELECT coalesce(expires_at, ?) AS end FROM keys WHERE key_id = ?)",
                (now + TOKEN_SECONDS, now + TOKEN_SECONDS, now, now + TOKEN_SECONDS, key.key_id),
            ).fetchone()
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?)",
                (_hash(text), key.key_id, " ".join(scopes), expires_at),
            )
        return Token(text, seconds, scopes)

    def find_access(self, token: str) -> Access | None:
        """Return the permissions of an access token; None if it is invalid, expired or revoked."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT client_id, tokens.scopes, all_projects FROM tokens JOIN keys USING (key_id) "
                "JOIN accounts USING (client_id) WHERE hash = ? AND tokens.expires_at > ? "
                "AND keys.revoked_at IS NULL AND accounts.revoked_at IS NULL",
                (_hash(token), self.clock()),
            ).fetchone()
        return None if found is None else Access(found[0], frozenset(found[1].split()), bool(found[2]))

    def has_grant(self, access: Access, project_id: str) -> bool:
        """Return whether a project, existing or not, is granted to an account."""
        if access.has_all_projects:
            return True
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT 1 FROM grants WHERE client_id = ? AND project_id = ?", (access.client_id, project_id)
            )
            return found.fetchone() is not None

    def _new_account_key(
        self, key_id: str, projects: tuple[str, ...] | None, scopes: tuple[str, ...], expiry: datetime | None
    ) -> Key:
        client_id = secrets.token_hex(12)
        prefix = projects[0] if projects else "all-projects"
        email = f"{prefix}-{client_id[:8]}@{_EMAIL_DOMAIN}"
        return Key(key_id, client_id, email, projects, scopes, self._now(), expiry, None)

    def _checked_expiry(self, instant: datetime | None) -> datetime | None:
        if instant is not None and instant.utcoffset() is None:
            raise InvalidRequest(f"expires_at: {instant!r} has no time zone", field="expires_at")
        if instant is not None and instant.timestamp() <= self.clock():
            raise InvalidRequest(f"expires_at: {instant} is in the past", field="expires_at")
        return instant

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def probe(self) -> None:
        """Write a row and read it back; raises if the file cannot be used."""
        now = self.clock()
        with self._database.write() as connection:
            connection.execute("INSERT OR REPLACE INTO pulse VALUES (1, ?)", (now,))
        with self._database.read() as connection:
            connection.execute("SELECT beat FROM pulse").fetchone()

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()


def _hash(secret: str) -> bytes:
    # A fast hash suffices: unlike a password, a token has 256 random bits.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _read_keys(connection: sqlite3.Connection) -> list[Key]:
    grants: dict[str, list[str]] = {}
    for client_id, project_id in connection.execute("SELECT * FROM grants ORDER BY project_id"):
        grants.setdefault(client_id, []).append(project_id)
    rows = connection.execute(
        "SELECT key_id, client_id, email, all_projects, scopes, keys.created_at, keys.expires_at, "
        "min(coalesce(keys.revoked_at, accounts.revoked_at), "
        "coalesce(accounts.revoked_at, keys.revoked_at)) "
        "FROM keys JOIN accounts USING (client_id) ORDER BY keys.created_at, key_id"
    ).fetchall()
    return [
        Key(
            key_id,
            client_id,
            email,
            projects=None if has_all else tuple(grants.get(client_id, ())),
            scopes=tuple(scopes.split()),
            created_at=datetime.fromtimestamp(created, UTC),
            expires_at=None if end is None else datetime.fromtimestamp(end, UTC),
            revoked_at=None if revoked is None else datetime.fromtimestamp(revoked, UTC),
        )
        for key_id, client_id, email, has_all, scopes, created, end, revoked in rows
    ]


def _read_keys_of_project(connection: sqlite3.Connection, project_id: str) -> list[Key]:
    # A key that also opens other projects is no concern of this project's administrators.
    return [key for key in _read_keys(connection) if key.projects == (project_id,)]


def _find_key_of_project(connection: sqlite3.Connection, project_id: str, key_id: str) -> Key | None:
    keys = _read_keys_of_project(connection, project_id)
    return next((key for key in keys if key.key_id == key_id), None)


def _insert_account(connection: sqlite3.Connection, key: Key) -> None:
    has_all = key.projects is None
    connection.execute(
        "INSERT INTO accounts (client_id, email, scopes, all_projects, created_at) VALUES (?, ?, ?, ?, ?)",
        (key.client_id, key.email, " ".join(key.scopes), has_all, key.created_at.timestamp()),
    )
    grants = [(key.client_id, project_id) for project_id in key.projects or ()]
    connection.executemany("INSERT INTO grants VALUES (?, ?)", grants)


def _insert_key(connection: sqlite3.Connection, key: Key, public: str) -> None:
    expiry = None if key.expires_at is None else key.expires_at.timestamp()
    connection.execute(
        "INSERT INTO keys (key_id, client_id, public_key, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
        (key.key_id, key.client_id, public, key.created_at.timestamp(), expiry),
    )


def _checked_projects(projects: Iterable[str]) -> tuple[str, ...]:
    project_ids = tuple(dict.fromkeys(projects))
    if not project_ids:
        raise InvalidRequest(
            "projects: is empty; allowed: one or more project ids, or None for all", field="projects"
        )
    for project_id in project_ids:
        build(OPERATIONS["list_nodes"], project_id=project_id)
    return project_ids
