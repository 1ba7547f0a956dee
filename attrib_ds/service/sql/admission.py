"""Validates users' SQL against an allow-list, and regenerates it from its syntax tree."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.service.sql.functions import ALLOWED, NAMED, OVER_FRAMES, TYPES, UNITS, WINDOWS
from attrib_ds.service.sql.limits import Limits, limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST: Final = 8_192
_DEEPEST: Final = 32
#: Total number of tables read, counting a CTE at each reference: nested CTEs that refer to each other twice
#: grow exponentially.
_MOST_TABLES: Final = 32
# Repeated concatenation grows texts within one operation of the engine, which neither the memory limit nor an
# interrupt stops; the same holds for the other limits on texts below.
_MOST_JOINED: Final = 8
_LONGEST_LITERAL: Final = 1_024
_LONGEST_PATTERN: Final = 256
_LONGEST_FORMAT: Final = 64
_MOST_REPETITIONS: Final = 1_000
#: Type names before a parenthesis, and functions generated with their argument twice: the time to parse and
#: generate them doubles with each nesting level.
_MOST_DOUBLED: Final = 4
_DOUBLED: Final = (exp.Length, exp.Ceil, exp.Floor, exp.StrPosition)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_REPETITION: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_OPENING: Final = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN)
_DIALECT: Final = "duckdb"
_TYPE_TOKENS: Final = frozenset(DuckDB.Parser.TYPE_TOKENS) - {TokenType.IDENTIFIER, TokenType.VAR}
_PATTERNED: Final = (exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpExtract, exp.SimilarTo)


@dataclass(frozen=True)
class Admitted:
    """A validated query.

    Parameters
    ----------
    text : str
        SQL regenerated from the syntax tree.
    columns : dict of str to tuple of str
        Columns by view, a superset of those it reads.
    tables : int
        Maximum number of scans of views.
    limits : dict of str to dict
        Limits of columns by view.
    """

    text: str
    columns: dict[str, tuple[str, ...]]
    tables: int
    limits: dict[str, Limits] = field(default_factory=dict)


def admit(sql: str, views: Mapping[str, tuple[str, ...]]) -> Admitted:
    """Validate a query.

    Parameters
    ----------
    sql : str
        The query of a user.
    views : mapping of str to tuple of str
        Columns by view, its key first.

    Returns
    -------
    Admitted
        The query to run instead.

    Raises
    ------
    InvalidRequest
        If it is not one SELECT over the views with allowed syntax.

    Examples
    --------
    >>> admit("SELECT _id FROM users -- all", {"users": ("_id", "createdAt")})
    Admitted(text='SELECT "_id" FROM "users"', columns={'users': ('_id',)}, tables=1, limits={})
    >>> admit("SELECT * FROM 'notes.csv'", {"users": ("_id",)})
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: sql: the table 'notes.csv' is not known; allowed: users
    """
    _check_text(sql)
    query = _parsed(sql)
    columns, tables = _checked(query, views)
    _replace_like(query)
    text = _written(query)
    # The regenerated query must be stable, which reveals errors of the generator.
    again = _parsed(text)
    _checked(again, views)
    if _written(again) != text:
        _refuse("it cannot be written in a plain form")
    return Admitted(text, columns, tables, limits_of(again, views, lambda table: _view(table, views)))


def without_literals(sql: str) -> str:
    """Replace the literals in a query, which may be personal; empty if it cannot be parsed.

    Examples
    --------
    >>> without_literals("SELECT userId FROM user_fields WHERE value = 'anna@example.com' LIMIT 5 -- Anna")
    'SELECT userId FROM user_fields WHERE value = ? LIMIT ?'
    """
    try:
        query = _parsed(sql)
        for node in list(query.find_all(exp.Literal)):
            node.replace(exp.Placeholder())
        for name in query.find_all(exp.Identifier):
            # A quoted identifier may contain anything.
            if not _NAME.fullmatch(name.name):
                name.set("this", "_")
        return query.sql(_DIALECT, comments=False)
    except Exception:  # noqa: BLE001  (any failure of the parser)
        return ""


def _refuse(problem: str) -> NoReturn:
    raise InvalidRequest(f"sql: {problem}", field="sql")


def _check_text(sql: str) -> None:
    if not 1 <= len(sql) <= _LONGEST:
        _refuse(f"it has {len(sql):,} characters; allowed: 1 to {_LONGEST:,}")
    if any(
        (character < " " and character not in "\t\n\r") or "\ud800" <= character <= "\udfff"
        for character in sql
    ):
        _refuse("control characters and unpaired surrogates are not allowed")
    tokens = _tokens(sql)
    if not tokens or tokens[0].token_type not in _OPENING:
        _refuse("allowed: one SELECT")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens[:-1]):
        _refuse("several statements are not allowed; allowed: one SELECT")
    pairs = itertools.pairwise(tokens)
    typed = [
        name
        for name, after in pairs
        if name.token_type in _TYPE_TOKENS and after.token_type == TokenType.L_PAREN
    ]
    if len(typed) > _MOST_DOUBLED:
        _refuse(f"types are called as functions too often; allowed: {_MOST_DOUBLED} times")
    depth = deepest = 0
    for token in tokens:
        depth += {TokenType.L_PAREN: 1, TokenType.CASE: 1, TokenType.R_PAREN: -1, TokenType.END: -1}.get(
            token.token_type, 0
        )
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        _refuse(f"it is nested too deeply; allowed: {_DEEPEST} levels")


def _tokens(sql: str) -> list[Token]:
    try:
        return list(sqlglot.tokenize(sql, read=_DIALECT))
    except Exception:  # noqa: BLE001  (any failure of the parser means invalid SQL)
        _refuse("it cannot be read as SQL")


def _parsed(sql: str) -> exp.Expression:
    try:
        statements = sqlglot.parse(sql, read=_DIALECT)
    except Exception:  # noqa: BLE001  (as above, including RecursionError)
        _refuse("it cannot be read as SQL")
    # The parser treats a trailing semicolon, with a comment, as a statement.
    queries = [
        statement
        for statement in statements
        if statement is not None and not isinstance(statement, exp.Semicolon)
    ]
    if len(queries) != 1 or not isinstance(queries[0], exp.Select | exp.SetOperation | exp.Subquery):
        _refuse("allowed: one SELECT")
    return queries[0]


def _written(query: exp.Expression) -> str:
    try:
        # Quote all names, so that none is parsed as a keyword.
        return query.sql(_DIALECT, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    except Exception:  # noqa: BLE001  (as above)
        _refuse("it cannot be written in a plain form")


def _checked(
    query: exp.Expression, views: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], int]:
    nodes = list(query.walk())
    for node in nodes:
        _check(node)
    if sum(_joined(node) for node in nodes) > _MOST_JOINED:
        _refuse(f"texts are joined too often; allowed: {_MOST_JOINED} of them in all")
    if sum(isinstance(node, _DOUBLED) for node in nodes) > _MOST_DOUBLED:
        _refuse(f"length, ceil, floor and strpos are called too often; allowed: {_MOST_DOUBLED} times in all")
    read = {view for table in query.find_all(exp.Table) if (view := _view(table, views)) is not None}
    takes_all = any(isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count) for node in nodes)
    named = {_folded(node.name) for node in nodes if isinstance(node, exp.Identifier)}
    columns = {
        view: tuple(
            column
            for position, column in enumerate(views[view])
            # A view needs at least one column.
            if takes_all or position == 0 or _folded(column) in named
        )
        for view in sorted(read)
    }
    return columns, _scans(query, {})


def _check(node: exp.Expression) -> None:
    """Refuse a disallowed node."""
    # The exact class: subclasses of allowed classes may do anything.
    if type(node) not in ALLOWED:
        _refuse(f"{_what(node)} is not allowed")
    if isinstance(node, exp.Anonymous) and node.name.lower() not in NAMED:
        _refuse(f"the function {node.name.lower()!r} is not allowed")
    if isinstance(node, exp.Literal) and len(node.name) > _LONGEST_LITERAL:
        _refuse(f"a text is too long; allowed: {_LONGEST_LITERAL:,} characters")
    if isinstance(node, exp.With) and node.args.get("recursive"):
        _refuse("WITH RECURSIVE is not allowed")
    if isinstance(node, exp.Select) and node.args.get("kind"):
        _refuse(f"SELECT AS {node.args['kind']} is not allowed")
    if isinstance(node, exp.Join) and node.args.get("method"):
        _refuse(f"{node.args['method']} JOIN is not allowed")
    if isinstance(node, exp.DataType) and (node.this.name not in TYPES or node.args.get("nested")):
        _refuse(f"the type {node.this.name} is not allowed")
    if isinstance(node, exp.Var) and node.name.upper() not in UNITS:
        _refuse(f"{node.name!r} is not allowed there")
    if isinstance(node, exp.Table | exp.Column) and (node.args.get("db") or node.args.get("catalog")):
        _refuse(f"the name {_dotted(node)} has too many parts; quote names that contain dots")
    if isinstance(node, exp.CTE | exp.TableAlias) and node.name and not _NAME.fullmatch(node.name):
        _refuse(f"the name {node.name!r} is not allowed; allowed: letters, digits and underscores")
    if isinstance(node, exp.Window):
        _check_window(node)
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct) and len(node.this.expressions) > 1:
        _refuse("count(DISTINCT …) of several values is not allowed")
    if isinstance(node, exp.Min | exp.Max) and node.expressions:
        _refuse(f"{node.key} with two arguments is not allowed")
    if isinstance(node, exp.ArgMax | exp.ArgMin) and node.args.get("count"):
        _refuse(f"{node.key} with three arguments is not allowed")
    _check_pattern(node)


def _check_window(node: exp.Window) -> None:
    function = node.this
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    if isinstance(function, exp.Identifier):
        # The definition of a window by name.
        return
    if not isinstance(function, (exp.Anonymous, *WINDOWS, *OVER_FRAMES)):
        _refuse(f"{_what(function)} is not allowed over a window")
    spec = node.args.get("spec")
    if spec is not None and spec.args.get("exclude"):
        _refuse("EXCLUDE is not allowed in a window")
    if isinstance(function, exp.Func) and isinstance(function.this, exp.Distinct):
        _refuse("DISTINCT is not allowed over a window")


def _check_pattern(node: exp.Expression) -> None:
    if isinstance(node, (exp.Like, exp.ILike, *_PATTERNED)):
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            _refuse("a pattern must be a text in quotes")
        if len(pattern.name) > _LONGEST_PATTERN:
            _refuse(f"a pattern is too long; allowed: {_LONGEST_PATTERN} characters")
        times = (max(int(least), int(most or 0)) for least, most in _REPETITION.findall(pattern.name))
        if isinstance(node, _PATTERNED) and prod(max(count, 1) for count in times) > _MOST_REPETITIONS:
            _refuse(f"a pattern repeats too often; allowed: {_MOST_REPETITIONS:,} times in all")
    if isinstance(node, exp.TimeToStr):
        form = node.args.get("format")
        if not isinstance(form, exp.Literal) or len(form.name) > _LONGEST_FORMAT:
            _refuse(f"the format of a date must be a text of at most {_LONGEST_FORMAT} characters in quotes")


def _joined(node: exp.Expression) -> int:
    if isinstance(node, exp.Concat):
        return len(node.expressions)
    return 2 if isinstance(node, exp.DPipe) else 0


def _view(table: exp.Table, views: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the view of a table, or None for a CTE."""
    if not isinstance(table.this, exp.Identifier):
        _refuse(f"{_what(table.this)} is not allowed as a table")
    if _cte(table) is not None:
        return None
    name = _folded(table.name)
    if name not in views:
        shown = table.name if len(table.name) <= 80 else f"{table.name[:80]}…"
        _refuse(
            f"the table {shown!r} is not known{closest(name, views)}; allowed: {', '.join(sorted(views))}"
        )
    return name


def _cte(table: exp.Table) -> exp.CTE | None:
    """Return the CTE that a table name refers to: a preceding or an enclosing one."""
    name = _folded(table.name)
    node: exp.Expression = table
    while node.parent is not None:
        parent = node.parent
        ctes: Iterable[exp.CTE] = ()
        if isinstance(parent, exp.With):
            ctes = parent.expressions[: node.index]
            # Continue outside of the query that owns these CTEs.
            node = parent.parent or parent
        else:
            node = parent
            own = node.args.get("with_")
            ctes = own.expressions if own is not None else ()
        for cte in ctes:
            if isinstance(cte, exp.CTE) and _folded(cte.alias) == name:
                return cte
    return None


def _scans(query: exp.Expression, counted: dict[int, int]) -> int:
    """Count the tables that a query reads, CTEs once per reference."""
    total = 0
    # Tables of a CTE count at its references.
    for table in query.find_all(exp.Table):
        if _is_inside_cte(table, query):
            continue
        cte = _cte(table)
        if cte is not None and id(cte) not in counted:
            counted[id(cte)] = _scans(cte.this, counted)
        total += 1 if cte is None else counted[id(cte)]
        if total > _MOST_TABLES:
            _refuse(f"it reads too many tables; allowed: {_MOST_TABLES}, each CTE as often as it is named")
    return total


def _is_inside_cte(table: exp.Table, query: exp.Expression) -> bool:
    node: exp.Expression | None = table
    while node is not None and node is not query:
        if isinstance(node, exp.CTE):
            return True
        node = node.parent
    return False


def _replace_like(query: exp.Expression) -> None:
    """Replace LIKE, which can take exponential time, by regular expressions, which take linear time."""
    for node in list(query.find_all(exp.Like, exp.ILike)):
        pattern = "".join(
            {"%": ".*", "_": "."}.get(character, re.escape(character)) for character in node.expression.name
        )
        flags = "si" if isinstance(node, exp.ILike) else "s"
        as_texts = {"expression": exp.Literal.string(pattern), "options": exp.Literal.string(flags)}
        node.replace(exp.RegexpFullMatch(this=node.this, **as_texts))


def _what(node: exp.Expression) -> str:
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else type(node).sql_name()  # type: ignore[no-untyped-call]
        return f"the function {name.lower()!r}"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return "a parameter"
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", " ", type(node).__name__).upper()


def _folded(name: str) -> str:
    """Return a name as DuckDB compares it: case-insensitive for ASCII only."""
    return name.lower() if name.isascii() else name


def _dotted(node: exp.Expression) -> str:
    return repr(".".join(part.name for part in node.parts)) if hasattr(node, "parts") else repr(node.name)
