"""Creates, reads and deletes audiences; their members are computed on reading (G-067)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import Conflict, NotFound
from attrib_ds.instants import naive
from attrib_ds.service.store.table_access import insert_record
from attrib_ds.service.users.audience_conditions import check, leaves, meets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.audiences import CreateAudience, DeleteAudience, GetAudience, ListAudiences
    from attrib_ds.service.store.store import Store

_COLUMNS = "_id, projectId, name, condition"


def create_audience(store: Store, request: CreateAudience) -> Answer:
    """Create and return an audience.

    Raises
    ------
    InvalidRequest
        If the condition names an unknown key or event type, or ``audienceIds``.
    NotFound
        If it names an audience that does not exist.
    """
    with store.read() as backend:
        check(backend, request.condition, argument="condition")
    now, new_id = instants.now(), store.ids.new()
    record = {
        "_id": new_id,
        "projectId": request.projectId,
        "name": request.name,
        "condition": encode(request.condition),
        "createdAt": naive(now),
        "updatedAt": naive(now),
    }

    def write(connection: duckdb.DuckDBPyConnection) -> None:
        # An audience of the condition may have been deleted since the check.
        for id in sorted(_audience_ids(request.condition)):
            _require(connection, id, argument="condition")
        insert_record(connection, "audiences", record)

    store.write(write)
    return _read(store, new_id)


def list_audiences(store: Store, request: ListAudiences) -> Answer:
    """Return one page of audiences, sorted by name, with their current sizes."""
    page = "" if request.limit is None else f"LIMIT {request.limit}"
    with store.read() as backend:
        ((total,),) = backend.con.execute("SELECT count(*) FROM audiences").fetchall()
        rows = backend.con.execute(
            f"SELECT {_COLUMNS} FROM audiences ORDER BY name, _id {page} OFFSET {request.offset}"
        ).fetchall()
        table = _table(backend, rows)
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


def get_audience(store: Store, request: GetAudience) -> Answer:
    """Return one audience with its current size."""
    return _read(store, request.id)


def delete_audience(store: Store, request: DeleteAudience) -> Answer:
    """Delete an audience, not its users; return 1.

    Raises
    ------
    NotFound
        If there is no such audience.
    Conflict
        If the condition of another audience names it.
    """

    def write(connection: duckdb.DuckDBPyConnection) -> int:
        _require(connection, request.id, argument="id")
        for name, condition in connection.execute(
            "SELECT name, condition FROM audiences ORDER BY _id"
        ).fetchall():
            if request.id in _audience_ids(json.loads(condition)):
                raise Conflict(
                    f"id: the condition of the audience {name!r} names {request.id!r}; delete {name!r} first",
                    field="id",
                )
        connection.execute("DELETE FROM audiences WHERE _id = ?", [request.id])
        return 1

    return Answer(value=store.write(write))


def _read(store: Store, id: str) -> Answer:
    with store.read() as backend:
        _require(backend.con, id, argument="id")
        rows = backend.con.execute(f"SELECT {_COLUMNS} FROM audiences WHERE _id = ?", [id]).fetchall()
        return Answer.of(_table(backend, rows))


def _table(backend: Backend, rows: Sequence[tuple[str, str, str, str]]) -> pa.Table:
    users = backend.table("users").select("_id")
    now = instants.now()
    records = [
        {
            "_id": id,
            "projectId": project_id,
            "name": name,
            "condition": condition,
            "size": users.filter(meets(backend, users, json.loads(condition), argument="condition"))
            .count()
            .to_pyarrow()
            .as_py(),
            "computedAt": now,
        }
        for id, project_id, name, condition in rows
    ]
    return pa.Table.from_pylist(records, schema.AUDIENCE)


def _audience_ids(condition: dict[str, object]) -> set[str]:
    """Return the ids of the audiences in a condition."""
    return {id for leaf in leaves(condition) if leaf["type"] == "audience" for id in leaf["value"]}


def _require(connection: duckdb.DuckDBPyConnection, id: str, *, argument: str) -> None:
    if not connection.execute("SELECT 1 FROM audiences WHERE _id = ?", [id]).fetchall():
        raise NotFound(f"{argument}: there is no audience {id!r}", field=argument)
