"""Carries erasures and the audit log over into a restored backup, which must not undo them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attrib_ds.service.identity import tombstones
from attrib_ds.service.identity.merging import find_survivor, split_off
from attrib_ds.service.store import audit
from attrib_ds.service.store.store import open_file
from attrib_ds.service.store.table_access import arrow_view
from attrib_ds.service.users.erasure import erase, erase_events

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    import duckdb
    import pyarrow as pa

    from attrib_ds.service.store.audit import Line

_TABLES: Final = ("tombstones", "audit")
_ERASURES: Final = "SELECT subject, details FROM audit WHERE operation = 'delete_user' ORDER BY date"
#: Mode of erasures without an audit entry.
_DEFAULT_MODE: Final = "delete"
_NEW: Final = "temp.new_tombstones"


@dataclass(frozen=True)
class PreservedRecords:
    """Records of a project that survive its restoration.

    Parameters
    ----------
    salts : sequence of str
        Salts of the tombstones, that of new ones first.
    tables : dict of str to pyarrow.Table
        Rows of the tables ``tombstones`` and ``audit``.
    """

    salts: Sequence[str]
    tables: dict[str, pa.Table]


def read_preserved_records(connection: duckdb.DuckDBPyConnection) -> PreservedRecords | None:
    """Return the records of a project that survive its restoration.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to its file.

    Returns
    -------
    PreservedRecords or None
        None if the file does not have these tables.
    """
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not {*_TABLES, "settings"} <= names:
        return None
    tables = {name: connection.execute(f"FROM {name}").to_arrow_table() for name in _TABLES}
    return PreservedRecords(tombstones.read_salts(connection), tables)


def carry_over(preserved: PreservedRecords, part: Path, line: Line | None) -> None:
    """Insert preserved records into the restored file, and repeat erasures that it does not have.

    Parameters
    ----------
    preserved : PreservedRecords
        Records of the replaced project.
    part : Path
        The restored file, not open elsewhere.
    line : Line or None
        Audit entry of the restoration.
    """
    with closing(open_file(part, exclusive=True)) as connection:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.begin()
        is_new = _insert(connection, preserved)
        audit.append(connection, [] if line is None else [line])
        if is_new:
            _erase_again(connection)
        connection.commit()
        connection.execute("CHECKPOINT")


def _insert(connection: duckdb.DuckDBPyConnection, preserved: PreservedRecords) -> bool:
    """Insert missing records; return whether there are new tombstones."""
    tombstones.add_salts(connection, preserved.salts)
    for name, rows in preserved.tables.items():
        with arrow_view(connection, rows) as view:
            connection.execute(
                f"CREATE TEMP TABLE new_{name} AS SELECT * FROM {view} EXCEPT SELECT * FROM main.{name}"
            )
        connection.execute(f"INSERT INTO main.{name} BY NAME FROM temp.new_{name}")
    return bool(connection.execute(f"SELECT 1 FROM {_NEW} LIMIT 1").fetchall())


def _erase_again(connection: duckdb.DuckDBPyConnection) -> None:
    """Erase users and events that match new tombstones and are older than these."""

    def erasure_dates(rows: str) -> dict[str, datetime]:
        return tombstones.erasure_dates(connection, f"({rows})", among=_NEW)

    modes = {subject: audit.mode_of(details) for subject, details in connection.execute(_ERASURES).fetchall()}
    kind = f"'{tombstones.USER}' AS kind"
    users = erasure_dates(f"SELECT _id AS row, {kind}, _id AS value, createdAt AS seen FROM users")
    merged = erasure_dates(f"SELECT _id AS row, {kind}, _id AS value, mergedAt AS seen FROM merged_users")
    for id, date in merged.items():
        # The erased user may still be merged into another user here: split them first.
        if find_survivor(connection, id) not in users and split_off(connection, id, date):
            users[id] = date
    of_identities = erasure_dates(
        f"SELECT userId AS row, '{tombstones.IDENTITY}' || kind AS kind, value, createdAt AS seen "
        "FROM identities JOIN users ON users._id = userId"
    )
    users = of_identities | users
    for id, date in sorted(users.items()):
        erase(connection, id, modes.get(id, _DEFAULT_MODE), date)
    events = erasure_dates(
        f"SELECT _id AS row, '{tombstones.NONCE}' AS kind, nonce AS value, createdAt AS seen FROM raw_events"
    )
    if events:
        erase_events(connection, sorted(events), max(events.values()))
