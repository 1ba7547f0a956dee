"""Service accounts in an SQLite file: their keys, grants of projects, and access tokens.

SQLite because DuckDB allows only one process to open a file, but keys are created and revoked on the command
line while a server runs.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, Unavailable
from attrib_ds.keys import FULL_ACCESS, SCOPES, KeyFile, key_id_of, make_key_pair, new_key_file, to_pem
from attrib_ds.service.store.files import create_private_file, create_private_folder

#: Name of the file in the folder of embedded projects.
FILE: Final = "accounts.sqlite"
#: Lifetime of an access token.
TOKEN_SECONDS: Final = 3_600
#: Maximum number of keys of one project that can be registered and work at the same time.
MOST_KEYS: Final = 1_000
_EMAIL_DOMAIN: Final = "attrib-ds.internal"
_FEWEST_BITS: Final = 2_048
#: Checking a signature takes longer with more bits and with a larger exponent.
_MOST_BITS: Final = 4_096
_EXPONENT: Final = 65_537
_VERSION: Final = 1
_SECONDS_TO_WAIT: Final = 10.0

_TABLES: Final = (
    """CREATE TABLE accounts (
        client_id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
        all_projects INTEGER NOT NULL, created_at REAL NOT NULL
    )""",
    """CREATE TABLE grants (
        client_id TEXT NOT NULL REFERENCES accounts, project_id TEXT NOT NULL,
        PRIMARY KEY (client_id, project_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE keys (
        key_id TEXT PRIMARY KEY, client_id TEXT NOT NULL REFERENCES accounts, public_key TEXT NOT NULL,
        created_at REAL NOT NULL, expires_at REAL, revoked_at REAL
    )""",
    """CREATE TABLE tokens (
        hash BLOB PRIMARY KEY, key_id TEXT NOT NULL REFERENCES keys, scopes TEXT NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX tokens_by_expiry ON tokens (expires_at)",
    # Assertions that may be used only once.
    """CREATE TABLE assertions (
        client_id TEXT NOT NULL REFERENCES accounts, hash BLOB NOT NULL, expires_at REAL NOT NULL,
        PRIMARY KEY (client_id, hash)
    ) WITHOUT ROWID""",
    "CREATE INDEX assertions_by_expiry ON assertions (expires_at)",
    # One row, written by the readiness check.
    "CREATE TABLE pulse (id INTEGER PRIMARY KEY CHECK (id = 1), beat REAL NOT NULL)",
)


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
        return allows(self.scopes, scope)


def allows(granted: Iterable[str], scope: str) -> bool:
    """Return whether the granted scopes include a scope; full access includes all.

    Examples
    --------
    >>> allows({"full_access"}, "users:sql"), allows({"users:read"}, "users:sql")
    (True, False)
    """
    return scope in granted or FULL_ACCESS in granted


class Accounts:
    """The service accounts of one folder of projects.

    Created by :meth:`open`. Thread-safe.

    Attributes
    ----------
    clock : callable
        Returns the Unix time.
    """

    def __init__(self, database: _Database, clock: Callable[[], float]) -> None:
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
        return cls(_Database(Path(home).expanduser() / FILE), clock)

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
        granted_scopes, expiry = _checked_scopes(scopes), self._checked_expiry(expires_at)
        pair = make_key_pair()
        key = self._new_account_key(pair.key_id, project_ids, granted_scopes, expiry)
        with self._database.write() as connection:
            _insert(connection, key, pair.public)
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
        key_id, pem = checked_public_key(public_key)
        granted_scopes, expiry = _checked_scopes(scopes), self._checked_expiry(expires_at)
        key = self._new_account_key(key_id, _checked_projects([project_id]), granted_scopes, expiry)
        with self._database.write() as connection:
            if connection.execute("SELECT 1 FROM keys WHERE key_id = ?", (key_id,)).fetchone():
                existing = _find_key_of_project(connection, project_id, key_id)
                same = (key.scopes, key.expires_at, key.revoked_at)
                if existing is None or (existing.scopes, existing.expires_at, existing.revoked_at) != same:
                    raise Conflict("public_key: was registered before; make a new key pair")
                return existing, False
            keys = [each for each in _read_keys_of_project(connection, project_id) if each.revoked_at is None]
            working = sum(each.expires_at is None or each.expires_at > key.created_at for each in keys)
            if working >= MOST_KEYS:
                raise Conflict(f"the project has {working:,} valid keys, the maximum; revoke one first")
            _insert(connection, key, pem)
        return key, True

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
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?",
                (self.clock(), key_id),
            ).rowcount
        if not changed:
            raise NotFound(f"key_id: {key_id!r} does not exist")

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
            raise NotFound(f"key_id: the project has no key {key_id!r}")
        self.revoke_key(key_id)
        return key.revoked_at is None

    def has_account(self, client_id: str) -> bool:
        """Return whether a service account exists."""
        with self._database.read() as connection:
            found = connection.execute("SELECT 1 FROM accounts WHERE client_id = ?", (client_id,))
            return found.fetchone() is not None

    def find_key(self, client_id: str, key_id: str) -> PublicKey | None:
        """Return a key of an account; None if it does not exist, has expired or is revoked."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT email, public_key, scopes FROM keys "
                "JOIN accounts USING (client_id) WHERE key_id = ? AND client_id = ? "
                "AND keys.revoked_at IS NULL AND coalesce(keys.expires_at > ?, 1)",
                (key_id, client_id, self.clock()),
            ).fetchone()
        if found is None:
            return None
        email, pem, scopes = found
        return PublicKey(key_id, client_id, email, pem, tuple(scopes.split()))

    def issue(
        self, key: PublicKey, scopes: tuple[str, ...], *, once: str | None = None, until: float = 0.0
    ) -> Token | None:
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
        Token, or None
            The only copy of the token; None if the assertion was used before.
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
                    return None
            # A token does not outlive its key.
            (expires_at,) = connection.execute(
                "SELECT min(coalesce(expires_at, ?1), ?1) FROM keys WHERE key_id = ?2",
                (now + TOKEN_SECONDS, key.key_id),
            ).fetchone()
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?)",
                (_hash(text), key.key_id, " ".join(scopes), expires_at),
            )
        return Token(text, int(expires_at - now), scopes)

    def find_access(self, token: str) -> Access | None:
        """Return the permissions of an access token; None if it is invalid, expired or revoked."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT client_id, tokens.scopes, all_projects FROM tokens JOIN keys USING (key_id) "
                "JOIN accounts USING (client_id) WHERE hash = ? AND tokens.expires_at > ? "
                "AND keys.revoked_at IS NULL",
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
        return Key(key_id, client_id, email, projects, scopes, _instant(self.clock()), expiry, None)

    def _checked_expiry(self, instant: datetime | None) -> datetime | None:
        if instant is not None and instant.utcoffset() is None:
            raise InvalidRequest(f"expires_at: {instant!r} has no time zone")
        if instant is not None and instant.timestamp() <= self.clock():
            raise InvalidRequest(f"expires_at: {instant} is in the past")
        return instant

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


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _read_keys(connection: sqlite3.Connection) -> list[Key]:
    grants: dict[str, list[str]] = {}
    for client_id, project_id in connection.execute("SELECT * FROM grants ORDER BY project_id"):
        grants.setdefault(client_id, []).append(project_id)
    rows = connection.execute(
        "SELECT key_id, client_id, email, all_projects, scopes, keys.created_at, keys.expires_at, "
        "keys.revoked_at FROM keys JOIN accounts USING (client_id) ORDER BY keys.created_at, key_id"
    ).fetchall()
    return [
        Key(
            key_id,
            client_id,
            email,
            projects=None if has_all else tuple(grants.get(client_id, ())),
            scopes=tuple(scopes.split()),
            created_at=_instant(created),
            expires_at=None if end is None else _instant(end),
            revoked_at=None if revoked is None else _instant(revoked),
        )
        for key_id, client_id, email, has_all, scopes, created, end, revoked in rows
    ]


def _read_keys_of_project(connection: sqlite3.Connection, project_id: str) -> list[Key]:
    # A key that also opens other projects is not a concern of this project's administrators.
    return [key for key in _read_keys(connection) if key.projects == (project_id,)]


def _find_key_of_project(connection: sqlite3.Connection, project_id: str, key_id: str) -> Key | None:
    keys = _read_keys_of_project(connection, project_id)
    return next((key for key in keys if key.key_id == key_id), None)


def _insert(connection: sqlite3.Connection, key: Key, public: str) -> None:
    """Add an account with its grants and its key."""
    has_all, created_at = key.projects is None, key.created_at.timestamp()
    connection.execute(
        "INSERT INTO accounts (client_id, email, scopes, all_projects, created_at) VALUES (?, ?, ?, ?, ?)",
        (key.client_id, key.email, " ".join(key.scopes), has_all, created_at),
    )
    grants = [(key.client_id, project_id) for project_id in key.projects or ()]
    connection.executemany("INSERT INTO grants VALUES (?, ?)", grants)
    expiry = None if key.expires_at is None else key.expires_at.timestamp()
    connection.execute(
        "INSERT INTO keys (key_id, client_id, public_key, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
        (key.key_id, key.client_id, public, created_at, expiry),
    )


def _checked_projects(projects: Iterable[str]) -> tuple[str, ...]:
    project_ids = tuple(dict.fromkeys(projects))
    if not project_ids:
        raise InvalidRequest("projects: is empty; allowed: one or more project ids, or None for all")
    for project_id in project_ids:
        build(OPERATIONS["list_nodes"], project_id=project_id)
    return project_ids


class _Database:
    """One file with a read and a write connection, each used by one thread at a time.

    Parameters
    ----------
    path : Path
        The file; created if it does not exist, readable only by its owner.

    Raises
    ------
    Unavailable
        If the file cannot be opened, is not such a database or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading, self._writing = threading.Lock(), threading.Lock()
        with self._translated():
            create_private_folder(path.parent)
            create_private_file(path)
            self._writer = _connect(path)
            self._reader = _connect(path)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Yield the read connection; each query sees the data committed before it."""
        with self._reading, self._translated():
            yield self._reader

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yield the write connection in a transaction that commits unless the block raises."""
        with self._writing, self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()

    def _prepare(self) -> None:
        with self.write() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        if version > _VERSION:
            raise Unavailable(f"{str(self._path)!r} was written by a newer version; upgrade attrib-ds")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"the accounts in {str(self._path)!r} cannot be used: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
    )
    try:
        # With a write-ahead log, readers and the writer never block each other, also across processes.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def checked_public_key(pem: str) -> tuple[str, str]:
    """Return the id and the PEM of an RSA key of 2,048 to 4,096 bits, without anything around it.

    Raises
    ------
    InvalidRequest
        If it is something else; the message does not show it, since it may be a private key.

    Examples
    --------
    >>> from attrib_ds.keys import make_key_pair
    >>> pair = make_key_pair()
    >>> checked_public_key(pair.public)[0] == pair.key_id
    True
    """
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if (
        not isinstance(key, RSAPublicKey)
        or not _FEWEST_BITS <= key.key_size <= _MOST_BITS
        or key.public_numbers().e != _EXPONENT
    ):
        raise InvalidRequest(
            f"public_key: is not allowed; expected an RSA public key of {_FEWEST_BITS:,} to {_MOST_BITS:,} "
            f"bits with the exponent {_EXPONENT}, in PEM"
        )
    return key_id_of(key), to_pem(key)


def _checked_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes without duplicates, in the order of :data:`SCOPES`.

    Raises
    ------
    InvalidRequest
        If there is none, or one does not exist.

    Examples
    --------
    >>> _checked_scopes(["events:read", "interactions:read", "events:read"])
    ('interactions:read', 'events:read')
    """
    requested = set(scopes)
    for scope in sorted(requested - set(SCOPES)):
        raise InvalidRequest.choice("scopes", scope, SCOPES)
    if not requested:
        raise InvalidRequest(f"scopes: is empty; allowed: one or more of {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in requested)


def create_key(
    home: str | Path,
    out: str | Path,
    *,
    projects: Iterable[str] | None = None,
    scopes: Iterable[str] = (FULL_ACCESS,),
    expires_at: datetime | None = None,
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

    Returns
    -------
    KeyFile
        Content of the file.

    Raises
    ------
    InvalidRequest
        If an argument is invalid or the file exists.
    Unavailable
        If the accounts cannot be used, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     key = create_key(home, f"{home}/key.json", projects=["shop"])
    ...     len(key.privateKeyId)
    40
    """
    with new_key_file(Path(out), argument="out") as write, closing(Accounts.open(home)) as accounts:
        key = accounts.create(projects=projects, scopes=scopes, expires_at=expires_at)
        write(key)
    return key
