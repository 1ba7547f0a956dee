"""Predicate pushdown: finds the values that a user's SQL limits columns of views to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from attrib_ds.service.sql.parsing import Node

#: Text columns, where equality is equality of texts.
_COLUMNS: Final = frozenset({"_id", "userId", "key"})
#: Allowed values by column; missing columns are unlimited.
Limits: TypeAlias = "dict[str, tuple[str, ...]]"


def limits_of(query: Node, views: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Node, Limits]]:
    """Yield the tables that a query reads itself, with the texts that its conditions limit their columns to.

    Rows with other values cannot affect the result. Only conditions of these forms count:
    ``column = 'text'`` and ``column IN ('text', …)``, joined by AND, in the WHERE of the SELECT that reads
    the view, or in the ON by which it is joined.

    Parameters
    ----------
    query : dict
        The tree of a validated query.
    views : mapping of str to tuple of str
        Columns by view.

    Yields
    ------
    dict
        A table of the FROM clause.
    dict
        Its limits.
    """
    source = query.get("from_table")
    if not isinstance(source, dict):
        return
    is_alone = source["type"] == "BASE_TABLE"
    # An alias may hide the column.
    renamed = {column["alias"].lower() for column in query["select_list"] if column["alias"]}
    for table, join in _tables(source, None):
        columns = [
            column for column in views.get(table["table_name"].lower(), ()) if column.lower() not in renamed
        ]
        yield (
            table,
            _limits(table, columns, [*_parts(query["where_clause"]), *_joining(join)], is_alone=is_alone),
        )


def combined(places: Mapping[str, list[Limits]]) -> dict[str, Limits]:
    """Return the limits by view that hold in every place where it is read."""
    limits_by_view = {view: _either(alternatives) for view, alternatives in places.items()}
    return {view: limits for view, limits in limits_by_view.items() if limits}


def _either(alternatives: list[Limits]) -> Limits:
    columns = set.intersection(*(set(alternative) for alternative in alternatives))
    return {
        column: tuple(sorted({value for alternative in alternatives for value in alternative[column]}))
        for column in sorted(columns)
    }


def _tables(source: Node, join: Node | None) -> Iterator[tuple[Node, Node | None]]:
    """Yield the tables of a FROM clause, with the join that adds them."""
    if source["type"] == "BASE_TABLE":
        yield source, join
    elif source["type"] == "JOIN":
        yield from _tables(source["left"], None)
        yield from _tables(source["right"], source)


def _limits(table: Node, columns: Iterable[str], conditions: Iterable[Node], *, is_alone: bool) -> Limits:
    name = (table["alias"] or table["table_name"]).lower()
    own_columns = {column.lower(): column for column in _COLUMNS.intersection(columns)}
    # Columns may be renamed: `user_fields AS f(a, b)`.
    if table["column_name_alias"]:
        return {}
    limits: dict[str, set[str]] = {}
    for condition in conditions:
        limited = _limited(condition)
        if limited is None:
            continue
        (*qualifier, column), values = limited
        # An unqualified column may belong to another table.
        is_own = qualifier[0].lower() == name if qualifier else is_alone
        own = own_columns.get(column.lower())
        if is_own and own is not None:
            limits[own] = limits[own] & values if own in limits else values
    return {column: tuple(sorted(values)) for column, values in limits.items()}


def _joining(join: Node | None) -> Iterator[Node]:
    # LEFT and INNER JOIN add only rows for which the condition holds.
    if join is not None and join["ref_type"] == "REGULAR" and join["join_type"] in {"INNER", "LEFT"}:
        yield from _parts(join["condition"])


def _parts(condition: Node | None) -> Iterator[Node]:
    """Yield the conjuncts of a condition."""
    if condition is None:
        return
    if condition["type"] == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from _parts(part)
    else:
        yield condition


def _limited(condition: Node) -> tuple[list[str], set[str]] | None:
    """Return the column and texts of an equality or IN condition, or None."""
    if condition["type"] == "COMPARE_EQUAL":
        column, others = condition["left"], [condition["right"]]
        if column["class"] != "COLUMN_REF":
            column, others = condition["right"], [condition["left"]]
    elif condition["type"] == "COMPARE_IN":
        column, *others = condition["children"]
    else:
        return None
    is_text = all(
        other["class"] == "CONSTANT"
        and other["value"]["type"]["id"] == "VARCHAR"
        and not other["value"]["is_null"]
        for other in others
    )
    if column["class"] != "COLUMN_REF" or not others or not is_text:
        return None
    return column["column_names"], {other["value"]["value"] for other in others}
