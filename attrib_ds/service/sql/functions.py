"""Allow-list of SQL syntax and functions for users' queries, by their names in DuckDB's syntax tree."""

from __future__ import annotations

from typing import Final

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
