"""Searches users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import ibis

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users.described_page import describe
from attrib_ds.service.users.described_users import describe_users
from attrib_ds.service.users.field_values import TYPED, folded, given_values, reduced, typed
from attrib_ds.service.users.selection import select_users
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract import Answer
    from attrib_ds.contract.users import SearchUsers
    from attrib_ds.service.store.store import Store

_FIELDS: Final = "fields."
#: Keys that stand for objects, which have no order.
_UNORDERED: Final = frozenset({"eventTypesCount", "eventTypeMeta", "metrics", "mostProbableLocation"})


def search_users(store: Store, request: SearchUsers) -> Answer:
    """Answer one page of users as a stream, their total from the same snapshot (G-104).

    The users of a page are found first, and only those are described; of the others nothing is computed but
    what they are filtered and sorted by.

    Raises
    ------
    InvalidRequest
        If a key is not known in the project, or cannot be sorted by.
    NotFound
        If an audience is not known.
    """
    if request.sort in _UNORDERED:
        raise InvalidRequest(
            f"sort: {request.sort!r} is an object, which has no order; allowed: another key",
            field="sort",
        )

    def find(backend: Backend) -> tuple[ir.Table, int]:
        vocabulary = Vocabulary(backend.con)
        vocabulary.check(request.fields, argument="fields")
        if request.sort is not None:
            vocabulary.check_key(request.sort, argument="sort")
        users = select_users(
            backend,
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
    """Return users with what they are sorted by, where that is not their id."""
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
    """Return the value that each user is sorted by: text whatever its case (G-106)."""
    vocabulary = Vocabulary(backend.con)
    # Of equal values that follow each other, whichever stands for them sorts alike.
    values = reduced(given_values(vocabulary, f"({backend.compile(users)}) AS users", keys=[key]), mode)
    kind = vocabulary.find_field(key, argument="sort").type
    value = typed("current", kind)
    rank = value if kind in TYPED else folded(value)
    return sql_table(backend, f"SELECT userId AS owner, {rank} AS rank FROM ({values}) AS reduced")


def _order(table: ir.Table, request: SearchUsers) -> list[ir.Value]:
    """Return sort keys: nulls last in both directions, ties broken by the id (G-099)."""
    is_descending = request.order == "DESC"
    if "rank" not in table.columns:
        return [table["_id"].desc() if is_descending else table["_id"].asc()]
    first = ibis.desc(table.rank, nulls_first=False) if is_descending else table.rank.asc()
    return [first, table["_id"].asc()]
