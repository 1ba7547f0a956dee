"""Tombstones: salted hashes of erased data, which keep it from returning."""

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from duckdb import DuckDBPyConnection as Connection

from attrib_ds.records.sources import literal
from attrib_ds.service.store import tables

#: Kind and value of erased data: ``("nonce", "n1")``.
Mark = tuple[str, str]

_SALT: Final = "tombstoneSalt"
_SALT_BYTES: Final = 32
NONCE: Final = "nonce"
USER: Final = "userId"
HIT: Final = "hit"
#: Prefix of the kinds of identities.
IDENTITY: Final = "identity:"


def identity_kind(kind: str) -> str:
    """Return the kind of mark for a kind of identity.

    Examples
    --------
    >>> identity_kind("email")
    'identity:email'
    """
    return f"{IDENTITY}{kind}"


def bury(connection: Connection, marks: Iterable[Mark], date: datetime) -> None:
    """Insert tombstones of erased data.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that erases.
    marks : iterable of tuple
        The erased data.
    date : datetime
        Date of the erasure, naive, in UTC; later data belongs to a new user.

    Examples
    --------
    >>> from datetime import datetime
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> mark = ("nonce", "order-1")
    >>> store.write(lambda connection: bury(connection, [mark], datetime(2025, 1, 31)))
    >>> store.write(lambda connection: find_buried(connection, [mark, ("nonce", "order-2")]))
    {('nonce', 'order-1'): datetime.datetime(2025, 1, 31, 0, 0)}
    >>> store.close()
    """
    if not read_salts(connection):
        add_salts(connection, [secrets.token_hex(_SALT_BYTES)])
    salt = read_salts(connection)[0]
    rows = [
        {"kind": kind, "hash": _hash(salt, kind, value), "date": date}
        for kind, value in sorted(dict.fromkeys(marks))
    ]
    tables.insert_records(connection, "tombstones", rows)


def find_buried(connection: Connection, marks: Collection[Mark]) -> dict[Mark, datetime]:
    """Return the marks that have tombstones, with the last date of erasure.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    marks : collection of tuple
        Marks to look up.

    Returns
    -------
    dict of tuple to datetime
        Dates by mark; naive, in UTC.
    """
    salts = read_salts(connection) if marks else []
    if not salts:
        return {}
    by_hash = {(kind, _hash(salt, kind, value)): (kind, value) for kind, value in marks for salt in salts}
    rows = connection.execute(
        "SELECT kind, hash, max(date) FROM tombstones WHERE hash IN (SELECT unnest(?)) GROUP BY ALL",
        [[digest for _, digest in by_hash]],
    ).fetchall()
    dates: dict[Mark, datetime] = {}
    for kind, digest, date in rows:
        mark = by_hash.get((kind, digest))
        if mark is not None:
            dates[mark] = max(date, dates.get(mark, date))
    return dates


def find_erased(connection: Connection, nonces: Collection[str]) -> dict[str, str]:
    """Return the ids of erased events by nonce.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    nonces : collection of str
        Nonces as sent.

    Returns
    -------
    dict of str to str
        Erased events only. For deleted events the id is derived from the nonce, the same each time.
    """
    erased = [nonce for _, nonce in find_buried(connection, [(NONCE, nonce) for nonce in nonces])]
    if not erased:
        return {}
    salts = read_salts(connection)
    hidden = {_hidden(salt, nonce): nonce for nonce in erased for salt in salts}
    rows = connection.execute(
        "SELECT nonce, _id FROM raw_events WHERE nonce IN (SELECT unnest(?))", [list(hidden)]
    ).fetchall()
    stored = {hidden[nonce]: str(id) for nonce, id in rows}
    # The oldest salt stays last.
    derived = {nonce: str(uuid5(NAMESPACE_OID, _hidden(salts[-1], nonce))) for nonce in erased}
    return derived | stored


def buried_rows(connection: Connection, rows: str) -> str | None:
    """Return the query of rows with data that was erased after the date of the row.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    rows : str
        Relation in SQL, for a FROM clause, with the columns ``row``, ``kind``, ``value`` and ``seen``,
        the date of the row.

    Returns
    -------
    str or None
        SQL query of ``row``; None if nothing was ever erased.
    """
    matches = _matched(connection, rows, "tombstones")
    return None if matches is None else f"SELECT DISTINCT row {matches}"


def erasure_dates(connection: Connection, rows: str, *, among: str) -> dict[str, datetime]:
    """Return the last date of erasure of rows with data that was erased after their date.

    Parameters
    ----------
    connection, rows
        As for :func:`buried_rows`.
    among : str
        Table of the tombstones to match.

    Returns
    -------
    dict of str to datetime
        Dates by ``row``; naive, in UTC.
    """
    matches = _matched(connection, rows, among)
    if matches is None:
        return {}
    return dict(connection.execute(f"SELECT row, max(stones.date) {matches} GROUP BY row").fetchall())


def _matched(connection: Connection, rows: str, among: str) -> str | None:
    salts = read_salts(connection)
    if not salts:
        return None
    hashes = ", ".join(
        f"sha256({literal(salt)} || chr(10) || marked.kind || chr(10) || marked.value)" for salt in salts
    )
    # Hash each row with each salt once, before the join.
    return (
        f"FROM (SELECT marked.*, unnest([{hashes}]) AS digest FROM {rows} AS marked) AS marked "
        f"JOIN {among} AS stones ON stones.kind = marked.kind AND hash = digest AND seen <= stones.date"
    )


def is_hidden(nonce: str) -> bool:
    """Return whether a nonce is the hash of the nonce of an erased event."""
    return re.fullmatch("erased [0-9a-f]{64}", nonce) is not None


def hidden_forms(salts: Sequence[str], nonce: str) -> list[str]:
    """Return the hashes that may stand for the nonce of an erased event, one per salt."""
    return [_hidden(salt, nonce) for salt in salts]


def hidden_nonce(connection: Connection, nonce: str) -> str:
    """Return the hash that replaces the nonce of an erased event."""
    salts = read_salts(connection)
    return _hidden(salts[0], nonce) if salts else nonce


def read_salts(connection: Connection) -> list[str]:
    """Return the salts, that of new tombstones first; none if nothing was ever erased."""
    salts = tables.read_setting(connection, _SALT) or []
    return [salts] if isinstance(salts, str) else list(salts)


def add_salts(connection: Connection, salts: Sequence[str]) -> None:
    """Prepend salts to the stored ones.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    salts : sequence of str
        Salts of a project whose tombstones are added.
    """
    stored = list(dict.fromkeys([*salts, *read_salts(connection)]))
    if stored:
        # Usually one; several after restoring a file with other erasures.
        tables.write_setting(connection, _SALT, stored[0] if len(stored) == 1 else stored)


def _hidden(salt: str, nonce: str) -> str:
    return f"erased {_hash(salt, NONCE, nonce)}"


def _hash(salt: str, kind: str, value: str) -> str:
    return hashlib.sha256(f"{salt}\n{kind}\n{value}".encode()).hexdigest()
