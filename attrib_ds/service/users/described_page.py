"""Streams users with their properties, page by page."""

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

#: Temporary table of the users to describe.
PAGE: Final = "users_of_page"
_LISTED: Final = "listed_users"
#: A small first batch answers early; larger batches cost less per user.
_FIRST_USERS: Final = 2_048
_USERS_AT_ONCE: Final = 20_000


def described_page(store: Store, backend: Backend, keys: Iterable[str], mode: str = "latest") -> str:
    """Return the query of the users in the table :data:`PAGE` with their properties.

    Parameters
    ----------
    store : Store
        Its cache keeps compiled queries.
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`, with that table.
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
    """Return users with their properties as a stream; memory holds a few thousand at a time.

    Parameters
    ----------
    store : Store
        Store of the users.
    find : callable
        Takes a backend of the store; returns the users with their ``_id`` and ``place`` in the result, from
        0, and the total number of matches, from the same snapshot (G-104).
    keys, mode
        As for :func:`described_page`.

    Returns
    -------
    Answer
        The caller closes it. Its columns are those of :func:`attrib_ds.schema.user_columns`.

    Raises
    ------
    ServiceFailure
        If the database failed.
    """
    names = tuple(keys)
    columns = schema.user_columns(names)
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        users, total = find(backend)
        materialize(backend, users.select("_id", "place"), _LISTED)
        ((count,),) = backend.con.execute(f"SELECT count(*) FROM {_LISTED}").fetchall()
        _load_places(backend, 0, _FIRST_USERS)
        query = described_page(store, backend, names, mode)
        return Answer(
            columns,
            _tables(backend, query, columns, count),
            count=count,
            total=total,
            close=stack.pop_all().close,
        )


def _load_places(backend: Backend, first: int, end: int) -> None:
    """Load the users from one place to before another into the table :data:`PAGE`."""
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
            _load_places(backend, first, first + size)
        for batch in backend.con.execute(in_order).to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch.cast(columns)])
        first, size = first + size, _USERS_AT_ONCE
