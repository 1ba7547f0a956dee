"""The users of a segment, whose conversions are credited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.attribution.paths.tree import lazy
from attrib_ds.errors import InvalidRequest, NotSupported
from attrib_ds.filters import Predicate
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.project import Project


def users_of_segment(
    project: Project, where: Predicate | None, audience: Predicate | Mapping[str, Any] | None
) -> ir.Table | None:
    """Return the ids of the users who meet both criteria, in the column ``_id``; None for all users.

    Raises
    ------
    InvalidRequest
        If a criterion is not allowed, or names a property that users do not have.
    NotFound
        If there is no such audience.
    NotSupported
        If the project is over tables that cannot answer it.
    """
    if where is None and audience is None:
        return None
    users = project.tables().users
    if users is not None:
        return _of_table(users, where, audience)
    try:
        found = project.send("search_users", columns=["_id"], where=where, audience=audience)
    except NotSupported as error:
        argument = "where" if audience is None else "audience"
        raise NotSupported(
            f"{argument}: the project has no table of users; pass users= to open_tables", field=argument
        ) from error
    return lazy(to_pandas(found.read())[["_id"]])


def _of_table(
    users: ir.Table, where: Predicate | None, audience: Predicate | Mapping[str, Any] | None
) -> ir.Table:
    """Select users in the engine of a table of one's own."""
    if audience is not None and not isinstance(audience, Predicate):
        raise NotSupported(
            "audience: over tables, only user(...) predicates are evaluated; events and interactions of an "
            "audience's condition are not",
            field="audience",
        )
    if audience is not None and audience.kind != "user":
        raise InvalidRequest(
            f"audience: a predicate on {audience.kind} is not allowed; allowed: user(…)", field="audience"
        )
    for predicate in (where, audience):
        if predicate is not None:
            users = users.filter(to_ibis(predicate, users))
    return users.select("_id")
