"""Searches and reads users with their properties, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.records.sources import quoted
from attrib_ds.service.identity.merging import find_survivor
from attrib_ds.service.store.cancellation import Cancellation
from attrib_ds.service.store.cursors import BATCH_ROWS
from attrib_ds.service.store.query_cache import QueryCache
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.table_access import read_table
from attrib_ds.service.users.audiences import check_size, match_users, meets, memberships
from attrib_ds.service.users.properties import properties_query
from attrib_ds.service.users.sandbox import user_ids
from attrib_ds.service.users.user_fields import TYPED, ProjectKeys, all_values, case_folded, reduced, typed

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.users import GetUser, SearchUsers
    from attrib_ds.filters import Predicate


_FIELDS: Final = "fields."
#: Keys of objects, which have no order.
_UNORDERED: Final = frozenset({"eventTypesCount", "eventTypeMeta", "metrics", "mostProbableLocation"})


def search_users(store: Store, request: SearchUsers) -> Answer:
    """Return one page of users as a stream, with their total from the same snapshot (G-104).

    The users of the page are selected first, and only those are described; other users are computed only as
    far as filters and sorting need.

    Raises
    ------
    InvalidRequest
        If the project has no such key, or users cannot be sorted by it.
    NotFound
        If there is no such audience.
    """
    if request.sort in _UNORDERED:
        raise InvalidRequest(
            f"sort: {request.sort!r} is an object, which has no order; allowed: another key",
            field="sort",
        )

    def find(backend: Backend) -> tuple[ir.Table, int]:
        project_keys = ProjectKeys(backend.con)
        project_keys.check(request.fields, argument="columns")
        if request.sort is not None:
            project_keys.check_key(request.sort, argument="sort")
        users = select_users(
            backend,
            cancellation=store.cancellation,
            filters=request.filters,
            audience=request.audienceCondition,
            sql=request.sqlQuery,
            id_after=request.idAfter,
            id_from=request.idFrom,
            id_to=request.idTo,
        )
        total = int(users.count().to_pyarrow().as_py())
        ranked = _ranked(backend, users, request)
        placed = ranked.mutate(place=ibis.row_number().over(order_by=_order(ranked, request)))
        if request.limit is not None or request.offset:
            # The page is cut before its users are described.
            placed = placed.order_by("place").limit(request.limit, offset=request.offset)
        return placed.mutate(place=placed.place - request.offset), total

    answer = describe(store, find, request.fields, request.multiFieldMode)
    return replace(answer, offset=request.offset, limit=request.limit)


def _ranked(backend: Backend, users: ir.Table, request: SearchUsers) -> ir.Table:
    """Add the column ``rank`` to sort users by, unless they are sorted by id."""
    sort = request.sort
    if sort in {None, "_id"}:
        return users
    assert sort is not None  # noqa: S101
    if sort.startswith(_FIELDS):
        ranks = _field_ranks(backend, users, sort.removeprefix(_FIELDS), request.multiFieldMode)
        return users.left_join(ranks, users["_id"] == ranks.owner).drop("owner")
    derived = describe_users(backend, users, [sort])
    return derived.select("_id", rank=derived[sort])


def _field_ranks(backend: Backend, users: ir.Table, key: str, mode: str) -> ir.Table:
    """Return the value of a field to sort users by; text is case-insensitive (G-106)."""
    project_keys = ProjectKeys(backend.con)
    # Consecutive duplicates do not affect the order.
    values = reduced(all_values(project_keys, f"({backend.compile(users)}) AS users", keys=[key]), mode)
    kind = project_keys.find_field(key, argument="sort").type
    value = typed("current", kind)
    rank = value if kind in TYPED else case_folded(value)
    return sql_table(backend, f"SELECT userId AS owner, {rank} AS rank FROM ({values}) AS reduced")


def _order(table: ir.Table, request: SearchUsers) -> list[ir.Value]:
    """Return the sort keys: nulls last in both directions, ties broken by id (G-099)."""
    is_descending = request.order == "DESC"
    if "rank" not in table.columns:
        return [table["_id"].desc() if is_descending else table["_id"].asc()]
    first = ibis.desc(table.rank, nulls_first=False) if is_descending else table.rank.asc()
    return [first, table["_id"].asc()]


def get_user(store: Store, request: GetUser) -> Answer:
    """Return one user with all properties; the id of a merged user means the survivor (G-148)."""
    with store.read() as backend:
        survivor = find_survivor(backend.con, request.id)
        backend.con.execute(f"CREATE TEMP TABLE {PAGE} AS SELECT _id FROM users WHERE _id = ?", [survivor])
        query = described_page(store, backend, schema.USER.names)
        table = read_table(backend.con, f"({query})", [], schema.USER)
    if not table.num_rows:
        raise NotFound(f"id: there is no user {request.id!r}", field="id")
    return Answer.of(table)


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


_LISTED_USERS: Final = "users_of_query"
_SELECTED: Final = "selected_users"


def select_users(
    backend: Backend,
    *,
    cancellation: Cancellation | None = None,
    filters: Predicate | None = None,
    audience: str | Mapping[str, Any] | None = None,
    sql: str | None = None,
    id_after: str | None = None,
    id_from: str | None = None,
    id_to: str | None = None,
) -> ir.Table:
    """Return the users who meet all of the given criteria (G-095).

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    cancellation : Cancellation, optional
        Interrupts ``sql`` too.
    filters : Predicate, optional
        On users.
    audience : str or mapping, optional
        The id of an audience, or a condition.
    sql : str, optional
        A query whose first column yields ids; values that are no id of a user are ignored.
    id_after, id_from, id_to : str, optional
        Bounds of the id: exclusive, inclusive, exclusive.

    Returns
    -------
    ibis.Table
        The column ``_id``, in no order. The result of criteria other than bounds is materialized in a
        temporary table, so that they are evaluated once.

    Raises
    ------
    InvalidRequest
        If the project has no such key, a predicate compares it as another type, or the query is not
        allowed or fails.
    NotFound
        If there is no such audience.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> with store.read() as backend:
    ...     select_users(backend, id_from="5f0c0ffee0ddba11ad0be123").count().to_pyarrow().as_py()
    0
    >>> store.close()
    """
    users = backend.table("users").select("_id")
    bounds = []
    if id_after is not None:
        bounds.append(users["_id"] > id_after)
    if id_from is not None:
        bounds.append(users["_id"] >= id_from)
    if id_to is not None:
        bounds.append(users["_id"] < id_to)
    if bounds:
        users = users.filter(bounds)
    if sql is None and audience is None and filters is None:
        return users
    if sql is not None:
        # A view of this connection, which ends with it.
        backend.con.register(_LISTED_USERS, user_ids(backend, sql, cancellation))
        listed = backend.table(_LISTED_USERS)
        users = users.semi_join(listed, users["_id"] == listed["_id"])
    if filters is not None:
        users = match_users(backend, users, filters, argument="where", describe=describe_users)
    if audience is not None:
        check_size(backend, audience, argument="audience")
        is_member = meets(backend, users, audience, argument="audience", describe=describe_users)
        users = users.filter(is_member)
    return materialize(backend, users, _SELECTED)


def materialize(backend: Backend, query: ir.Table, name: str) -> ir.Table:
    """Write the rows of a query to a temporary table and return that.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`; the table ends with its connection.
    query : ibis.Table
        The query.
    name : str
        Name of the table; an existing one is replaced.

    Returns
    -------
    ibis.Table
        The same rows.
    """
    backend.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {backend.compile(query)}")
    return backend.table(name)


def describe_users(backend: Backend, users: ir.Table, keys: Iterable[str]) -> ir.Table:
    """Add properties to users; for the parameters see :func:`.with_properties`."""
    ids = f"({backend.compile(users.select('_id'))}) AS users"
    return sql_table(backend, description_query(backend, ids, keys, cache=QueryCache()))


def description_query(
    backend: Backend, users: str, keys: Iterable[str], mode: str = "latest", *, cache: QueryCache
) -> str:
    """Return the query of users with the requested properties.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users, keys, mode
        As for :func:`.properties_query`.
    cache : QueryCache
        Keeps the compiled conditions of audiences.

    Returns
    -------
    str
        SQL, as from :func:`.properties_query`.
    """
    project_keys, names = ProjectKeys(backend.con), list(keys)
    members = _memberships_query(backend, users, project_keys, cache) if "audienceIds" in names else None
    return properties_query(project_keys, users, names, mode, memberships=members)


def _memberships_query(backend: Backend, users: str, project_keys: ProjectKeys, cache: QueryCache) -> str:
    audiences = tuple(backend.con.execute("SELECT _id, condition FROM audiences ORDER BY _id").fetchall())
    if not audiences:
        return "SELECT NULL::VARCHAR AS userId, NULL::VARCHAR AS audienceId WHERE false"
    return cache.get(
        (users, audiences, project_keys.declarations),
        lambda: backend.compile(
            memberships(backend, sql_table(backend, f"SELECT _id FROM {users}"), audiences)
        ),
    )
