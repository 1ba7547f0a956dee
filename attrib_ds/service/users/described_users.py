"""Users with all of their properties, their audiences included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.service.store.query_cache import QueryCache
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users.audience_conditions import memberships
from attrib_ds.service.users.project_keys import ProjectKeys
from attrib_ds.service.users.properties import properties_query

if TYPE_CHECKING:
    from collections.abc import Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend


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
