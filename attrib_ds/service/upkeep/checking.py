"""Finds what in a project's file contradicts itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import duckdb
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.tables import TABLES, differences
from attrib_ds.service.upkeep.consistency import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract.administration import CheckProject
    from attrib_ds.service.store.store import Store

_MOST_EXAMPLES: Final = 5
_BATCH_ROWS: Final = 10_000
#: Columns of JSON text by table; of the resources, those that say so themselves.
_JSON: Final[dict[str, list[str]]] = {
    "interactions": [each.name for each in schema.INTERACTION if schema.is_json(each)],
    "events": ["event", "user"],
    "raw_events": ["data", "eventDate"],
    "trashed_events": ["errors"],
    "event_types": ["fields", "metadata", "phoneParsingConfig"],
    "event_type_versions": ["fields"],
    "integrations": ["parameters"],
    "merged_users": ["undo"],
    "audiences": ["condition"],
    "settings": ["value"],
    "audit": ["details"],
}


@dataclass(frozen=True)
class _Finding:
    check: str
    problem: str
    records: int
    examples: list[str]


def check_project(store: Store, request: CheckProject) -> Answer:  # noqa: ARG001  (it asks for all)
    """Answer what contradicts itself in the tables of a project, one finding per check that fails.

    All checks see one snapshot. Blocks of the file that are in memory already are not read again.
    """
    with store.cursor() as cursor:
        cursor.begin()
        return Answer.of(examine(cursor))


def examine(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return what contradicts itself in the tables that a connection sees.

    Parameters
    ----------
    cursor : duckdb.DuckDBPyConnection
        Inside a transaction, so that all checks see the same.

    Returns
    -------
    pyarrow.Table
        One row per check that fails, in the schema of a finding.
    """
    # What is damaged, or not even defined, cannot be asked more.
    findings = [*_damages(cursor)] or [*_definitions(cursor)] or [*_rules(cursor), *_json(cursor)]
    rows = {
        name: pa.array([getattr(each, name) for each in findings], schema.FINDING.field(name).type)
        for name in schema.FINDING.names
    }
    return pa.table(rows, schema=schema.FINDING)


def _damages(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    """Read every block, each of which has a checksum, until one is damaged; what holds is not known then."""
    for (table,) in cursor.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
        try:
            cursor.execute(f"SELECT count(hash(whole)) FROM {quoted(table)} AS whole").fetchall()
        except duckdb.Error as error:
            problem = "the file is damaged: tables cannot be read; restore a backup"
            yield _Finding("readable", problem, 1, [f"{table}: {str(error).splitlines()[0]}"])
            return


def _definitions(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    found = differences(cursor)
    if found:
        problem = "tables are not defined as this version defines them"
        yield _Finding("definitions", problem, len(found), found[:_MOST_EXAMPLES])


def _rules(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    for rule in RULES:
        broken = f"SELECT CAST(id AS VARCHAR) AS id FROM ({rule.broken}) AS broken (id)"
        (found,) = cursor.execute(
            f"SELECT count(*), list(DISTINCT coalesce(id, 'null') ORDER BY coalesce(id, 'null'))"
            f"[1:{_MOST_EXAMPLES}] FROM ({broken})"
        ).fetchall()
        if found[0]:
            yield _Finding(rule.name, rule.problem, *found)


def _json(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    """Read JSON texts with a parser that takes nothing but JSON, as DuckDB's own takes more."""
    for table, columns in _JSON.items():
        id = quoted(next(iter(TABLES[table])))
        for column in columns:
            rows = cursor.execute(
                f"SELECT {id}, {quoted(column)} FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL"
            )
            wrong: list[str] = []
            while batch := rows.fetchmany(_BATCH_ROWS):
                wrong += [str(each) for each, text in batch if not _is_json(text)]
            if wrong:
                problem = f"{table}.{column} is not JSON"
                yield _Finding("json", problem, len(wrong), sorted(wrong)[:_MOST_EXAMPLES])


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
