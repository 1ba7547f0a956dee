"""Parses SQL with DuckDB's own parser into its syntax tree, and finds the values it limits columns to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import duckdb

from attrib_ds.errors import InvalidRequest

#: A node of a syntax tree, as DuckDB writes it with `json_serialize_sql`.
Node = dict[str, Any]

_LONGEST: Final = 8_192
#: Levels of expressions, tables and queries.
_DEEPEST: Final = 64
_OPENING_WORDS: Final = frozenset({"select", "with", "from", "("})
#: Words of forms that no allowed query has, some of which the parser expands: `CUBE` of sixteen columns makes
#: 65,535 sets of them.
_REFUSED_WORDS: Final = {
    "cube": "CUBE",
    "grouping": "GROUPING SETS",
    "lateral": "LATERAL",
    "recursive": "WITH RECURSIVE",
    "rollup": "ROLLUP",
}
_REFUSED_SIGNS: Final = {
    "$": "a parameter",
    "?": "a parameter",
    "[": "a list",
    "{": "a struct",
}
#: The parser copies the operand of CASE for every WHEN, and the definition of a window for every use.
_MOST_OPERAND_COPIES: Final = 4_000
_MOST_WINDOW_COPIES: Final = 40_000
#: The tokenizer searches the rest of the text for the end of every comment.
_MOST_COMMENTS: Final = 100
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")
_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "threads": "1",
}


@dataclass(frozen=True)
class Parser:
    """DuckDB's parser.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To an empty database, which runs nothing of a user.
    """

    connection: duckdb.DuckDBPyConnection

    def parse(self, sql: str) -> Node:
        """Return the syntax tree of one SELECT; raise ``InvalidRequest`` if the text is anything else."""
        _check_text(sql)
        _check_tokens(sql)
        try:
            parsed = json.loads(self._ask("SELECT json_serialize_sql(?)", sql))
        except (duckdb.Error, ValueError, RecursionError):
            refuse("it cannot be read as SQL")
        statements = parsed.get("statements", [])
        if parsed["error"]:
            refuse(
                "allowed: one SELECT"
                if parsed["error_type"] == "not implemented"
                else f"it cannot be read as SQL: {_first_line(parsed['error_message'])}"
            )
        if len(statements) != 1:
            refuse("allowed: one SELECT")
        _check_depth(statements[0])
        tree: Node = statements[0]
        return tree

    def write(self, tree: Node) -> str:
        """Return the SQL of a tree."""
        try:
            return self._ask(
                "SELECT json_deserialize_sql(?)", json.dumps({"error": False, "statements": [tree]})
            )
        except duckdb.Error:
            refuse("it cannot be written in a plain form")

    def _ask(self, query: str, argument: str) -> str:
        (row,) = self.connection.execute(query, [argument]).fetchall()
        return str(row[0])


@contextmanager
def open_parser() -> Iterator[Parser]:
    """Open a parser.

    Examples
    --------
    >>> with open_parser() as parser:
    ...     parser.write(parser.parse("select  _id from users -- all"))
    'SELECT _id FROM users'
    """
    with closing(duckdb.connect(config=_SETTINGS)) as connection:
        yield Parser(connection)


def refuse(problem: str) -> NoReturn:
    """Raise the error of a query that is not allowed."""
    raise InvalidRequest(f"sql: {problem}", field="sql")


def nodes_of(tree: object) -> Iterator[tuple[Node, int]]:
    """Yield every object of a syntax tree, with the number of expressions, tables and queries around it."""
    stack = [(tree, 0)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, dict):
            yield node, level
            # Expressions, tables and queries have a type by name; types of values are objects.
            below = level + isinstance(node.get("type"), str)
            stack.extend((member, below) for member in node.values())
        elif isinstance(node, list):
            stack.extend((member, level) for member in node)


def _check_text(sql: str) -> None:
    if not 1 <= len(sql) <= _LONGEST:
        refuse(f"it has {len(sql):,} characters; allowed: 1 to {_LONGEST:,}")
    if any(
        (character < " " and character not in "\t\n\r") or "\ud800" <= character <= "\udfff"
        for character in sql
    ):
        refuse("control characters and unpaired surrogates are not allowed")
    if sql.count("/*") > _MOST_COMMENTS:
        refuse(f"it has too many comments; allowed: {_MOST_COMMENTS}")


def _check_tokens(sql: str) -> None:
    tokens = _tokens(sql)
    if not tokens or tokens[0] not in _OPENING_WORDS:
        refuse("allowed: one SELECT")
    if ";" in tokens and set(tokens[tokens.index(";") :]) != {";"}:
        refuse("several statements are not allowed; allowed: one SELECT")
    for token in tokens:
        form = _REFUSED_WORDS.get(token) or _REFUSED_SIGNS.get(token)
        if form is not None:
            refuse(f"{form} is not allowed")
    if "window" in tokens and tokens.count("over") * len(tokens) > _MOST_WINDOW_COPIES:
        refuse("named windows are used too often for a query of this length")
    operands = [_operand(tokens, position + 1) for position, word in enumerate(tokens) if word == "case"]
    if max(operands, default=0) * tokens.count("when") > _MOST_OPERAND_COPIES:
        refuse("the operand of a CASE is too long; use CASE WHEN with conditions")


def _tokens(sql: str) -> list[str]:
    """Return words in lower case, and signs; of anything else the first character."""
    content = sql.encode()
    try:
        starts = [start for start, _ in duckdb.tokenize(sql)]
    except duckdb.Error:
        refuse("it cannot be read as SQL")
    words = [_WORD.match(content, start) or content[start : start + 1] for start in starts]
    return [word.decode("latin-1") if isinstance(word, bytes) else word[0].decode().lower() for word in words]


def _operand(tokens: list[str], start: int) -> int:
    """Count the tokens of the operand of CASE; refuse another CASE in it, whose copies would multiply."""
    depth = 0
    for position in range(start, len(tokens)):
        word = tokens[position]
        # A column may be called `when` behind a dot.
        if word == "when" and depth == 0 and tokens[position - 1] != ".":
            return position - start
        if word == "case":
            refuse("the operand of a CASE contains a CASE; use CASE WHEN with conditions")
        depth += (word in _OPENING) - (word in _CLOSING)
    return len(tokens) - start


def _check_depth(tree: Node) -> None:
    if any(level > _DEEPEST for _, level in nodes_of(tree)):
        refuse(f"it is nested too deeply; allowed: {_DEEPEST} levels")


def _first_line(message: str) -> str:
    return message.partition("\n")[0][:200]


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
