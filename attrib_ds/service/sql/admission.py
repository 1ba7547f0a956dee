"""Validates users' SQL against an allow-list, and regenerates it from its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.filters.patterns import expanded_size, states
from attrib_ds.filters.predicates import LARGEST_PATTERNS
from attrib_ds.filters.values import LARGEST_PATTERN, MOST_STATES, SEARCHED
from attrib_ds.service.sql.parsing import Limits, Node, combined, limits_of, nodes_of, open_parser, refuse

#: Total number of tables read, counting a CTE at each reference: nested CTEs that refer to each other twice
#: grow exponentially.
_MOST_TABLES: Final = 32
# Repeated concatenation grows texts within one operation of the engine, which neither the memory limit nor an
# interrupt stops; the same holds for the other limits on texts below.
_MOST_JOINED: Final = 8
_LONGEST_LITERAL: Final = 1_024
_LONGEST_PATTERN: Final = 256
_LONGEST_FORMAT: Final = 64
_MOST_SEARCHES: Final = 20
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SIGNS: Final = re.compile(r"[-+*/%^~!<>=|&@]+")
_PLACEHOLDER: Final = {
    "class": "PARAMETER",
    "type": "VALUE_PARAMETER",
    "query_location": 0,
    "identifier": "value",
}


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
    Admitted(text='SELECT _id FROM users', columns={'users': ('_id',)}, tables=1, limits={})
    >>> admit("SELECT * FROM 'notes.csv'", {"users": ("_id",)})
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: sql: the table 'notes.csv' is not known; allowed: users
    """
    with open_parser() as parser:
        query = parser.parse(sql)
        _check_all(query)
        _replace_like(query)
        _shorten_searched(query)
        text = parser.write(query)
        # What runs is what is checked.
        again = parser.parse(text)
        _check_all(again)
    reads = _Reads(views)
    scans = reads.of(again["node"], {})
    return Admitted(text, _columns(again, reads.limits, views), scans, combined(reads.limits))


def without_literals(sql: str) -> str:
    """Replace the literals in a query, which may be personal; empty if it cannot be parsed.

    Examples
    --------
    >>> without_literals("SELECT _id FROM user_fields WHERE key = 'anna@example.com' LIMIT 5 -- Anna")
    'SELECT _id FROM user_fields WHERE ("key" = $value) LIMIT $value'
    """
    try:
        with open_parser() as parser:
            query = parser.parse(sql)
            return parser.write(_without_literals(query))
    except InvalidRequest:
        return ""


def _without_literals(tree: Node) -> Node:
    for node, _ in nodes_of(tree):
        if node.get("class") == "CONSTANT":
            alias = node["alias"]
            node.clear()
            node.update(_PLACEHOLDER, alias=alias)
        for name, part in node.items():
            # A quoted identifier may contain anything.
            if isinstance(part, str) and "id" not in node:
                node[name] = _plain(part)
            elif isinstance(part, list):
                node[name] = [_plain(item) if isinstance(item, str) else item for item in part]
    return tree


def _plain(name: str) -> str:
    is_plain = not name or _NAME.fullmatch(name) or _SIGNS.fullmatch(name)
    return name if is_plain else "_"


def _check_all(query: Node) -> None:
    joined = searches = size = 0
    compared = _compared(query)
    tables = _table_names(query)
    for node, _ in nodes_of(query):
        if "class" in node:
            _check_expression(node)
            if node["class"] == "FUNCTION" and node["function_name"] == "row" and id(node) not in compared:
                refuse("a row is only allowed beside IN or a comparison")
            if node["class"] == "COLUMN_REF":
                _check_whole_table(node["column_names"], tables)
            joined += _joined(node)
            searches += _is_function(node, SEARCHES)
            size += expanded_size(_pattern_of(node)) if _is_function(node, PATTERNED) else 0
        elif isinstance(node.get("type"), str):
            _check_clause(node)
        elif "id" in node and node["id"] not in TYPES:
            refuse(f"the type {str(node['id'])[:40]} is not allowed")
        for name in _names(node):
            if not _NAME.fullmatch(name):
                refuse(f"the name {name[:80]!r} is not allowed; allowed: letters, digits and underscores")
        if node.get("sample") is not None:
            refuse("SAMPLE is not allowed")
    if joined > _MOST_JOINED:
        refuse(f"texts are joined too often; allowed: {_MOST_JOINED} of them in all")
    if searches > _MOST_SEARCHES:
        refuse(f"texts are searched too often; allowed: {_MOST_SEARCHES} patterns and substrings")
    if size > LARGEST_PATTERNS:
        refuse(f"the patterns are too large together; allowed: {LARGEST_PATTERNS:,} characters and classes")


def _compared(query: Node) -> set[int]:
    """Return the identities of the operands of comparisons and IN, which alone may be rows."""
    operands: list[Node] = []
    for node, _ in nodes_of(query):
        if node.get("class") == "COMPARISON":
            operands += [node["left"], node["right"]]
        elif node.get("class") == "SUBQUERY" and node["child"] is not None:
            operands.append(node["child"])
        elif node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN"):
            operands += node["children"]
    return {id(operand) for operand in operands}


def _table_names(query: Node) -> set[str]:
    """Return the names under which the query reads tables."""
    names = set()
    for node, _ in nodes_of(query):
        if "class" not in node and isinstance(node.get("type"), str):
            names.add(_folded(node.get("alias") or node.get("table_name") or ""))
    return names - {""}


def _check_whole_table(names: list[str], tables: set[str]) -> None:
    # As a value, a table is a row of all its columns, whose text joins them.
    if (len(names) == 1 and _folded(names[0]) in tables) or (len(names) == 2 and _folded(names[0]) == "main"):
        refuse(f"{names[-1]!r} names a table, not a column; rename the table or the column")


def _names(node: Node) -> list[str]:
    """Return the name that an object of the tree gives to a table."""
    if isinstance(node.get("value"), dict) and "query" in node["value"]:
        return [node["key"]]
    return [node["alias"]] if "class" not in node and node.get("alias") else []


def _check_clause(node: Node) -> None:
    kind = node["type"]
    if kind == "TABLE_FUNCTION":
        refuse(f"the function {str(node['function'].get('function_name'))[:40]!r} is not allowed as a table")
    if kind == "RECURSIVE_CTE_NODE":
        refuse("WITH RECURSIVE is not allowed")
    if kind not in CLAUSES:
        refuse(f"{_what(kind)} is not allowed")
    if kind == "BASE_TABLE" and (node["schema_name"] or node["catalog_name"]):
        name = ".".join(
            part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part
        )
        refuse(f"the name {name[:80]!r} has too many parts; quote names that contain dots")
    if kind == "BASE_TABLE" and node.get("at_clause") is not None:
        refuse("AT is not allowed")
    if kind == "JOIN" and node["ref_type"] not in JOINS:
        refuse(f"{_what(node['ref_type'])} JOIN is not allowed")
    if kind == "SELECT_NODE" and len(node["group_sets"]) > 1:
        refuse("GROUPING SETS is not allowed")


def _check_expression(node: Node) -> None:
    """Refuse a disallowed expression."""
    kind = node["class"]
    if node.get("type") not in EXPRESSIONS.get(kind, ()):
        refuse(f"{_what(str(node.get('type')))} is not allowed")
    if kind == "CONSTANT" and len(str(node["value"].get("value", ""))) > _LONGEST_LITERAL:
        refuse(f"a text is too long; allowed: {_LONGEST_LITERAL:,} characters")
    elif kind == "COLUMN_REF":
        _check_column(node["column_names"])
    elif kind == "STAR" and (node["expr"] is not None or node["columns"]):
        refuse("COLUMNS is not allowed")
    elif kind == "WINDOW":
        _check_window(node)
    elif kind == "FUNCTION":
        _check_function(node)


def _check_column(names: list[str]) -> None:
    if len(names) > 2:
        refuse(f"the name {'.'.join(names)[:80]!r} has too many parts; quote names that contain dots")
    if len(names) == 1 and _folded(names[0]) in REFUSED_VALUES:
        refuse(f"{names[0]} is not allowed")


def _check_function(node: Node) -> None:
    name, arguments = _folded(node["function_name"]), node["children"]
    if name not in FUNCTIONS or node["catalog"] or node["schema"] not in {"", "main"}:
        refuse(f"the function {name[:40]!r} is not allowed")
    if node["export_state"]:
        refuse("EXPORT_STATE is not allowed")
    if name in {"min", "max"} and len(arguments) > 1:
        refuse(f"{name} with two arguments is not allowed")
    if name in {"arg_max", "argmax", "max_by", "arg_min", "argmin", "min_by"} and len(arguments) > 2:
        refuse(f"{name} with three arguments is not allowed")
    if name == "count" and node["distinct"] and len(arguments) > 1:
        refuse("count(DISTINCT …) of several values is not allowed")
    if name in LIKES or name in PATTERNED:
        _check_pattern(name, arguments)
    if name in {"json_extract_string", "->>"}:
        path = _text_of(arguments[1]) if len(arguments) > 1 else None
        # The members of members of an object are many times its text.
        if path is None or "*" in path:
            refuse("the path of a member must be a text in quotes without *")
    if name == "strftime":
        form = _text_of(arguments[1]) if len(arguments) > 1 else None
        if form is None or len(form) > _LONGEST_FORMAT:
            refuse(f"the format of a date must be a text of at most {_LONGEST_FORMAT} characters in quotes")


def _check_window(node: Node) -> None:
    name = _folded(node["function_name"])
    if node["type"] == "WINDOW_AGGREGATE" and name not in OVER_FRAMES:
        refuse(f"the function {name[:40]!r} is not allowed over a window")
    if node["catalog"] or node["schema"] not in {"", "main"}:
        refuse(f"the function {name[:40]!r} is not allowed")
    if node["exclude_clause"] != "NO_OTHER":
        refuse("EXCLUDE is not allowed in a window")
    if node["distinct"]:
        refuse("DISTINCT is not allowed over a window")
    if name in {"min", "max"} and len(node["children"]) > 1:
        refuse(f"{name} with two arguments is not allowed")


def _check_pattern(name: str, arguments: list[Node]) -> None:
    pattern = _text_of(arguments[1]) if len(arguments) > 1 else None
    if pattern is None:
        refuse("a pattern must be a text in quotes")
    if len(pattern) > _LONGEST_PATTERN:
        refuse(f"a pattern is too long; allowed: {_LONGEST_PATTERN} characters")
    if name not in PATTERNED:
        return
    if expanded_size(pattern) > LARGEST_PATTERN:
        refuse(f"a pattern repeats too often; allowed: {LARGEST_PATTERN} characters and classes written out")
    flags = "(?i)" if len(arguments) > 2 and "i" in str(_text_of(arguments[-1])) else ""
    read = f"^(?:{pattern})" if name == "regexp_full_match" else pattern
    if states(flags + read, MOST_STATES) > MOST_STATES:
        refuse("a pattern can match in too many ways at once; begin it with ^, or repeat with * or +")


def _pattern_of(node: Node) -> str:
    return _text_of(node["children"][1]) or ""


def _text_of(node: Node) -> str | None:
    """Return the text of a constant, None for anything else."""
    is_text = node["class"] == "CONSTANT" and node["value"]["type"]["id"] == "VARCHAR"
    return str(node["value"]["value"]) if is_text and not node["value"]["is_null"] else None


def _joined(node: Node) -> int:
    return len(node["children"]) if _is_function(node, {"concat", "||", "row"}) else 0


def _is_function(node: Node, names: Collection[str]) -> bool:
    return node["class"] == "FUNCTION" and _folded(node["function_name"]) in names


class _Reads:
    """The views that a query reads.

    Parameters
    ----------
    views : mapping of str to tuple of str
        Columns by view.

    Attributes
    ----------
    limits : dict of str to list
        Limits of columns by view, in each place where it is read.
    """

    def __init__(self, views: Mapping[str, tuple[str, ...]]) -> None:
        self._views = views
        self.limits: dict[str, list[Limits]] = {}

    def of(self, node: object, ctes: Mapping[str, int]) -> int:
        """Count the tables that a part of the query reads, CTEs once per reference."""
        total = 0
        if isinstance(node, list):
            total = sum(self.of(member, ctes) for member in node)
        elif isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                total = self._table(node, ctes)
            elif "cte_map" in node:
                ctes = dict(ctes)
                for entry in node["cte_map"]["map"]:
                    # A CTE sees those before it; one without tables is still computed at each reference.
                    ctes[_folded(entry["key"])] = max(self.of(entry["value"], ctes), 1)
                total = sum(self.of(member, ctes) for name, member in node.items() if name != "cte_map")
                self._limit(node, ctes)
            else:
                total = sum(self.of(member, ctes) for member in node.values())
        if total > _MOST_TABLES:
            refuse(f"it reads too many tables; allowed: {_MOST_TABLES}, each CTE as often as it is named")
        return total

    def _table(self, table: Node, ctes: Mapping[str, int]) -> int:
        name = _folded(table["table_name"])
        if name in ctes:
            return ctes[name]
        if name not in self._views:
            shown = table["table_name"]
            shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
            refuse(
                f"the table {shown!r} is not known{closest(name, self._views)}; "
                f"allowed: {', '.join(sorted(self._views))}"
            )
        return 1

    def _limit(self, query: Node, ctes: Mapping[str, int]) -> None:
        for table, limits in limits_of(query, self._views):
            name = _folded(table["table_name"])
            if name not in ctes:
                self.limits.setdefault(name, []).append(limits)


def _columns(
    query: Node, read: Mapping[str, object], views: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the columns by view that a query may read."""
    takes_all, named = False, set()
    for node, _ in nodes_of(query):
        takes_all = takes_all or node.get("class") == "STAR"
        for name in (*node.get("column_names", ()), *node.get("using_columns", ())):
            named.add(_folded(name))
    return {
        view: tuple(
            column
            for position, column in enumerate(views[view])
            # A view needs at least one column.
            if takes_all or position == 0 or _folded(column) in named
        )
        for view in sorted(read)
    }


def _replace_like(query: Node) -> None:
    """Replace LIKE, which can take exponential time, by regular expressions, which take linear time."""
    for node, _ in nodes_of(query):
        if node.get("class") != "FUNCTION" or node["function_name"] not in LIKES:
            continue
        options, is_negated = LIKES[node["function_name"]]
        value, pattern = node["children"]
        text = "".join(
            {"%": ".*", "_": "."}.get(character, re.escape(character))
            for character in pattern["value"]["value"]
        )
        matches = {
            **node,
            "function_name": "regexp_full_match",
            "is_operator": False,
            "children": [value, _constant(pattern, text), _constant(pattern, options)],
        }
        if is_negated:
            operation = {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [{**matches, "alias": ""}]}
            matches = {"alias": node["alias"], "query_location": node["query_location"], **operation}
            node.clear()
        node.update(matches)


def _shorten_searched(query: Node) -> None:
    """Search only the beginning of texts, since the engine cannot be interrupted within 2,048 of them."""
    for node, _ in list(nodes_of(query)):
        if node.get("class") == "FUNCTION" and _folded(node["function_name"]) in SEARCHES:
            text, *others = node["children"]
            length = {
                "class": "CONSTANT",
                "type": "VALUE_CONSTANT",
                "alias": "",
                "query_location": node["query_location"],
                "value": {"type": {"id": "INTEGER", "type_info": None}, "is_null": False, "value": SEARCHED},
            }
            shortened = {
                **node,
                "function_name": "left",
                "schema": "",
                "is_operator": False,
                "alias": "",
                "children": [text, length],
            }
            node["children"] = [shortened, *others]


def _constant(pattern: Node, text: str) -> Node:
    return {**pattern, "value": {**pattern["value"], "value": text}}


def _what(kind: str) -> str:
    """Return the words of a type in the syntax tree."""
    words = {"PARAMETER": "a parameter", "LAMBDA": "a lambda", "SHOW_REF": "DESCRIBE"}
    plain = (
        kind.removeprefix("VALUE_").removeprefix("OPERATOR_").removesuffix("_NODE").removesuffix("_MODIFIER")
    )
    return words.get(plain, plain.replace("_", " "))


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
