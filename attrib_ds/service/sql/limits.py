"""Predicate pushdown: finds the values that a user's SQL limits columns of views to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: Text columns, where equality is equality of texts.
_COLUMNS: Final = frozenset({"_id", "userId", "key"})
#: Allowed values by column; missing columns are unlimited.
Limits: TypeAlias = "dict[str, tuple[str, ...]]"


def limits_of(
    query: exp.Expression,
    views: Mapping[str, tuple[str, ...]],
    view_of: Callable[[exp.Table], str | None],
) -> dict[str, Limits]:
    """Return the texts that columns must equal in every place where a view is read.

    Rows with other values cannot affect the result. Only conditions of these forms count:
    ``column = 'text'`` and ``column IN ('text', …)``, joined by AND, in the WHERE of the SELECT that reads
    the view, or in the ON by which it is joined.

    Parameters
    ----------
    query : sqlglot.Expression
        A validated query.
    views : mapping of str to tuple of str
        Columns by view.
    view_of : callable
        Maps a table to its view, or None for a CTE.

    Returns
    -------
    dict of str to dict
        Limits by view, for views with a column limited in every place.
    """
    places: dict[str, list[Limits]] = {}
    for table in query.find_all(exp.Table):
        view = view_of(table)
        if view is not None:
            places.setdefault(view, []).append(_limits(table, views[view]))
    limits_by_view = {view: _either(view_limits) for view, view_limits in places.items()}
    return {view: limits for view, limits in limits_by_view.items() if limits}


def _either(alternatives: list[Limits]) -> Limits:
    columns = set.intersection(*(set(alternative) for alternative in alternatives))
    return {
        column: tuple(sorted({value for alternative in alternatives for value in alternative[column]}))
        for column in sorted(columns)
    }


def _limits(table: exp.Table, columns: Iterable[str]) -> Limits:
    """Return the limits of a table by the SELECT that reads it."""
    source = table.parent
    select = source.parent if isinstance(source, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select):
        return {}
    name = (table.alias or table.name).lower()
    is_alone = not select.args.get("joins") and not select.args.get("laterals")
    # An alias may hide the column.
    renamed = {column.alias.lower() for column in select.expressions if isinstance(column, exp.Alias)}
    own_columns = {
        column.lower(): column for column in _COLUMNS.intersection(columns) if column.lower() not in renamed
    }
    limits: dict[str, set[str]] = {}
    for condition in _conditions(select, source):
        limited = _limited(condition)
        if limited is None:
            continue
        column, values = limited
        # An unqualified column may belong to another table.
        is_own = column.table.lower() == name if column.table else is_alone
        own = own_columns.get(column.name.lower())
        if is_own and own is not None:
            limits[own] = limits[own] & values if own in limits else values
    return {column: tuple(sorted(values)) for column, values in limits.items()}


def _conditions(select: exp.Select, source: exp.Expression | None) -> Iterator[exp.Expression]:
    where = select.args.get("where")
    if where is not None:
        yield from _parts(where.this)
    if isinstance(source, exp.Join) and source.args.get("on") is not None:
        # LEFT and INNER JOIN add only rows for which the condition holds.
        kinds = {source.side.upper(), source.kind.upper()}
        if kinds <= {"", "LEFT", "INNER", "OUTER"}:
            yield from _parts(source.args["on"])


def _parts(condition: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the conjuncts of a condition."""
    if isinstance(condition, exp.Paren):
        yield from _parts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    else:
        yield condition


def _limited(condition: exp.Expression) -> tuple[exp.Column, set[str]] | None:
    """Return the column and texts of an equality or IN condition, or None."""
    if isinstance(condition, exp.EQ):
        column, others = condition.left, [condition.right]
        if not isinstance(column, exp.Column):
            column, others = condition.right, [condition.left]
    elif (
        isinstance(condition, exp.In) and not condition.args.get("query") and not condition.args.get("unnest")
    ):
        column, others = condition.this, condition.expressions
    else:
        return None
    is_text = bool(others) and all(
        isinstance(literal, exp.Literal) and literal.is_string for literal in others
    )
    if not isinstance(column, exp.Column) or not is_text:
        return None
    return column, {literal.name for literal in others}
