"""Describes the users of a page."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.cursors import BATCH_ROWS
from attrib_ds.service.users.described_users import description_query
from attrib_ds.service.users.selection import materialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.store.store import Store

#: The table of the connection that holds the users of a page.
PAGE: Final = "users_of_page"
_LISTED: Final = "listed_users"
#: The first rows come early; of more at once each costs less.
_FIRST_USERS: Final = 2_048
_USERS_AT_ONCE: Final = 20_000


def described_page(store: Store, backend: Backend, keys: Iterable[str], mode: str = "latest") -> str:
    """Return the query of the users in the table :data:`PAGE`, described.

    Parameters
    ----------
    store : Store
        Remembers what takes long to compile.
    backend : ibis.backends.duckdb.Backend
        From its :meth:`~Store.read`, with that table.
    keys, mode
        As for :func:`description_query`.

    Returns
    -------
    str
        SQL for that connection, from :func:`description_query`.
    """
    return description_query(backend, PAGE, keys, mode, cache=store.query_cache)


def describe(
    store: Store, find: Callable[[Backend], tuple[ir.Table, int]], keys: Iterable[str], mode: str = "latest"
) -> Answer:
    """Answer the described users as a stream: a few thousand at a time are computed and held.

    Parameters
    ----------
    store : Store
        Where they are.
    find : callable
        Takes a backend of the store; returns the users with their ``_id`` and ``place``, from 0 in the order
        of the rows, and how many match in all. The rows and that number are from one snapshot (G-104).
    keys, mode
        As for :func:`described_page`.

    Returns
    -------
    Answer
        To be closed. Its columns are those of :func:`attrib_ds.schema.user_columns`.

    Raises
    ------
    ServiceFailure
        If the database failed.
    """
    wanted = tuple(keys)
    columns = schema.user_columns(wanted)
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        users, total = find(backend)
        materialize(backend, users.select("_id", "place"), _LISTED)
        ((count,),) = backend.con.execute(f"SELECT count(*) FROM {_LISTED}").fetchall()
        turn_to(backend, 0, _FIRST_USERS)
        query = described_page(store, backend, wanted, mode)
        return Answer(
            columns,
            _tables(backend, query, columns, count),
            count=count,
            total=total,
            close=stack.pop_all().close,
        )


def turn_to(backend: Backend, first: int, end: int) -> None:
    """Put the users of the places from one to before another one into the table :data:`PAGE`."""
    backend.con.execute(
        f"CREATE OR REPLACE TEMP TABLE {PAGE} AS FROM {_LISTED} WHERE place >= {first} AND place < {end}"
    )


def _tables(backend: Backend, query: str, columns: pa.Schema, count: int) -> Iterator[pa.Table]:
    listed = ", ".join(f"described.{quoted(name)}" for name in columns.names)
    in_order = (
        f"SELECT {listed} FROM ({query}) AS described JOIN {PAGE} AS page USING (_id) ORDER BY page.place"
    )
    first, size = 0, _FIRST_USERS
    while first < count:
        if first:
            turn_to(backend, first, first + size)
        for batch in backend.con.execute(in_order).to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch.cast(columns)])
        first, size = first + size, _USERS_AT_ONCE
