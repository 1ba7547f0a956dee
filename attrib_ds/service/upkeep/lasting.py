"""Carries over into a backup what its restoration must not undo: erasures, and the audit log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attrib_ds.service.identity import tombstones
from attrib_ds.service.identity.merging import find_survivor, split_off
from attrib_ds.service.store import audit
from attrib_ds.service.store.batches import lent
from attrib_ds.service.store.store import open_file
from attrib_ds.service.users.erasure import erase, erase_events

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    import duckdb
    import pyarrow as pa

    from attrib_ds.service.store.audit import Line

#: What is as it was before in every table that lasts.
_TABLES: Final = ("tombstones", "audit")
_ERASURES: Final = "SELECT subject, details FROM audit WHERE operation = 'delete_user' ORDER BY date"
#: How it is erased again where nobody wrote down how it was.
_UNTOLD: Final = "delete"
_NEW: Final = "temp.new_tombstones"


@dataclass(frozen=True)
class Lasting:
    """What of a project outlives its restoration.

    Parameters
    ----------
    salts : sequence of str
        Of the tombstones, that of new ones first.
    tables : dict of str to pyarrow.Table
        Rows by table: ``tombstones`` and ``audit``.
    """

    salts: Sequence[str]
    tables: dict[str, pa.Table]


def read_lasting(connection: duckdb.DuckDBPyConnection) -> Lasting | None:
    """Return what of a project outlives its restoration.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To its file, of whatever version.

    Returns
    -------
    Lasting or None
        None from a file of a version that erased nobody yet.
    """
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not {*_TABLES, "settings"} <= names:
        return None
    tables = {name: connection.execute(f"FROM {name}").to_arrow_table() for name in _TABLES}
    return Lasting(tombstones.read_salts(connection), tables)


def carry_over(lasting: Lasting, part: Path, line: Line | None) -> None:
    """Put what outlives a restoration into the file that is restored, and erase again what it names.

    Parameters
    ----------
    lasting : Lasting
        Of the project that is replaced.
    part : Path
        The file, of the present version, which nobody else has open.
    line : Line or None
        What is written down of the restoration.
    """
    with closing(open_file(part, exclusive=True)) as connection:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.begin()
        is_new = _insert(connection, lasting)
        audit.append(connection, [] if line is None else [line])
        if is_new:
            _erase_again(connection)
        connection.commit()
        connection.execute("CHECKPOINT")


def _insert(connection: duckdb.DuckDBPyConnection, lasting: Lasting) -> bool:
    """Add what the file does not have yet; say whether more was erased than it knows of."""
    tombstones.add_salts(connection, lasting.salts)
    for name, rows in lasting.tables.items():
        with lent(connection, rows) as view:
            connection.execute(
                f"CREATE TEMP TABLE new_{name} AS SELECT * FROM {view} EXCEPT SELECT * FROM main.{name}"
            )
        connection.execute(f"INSERT INTO main.{name} BY NAME FROM temp.new_{name}")
    return bool(connection.execute(f"SELECT 1 FROM {_NEW} LIMIT 1").fetchall())


def _erase_again(connection: duckdb.DuckDBPyConnection) -> None:
    """Erase the users, and the events of others, that new tombstones name and that were there before them."""

    def named(rows: str) -> dict[str, datetime]:
        return tombstones.named(connection, f"({rows})", among=_NEW)

    modes = {subject: audit.mode_of(details) for subject, details in connection.execute(_ERASURES).fetchall()}
    kind = f"'{tombstones.USER}' AS kind"
    found = named(f"SELECT _id AS row, {kind}, _id AS value, createdAt AS seen FROM users")
    merged = named(f"SELECT _id AS row, {kind}, _id AS value, mergedAt AS seen FROM merged_users")
    for id, date in merged.items():
        # Who was parted from another user before the erasure is parted from them first.
        if find_survivor(connection, id) not in found and split_off(connection, id, date):
            found[id] = date
    of_identities = named(
        f"SELECT userId AS row, '{tombstones.IDENTITY}' || kind AS kind, value, createdAt AS seen "
        "FROM identities JOIN users ON users._id = userId"
    )
    found = of_identities | found
    for id, date in sorted(found.items()):
        erase(connection, id, modes.get(id, _UNTOLD), date)
    events = named(
        f"SELECT _id AS row, '{tombstones.NONCE}' AS kind, nonce AS value, createdAt AS seen FROM raw_events"
    )
    if events:
        erase_events(connection, sorted(events), max(events.values()))
