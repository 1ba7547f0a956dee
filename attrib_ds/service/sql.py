"""Validates users' SQL against an allow-list, and regenerates it from DuckDB's own syntax tree."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NoReturn

import duckdb
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import scratch
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.filters import predicates, values

#: A node of a syntax tree, as DuckDB writes it with `json_serialize_sql`. DuckDB 2 has another form than
#: DuckDB 1 of arguments, constants, types, CTEs and chains of set operations.
Node = dict[str, Any]
Views = Mapping[str, tuple[str, ...]]
#: Terms by column.
Sizes = dict[str, int]

_LONGEST: Final = 8_192
#: Levels of expressions, tables, queries and parentheses.
_DEEPEST: Final = 64
_TOO_DEEP: Final = f"it is nested too deeply; allowed: {_DEEPEST} levels"
#: Total number of tables read, counting a CTE at each reference: nested CTEs that refer to each other twice
#: grow exponentially.
_MOST_TABLES: Final = 32
#: Terms of one expression once the columns of inner queries are replaced by their expressions. The optimizer
#: does so to move conditions inwards, and cannot be interrupted.
_MOST_TERMS: Final = 10_000
# Repeated concatenation grows texts within one operation of the engine, which neither the memory limit nor an
# interrupt stops; the same holds for the other limits on texts below.
_MOST_JOINED: Final = 8
_LONGEST_LITERAL: Final = 1_024
_LONGEST_PATTERN: Final = 256
_LONGEST_FORMAT: Final = 64
_MOST_SEARCHES: Final = 20
#: The tokenizer searches the rest of the text for the end of every comment.
_MOST_COMMENTS: Final = 100
#: The parser copies the definition of a window for every use, and the operand of CASE for every WHEN.
_MOST_WINDOW_COPIES: Final = 40_000
_LONGEST_OPERAND: Final = 3
_OPENING_WORDS: Final = frozenset({"select", "with", "from", "("})
#: Words and signs of forms that no allowed query has, some of which the parser expands: `CUBE` of sixteen
#: columns makes 65,535 sets of them.
_REFUSED_TOKENS: Final = {
    "cube": "CUBE",
    "grouping": "GROUPING SETS",
    "lateral": "LATERAL",
    "recursive": "WITH RECURSIVE",
    "rollup": "ROLLUP",
    "$": "a parameter",
    "?": "a parameter",
    "[": "a list",
    "{": "a struct",
}
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


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
    keys : frozenset of str or None
        Keys of the user fields that it reads; None for any.
    """

    text: str
    columns: dict[str, tuple[str, ...]]
    tables: int
    keys: frozenset[str] | None


def admit(sql: str, views: Views) -> Admitted:
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
    Admitted(text='SELECT _id FROM users', columns={'users': ('_id',)}, tables=1, keys=None)
    >>> admit("SELECT * FROM 'notes.csv'", {"users": ("_id",)})
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: sql: the table 'notes.csv' is not known; allowed: users
    """
    # It runs nothing of a user.
    with closing(scratch.connect()) as parser:
        query = _parse(parser, sql)
        _check(query)
        _replace_like(query)
        _keep_patterns(query)
        _shorten_searched(query)
        text = _write(parser, query)
        # What runs is what is checked.
        again = _parse(parser, text)
        _check(again)
    read: set[str] = set()
    scans = _count_tables(again["node"], {}, views, read)
    _sizes(again["node"], {}, {}, views)
    return Admitted(text, _columns(again, read, views), scans, _keys(again))


def without_literals(sql: str) -> str:
    """Replace the literals and quoted names in a query, which may be personal; comments are left out.

    Examples
    --------
    >>> without_literals("SELECT _id FROM user_fields WHERE key = 'anna@example.com' LIMIT 5 -- Anna")
    'SELECT _id FROM user_fields WHERE key = $value LIMIT $value'
    """
    constants = {duckdb.token_type.string_const, duckdb.token_type.numeric_const}
    try:
        tokens = _tokens(sql)
    except InvalidRequest:
        return ""
    return " ".join("$value" if kind in constants or word == '"' else word for word, kind in tokens)


def _refuse(problem: str) -> NoReturn:
    raise InvalidRequest(f"sql: {problem}")


def _parse(parser: Connection, sql: str) -> Node:
    """Return the syntax tree of one SELECT; refuse any other text."""
    _check_tokens([word.lower() for word, _ in _tokens(sql)])
    try:
        ((text,),) = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        parsed = json.loads(text)
    except (duckdb.Error, ValueError, RecursionError):
        _refuse("it cannot be read as SQL")
    if parsed["error"] and parsed["error_type"] != "not implemented":
        _refuse(f"it cannot be read as SQL: {parsed['error_message'].splitlines()[0][:200]}")
    statements: list[Node] = parsed.get("statements", [])
    if parsed["error"] or len(statements) != 1:
        _refuse("allowed: one SELECT")
    if any(level > _DEEPEST for _, level in _nodes(statements[0])):
        _refuse(_TOO_DEEP)
    return statements[0]


def _write(parser: Connection, tree: Node) -> str:
    """Return the SQL of a tree."""
    statement = json.dumps({"error": False, "statements": [tree]})
    try:
        ((text,),) = parser.execute("SELECT json_deserialize_sql(?)", [statement]).fetchall()
    except duckdb.Error:
        _refuse("it cannot be written in a plain form")
    return str(text)


def _nodes(tree: object) -> Iterator[tuple[Node, int]]:
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


def _tokens(sql: str) -> list[tuple[str, duckdb.token_type]]:
    """Return words with their kinds; of anything else the first character."""
    if not 1 <= len(sql) <= _LONGEST:
        _refuse(f"it has {len(sql):,} characters; allowed: 1 to {_LONGEST:,}")
    if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", sql):
        _refuse("control characters and unpaired surrogates are not allowed")
    if sql.count("/*") > _MOST_COMMENTS:
        _refuse(f"it has too many comments; allowed: {_MOST_COMMENTS}")
    content = sql.encode()
    try:
        tokens = duckdb.tokenize(sql)
    except duckdb.Error:
        _refuse("it cannot be read as SQL")
    words = [
        (_WORD.match(content, start) or [content[start : start + 1]], kind)
        for start, kind in tokens
        if kind != duckdb.token_type.comment
    ]
    return [(word[0].decode("latin-1"), kind) for word, kind in words]


def _check_tokens(tokens: list[str]) -> None:
    """Refuse forms that take the parser long."""
    if not tokens or tokens[0] not in _OPENING_WORDS:
        _refuse("allowed: one SELECT")
    if ";" in tokens and set(tokens[tokens.index(";") :]) != {";"}:
        _refuse("several statements are not allowed; allowed: one SELECT")
    # DuckDB 2 flattens some of what is nested.
    if max(accumulate((word == "(") - (word == ")") for word in tokens)) > _DEEPEST:
        _refuse(_TOO_DEEP)
    for position, word in enumerate(tokens):
        if word in _REFUSED_TOKENS:
            _refuse(f"{_REFUSED_TOKENS[word]} is not allowed")
        if word == "case" and not _is_short(tokens[position + 1 :][: _LONGEST_OPERAND + 1]):
            _refuse("the operand of a CASE is more than a column; use CASE WHEN with conditions")
    if "window" in tokens and tokens.count("over") * len(tokens) > _MOST_WINDOW_COPIES:
        _refuse("named windows are used too often for a query of this length")


def _is_short(operand: list[str]) -> bool:
    """Return whether WHEN soon follows a CASE; a column behind a dot may be called so."""
    ends = [place for place, word in enumerate(operand) if word == "when" and operand[:place][-1:] != ["."]]
    return bool(ends) and "case" not in operand[: ends[0]]


def _check(query: Node) -> None:
    """Refuse everything in a tree that is not on the lists below."""
    joined = searches = size = 0
    operands = _compared(query)
    tables = {
        _folded(node.get("alias") or node.get("table_name") or "")
        for node, _ in _nodes(query)
        if "class" not in node and isinstance(node.get("type"), str)
    } - {""}
    for node, _ in _nodes(query):
        if "class" in node:
            _check_expression(node)
            name, arguments = _call(node), _arguments(node)
            if name == "row" and id(node) not in operands:
                _refuse("a row is only allowed beside IN or a comparison")
            if node["class"] == "COLUMN_REF":
                _check_column(node["column_names"], tables)
            joined += len(arguments) if name in {"concat", "||", "row"} else 0
            searches += name in SEARCHES
            size += values.expanded_size(_text(arguments[1]) or "") if name in PATTERNED else 0
        elif isinstance(node.get("type"), str):
            _check_clause(node)
        elif "id" in node and node["id"] not in TYPES:
            _refuse(f"the type {str(node['id'])[:40]} is not allowed")
        is_cte = isinstance(node.get("value"), dict) and not {"query", "query_node"}.isdisjoint(node["value"])
        named = node["key"] if is_cte else "" if "class" in node else node.get("alias")
        if named and not _NAME.fullmatch(named):
            _refuse(f"the name {named[:80]!r} is not allowed; allowed: letters, digits and underscores")
        if node.get("sample") is not None:
            _refuse("SAMPLE is not allowed")
        if node.get("type") == "SELECT_NODE":
            stars = (item for item in node["select_list"] if item["class"] == "STAR")
            _check_stars([_folded(star["relation_name"]) for star in stars])
    if joined > _MOST_JOINED:
        _refuse(f"texts are joined too often; allowed: {_MOST_JOINED} of them in all")
    if searches > _MOST_SEARCHES:
        _refuse(f"texts are searched too often; allowed: {_MOST_SEARCHES} patterns and substrings")
    if size > predicates.LARGEST_PATTERNS:
        _refuse(
            f"the patterns are too large together; allowed: {predicates.LARGEST_PATTERNS:,} characters and "
            "classes"
        )


def _check_stars(tables: list[str]) -> None:
    """Refuse repeated stars: queries inside one another double their columns, which no interrupt stops."""
    if len(tables) > len(set(tables)) or ("" in tables and len(tables) > 1):
        _refuse("a star is repeated; name each table once before .*, or write one * alone")


def _compared(query: Node) -> set[int]:
    """Return the identities of the operands of comparisons and IN, which alone may be rows."""
    operands: list[object] = []
    for node, _ in _nodes(query):
        if node.get("class") == "COMPARISON":
            operands += [node["left"], node["right"]]
        elif node.get("class") == "SUBQUERY":
            operands.append(node["child"])
        elif node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN"):
            operands += node["children"]
    return {id(operand) for operand in operands}


def _check_clause(node: Node) -> None:
    kind = node["type"]
    if kind == "TABLE_FUNCTION":
        _refuse(f"the function {str(node['function'].get('function_name'))[:40]!r} is not allowed as a table")
    if kind not in CLAUSES:
        _refuse(f"{_what(kind)} is not allowed")
    if kind == "BASE_TABLE" and (node["schema_name"] or node["catalog_name"]):
        _refuse_parts(filter(None, (node["catalog_name"], node["schema_name"], node["table_name"])))
    if kind == "BASE_TABLE" and node.get("at_clause") is not None:
        _refuse("AT is not allowed")
    if kind == "JOIN" and node["ref_type"] not in JOINS:
        _refuse(f"{_what(node['ref_type'])} JOIN is not allowed")
    if kind == "JOIN" and node.get("ranking_expression") is not None:
        _refuse("a ranking is not allowed in a JOIN")
    if kind == "LIMIT_MODIFIER" and node.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        _refuse("LIMIT PERCENT is not allowed")
    if kind == "SELECT_NODE" and len(node["group_sets"]) > 1:
        _refuse("GROUPING SETS is not allowed")


def _refuse_parts(names: Iterator[str] | list[str]) -> NoReturn:
    _refuse(f"the name {'.'.join(names)[:80]!r} has too many parts; quote names that contain dots")


def _check_expression(node: Node) -> None:
    kind = node["class"]
    if node.get("type") not in EXPRESSIONS.get(kind, ()):
        _refuse(f"{_what(str(node.get('type')))} is not allowed")
    if kind == "CONSTANT":
        _check_constant(node)
    elif kind == "TYPE":
        _check_type(node)
    elif kind == "STAR" and (node["expr"] is not None or node["columns"]):
        _refuse("COLUMNS is not allowed")
    elif kind in {"FUNCTION", "WINDOW"}:
        _check_function(node, _call(node), _arguments(node))


def _check_constant(node: Node) -> None:
    literal = node.get("literal")
    value = node["value"].get("value", "") if literal is None else literal["text"]
    if literal is not None and literal["kind"] not in LITERALS:
        _refuse(f"a constant of the kind {literal['kind']} is not allowed")
    if len(str(value)) > _LONGEST_LITERAL:
        _refuse(f"a text is too long; allowed: {_LONGEST_LITERAL:,} characters")


def _check_type(node: Node) -> None:
    """Check a type of DuckDB 2, whose name is still as the user wrote it."""
    name = node["type_name"].upper()
    modified = _MODIFIED if all(part["class"] == "CONSTANT" for part in node["children"]) else ()
    is_allowed = name in TYPES or name in _SYNONYMS
    if node["catalog"] or node["schema"] or not is_allowed or (node["children"] and name not in modified):
        _refuse(f"the type {node['type_name'][:40]} is not allowed")


def _check_column(names: list[str], tables: Collection[str]) -> None:
    if len(names) > 2:
        _refuse_parts(names)
    if len(names) == 1 and _folded(names[0]) in REFUSED_VALUES:
        _refuse(f"{names[0]} is not allowed")
    # As a value, a table is a row of all its columns, whose text joins them.
    if (len(names) == 1 and _folded(names[0]) in tables) or (len(names) == 2 and _folded(names[0]) == "main"):
        _refuse(f"{names[-1]!r} names a table, not a column; rename the table or the column")


def _check_function(node: Node, name: str, arguments: list[Node]) -> None:
    is_own = node["catalog"] or node["schema"] not in {"", "main"}
    if is_own or (node["class"] == "FUNCTION" and name not in FUNCTIONS):
        _refuse(f"the function {name[:40]!r} is not allowed")
    if any(entry["name"] for entry in node.get("arguments", ())):
        _refuse("arguments by name are not allowed")
    if name in {"min", "max"} and len(arguments) > 1:
        _refuse(f"{name} with two arguments is not allowed")
    if node["class"] == "WINDOW":
        _check_window(node, name)
        return
    if node["export_state"]:
        _refuse("EXPORT_STATE is not allowed")
    if name in {"arg_max", "argmax", "max_by", "arg_min", "argmin", "min_by"} and len(arguments) > 2:
        _refuse(f"{name} with three arguments is not allowed")
    if name == "count" and node["distinct"] and len(arguments) > 1:
        _refuse("count(DISTINCT …) of several values is not allowed")
    second = _text(arguments[1]) if len(arguments) > 1 else None
    if name in LIKES or name in PATTERNED:
        _check_pattern(name, second)
    # The members of members of an object are many times its text.
    if name in {"json_extract_string", "->>"} and (second is None or "*" in second):
        _refuse("the path of a member must be a text in quotes without *")
    if name == "strftime" and (second is None or len(second) > _LONGEST_FORMAT):
        _refuse(f"the format of a date must be a text of at most {_LONGEST_FORMAT} characters in quotes")


def _check_window(node: Node, name: str) -> None:
    if node["type"] == "WINDOW_AGGREGATE" and name not in OVER_FRAMES:
        _refuse(f"the function {name[:40]!r} is not allowed over a window")
    if node["exclude_clause"] != "NO_OTHER":
        _refuse("EXCLUDE is not allowed in a window")
    if node["distinct"]:
        _refuse("DISTINCT is not allowed over a window")


def _check_pattern(name: str, pattern: str | None) -> None:
    if pattern is None:
        _refuse("a pattern must be a text in quotes")
    if len(pattern.removesuffix("()")) > _LONGEST_PATTERN:
        _refuse(f"a pattern is too long; allowed: {_LONGEST_PATTERN} characters")
    if name in LIKES:
        return
    if values.expanded_size(pattern) > values.LARGEST_PATTERN:
        _refuse(
            f"a pattern repeats too often; allowed: {values.LARGEST_PATTERN} characters and classes "
            "written out"
        )


def _call(node: Node) -> str:
    """Return the name of a function; empty for other expressions."""
    return _folded(node.get("function_name", ""))


def _arguments(node: Node) -> list[Node]:
    """Return the arguments of a function or an operator."""
    if "arguments" in node:
        return [entry["expression"] for entry in node["arguments"]]
    children: list[Node] = node.get("children", [])
    return children


def _sides(node: Node) -> list[Node]:
    """Return the queries that a set operation combines."""
    children: list[Node] = node.get("children", [])
    return [node[side] for side in ("left", "right") if node[side]] + children


def _text(node: Node) -> str | None:
    """Return the text of a constant, None for anything else."""
    if "literal" in node:
        return str(node["literal"]["text"]) if node["literal"]["kind"] == "STRING" else None
    is_text = node["class"] == "CONSTANT" and node["value"]["type"]["id"] == "VARCHAR"
    return str(node["value"]["value"]) if is_text and not node["value"]["is_null"] else None


def _count_tables(node: object, ctes: Mapping[str, int], views: Views, read: set[str]) -> int:
    """Count the tables that a part of a query reads, CTEs once per reference; add its views to ``read``."""
    total = 0
    if isinstance(node, list):
        total = sum(_count_tables(member, ctes, views, read) for member in node)
    elif isinstance(node, dict) and node.get("type") == "BASE_TABLE":
        name = _folded(node["table_name"])
        total = ctes.get(name, 1)
        if name not in ctes:
            _require_view(node["table_name"], views)
            read.add(name)
    elif isinstance(node, dict):
        own = dict(ctes)
        for entry in node.get("cte_map", {"map": []})["map"]:
            # A CTE sees those before it; one without tables is still computed at each reference.
            own[_folded(entry["key"])] = max(_count_tables(entry["value"], own, views, read), 1)
        parts = (member for name, member in node.items() if name != "cte_map")
        total = sum(_count_tables(member, own, views, read) for member in parts)
    if total > _MOST_TABLES:
        _refuse(f"it reads too many tables; allowed: {_MOST_TABLES}, each CTE as often as it is named")
    return total


def _sizes(query: Node, ctes: Mapping[str, Sizes], outer: Sizes, views: Views) -> Sizes:
    """Return the terms of the columns of a query; under "" those of columns of any name."""
    own, scope = dict(ctes), dict(outer)
    for entry in query["cte_map"]["map"]:
        cte = entry["value"]
        columns = _sizes(
            cte["query_node"] if "query_node" in cte else cte["query"]["node"], own, outer, views
        )
        own[_folded(entry["key"])] = {"": max(columns.values())} if cte["aliases"] else columns
    if query["type"] == "SET_OPERATION_NODE":
        sides = [_sizes(side, own, outer, views) for side in _sides(query)]
        found = [("", max(size for side in sides for size in side.values()))]
        scope.update(found)
    else:
        found, inner = [], _join(query["from_table"], own, scope, views)
        for item in query["select_list"]:
            size = _terms(item, own, scope, views)
            if item["class"] == "STAR":
                found += inner
                # Columns that a star replaces or renames.
                found += (
                    [("", max(size, *dict(inner).values()))]
                    if item["replace_list"] or item["rename_list"]
                    else []
                )
                continue
            name = _folded(item["alias"] or item.get("column_names", [""])[-1])
            found.append((name, size))
            if name:
                scope[name] = max(scope.get(name, 0), size)
    rest = query.keys() - {"cte_map", "from_table", "select_list", "left", "right", "children"}
    _terms([query[name] for name in rest], own, scope, views)
    # The engine numbers repeated names.
    is_repeated = len(dict(found)) < len(found)
    return {**dict(found), **({"": max(size for _, size in found)} if is_repeated else {})}


def _join(table: Node, ctes: Mapping[str, Sizes], scope: Sizes, views: Views) -> list[tuple[str, int]]:
    """Return the columns of FROM with their terms, and add them to those that expressions see."""
    if table["type"] == "JOIN":
        found = [pair for side in ("left", "right") for pair in _join(table[side], ctes, scope, views)]
        _terms(table["condition"], ctes, scope, views)
        return found
    if table["type"] == "SUBQUERY":
        sizes = _sizes(table["subquery"]["node"], ctes, scope, views)
    elif table["type"] == "BASE_TABLE":
        name = _folded(table["table_name"])
        sizes = ctes[name] if name in ctes else dict.fromkeys(map(_folded, views[name]), 1)
    else:
        values = (value for row in table.get("values", []) for value in row)
        sizes = {"": max((_terms(value, ctes, scope, views) for value in values), default=1)}
    if table.get("column_name_alias"):
        sizes = {"": max(sizes.values())}
    scope.update({name: max(size, scope.get(name, 0)) for name, size in sizes.items()})
    return list(sizes.items())


def _terms(part: object, ctes: Mapping[str, Sizes], scope: Sizes, views: Views) -> int:
    """Count the terms of a part of a query, its columns replaced by their expressions; refuse too many."""
    if isinstance(part, list):
        return sum(_terms(member, ctes, scope, views) for member in part)
    if not isinstance(part, dict):
        return 0
    if "cte_map" in part:
        return max(_sizes(part, ctes, scope, views).values())
    total = sum((_terms(member, ctes, scope, views) for member in part.values()), start="class" in part)
    if part.get("class") == "COLUMN_REF":
        name = _folded(part["column_names"][-1])
        total = max(scope.get(name, max(scope.values())), scope.get("", 1))
    if total > _MOST_TERMS:
        _refuse(
            f"an expression has more than {_MOST_TERMS:,} terms once the columns of inner queries are "
            "replaced by their expressions; name each computed column fewer times, or nest fewer queries"
        )
    # Aggregates and windows are computed before what names them.
    return (
        1 if part.get("class") == "WINDOW" or _folded(part.get("function_name", "")) in _AGGREGATES else total
    )


def _require_view(name: str, views: Views) -> None:
    if _folded(name) not in views:
        shown = name if len(name) <= 80 else f"{name[:80]}…"
        close, allowed = closest(_folded(name), views), ", ".join(sorted(views))
        _refuse(f"the table {shown!r} is not known{close}; allowed: {allowed}")


def _columns(query: Node, read: set[str], views: Views) -> dict[str, tuple[str, ...]]:
    """Return the columns by view that a query may read."""
    takes_all = False
    named: set[str] = set()
    for node, _ in _nodes(query):
        # New names of columns count from the first column of the view.
        takes_all = takes_all or node.get("class") == "STAR" or bool(node.get("column_name_alias"))
        names = (*node.get("column_names", ()), *node.get("using_columns", ()))
        named.update(_folded(name) for name in names)
    return {
        view: tuple(
            column
            for position, column in enumerate(views[view])
            # A view needs at least one column.
            if takes_all or position == 0 or _folded(column) in named
        )
        for view in sorted(read)
    }


def _keys(query: Node) -> frozenset[str] | None:
    """Return the keys of user fields if every scan of them is alone in a SELECT that names its keys."""
    scans = 0
    limits: list[set[str | None]] = []
    for node, _ in _nodes(query):
        scans += _is_scan(node)
        if node.get("type") == "SELECT_NODE" and _is_scan(node["from_table"]):
            limits += _limits(node)[:1]
    return frozenset(str(key) for keys in limits for key in keys) if 0 < scans == len(limits) else None


def _is_scan(table: Node) -> bool:
    return table.get("type") == "BASE_TABLE" and _folded(table["table_name"]) == "user_fields"


def _limits(select: Node) -> list[set[str | None]]:
    """Return the keys that each condition of the form ``key = 'email'`` or ``key IN ('email')`` allows."""
    table, condition = select["from_table"], select["where_clause"] or {}
    names = ["key"], [_folded(table["alias"] or table["table_name"]), "key"]
    limits = []
    for part in condition["children"] if condition.get("type") == "CONJUNCTION_AND" else [condition]:
        is_equal = part.get("type") == "COMPARE_EQUAL"
        operands = [part["left"], part["right"]] if is_equal else part.get("children", [])
        if (is_equal or part.get("type") == "COMPARE_IN") and not table["column_name_alias"]:
            texts = {_text(operand) for operand in operands[1:]}
            is_key = [_folded(name) for name in operands[0].get("column_names", [])] in names
            if is_key and None not in texts:
                limits.append(texts)
    return limits


def _replace_like(query: Node) -> None:
    """Replace LIKE, which can take exponential time, by regular expressions, which take linear time."""
    for node, _ in _nodes(query):
        if node.get("class") != "FUNCTION" or node["function_name"] not in LIKES:
            continue
        options, is_negated = LIKES[node["function_name"]]
        value, pattern = _arguments(node)
        signs = {"%": ".*", "_": "."}
        text = "".join(signs.get(sign, re.escape(sign)) for sign in _text(pattern) or "")
        arguments = [value, _constant(text, pattern), _constant(options, pattern)]
        matches = _function("regexp_full_match", arguments, node)
        if is_negated:
            operation = {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [{**matches, "alias": ""}]}
            matches = {"alias": node["alias"], "query_location": node["query_location"], **operation}
        _replace(node, matches)


def _keep_patterns(query: Node) -> None:
    """Keep DuckDB from replacing regular expressions by LIKE in turn."""
    for node, _ in _nodes(query):
        if _call(node) == "regexp_matches":
            text, pattern, *options = _arguments(node)
            kept = values.as_written(_text(pattern) or "", is_flagged=bool(options))
            _replace(node, _function("regexp_matches", [text, _constant(kept, pattern), *options], node))


def _shorten_searched(query: Node) -> None:
    """Search only the beginning of texts, since the engine cannot be interrupted within 2,048 of them."""
    for node, _ in list(_nodes(query)):
        if node.get("class") == "FUNCTION" and _folded(node["function_name"]) in SEARCHES:
            text, *others = _arguments(node)
            beginning = {**_function("left", [text, _constant(values.SEARCHED, node)], node), "alias": ""}
            _replace(node, _function(node["function_name"], [beginning, *others], node))


def _replace(node: Node, other: Node) -> None:
    node.clear()
    node.update(other)


def _function(name: str, arguments: list[Node], like: Node) -> Node:
    """Return a call in the place of another, in the form of DuckDB 1, which DuckDB 2 reads."""
    kept = {part: like[part] for part in like.keys() - {"arguments", "qualified_name"}}
    return {**kept, "function_name": name, "schema": "", "is_operator": False, "children": arguments}


def _constant(value: str | int, like: Node) -> Node:
    """Return a constant in the place of a node, in the same form."""
    kind = {"id": "VARCHAR" if isinstance(value, str) else "INTEGER", "type_info": None}
    return {
        "class": "CONSTANT",
        "type": "VALUE_CONSTANT",
        "alias": "",
        "query_location": like["query_location"],
        "value": {"type": kind, "is_null": False, "value": value},
    }


def _what(kind: str) -> str:
    """Return the words of a type in the syntax tree."""
    words = {
        "VALUE_PARAMETER": "a parameter",
        "LAMBDA": "a lambda",
        "SHOW_REF": "DESCRIBE",
        "RECURSIVE_CTE_NODE": "WITH RECURSIVE",
    }
    return words.get(kind, re.sub("^(VALUE|OPERATOR)_|_(NODE|MODIFIER)$", "", kind).replace("_", " "))


def _folded(name: str) -> str:
    """Return a name as DuckDB compares it: case-insensitive for ASCII only."""
    return name.lower() if name.isascii() else name


#: Aggregates that are also allowed over moving frames, where they are cheap per row.
OVER_FRAMES: Final = frozenset(
    {"count", "count_star", "count_if", "countif", "sum", "avg", "mean", "min", "max"}
)
_AGGREGATES: Final = OVER_FRAMES | {
    "median", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "bool_or", "bool_and",
    "any_value", "arg_max", "argmax", "max_by", "arg_min", "argmin", "min_by", "approx_count_distinct",
    "quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc", "first", "last",
}  # fmt: skip
_SCALARS: Final = frozenset({
    "abs", "ceil", "ceiling", "floor", "round", "sign", "sqrt", "ln", "log", "log2", "log10", "exp", "pow",
    "power", "greatest", "least", "nullif", "lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim",
    "length", "len", "char_length", "character_length", "substring", "substr", "left", "right",
    "starts_with", "prefix", "contains", "strpos", "instr", "position", "ends_with", "suffix", "split_part",
    "concat", "regexp_extract", "regexp_matches", "regexp_full_match", "json_extract_string", "row", "now",
    "today", "current_date", "current_timestamp", "date_trunc", "datetrunc", "date_diff", "datediff",
    "date_add", "date_part", "datepart", "strftime", "epoch", "epoch_ms", "year", "quarter", "month",
    "week", "weekofyear", "day", "dayofmonth", "dayofweek", "isodow", "dayofyear", "last_day", "hour",
    "minute", "second", "isfinite",
    # The parser writes intervals with these.
    "trunc", "to_years", "to_quarters", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes",
    "to_seconds", "to_milliseconds",
})  # fmt: skip
#: LIKE, NOT LIKE, ILIKE, NOT ILIKE: whether they ignore case, and whether they negate.
LIKES: Final = {"~~": ("s", False), "!~~": ("s", True), "~~*": ("si", False), "!~~*": ("si", True)}
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "//", "%", "**", "^", "||", "->>", "^@", *LIKES})

FUNCTIONS: Final = _AGGREGATES | _SCALARS | _OPERATORS
#: Functions whose second argument is a regular expression.
PATTERNED: Final = frozenset({"regexp_extract", "regexp_matches", "regexp_full_match"})
#: Functions whose time grows with the text that they search in, their first argument.
SEARCHES: Final = PATTERNED | {"contains", "strpos", "instr", "position", "split_part"}
#: Functions without parentheses, which the tree has as columns, besides the current date and time.
REFUSED_VALUES: Final = frozenset(
    {"current_catalog", "current_database", "current_role", "current_schema", "current_time", "current_user",
     "localtime", "localtimestamp", "session_user", "user"}
)  # fmt: skip
#: Window functions besides aggregates.
WINDOWS: Final = frozenset(
    f"WINDOW_{name}" for name in (
        "ROW_NUMBER", "RANK", "RANK_DENSE", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD",
        "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE",
    )
)  # fmt: skip

#: Allowed expressions: types by class.
EXPRESSIONS: Final = {
    "BETWEEN": frozenset({"COMPARE_BETWEEN", "COMPARE_NOT_BETWEEN"}),
    "CASE": frozenset({"CASE_EXPR"}),
    "CAST": frozenset({"OPERATOR_CAST"}),
    "COLUMN_REF": frozenset({"COLUMN_REF"}),
    "COMPARISON": frozenset(
        {"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO",
         "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_DISTINCT_FROM",
         "COMPARE_NOT_DISTINCT_FROM"}
    ),
    "CONJUNCTION": frozenset({"CONJUNCTION_AND", "CONJUNCTION_OR"}),
    "CONSTANT": frozenset({"VALUE_CONSTANT"}),
    "FUNCTION": frozenset({"FUNCTION"}),
    "OPERATOR": frozenset(
        {"COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL",
         "OPERATOR_NOT"}
    ),
    "STAR": frozenset({"STAR"}),
    "SUBQUERY": frozenset({"SUBQUERY"}),
    "TYPE": frozenset({"TYPE"}),
    "WINDOW": WINDOWS | {"WINDOW_AGGREGATE"},
}  # fmt: skip
#: Allowed queries, tables and clauses.
CLAUSES: Final = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "SUBQUERY",
     "DISTINCT_MODIFIER", "LIMIT_MODIFIER", "ORDER_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
     "DECIMAL_TYPE_INFO"}
)  # fmt: skip
JOINS: Final = frozenset({"REGULAR", "CROSS"})
#: Allowed types of casts and constants.
TYPES: Final = frozenset(
    {"VARCHAR", "CHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE",
     "DECIMAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "NULL"}
)  # fmt: skip
#: Other names of these types, which DuckDB 1 replaces itself.
_SYNONYMS: Final = frozenset(
    {"BPCHAR", "NVARCHAR", "STRING", "TEXT", "BOOL", "LOGICAL", "INT1", "INT2", "INT16", "SHORT", "INT",
     "INT4", "INT32", "INTEGRAL", "SIGNED", "INT8", "INT64", "LONG", "OID", "INT128", "FLOAT4", "REAL",
     "FLOAT8", "DEC", "NUMERIC", "DATETIME", "TIMESTAMP_US", "TIMESTAMPTZ"}
)  # fmt: skip
#: Types with modifiers.
_MODIFIED: Final = frozenset(
    {"BPCHAR", "CHAR", "DEC", "DECIMAL", "NUMERIC", "NVARCHAR", "STRING", "TEXT", "VARCHAR"}
)
#: Kinds of constants.
LITERALS: Final = frozenset({"BOOLEAN", "INTEGER", "NULL_LITERAL", "NUMERIC", "STRING"})
