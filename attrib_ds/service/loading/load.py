"""Loads records in bulk in one transaction, without Python objects per row."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, schema, sql_results
from attrib_ds.contract import Answer, administration
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.instants import naive
from attrib_ds.records import export_tables, ga4_events, parts, snowplow_events, sources
from attrib_ds.service.collection.traffic_sources import Rules
from attrib_ds.service.collection.visitors import AddressLookup, visitor_secret
from attrib_ds.service.loading import events, interactions, nodes
from attrib_ds.service.loading.batch import CONFLICTS, Batch, Project, ValidRows
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import insert_records

Check: TypeAlias = Callable[[Connection, sources.Source, Project], Batch]

REJECTED: Final = pa.schema([("row", pa.int64()), ("id", pa.string()), ("reason", pa.string())])

#: A client that repeats a portion does so soon.
_FORGET: Final = (
    "UPDATE loaded_parts SET answer = NULL WHERE answer IS NOT NULL AND date < ? - INTERVAL 1 DAY"
)
#: Number of rows from which on a transaction takes no further part.
_ROWS_OF_PARTS: Final = 250_000
#: Maximum number of rejected rows that the answer to a portion lists, and of characters of each text.
_MOST_LISTED: Final = 1_000

_CHECKS: Final[dict[str, tuple[Check, pa.Schema]]] = {
    "interactions": (interactions.check_interactions, schema.INTERACTION),
    "hits": (interactions.check_hits, schema.HIT),
    "events": (events.check_events, schema.EVENT),
    "nodes": (nodes.check_nodes, schema.NODE),
    "spend": (nodes.check_spend, schema.OUTLAY),
}


def load_records(
    store: Store,
    resource: str,
    source: object,
    *,
    replace: bool = False,
    mirrored: bool = False,
    geo: str | Path | None = None,
    asn: str | Path | None = None,
) -> tuple[dict[str, int], pa.Table]:
    """Load all valid records of one kind in one transaction.

    Parameters
    ----------
    store : Store
        Target of the records.
    resource : str
        ``interactions``, ``hits``, ``events``, ``nodes`` or ``spend``.
    source : DataFrame, Arrow table, record batch or reader, or path
        As for :func:`attrib_ds.records.sources.open_source`: columns named as in the resource, with dots if
        nested, or nested objects. Of raw hits also a folder of parts, each of which is read once.
    replace : bool, default False
        Whether rows replace stored records with the same ids, unless these changed later; by default such
        rows are rejected. Unchanged rows are not counted.
    geo, asn : str or Path, optional
        MMDB files with the places and networks of the addresses of raw hits.

    Returns
    -------
    counts : dict of str to int
        Records loaded by resource, including ``implicit_nodes`` or ``metrics``.
    rejected : pyarrow.Table
        ``row``, ``id`` and ``reason``, which lists all violated rules; sorted by row.

    Raises
    ------
    InvalidRequest
        If the source cannot be read or has unknown columns; nothing is loaded.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> visits = pa.table({"userId": ["a" * 24, "b"], "nodeId": ["ads", "ads"],
    ...                    "startDate": ["2025-01-31T12:00:00Z", "2025-01-31"]})
    >>> counts, rejected = load_records(store, "interactions", visits)
    >>> counts
    {'interactions': 1, 'implicit_nodes': 1}
    >>> rejected["reason"].to_pylist()  # doctest: +NORMALIZE_WHITESPACE
    ["userId: 'b' is not 24 lower-case hexadecimal digits;
      startDate: '2025-01-31' is not a date with a time, such as 2025-01-31T12:00:00Z"]
    >>> store.close()
    """
    if resource not in _CHECKS:
        raise InvalidRequest.choice("resource", resource, _CHECKS)
    options: dict[str, Any] = {"replace": replace, "mirrored": mirrored, "geo": geo, "asn": asn}
    if resource == "hits" and isinstance(source, str | Path) and parts.is_folder(source):
        return _load_parts(store, parts.Folder.open(source, argument=resource), options)
    return _load(store, resource, source, **options)


def _load_parts(
    store: Store, folder: parts.Folder, options: Mapping[str, Any]
) -> tuple[dict[str, int], pa.Table]:
    """Load the parts of a folder that the project has not read, some at a time; rows are counted over all."""
    with store.cursor() as cursor:
        known = set(cursor.execute("SELECT name, size FROM loaded_parts").fetchall())
    new = [part for part in folder.find() if (part.name, part.size) not in known]
    counts, refused, rows, end = Counter(parts=len(new)), [REJECTED.empty_table()], 1, 0
    while end < len(new):
        start, taken, columns = end, 0, pa.schema([])
        while end < len(new) and taken < _ROWS_OF_PARTS:
            with folder.opened(new[end]) as file:
                held, further_rows = file.schema_arrow, file.metadata.num_rows
            try:
                columns = pa.unify_schemas([columns, held]) if end > start else held
            except pa.ArrowException:
                # Its columns have other types, so that it begins the next transaction.
                break
            taken, end = taken + further_rows, end + 1
        failures: list[AttribError] = []
        batches = folder.batches(new[start:end], columns, failures)
        hits = pa.RecordBatchReader.from_batches(columns, batches)
        try:
            further, rejected = _load(store, "hits", hits, read=new[start:end], **options)
        except InvalidRequest as error:
            if failures:
                raise failures[0] from None
            names = " to ".join(dict.fromkeys(repr(new[at].path) for at in (start, end - 1)))
            raise InvalidRequest(f"{error} (parts: {names})") from error
        counts.update(further)
        refused.append(rejected.set_column(0, REJECTED.field(0), pc.add(rejected["row"], rows)))
        rows += taken
    return dict(counts), pa.concat_tables(refused)


def _load(
    store: Store,
    resource: str,
    source: object,
    *,
    replace: bool,
    mirrored: bool = False,
    geo: str | Path | None = None,
    asn: str | Path | None = None,
    read: Sequence[parts.Part] = (),
    is_sent: bool = False,
) -> tuple[dict[str, int], pa.Table]:
    """Load a table, and remember in the same transaction which parts it was read from."""
    check, _ = _CHECKS[resource]
    now = instants.now().strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    project = Project(store.meta.project_id, store.meta.currency, now, store.ids, mirrored)
    with closing(AddressLookup.open(geo=geo, asn=asn)) as lookup, store.scratch() as connection:
        opened, skipped = _open(connection, source, resource=resource, store=store)
        if resource == "hits" and interactions.is_raw(opened):
            with store.cursor() as cursor:
                rules = Rules.read(cursor, store.catalog)
            check = partial(interactions.check_raw_hits, lookup=lookup, rules=rules)
        elif lookup:
            raise InvalidRequest("geo and asn: they look up the addresses of raw hits; leave them out here")
        batch = check(connection, opened, project)

        def write(writer: Connection) -> tuple[dict[str, int], pa.Table]:
            # The portion may have come twice, and been loaded while this one was read.
            if is_sent and (first := _find_answer(writer, read[0])) is not None:
                return first.get("counts", {}), pa.Table.from_pylist(first.get("rejected", []), REJECTED)
            counts, conflicts = _insert(writer, batch, is_replacing=replace)
            rejected = _rejected(connection, batch, opened, conflicts)
            answer = json.dumps(_answer(counts, rejected)) if is_sent else None
            known = {"answer": answer, "date": naive(instants.now())}
            writer.execute(_FORGET, [known["date"]])
            records = [{"name": part.name, "size": part.size} | known for part in read]
            insert_records(writer, "loaded_parts", records)
            return {**counts, **skipped}, rejected

        return store.write(write)


def send_hits(store: Store, request: administration.SendHits) -> Answer:
    """Load a portion of raw hits, unless it is loaded already, and answer as the first time."""
    portion = parts.Part(f"portion:{request.portionId.lower()}", "", 0)
    with store.cursor() as cursor:
        known = _find_answer(cursor, portion)
    if known is not None:
        return Answer(value=known)
    try:
        counts, rejected = _load(
            store, "hits", request.source, replace=request.replace, read=[portion], is_sent=True
        )
    except InvalidRequest as error:
        # Where the service keeps the file is nobody's business.
        raise InvalidRequest(str(error).replace(repr(str(request.source)), "the portion")) from None
    return Answer(value=_answer(counts, rejected))


def _find_answer(connection: Connection, portion: parts.Part) -> dict[str, Any] | None:
    query = "SELECT answer FROM loaded_parts WHERE name = ?"
    known = sql_results.read_row(connection, query, [portion.name])
    return None if known is None else json.loads(known[0] or "{}")


def _answer(counts: Mapping[str, int], rejected: pa.Table) -> dict[str, Any]:
    row, *texts = rejected.slice(0, _MOST_LISTED).columns
    columns = [row, *(pc.utf8_slice_codeunits(text, 0, _MOST_LISTED) for text in texts)]
    unlisted = {"unlisted_rejected": rejected.num_rows - len(row)} if rejected.num_rows > len(row) else {}
    return {"counts": {**counts, **unlisted}, "rejected": pa.table(columns, REJECTED).to_pylist()}


def _open(
    connection: Connection, source: object, *, resource: str, store: Store
) -> tuple[sources.Source, dict[str, int]]:
    """Copy a source into a table; of page views, also return how many other rows were skipped."""
    match source:
        case export_tables.AccessLog() if resource == "hits":
            opened, skipped = export_tables.open_access_log(connection, source, secret=visitor_secret(store))
            return opened, {"skipped_requests": skipped}
        case ga4_events.GA4Hits() if resource == "hits":
            opened, skipped = ga4_events.open_ga4_hits(connection, source)
            return opened, {"skipped_events": skipped}
        case snowplow_events.SnowplowHits() if resource == "hits":
            opened, skipped = snowplow_events.open_snowplow_hits(connection, source)
            return opened, {"skipped_events": skipped}
    _, columns = _CHECKS[resource]
    opaque = {field.name for field in columns if schema.is_json(field)}
    return sources.open_source(connection, source, argument=resource, opaque=opaque), {}


def _insert(
    connection: Connection, batch: Batch, *, is_replacing: bool
) -> tuple[Mapping[str, int], pa.Table]:
    valid = ValidRows(batch.staged, is_replacing=is_replacing)
    connection.execute(
        f"CREATE TEMP TABLE {valid.conflicts.removeprefix('temp.')} (row BIGINT, reason VARCHAR)"
    )
    connection.execute(f"CREATE TEMP TABLE {valid.unchanged.removeprefix('temp.')} (row BIGINT)")
    counts = batch.insert(connection, valid)
    found = sql_results.read_arrow(connection, f"SELECT row, reason FROM {valid.conflicts}")
    conflicts = found.cast(CONFLICTS)
    connection.execute(f"DROP TABLE {valid.conflicts}")
    connection.execute(f"DROP TABLE {valid.unchanged}")
    return counts, conflicts


def _rejected(connection: Connection, batch: Batch, source: sources.Source, conflicts: pa.Table) -> pa.Table:
    connection.register("conflicts", conflicts)
    connection.register("unreadable", source.unreadable)
    has_id = batch.id_column in source.types
    id_given = source.word(batch.id_column) if has_id else "CAST(NULL AS VARCHAR)"
    rows = sql_results.read_arrow(
        connection,
        f"SELECT row + {source.first} AS row, id, string_agg(reason, '; ' ORDER BY position, reason) AS "
        f"reason FROM (SELECT row, position, reason FROM {batch.staged.problems} "
        "UNION ALL SELECT row, 2000, reason FROM conflicts UNION ALL SELECT row, 0, reason FROM unreadable) "
        f"LEFT JOIN (SELECT {sources.quoted(sources.ROW)} AS row, {id_given} AS id FROM {source.relation}) "
        "USING (row) "
        "GROUP BY ALL ORDER BY row",
    )
    return rows.cast(REJECTED)
