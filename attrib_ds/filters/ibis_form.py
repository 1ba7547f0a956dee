"""Turns predicates into Ibis boolean expressions, which are never null."""

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial, reduce, singledispatch
from typing import Any, Final

import ibis
import ibis.expr.types as ir

from attrib_ds import errors, instants
from attrib_ds.filters import predicates, vocabulary
from attrib_ds.filters.values import SEARCHED, as_written

#: Number of values up to which a list is written as constants of the expression.
_FEW: Final = 100
#: Code points of the private use area, more than a list has values of one letter.
_PRIVATE_USE: Final = range(0xE000, 0xF900)
_IBIS_TYPES: Final[Mapping[type, str]] = {str: "string", int: "int64", float: "float64", bool: "boolean"}

#: Fields that contain an email address in every project.
_EMAILS: Final = frozenset({"fields.email", "user.email"})

#: Columns of the node record that have another name than the node field.
NODE_COLUMNS: Final[Mapping[str, str]] = {"nodeId": "_id", "nodeName": "name", "nodeType": "type"}
#: Node type with the field and its column, by node field.
LEVEL_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "campaignId": ("campaign", "_id"),
    "campaignName": ("campaign", "name"),
    "adsetId": ("adset", "_id"),
    "adsetName": ("adset", "name"),
    "adId": ("ad", "_id"),
    "adName": ("ad", "name"),
    "keyword": ("keyword", "name"),
    "referrerHost": ("referrer", "name"),
}


def to_ibis(
    predicate: predicates.Predicate, table: ir.Table, *, nodes: ir.Table | None = None
) -> ir.BooleanValue:
    """Translate a predicate to an Ibis boolean expression over a table.

    Parameters
    ----------
    predicate : Predicate
        Any kind of predicate.
    table : ibis.Table
        Flat, with dotted columns (``geo.city``). Instants are in UTC, or naive and taken as UTC. Fields with
        several values are arrays. Node predicates only need the column ``nodeId``.
    nodes : ibis.Table, optional
        The node tree in the ``NODE`` schema; required for node predicates.

    Returns
    -------
    ibis BooleanValue
        True or false in every row: a comparison with a missing value is false, and negative operators are
        exact complements. Of several values, a positive operator must hold for one and a negative
        operator for all. A node comparison treats the node and its ancestors as several values, so
        ``isNull`` holds if none of them has a value.

    Raises
    ------
    InvalidRequest
        If a column is missing, or its type differs from that of the comparison.

    Examples
    --------
    >>> from attrib_ds.filters import interaction
    >>> visits = ibis.table({"geo.city": "string"}, name="visits")
    >>> print(ibis.to_sql(visits.filter(to_ibis(interaction("geo.city") == "Paris", visits))))
    SELECT
      *
    FROM "visits" AS "t0"
    WHERE
      COALESCE("t0"."geo.city" = 'Paris', FALSE)
    """
    if predicate.kind != "node":
        return _join(predicate, partial(_compare, table=table))
    if nodes is None:
        raise errors.InvalidRequest("nodes: is required for a node predicate")
    node_ids = _column(table, "nodeId", "nodeId")
    return _join_nodes(predicate, node_ids, nodes)


@singledispatch
def _join(
    predicate: predicates.Predicate, compare: Callable[[predicates.Comparison], ir.BooleanValue]
) -> ir.BooleanValue:
    raise NotImplementedError(type(predicate).__name__)


@_join.register
def _(
    predicate: predicates.Comparison, compare: Callable[[predicates.Comparison], ir.BooleanValue]
) -> ir.BooleanValue:
    positive = compare(predicate)
    return ~positive if vocabulary.OPERATORS[predicate.operator].negative else positive


@_join.register
def _(
    predicate: predicates.Condition, compare: Callable[[predicates.Comparison], ir.BooleanValue]
) -> ir.BooleanValue:
    rules = [_join(rule, compare) for rule in predicate.rules]
    join = operator.and_ if predicate.combinator == "AND" else operator.or_
    joined = reduce(join, rules) if rules else ibis.literal(True)
    return ~joined if predicate.negated else joined


def _compare(leaf: predicates.Comparison, *, table: ir.Table) -> ir.BooleanValue:
    """Evaluate the positive form of a comparison on the columns of a row."""
    if leaf.operator_type != vocabulary.FieldType.OBJECT:
        column = _column(table, leaf.field, leaf.field)
        is_long = isinstance(leaf.value, tuple) and len(leaf.value) > _FEW
        if is_long and column.type().is_array():
            return _any_is_in(leaf, column, table)
        others = {name: kind for name, kind in table.schema().items() if name != leaf.field}
        if vocabulary.OPERATORS[leaf.operator].positive not in _READING_WHOLE_TEXTS or not others:
            return _holds(leaf, column)
        # DuckDB evaluates conditions on one column in the scan, which an interrupt does not stop before the
        # end of a row group. One on two columns runs outside; numbers and booleans are read the fastest.
        other = table[min(others, key=lambda name: not others[name].is_primitive())]
        return _holds(leaf, column, missing=other.isnull() & other.notnull())
    members = [name for name in table.columns if name == leaf.field or name.startswith(f"{leaf.field}.")]
    if not members:
        raise errors.InvalidRequest.choice(leaf.field, leaf.field, table.columns)
    return reduce(operator.or_, (table[name].notnull() for name in members))


def _join_nodes(
    predicate: predicates.Predicate, node_ids: ir.StringColumn, nodes: ir.Table
) -> ir.BooleanValue:
    """Evaluate a predicate once per node, with its ancestors, and look the nodes of rows up."""
    own: dict[predicates.Comparison, ir.BooleanValue] = {}
    _join(predicate, lambda leaf: own.setdefault(leaf, _holds(leaf, _node_value(nodes, leaf.field))))
    outside = _holds_outside(predicate)
    if not own:
        return ibis.literal(outside)
    names = {leaf: f"holds_{number}" for number, leaf in enumerate(own)}
    lineage, described = _lineage(nodes), nodes.select("_id", **{names[leaf]: own[leaf] for leaf in own})
    pairs = lineage.inner_join(described, lineage.ancestor == described["_id"])
    each = pairs.group_by("node").agg(**{name: pairs[name].any() for name in names.values()})
    holds = _join(predicate, lambda leaf: each[names[leaf]])
    # Rows without a known node are not among the nodes, so these are the nodes that differ from them.
    differs = node_ids.isin(each.filter(~holds if outside else holds).node).fill_null(False)
    return ~differs if outside else differs


def _holds_outside(predicate: predicates.Predicate) -> bool:
    """Evaluate a node predicate for rows without a known node, where no value is found."""
    if isinstance(predicate, predicates.Condition):
        rules = [_holds_outside(rule) for rule in predicate.rules]
        joined = all(rules) if predicate.combinator == "AND" or not rules else any(rules)
        return joined != predicate.negated
    return isinstance(predicate, predicates.Comparison) and vocabulary.OPERATORS[predicate.operator].negative


def _lineage(nodes: ir.Table) -> ir.Table:
    """Pair every node with itself and each of its ancestors."""
    node, path = _column(nodes, "_id", "nodes"), _column(nodes, "path", "nodes")
    above = nodes.select(node=node, ancestor=path.unnest())
    return above.union(nodes.select(node=node, ancestor=node))


def _node_value(nodes: ir.Table, name: str) -> ir.StringValue:
    if name not in LEVEL_COLUMNS:
        return _column(nodes, NODE_COLUMNS.get(name, name), name)
    level, column = LEVEL_COLUMNS[name]
    return ibis.ifelse(
        _column(nodes, "type", name) == level, _column(nodes, column, name), ibis.null("string")
    )


def _column(table: ir.Table, name: str, argument: str) -> Any:
    if name not in table.columns:
        refusal = errors.InvalidRequest.choice(argument, name, table.columns)
        raise errors.InvalidRequest(f"{refusal.message} (the columns of the table)", field=argument)
    return table[name]


def _holds(leaf: predicates.Comparison, column: Any, missing: Any = False) -> ir.BooleanValue:
    """Evaluate the positive form of a comparison on a column, for any of its values if it is an array."""
    if column.type().is_array():
        return column.map(lambda value: _holds(leaf, value)).anys().fill_null(missing)
    positive = vocabulary.OPERATORS[leaf.operator].positive
    if positive == "isNotNull":
        return column.notnull()
    if positive == "isNotEmpty" and not column.type().is_string():
        return column.notnull()
    readable = _read(leaf, column)
    if leaf.field in _EMAILS and positive in {"equals", "in"}:
        return _equals_email(leaf, readable)
    return _TESTS[positive](readable, _constant(leaf, readable)).fill_null(missing)


def _any_is_in(leaf: predicates.Comparison, column: Any, table: ir.Table) -> ir.BooleanValue:
    """Test whether any value of an array is in a long list, with joins, which engines refuse in a lambda."""
    # In a structure, since Ibis takes an array to be the list itself.
    key = ibis.struct({"array": column})
    values = table.select(key=key, value=column.unnest())
    return key.isin(values.filter(_holds(leaf, values.value)).key).fill_null(False)


def _read(leaf: predicates.Comparison, column: Any) -> Any:
    """Return the column in the type of the comparison, or refuse it."""
    held = column.type()
    wanted = leaf.operator_type
    if wanted in {vocabulary.FieldType.TEXT, vocabulary.FieldType.TEXTS}:
        if held.is_uuid():
            return column.cast("string")
        agrees = held.is_string()
    elif wanted == vocabulary.FieldType.NUMBER:
        agrees = held.is_numeric()
    elif wanted == vocabulary.FieldType.FLAG:
        agrees = held.is_boolean()
    else:
        if held.is_date():
            return column.cast("timestamp")
        agrees = held.is_timestamp()
    # isNotEmpty has no value of another type.
    if agrees or vocabulary.OPERATORS[leaf.operator].shape == "none":
        return column
    raise errors.InvalidRequest(
        f"{leaf.field}: is compared as {wanted}, but the column has type {held}; give a value of that type, "
        "or the type of the field with operator_type=",
        field=leaf.field,
    )


def _constant(leaf: predicates.Comparison, column: Any) -> Any:
    """Return the value or list of values in the type of the column."""
    if leaf.operator_type != vocabulary.FieldType.INSTANT or leaf.value is None:
        return list(leaf.value) if isinstance(leaf.value, tuple) else leaf.value
    if isinstance(leaf.value, tuple) and len(leaf.value) > _FEW:
        zone = None if column.type().timezone is None else UTC
        return [instants.parse(text, argument="value").replace(tzinfo=zone) for text in leaf.value]
    if isinstance(leaf.value, tuple):
        return [_instant(text, column) for text in leaf.value]
    return _instant(leaf.value, column)


def _instant(text: object, column: Any) -> ir.TimestampScalar:
    instant: datetime = instants.parse_exact(text, argument="value")
    # Beside a timestamp with a zone, engines take a naive one to be in the zone of the session.
    if column.type().timezone is None:
        return ibis.literal(instant.replace(tzinfo=None), type="timestamp(6)")
    return ibis.literal(instant, type="timestamp('UTC', 6)")


def _fold(text: str) -> Any:
    """Return the text in lower case, as the engine lowers the column."""
    # Engines differ on letters such as İ and Σ; other text is lowered here.
    if all(letter.isascii() or letter == letter.lower() for letter in text):
        return text.lower()
    return ibis.literal(text).lower()


def _equals_email(leaf: predicates.Comparison, column: Any) -> ir.BooleanValue:
    values = leaf.value if isinstance(leaf.value, tuple) else (leaf.value,)
    return _is_in(column.strip().lower(), [_fold(str(value).strip()) for value in values]).fill_null(False)


def _is_in(column: Any, values: list[Any]) -> ir.BooleanValue:
    """Test whether a value is in a list, of which a long one is a table: constants take seconds to plan."""
    if len(values) <= _FEW or any(isinstance(value, ir.Value) for value in values):
        return column.isin(values)
    by_type: dict[type, list[str]] = {}
    for value in dict.fromkeys(values):
        by_type.setdefault(type(value), []).append(str(value))
    types = {**_IBIS_TYPES, datetime: column.type()}
    return reduce(operator.or_, (column.isin(_table(texts, types[kind])) for kind, texts in by_type.items()))


def _table(texts: list[str], held: Any) -> Any:
    """Return values as the column of a table, made from one constant on any engine."""
    used = set().union(*texts)
    # Spark takes the separator as a regular expression, in which these letters have no meaning.
    separator = next(letter for letter in map(chr, _PRIVATE_USE) if letter not in used)
    constants = ibis.literal(separator.join(texts)).split(separator).unnest().cast(held)
    return constants.name("value").as_table()["value"]


#: Positive operators whose cost grows with the text, and for which no statistics of a column skip rows.
_READING_WHOLE_TEXTS: Final = frozenset({"contains", "startsWith", "endsWith", "matches"})
#: Test of a column and a value, by positive operator; null for null.
_TESTS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "equals": lambda column, value: column == value,
    "in": _is_in,
    "contains": lambda column, text: column.left(SEARCHED).lower().contains(_fold(text)),
    "startsWith": lambda column, text: column.lower().startswith(_fold(text)),
    "endsWith": lambda column, text: column.lower().endswith(_fold(text)),
    "greaterThan": lambda column, value: column > value,
    "greaterThanOrEquals": lambda column, value: column >= value,
    "lessThan": lambda column, value: column < value,
    "lessThanOrEquals": lambda column, value: column <= value,
    # Two comparisons, since Polars refuses a bound of BETWEEN that does not fit the type of the column.
    "between": lambda column, pair: (column >= pair[0]) & (column <= pair[1]),
    "isNotEmpty": lambda column, _: column != "",
    "matches": lambda column, pattern: column.left(SEARCHED).re_search(as_written(pattern)),
}
