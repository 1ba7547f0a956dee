"""Selects users by the criteria of a search or an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.service.users.audience_conditions import check_size, meets
from attrib_ds.service.users.described_users import describe_users
from attrib_ds.service.users.matching import match_users
from attrib_ds.service.users.sandbox import user_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.filters import Predicate
    from attrib_ds.service.store.cancellation import Cancellation

_LISTED: Final = "users_of_query"
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
        backend.con.register(_LISTED, user_ids(backend, sql, cancellation))
        listed = backend.table(_LISTED)
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
