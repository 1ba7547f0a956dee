"""Searches users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import ibis

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users.described_page import describe
from attrib_ds.service.users.described_users import describe_users
from attrib_ds.service.users.field_values import TYPED, all_values, case_folded, reduced, typed
from attrib_ds.service.users.project_keys import ProjectKeys
from attrib_ds.service.users.selection import select_users

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract import Answer
    from attrib_ds.contract.users import SearchUsers
    from attrib_ds.service.store.store import Store

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
