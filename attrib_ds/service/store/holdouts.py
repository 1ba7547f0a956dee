"""Lists, creates and deletes the holdouts of a project, which are a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.settings import Holdout, find_holdout, get_holdout
from attrib_ds.errors import Conflict
from attrib_ds.service.store.settings import change_settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

    from attrib_ds.contract.settings import CreateHoldout, DeleteHoldout, ListHoldouts
    from attrib_ds.service.store.store import Store


def list_holdouts(store: Store, request: ListHoldouts) -> Answer:  # noqa: ARG001  (handlers take both)
    """Return the holdouts, by name."""
    with store.cursor() as cursor:
        holdouts = map(Holdout.parse, read_settings(cursor).holdouts)
        return _answer(cursor, sorted(holdouts, key=lambda holdout: holdout.name))


def create_holdout(store: Store, request: CreateHoldout) -> Answer:
    """Create or change a holdout and return it.

    Raises
    ------
    Conflict
        If the holdout exists and has another node or a larger share.
    """
    created = Holdout(
        name=request.holdout,
        share=request.share,
        node_id=request.nodeId,
        since=request.firstDay,
        until=request.lastDay,
    )

    def write(connection: duckdb.DuckDBPyConnection) -> Answer:
        texts = read_settings(connection).holdouts
        stored = find_holdout(texts, created.name)
        if stored is not None and (stored.node_id != created.node_id or stored.share > created.share):
            raise Conflict(
                f"holdout {stored.name!r} withholds node {stored.node_id!r} from {stored.share:.6g}; "
                "allowed: the same node and a share that is not smaller, or another name"
            )
        change_settings(connection, {"holdouts": (*_without(texts, created.name), str(created))})
        return _answer(connection, [created])

    return store.write(write)


def delete_holdout(store: Store, request: DeleteHoldout) -> Answer:
    """Delete a holdout; return 1.

    Raises
    ------
    NotFound
        If there is no such holdout.
    """

    def write(connection: duckdb.DuckDBPyConnection) -> int:
        texts = read_settings(connection).holdouts
        deleted = get_holdout(texts, request.holdout)
        change_settings(connection, {"holdouts": _without(texts, deleted.name)})
        return 1

    return Answer(value=store.write(write))


def _without(texts: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(text for text in texts if Holdout.parse(text).name != name)


def _answer(connection: duckdb.DuckDBPyConnection, holdouts: Iterable[Holdout]) -> Answer:
    rows = [
        {
            "holdout": holdout.name,
            "nodeId": holdout.node_id,
            "share": holdout.share,
            "firstDay": None if holdout.since is None else str(holdout.since),
            "lastDay": None if holdout.until is None else str(holdout.until),
        }
        for holdout in holdouts
    ]
    query = "SELECT _id FROM nodes WHERE _id IN (SELECT unnest(?))"
    ids = connection.execute(query, [[row["nodeId"] for row in rows]]).fetchall()
    existing = {id for (id,) in ids}
    rows = [row | {"nodeExists": row["nodeId"] in existing} for row in rows]
    return Answer.of(pa.Table.from_pylist(rows, schema.HOLDOUT))
