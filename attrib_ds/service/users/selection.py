"""Selects the users that a search or an export is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.service.users.audience_conditions import meets
from attrib_ds.service.users.matching import matching
from attrib_ds.service.users.sandbox import user_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.filters import Predicate

_NAMED: Final = "users_of_query"
_SELECTED: Final = "selected_users"


def select_users(
    backend: Backend,
    *,
    filters: Predicate | None = None,
    audience: str | Mapping[str, Any] | None = None,
    sql: str | None = None,
    id_after: str | None = None,
    id_from: str | None = None,
    id_to: str | None = None,
) -> ir.Table:
    """Return the users who meet every criterion that is given (G-095).

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    filters : Predicate, optional
        On users.
    audience : str or mapping, optional
        The id of an audience, or a condition.
    sql : str, optional
        A query whose first column yields ids; what is no id of a user is left out.
    id_after, id_from, id_to : str, optional
        Bounds of the id: exclusive, inclusive, exclusive.

    Returns
    -------
    ibis.Table
        The column ``_id``, in no order. What a criterion beyond the bounds has found is kept in a table of
        the connection, so that it is found once.

    Raises
    ------
    InvalidRequest
        If a key is not known in the project, or compared as another type, or the query is not allowed or
        fails.
    NotFound
        If an audience is not known.

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
        # The ids go to a view of this connection, which ends with it.
        backend.con.register(_NAMED, user_ids(backend, sql))
        listed = backend.table(_NAMED)
        users = users.semi_join(listed, users["_id"] == listed["_id"])
    if filters is not None:
        users = matching(backend, users, filters, argument="where")
    if audience is not None:
        users = users.filter(meets(backend, users, audience, argument="audience"))
    return kept(backend, users, _SELECTED)


def kept(backend: Backend, table: ir.Table, name: str) -> ir.Table:
    """Keep the rows of a query in a table of the connection and return that.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`; the table ends with its connection.
    table : ibis.Table
        The query.
    name : str
        Of the table; one of that name is replaced.

    Returns
    -------
    ibis.Table
        The same rows.
    """
    backend.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {backend.compile(table)}")
    return backend.table(name)
