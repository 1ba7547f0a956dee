"""Checks the consistency of a project's file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import duckdb
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.table_definitions import TABLES, differences
from attrib_ds.service.upkeep.consistency_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract.administration import CheckProject
    from attrib_ds.service.store.store import Store

_MAX_EXAMPLES: Final = 5
_BATCH_ROWS: Final = 10_000
#: Columns of JSON text by table.
_JSON: Final[dict[str, list[str]]] = {
    "interactions": [field.name for field in schema.INTERACTION if schema.is_json(field)],
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


def check_project(store: Store, request: CheckProject) -> Answer:  # noqa: ARG001  (has no arguments)
    """Return one finding per failed consistency check of the project's tables.

    All checks read one snapshot. Blocks of the file that are cached in memory are not read again.
    """
    with store.cursor() as cursor:
        cursor.begin()
        return Answer.of(run_checks(cursor))


def run_checks(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """Run all consistency checks on a connection.

    Parameters
    ----------
    cursor : duckdb.DuckDBPyConnection
        Inside a transaction, so that all checks read one snapshot.

    Returns
    -------
    pyarrow.Table
        One row per failed check, in the schema of a finding.
    """
    # Damaged or missing tables cannot be checked further.
    findings = [*_damages(cursor)] or [*_definitions(cursor)] or [*_rules(cursor), *_json(cursor)]
    rows = {
        name: pa.array([getattr(finding, name) for finding in findings], schema.FINDING.field(name).type)
        for name in schema.FINDING.names
    }
    return pa.table(rows, schema=schema.FINDING)


def _damages(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    """Read all blocks, which verifies their checksums, up to the first damaged one."""
    for (table,) in cursor.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
        try:
            cursor.execute(f"SELECT count(hash(whole)) FROM {quoted(table)} AS whole").fetchall()
        except duckdb.Error as error:
            problem = "the file is damaged: tables cannot be read; restore a backup"
            yield _Finding("readable", problem, 1, [f"{table}: {str(error).splitlines()[0]}"])
            return


def _definitions(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    tables = differences(cursor)
    if tables:
        problem = "tables differ from the definitions of this release"
        yield _Finding("definitions", problem, len(tables), tables[:_MAX_EXAMPLES])


def _rules(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    for rule in RULES:
        broken = f"SELECT CAST(id AS VARCHAR) AS id FROM ({rule.broken}) AS broken (id)"
        (violations,) = cursor.execute(
            f"SELECT count(*), list(DISTINCT coalesce(id, 'null') ORDER BY coalesce(id, 'null'))"
            f"[1:{_MAX_EXAMPLES}] FROM ({broken})"
        ).fetchall()
        if violations[0]:
            yield _Finding(rule.name, rule.problem, *violations)


def _json(cursor: duckdb.DuckDBPyConnection) -> Iterator[_Finding]:
    """Parse JSON columns strictly; DuckDB's parser is lenient."""
    for table, columns in _JSON.items():
        id = quoted(next(iter(TABLES[table])))
        for column in columns:
            rows = cursor.execute(
                f"SELECT {id}, {quoted(column)} FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL"
            )
            invalid: list[str] = []
            while batch := rows.fetchmany(_BATCH_ROWS):
                invalid += [str(record_id) for record_id, text in batch if not _is_json(text)]
            if invalid:
                problem = f"{table}.{column} is not JSON"
                yield _Finding("json", problem, len(invalid), sorted(invalid)[:_MAX_EXAMPLES])


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
