"""Searches and reads users with their properties, events and metrics, page by page."""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection as Connection
from ibis.backends.duckdb import Backend

from attrib_ds import errors, schema, sql_results
from attrib_ds.contract import Answer
from attrib_ds.contract import users as contract
from attrib_ds.filters import Predicate
from attrib_ds.queries.insights import matches_type
from attrib_ds.records.sources import quoted
from attrib_ds.service.events.states import ATTRIBUTABLE, as_resource, read_events
from attrib_ds.service.identity import merging
from attrib_ds.service.store.connections import BATCH_ROWS, Cancellation
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import filtered, read_table, sql_table
from attrib_ds.service.users import audiences, sandbox, user_fields

_FIELDS: Final = "fields."
#: Keys of objects, which have no order.
_UNORDERED: Final = frozenset({"eventTypesCount", "eventTypeMeta", "metrics", "mostProbableLocation"})


def search_users(store: Store, request: contract.SearchUsers) -> Answer:
    """Return one page of users as a stream, with their total from the same snapshot.

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
        raise errors.InvalidRequest(
            f"sort: {request.sort!r} is an object, which has no order; allowed: another key"
        )

    def find(backend: Backend) -> tuple[ir.Table, int]:
        project_keys = user_fields.ProjectKeys(backend.con)
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


def _ranked(backend: Backend, users: ir.Table, request: contract.SearchUsers) -> ir.Table:
    """Add the column ``rank`` to sort users by, unless they are sorted by id."""
    sort = request.sort
    if sort in {None, "_id"}:
        return users
    assert sort is not None  # noqa: S101
    if sort.startswith(_FIELDS):
        ranks = _field_ranks(backend, users, sort.removeprefix(_FIELDS), request.multiFieldMode)
        return users.left_join(ranks, users["_id"] == ranks.owner).drop("owner")
    derived = audiences.describe_users(backend, users, [sort])
    return derived.select("_id", rank=derived[sort])


def _field_ranks(backend: Backend, users: ir.Table, key: str, mode: str) -> ir.Table:
    """Return the value of a field to sort users by; text is case-insensitive."""
    project_keys = user_fields.ProjectKeys(backend.con)
    # Consecutive duplicates do not affect the order.
    values = user_fields.reduced(
        user_fields.all_values(project_keys, f"({backend.compile(users)}) AS users", keys=[key]), mode
    )
    kind = project_keys.find_field(key, argument="sort").type
    value = user_fields.typed("current", kind)
    rank = value if kind in user_fields.TYPED else user_fields.case_folded(value)
    return sql_table(backend, f"SELECT userId AS owner, {rank} AS rank FROM ({values}) AS reduced")


def _order(table: ir.Table, request: contract.SearchUsers) -> list[ir.Value]:
    """Return the sort keys: nulls last in both directions, ties broken by id."""
    is_descending = request.order == "DESC"
    if "rank" not in table.columns:
        return [table["_id"].desc() if is_descending else table["_id"].asc()]
    first = ibis.desc(table.rank, nulls_first=False) if is_descending else table.rank.asc()
    return [first, table["_id"].asc()]


def get_user(store: Store, request: contract.GetUser) -> Answer:
    """Return one user with all properties; the id of a merged user means the survivor."""
    with store.read() as backend:
        survivor = merging.existing(backend.con, request.id)
        backend.con.execute(f"CREATE TEMP TABLE {_PAGE} AS SELECT _id FROM users WHERE _id = ?", [survivor])
        query = audiences.description_query(backend, _PAGE, schema.USER.names, cache=store.query_cache)
        return Answer.of(read_table(backend.con, f"({query})", [], schema.USER))


def list_user_events(store: Store, request: contract.ListUserEvents) -> Answer:
    """Return one page of the events of a user as a stream, newest first by default.

    An unknown user has no events.
    """
    conditions = {
        "userId = ?": lambda connection: merging.find_survivor(connection, request.id),
        "eventDate >= ?": request.since,
        "eventDate <= ?": request.until,
    }
    # Without the parameter, and with false, all events are listed.
    chosen = f"WHERE _id IN ({ATTRIBUTABLE})" if request.attributable else ""
    sort = request.sort or "eventDate"
    return _listed(store, request, "events", conditions, chosen, sort, read_events, schema.EVENT)


def search_events(store: Store, request: contract.SearchEvents) -> Answer:
    """Return one page of events as a stream, newest first.

    An unknown user has no events.
    """
    types, users = request.filter, request.userIds
    conditions = {
        "userId IN (SELECT unnest(?))": None
        if users is None
        else lambda connection: _survivors(connection, users),
        "eventDate >= ?": request.since,
        "eventDate <= ?": request.until,
        "updatedAt >= ?": request.changedSince,
    }
    chosen = ""
    if types is not None:
        with store.read() as backend:
            kinds = backend.table("events").select("eventType").distinct()
            names = kinds.filter(matches_type(kinds, types)).to_pyarrow()["eventType"].to_pylist()
        conditions["eventType IN (SELECT unnest(?))"] = names
    return _listed(store, request, "events", conditions, chosen, "eventDate", read_events, schema.EVENT)


def _survivors(connection: Connection, ids: Collection[str]) -> list[str]:
    survivors = merging.find_survivors(connection, ids)
    return [survivors.get(id, id) for id in ids]


def list_user_metrics(store: Store, request: contract.ListUserMetrics) -> Answer:
    """Return one page of the states and statistics of a user's events as a stream, newest first by default.

    Deleted ones are left out.

    Raises
    ------
    NotFound
        If there is no such user.
    """
    conditions = {
        "eventId IN (SELECT _id FROM events WHERE userId = ?)": lambda connection: merging.existing(
            connection, request.id
        ),
        "date >= ?": request.since,
        "date <= ?": request.until,
        "type = ?": request.type,
    }
    sort = "date" if request.sort in {None, "metricDate"} else request.sort
    chosen = "WHERE deletedAt IS NULL"
    return _listed(store, request, "metrics", conditions, chosen, sort, _read_metrics, schema.METRIC)


def _read_metrics(connection: Connection, ids: list[str]) -> pa.Table:
    query = "SELECT * FROM metrics WHERE _id IN (SELECT unnest(?))"
    return as_resource(sql_results.read_arrow(connection, query, [ids]).to_pylist())


def _listed(
    store: Store,
    request: contract.ListUserEvents | contract.ListUserMetrics | contract.SearchEvents,
    table: str,
    conditions: Mapping[str, Any],
    chosen: str,
    sort: str,
    read: Callable[[Connection, list[str]], pa.Table],
    columns: pa.Schema,
) -> Answer:
    """Return a page of records from one snapshot: find the ids, then read them in batches."""
    direction = "DESC"
    if not isinstance(request, contract.SearchEvents):
        direction = request.order or ("ASC" if request.sort else "DESC")
    with ExitStack() as stack:
        connection = stack.enter_context(store.read()).con
        where, values = filtered(connection, conditions)
        # Plain SQL: compiling an Ibis expression takes ten times as long as reading a few events.
        rows = connection.execute(
            f"WITH selected AS (SELECT * FROM {table} WHERE {where}) "
            f"SELECT _id FROM selected {chosen} ORDER BY {quoted(sort)} {direction} NULLS LAST, _id",
            values,
        ).fetchall()
        ids = [id for (id,) in rows]
        page = ids[request.offset :][: request.limit]

        def tables() -> Iterator[pa.Table]:
            for start in range(0, len(page), BATCH_ROWS):
                part = page[start : start + BATCH_ROWS]
                yield in_order(read(connection, part), part).cast(columns)

        return Answer(
            columns,
            tables(),
            count=len(page),
            total=len(ids),
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def in_order(rows: pa.Table, ids: list[str]) -> pa.Table:
    """Return rows in the order of their ids."""
    places: Any = pc.index_in(pa.array(ids, pa.string()), value_set=rows["_id"].combine_chunks())
    return rows.take(places)


#: Temporary table of the users to describe.
_PAGE: Final = "users_of_page"
_LISTED: Final = "listed_users"
#: A small first batch answers early; larger batches cost less per user.
_FIRST_USERS: Final = 2_048
_USERS_AT_ONCE: Final = 20_000


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
        0, and the total number of matches, from the same snapshot.
    keys, mode
        As for :func:`.properties_query`.

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
        query = audiences.description_query(backend, _PAGE, names, mode, cache=store.query_cache)
        return Answer(
            columns,
            _tables(backend, query, columns, count),
            count=count,
            total=total,
            close=stack.pop_all().close,
        )


def _load_places(backend: Backend, first: int, end: int) -> None:
    """Load the users from one place to before another into the table :data:`_PAGE`."""
    backend.con.execute(
        f"CREATE OR REPLACE TEMP TABLE {_PAGE} AS FROM {_LISTED} WHERE place >= {first} AND place < {end}"
    )


def _tables(backend: Backend, query: str, columns: pa.Schema, count: int) -> Iterator[pa.Table]:
    listed = ", ".join(f"described.{quoted(name)}" for name in columns.names)
    in_order = (
        f"SELECT {listed} FROM ({query}) AS described JOIN {_PAGE} AS page USING (_id) ORDER BY page.place"
    )
    first, size = 0, _FIRST_USERS
    while first < count:
        if first:
            _load_places(backend, first, first + size)
        for batch in sql_results.read_batches(backend.con, in_order, BATCH_ROWS):
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
    """Return the users who meet all of the given criteria.

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
        A query whose first column yields ids; values that are not ids of a user are ignored.
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
    bounds = ((operator.gt, id_after), (operator.ge, id_from), (operator.lt, id_to))
    for compare, bound in bounds:
        if bound is not None:
            users = users.filter(compare(users["_id"], bound))
    if sql is None and audience is None and filters is None:
        return users
    if sql is not None:
        # A view of this connection, which ends with it.
        backend.con.register(_LISTED_USERS, sandbox.user_ids(backend, sql, cancellation))
        listed = backend.table(_LISTED_USERS)
        users = users.semi_join(listed, users["_id"] == listed["_id"])
    if filters is not None:
        users = audiences.match_users(backend, users, filters, argument="where")
    if audience is not None:
        audiences.check_size(backend, audience, argument="audience")
        users = users.filter(audiences.meets(backend, users, audience, argument="audience"))
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
