"""Checks the consistency of a project's file by a query for violations of each rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, schema
from attrib_ds.contract import Answer, administration
from attrib_ds.errors import NotSupported
from attrib_ds.records.sources import quoted
from attrib_ds.service import backup
from attrib_ds.service.collection import hits
from attrib_ds.service.identity import merging
from attrib_ds.service.loading.batch import is_json
from attrib_ds.service.loading.events import CURRENCY_RULE
from attrib_ds.service.loading.interactions import count_hits
from attrib_ds.service.mirroring import kept_out
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import TABLES, differences

_MAX_EXAMPLES: Final = 5
#: Check, problem, number of records and examples.
_Finding = tuple[str, str, int, list[str]]
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


def check_project(store: Store, request: administration.CheckProject) -> Answer:  # noqa: ARG001  (has no arguments)
    """Return one finding per failed consistency check of the project's tables.

    All checks read one snapshot. Blocks of the file that are cached in memory are not read again.
    """
    with store.cursor() as cursor:
        cursor.begin()
        return Answer.of(run_checks(cursor))


def repair_project(store: Store, request: administration.RepairProject) -> Answer:
    """Repair what can be computed from hits; return one finding per step, then those that are left.

    A copy of the file is made first. Without findings nothing is done.
    """
    del request  # Has no arguments.
    if store.path is None:
        raise NotSupported("a project in memory has no file to copy before a repair")
    with store.cursor() as cursor:
        cursor.begin()
        if not (findings := run_checks(cursor)).num_rows:
            return Answer.of(findings)
    moment = instants.now().strftime("%Y%m%dT%H%M%S")
    copy = store.path.with_name(f"{store.path.stem}.before-repair-{moment}{store.path.suffix}")
    with backup.temporary_file(copy) as part:
        with store.cursor() as cursor:
            backup.copy_database(cursor, store.catalog, part)
        backup.replace_durably(part, copy)

    def repair(connection: Connection) -> pa.Table:
        steps: list[_Finding] = [("backup", "copied the project as it was", 1, [copy.name])]
        if not {*findings["check"].to_pylist()} & _BEYOND_REPAIR:
            steps += [
                ("repaired", what, len(ids), sorted(ids)[:_MAX_EXAMPLES])
                for what, ids in _repair(connection, store)
                if ids
            ]
        return pa.concat_tables([_as_table(steps), run_checks(connection)])

    return Answer.of(store.write(repair))


#: Checks of the file, whose tables cannot be trusted.
_BEYOND_REPAIR: Final = frozenset({"readable", "definitions"})


def _repair(connection: Connection, store: Store) -> Iterator[tuple[str, list[str]]]:
    """Repair hits, their sessions, and what is counted from both; yield each step with the ids concerned."""
    now = instants.now().strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    repeated = _ids(connection, _repeated("hits", ("id",)))
    sessions = _ids(connection, _repeated("interactions", ("_id",)))
    connection.execute(
        "CREATE TEMP TABLE repaired_trackers AS SELECT DISTINCT trackerId FROM hits "
        "WHERE trackerId IS NOT NULL AND (id IN (SELECT unnest($hits)) "
        "OR sessionId IN (SELECT unnest($sessions)) "
        f"OR sessionId NOT IN (SELECT _id FROM interactions) OR sessionId IN ({_MISCOUNTED}))",
        {"hits": repeated, "sessions": sessions},
    )
    _remove_copies(connection, "hits", "id", repeated, f"trackerId IS NULL, {hits.rank()}")
    yield "removed the copies of hits", repeated
    # Copies that differ are kept, unless they are computed from hits.
    of_hits = "_id IN (SELECT sessionId FROM hits WHERE trackerId IS NOT NULL)"
    differing = (
        f"SELECT _id FROM (SELECT DISTINCT * FROM interactions WHERE NOT ({of_hits})) "
        "GROUP BY _id HAVING count(*) > 1"
    )
    kept = set(_ids(connection, differing))
    copies = [session for session in sessions if session not in kept]
    _remove_copies(connection, "interactions", "_id", copies, "ingestedAt")
    yield "removed the copies of interactions", copies
    derived = hits.derive_again(
        connection, "FROM temp.repaired_trackers", project_id=store.meta.project_id, now=now, ids=store.ids
    )
    connection.execute("DROP TABLE temp.repaired_trackers")
    yield "computed sessions again from their hits", derived
    empty = _ids(
        connection,
        "DELETE FROM interactions WHERE type = 'session' AND _id NOT IN (SELECT sessionId FROM hits) "
        "AND firstHitId IN (SELECT id FROM hits WHERE trackerId IS NOT NULL) RETURNING _id",
    )
    yield "removed sessions whose hits are in others", empty
    miscounted = _ids(connection, _MISCOUNTED)
    count_hits(connection, _MISCOUNTED)
    yield "counted the hits of sessions", miscounted
    misplaced = _ids(connection, _MISPLACED)
    merging.renumber(connection, "SELECT userId FROM interactions")
    yield "numbered the interactions of users", misplaced
    listed = "SELECT _id FROM users"
    before = set(_ids(connection, listed))
    merging.register(connection, merging.SEEN)
    merging.remove_absent(connection, "(SELECT _id AS userId FROM users)")
    yield "listed the users with events or interactions", sorted(before ^ set(_ids(connection, listed)))


def _ids(connection: Connection, query: str) -> list[str]:
    return [id for (id,) in connection.execute(query).fetchall() if id is not None]


def _remove_copies(connection: Connection, table: str, key: str, ids: list[str], order: str) -> None:
    """Keep the first record of each id in an order."""
    connection.execute(
        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {key} IN (SELECT unnest(?)) "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}, rowid) > 1)",
        [ids],
    )


def run_checks(cursor: Connection) -> pa.Table:
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
    findings = [*_damages(cursor)] or [*_definitions(cursor)] or [*_rules(cursor)]
    return _as_table(findings)


def _as_table(findings: list[_Finding]) -> pa.Table:
    rows = [dict(zip(schema.FINDING.names, finding, strict=True)) for finding in findings]
    return pa.Table.from_pylist(rows, schema.FINDING)


def _damages(cursor: Connection) -> Iterator[_Finding]:
    """Read all blocks, which verifies their checksums, up to the first damaged one."""
    # Hits that are being written have tables of their own, in another catalog.
    listed = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() ORDER BY 1"
    for (table,) in cursor.execute(listed).fetchall():
        try:
            cursor.execute(f"SELECT count(hash(whole)) FROM {quoted(table)} AS whole").fetchall()
        except duckdb.Error as error:
            problem = "the file is damaged: tables cannot be read; restore a backup"
            yield ("readable", problem, 1, [f"{table}: {str(error).splitlines()[0]}"])
            return


def _definitions(cursor: Connection) -> Iterator[_Finding]:
    tables = differences(cursor)
    if tables:
        problem = "tables differ from the definitions of this release"
        yield ("definitions", problem, len(tables), tables[:_MAX_EXAMPLES])


def _rules(cursor: Connection) -> Iterator[_Finding]:
    for rule in RULES:
        broken = f"SELECT CAST(id AS VARCHAR) AS id FROM ({rule.broken}) AS broken (id)"
        (violations,) = cursor.execute(
            f"SELECT count(*), list(DISTINCT coalesce(id, 'null') ORDER BY coalesce(id, 'null'))"
            f"[1:{_MAX_EXAMPLES}] FROM ({broken})"
        ).fetchall()
        if violations[0]:
            yield (rule.name, rule.problem, *violations)
    for kind, reasons in kept_out(cursor).items():
        problem = f"{kind} of the source that the mirror lacks: {next(iter(reasons.values()))}"
        yield ("mirror", problem, len(reasons), list(reasons)[:_MAX_EXAMPLES])


@dataclass(frozen=True)
class Rule:
    """A consistency rule.

    Parameters
    ----------
    name : str
        Name of the check.
    problem : str
        Human-readable description of a violation.
    broken : str
        SQL query of one column: ids of the violating records, one row per record.
    """

    name: str
    problem: str
    broken: str


#: Primary keys of tables other than ``_id``.
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "hits": ("id",),
    "campaigns": ("id",),
    "event_type_versions": ("eventTypeId", "version"),
    "identities": ("kind", "value"),
    "settings": ("name",),
    "rates": ("currency", "date"),
}
#: Further unique columns by table.
_UNIQUE: Final[dict[str, tuple[str, ...]]] = {
    "metrics": ("eventId", "key"),
    "raw_events": ("nonce",),
    "event_types": ("reference",),
}
#: Tables without a primary key.
_WITHOUT_KEY: Final = frozenset(
    {"loaded_parts", "metric_history", "pending_hits", "trashed_hits", "tombstones", "meta"}
)


def _repeated(table: str, columns: tuple[str, ...], where: str = "true") -> str:
    names = ", ".join(quoted(column) for column in columns)
    text = " || ' ' || ".join(f"coalesce(CAST({quoted(column)} AS VARCHAR), 'null')" for column in columns)
    is_null = " OR ".join(f"{quoted(column)} IS NULL" for column in columns)
    return f"SELECT {text} FROM {table} WHERE {where} GROUP BY {names} HAVING count(*) > 1 OR {is_null}"


def _unique(table: str, columns: tuple[str, ...], where: str = "true") -> Rule:
    listed = " and ".join(columns)
    return Rule("unique", f"{table}: {listed} is missing or duplicated", _repeated(table, columns, where))


def _foreign_key(name: str, table: str, column: str, to: str, key: str = "_id", where: str = "true") -> Rule:
    """Return the rule that a column is a foreign key of another table, or null."""
    id = quoted(_KEYS.get(table, ("_id",))[-1])
    keys = f"SELECT {quoted(key)} FROM {to} WHERE {quoted(key)} IS NOT NULL"
    return Rule(
        name,
        f"{table}: {column} refers to no record of {to}",
        # Null is not in an empty list either.
        f"SELECT {id} FROM {table} WHERE {quoted(column)} IS NOT NULL "
        f"AND {quoted(column)} NOT IN ({keys}) AND {where}",
    )


def _of_project(table: str) -> Rule:
    id = quoted(_KEYS.get(table, ("_id",))[-1])
    return Rule(
        "project",
        f"{table}: belongs to another project",
        f"SELECT {id} FROM {table} WHERE projectId IS DISTINCT FROM (SELECT project_id FROM meta)",
    )


_OUTCOMES: Final = (
    "SELECT _id FROM pending_events UNION ALL SELECT _id FROM events UNION ALL SELECT _id FROM trashed_events"
)
_USERS: Final = "SELECT userId FROM events UNION SELECT userId FROM interactions"
_LIVE: Final = "number = 1 AND deletedAt IS NULL AND type = 'state'"
_DELAYS: Final = (
    "SELECT coalesce(state.eventId, delay.eventId) "
    f"FROM (SELECT *, 'state-delay-' || key AS delay_key FROM metrics WHERE {_LIVE}) AS state "
    "FULL JOIN (SELECT * FROM metrics WHERE starts_with(key, 'state-delay-') AND deletedAt IS NULL) AS delay "
    "ON state.eventId = delay.eventId AND state.delay_key = delay.key "
    "LEFT JOIN events ON events._id = state.eventId "
    # Delays may be rounded to microseconds.
    "WHERE coalesce(abs(delay.number - (epoch_us(state.date) - epoch_us(events.eventDate)) / 1e6) > 1e-5, "
    "true)"
)
_PATHS: Final = (
    "WITH RECURSIVE tree AS (SELECT _id, CAST([] AS VARCHAR[]) AS path FROM nodes WHERE parentId IS NULL "
    "UNION ALL SELECT child._id, list_append(tree.path, tree._id) FROM nodes AS child "
    "JOIN tree ON child.parentId = tree._id AND NOT list_contains(tree.path, child._id)) "
    "SELECT nodes._id FROM nodes LEFT JOIN tree USING (_id) "
    # Nodes in or below a cycle have no path to a root.
    "WHERE tree._id IS NULL OR nodes.path IS DISTINCT FROM tree.path"
)
_MISCOUNTED: Final = (
    "SELECT session._id FROM interactions AS session JOIN hits ON hits.sessionId = session._id "
    "GROUP BY session._id, session.hitCount, session.firstHitId, session.type "
    "HAVING count(*) IS DISTINCT FROM session.hitCount OR session.type = 'offline' "
    "OR NOT coalesce(bool_or(hits.id = session.firstHitId), false)"
)
_MISPLACED: Final = (
    "SELECT _id FROM (SELECT _id, userLifetimeIndex, "
    "row_number() OVER (PARTITION BY userId ORDER BY startDate, _id) AS place FROM interactions) "
    "WHERE userLifetimeIndex IS DISTINCT FROM place"
)
RULES: Final[tuple[Rule, ...]] = (
    *(_unique(table, _KEYS.get(table, ("_id",))) for table in TABLES if table not in _WITHOUT_KEY),
    *(_unique(table, columns) for table, columns in _UNIQUE.items()),
    _unique("integrations", ("vendorId",), "deletedAt IS NULL"),
    _unique("campaigns", ("integrationId", "campaignSlug"), "campaignSlug IS NOT NULL"),
    _unique(
        "interactions",
        ("integrationId", "externalId"),
        "type = 'offline' AND integrationId || externalId <> ''",
    ),
    *(_of_project(table) for table, columns in TABLES.items() if "projectId" in columns),
    Rule(
        "outcomes",
        "raw events that are not exactly one of pending, processed and trashed",
        f"SELECT raw._id FROM raw_events AS raw LEFT JOIN ({_OUTCOMES}) AS outcome ON raw._id = outcome._id "
        "GROUP BY raw._id HAVING count(outcome._id) <> 1",
    ),
    _foreign_key("outcomes", "pending_events", "_id", "raw_events"),
    _foreign_key("outcomes", "trashed_events", "_id", "raw_events"),
    _foreign_key("metrics", "metrics", "eventId", "events"),
    _foreign_key("metrics", "metric_history", "eventId", "events"),
    Rule(
        "metrics",
        "events that are not counted once",
        "SELECT events._id FROM events LEFT JOIN metrics ON metrics.eventId = events._id "
        "AND metrics.key = 'event-count' GROUP BY events._id HAVING sum(number) IS DISTINCT FROM 1",
    ),
    Rule(
        "currencies",
        "amounts whose currency is not one of ISO 4217",
        f"SELECT eventId FROM metrics WHERE {CURRENCY_RULE} AND deletedAt IS NULL",
    ),
    Rule("metrics", "states whose delay is missing, wrong or left over", _DELAYS),
    Rule(
        "users",
        "users of events and interactions who are not listed",
        f"SELECT userId FROM ({_USERS}) WHERE userId IS NULL OR userId NOT IN "
        "(SELECT _id FROM users WHERE _id IS NOT NULL)",
    ),
    Rule(
        "users",
        "listed users without an event or interaction",
        f"SELECT _id FROM users WHERE _id NOT IN (SELECT userId FROM ({_USERS}) WHERE userId IS NOT NULL)",
    ),
    Rule(
        "lifetimes",
        "interactions whose userLifetimeIndex is not their position among the interactions of their user",
        _MISPLACED,
    ),
    # Those of a browser stay together while it has no record.
    _foreign_key("identities", "identities", "userId", "users", where="kind <> 'trackerId'"),
    _foreign_key("merged-users", "merged_users", "userId", "users"),
    _foreign_key("nodes", "nodes", "parentId", "nodes"),
    Rule("nodes", "nodes whose path does not match their parents", _PATHS),
    _foreign_key("nodes", "interactions", "nodeId", "nodes"),
    _foreign_key("nodes", "outlays", "campaignId", "nodes"),
    _foreign_key("nodes", "campaigns", "id", "nodes"),
    _foreign_key("campaigns", "campaigns", "integrationId", "integrations"),
    _foreign_key("hits", "hits", "sessionId", "interactions"),
    Rule("hits", "interactions whose hitCount or firstHitId does not match their hits", _MISCOUNTED),
    Rule(
        "trash",
        "hits that could not be read, or would be stored twice; trashed_hits has them with the reason",
        "SELECT reason FROM trashed_hits",
    ),
    *(
        Rule(
            "json",
            f"{table}.{column} is not JSON",
            f"SELECT {quoted(next(iter(TABLES[table])))} FROM {table} WHERE NOT {is_json(quoted(column))}",
        )
        for table, columns in _JSON.items()
        for column in columns
    ),
)
