"""Parses SQL with DuckDB's own parser into its syntax tree, and writes trees as SQL.

The parser takes time that grows with the length of the text, except for a few forms that copy a part of the
query. These are refused by their tokens, before they are parsed.
"""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import duckdb

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
