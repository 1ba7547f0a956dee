"""Time to validate SQL grows with its length, whatever it says; what is admitted keeps its meaning."""

import time
from contextlib import suppress

import duckdb
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.sql import FUNCTIONS, admit, without_literals
from attrib_ds.service.users.sandbox import VIEWS

#: Seconds of processor time of any query.
LONGEST = 1.0
MOST = 8_192

#: Forms that a query can nest or repeat: what opens, what is inside, what closes.
FORMS = {
    "array": ("ARRAY[", "1", "]"),
    "list": ("[", "1", "]"),
    "struct": ("{'a': ", "1", "}"),
    "comprehension": ("[x FOR x IN ", "[1]", " IF x]"),
    "lambda": ("list_transform(", "[1]", ", x -> x)"),
    "parentheses": ("(", "1", ")"),
    "not": ("NOT ", "true", ""),
    "minus": ("- ", "1", ""),
    "plus": ("1 + ", "1", ""),
    "and": ("a AND ", "a", ""),
    "or": ("(a OR ", "a", " AND a)"),
    "concat": ("'a' || ", "'a'", ""),
    "call": ("abs(", "1", ")"),
    "length": ("length(", "'x'", ")"),
    "floor": ("floor(1, ", "1", ")"),
    "date": ("date(", "'x'", ")"),
    "uuid": ("uuid(", "'x'", ")"),
    "timestamp": ("timestamp(1, ", "'x'", ")"),
    "cast": ("CAST(", "1", " AS INT)"),
    "try_cast": ("TRY_CAST(", "1", " AS INT)"),
    "colons": ("", "1", "::INT"),
    "index": ("", "x", "[1]"),
    "dots": ("", "x", ".y"),
    "between": ("1 BETWEEN ", "1", " AND 1"),
    "in": ("1 IN (", "1", ")"),
    "not_in": ("1 NOT IN (", "1", ", 2)"),
    "interval": ("INTERVAL (", "1", ") DAY"),
    "extract": ("extract(day FROM ", "x", ")"),
    "coalesce": ("coalesce(", "1", ", 1)"),
    "ifnull": ("ifnull(", "1", ", 1)"),
    "nullif": ("nullif(", "1", ", 1)"),
    "if": ("if(", "true", ", 1, 1)"),
    "case_when": ("CASE WHEN ", "true", " THEN 1 END"),
    "case_operand": ("CASE ", "1", " WHEN 1 THEN 2 WHEN 3 THEN 4 END"),
    "case_else": ("CASE 1 WHEN 1 THEN 2 ELSE ", "1", " END"),
    "case_in_name": ("CASE t.when + ", "1", " WHEN 1 THEN 2 WHEN 3 THEN 4 END"),
    "distinct_from": ("1 IS DISTINCT FROM ", "1", ""),
    "collate": ("", "x", " COLLATE NOCASE"),
    "at_time_zone": ("", "x", " AT TIME ZONE 'UTC'"),
    "json": ("", "x", " ->> 'a'"),
    "similar": ("x SIMILAR TO ", "'a'", ""),
    "like": ("(x LIKE ", "'a'", ")"),
    "any": ("1 = ANY (SELECT ", "1", ")"),
    "exists": ("EXISTS (SELECT ", "1", ")"),
    "scalar": ("(SELECT ", "1", ")"),
    "windows": ("sum(", "1", ") OVER (ORDER BY 1)"),
    "filters": ("sum(1) FILTER (WHERE ", "true", ")"),
    "unpacked": ("UNPACK(", "COLUMNS(*)", ")"),
    "columns": ("COLUMNS(", "'a'", ")"),
    "row": ("ROW(", "1", ", 1)"),
    "map": ("MAP {1: ", "1", "}"),
    "values": ("(VALUES (", "1", "))"),
    "quantified": ("1 < ALL (", "[1]", ")"),
}
#: The same in the FROM clause.
TABLES = {
    "subquery": ("(SELECT * FROM ", "users", ")"),
    "join": ("users JOIN ", "users", ""),
    "parameters": ("users JOIN $1 t JOIN ", "$1 t", ""),
    "comma": ("users, ", "users", ""),
    "brackets": ("(", "users", ")"),
    "using": ("users JOIN (", "users", ") USING (_id)"),
    "natural": ("users NATURAL JOIN ", "users", ""),
    "lateral": ("users, LATERAL (SELECT * FROM ", "users", ")"),
    "pivot": ("(PIVOT ", "users", " ON _id IN ('a', 'b') USING count(*))"),
    "pivoted": ("", "users", " PIVOT (count(*) FOR _id IN ('a', 'b'))"),
    "unpivoted": ("", "users", " UNPIVOT (a FOR b IN (c, d))"),
    "function": ("range(", "1", ")"),
    "values": ("(VALUES (1), (2)), ", "users", ""),
    "union": ("(SELECT 1 UNION SELECT * FROM ", "users", ")"),
    "with": ("(WITH a AS (SELECT 1) SELECT * FROM a, ", "users", ")"),
    "sample": ("(SELECT * FROM ", "users", " USING SAMPLE 10%)"),
}
#: Texts that name a part of themselves again and again.
COPIES = {
    "operand": "SELECT CASE f(" + ",".join("1" * 1_900) + ")" + " WHEN 1 THEN 2" * 280 + " END",
    "operands": "SELECT " + ",".join(["CASE " + "+".join("1" * 30) + " WHEN 1 THEN 2" * 60 + " END"] * 8),
    "window": "SELECT " + ",".join(["sum(x) OVER w"] * 280) + " FROM t WINDOW w AS (PARTITION BY f("
    + ",".join("1" * 1_900) + "))",
    "cube": "SELECT " + ",".join(["(SELECT 1 GROUP BY CUBE(a,b,c,d,e,f,g,h,i,j,k,l,m,n,o))"] * 120),
    "rollup": "SELECT 1 GROUP BY " + ",".join(["ROLLUP(a,b,c,d,e,f,g,h)"] * 5),
    "sets": "SELECT 1 GROUP BY " + ",".join(["GROUPING SETS (a,b,(),(a,b))"] * 8),
    "constant_ctes": "WITH c0 AS (SELECT 1), "
    + ", ".join(f"c{n} AS (SELECT * FROM c{n - 1} UNION ALL SELECT * FROM c{n - 1})" for n in range(1, 60))
    + " SELECT * FROM c59",
    "unions": "SELECT 1" + " UNION SELECT 1" * 500,
    "ones": "SELECT " + ",".join("1" * 4_000),
    "quotes": "SELECT " + "'" * 8_001,
    "comments": "SELECT 1 " + "/*" * 4_000,
    "dollars": "SELECT " + "$a" * 4_000,
    "orders": "SELECT 1 ORDER BY " + ",".join("1" * 4_000),
    "names": "SELECT 1 FROM " + ".".join("a" * 4_000),
}  # fmt: skip


def seconds(sql):
    """Return the processor time to validate a query and to prepare it for the audit log."""
    before = time.thread_time()
    with suppress(InvalidRequest):
        admit(sql, VIEWS)
    without_literals(sql)
    return time.thread_time() - before


def nested(form, times):
    opening, inside, closing = form
    return opening * times + inside + closing * times


@pytest.mark.large
@pytest.mark.slow
def test_time_to_validate_does_not_explode_with_nested_expressions():
    for form in FORMS:
        for times in (5, 24, MOST // sum(map(len, FORMS[form])) - 20):
            assert seconds("SELECT " + nested(FORMS[form], times)) < LONGEST, times


@pytest.mark.large
@pytest.mark.slow
def test_time_to_validate_does_not_explode_with_nested_tables():
    for form in TABLES:
        for times in (5, 24, MOST // sum(map(len, TABLES[form])) - 20):
            assert seconds("SELECT 1 FROM " + nested(TABLES[form], times)) < LONGEST, times


@pytest.mark.large
@pytest.mark.slow
def test_time_to_validate_does_not_explode_with_copies():
    for text in COPIES:
        assert seconds(COPIES[text]) < LONGEST, text


@pytest.mark.parametrize(
    ("sql", "problem"),
    {
        "SELECT ARRAY[1]": "a list is not allowed",
        "SELECT * FROM users JOIN $1 t JOIN $1 u": "a parameter is not allowed",
        "SELECT 1 GROUP BY CUBE (a, b)": "CUBE is not allowed",
        "SELECT CASE CASE 1 WHEN 1 THEN 2 END WHEN 2 THEN 3 END": "operand of a CASE",
        "SELECT CASE t.when + CASE 1 WHEN 1 THEN 2 END WHEN 2 THEN 3 END": "operand of a CASE",
        "SELECT CASE (SELECT 1 AS when) + CASE 1 WHEN 1 THEN 2 END WHEN 2 THEN 3 END": "operand of a CASE",
        COPIES["operand"]: "operand of a CASE",
        COPIES["window"]: "named windows",
        COPIES["constant_ctes"]: "reads too many tables",
        "SELECT session_user": "session_user is not allowed",
        "SELECT current_schema": "current_schema is not allowed",
        "SELECT row(_id, _id)::VARCHAR FROM users": "a row is only allowed beside IN or a comparison",
        "SELECT 1 IN (row(1, 2)::VARCHAR, 'a')": "a row is only allowed beside IN or a comparison",
        "SELECT row(1, 2) = row(1, row(1, 2)) FROM users": "a row is only allowed beside IN or a comparison",
        f"SELECT (_id{', _id' * 8}) IN (SELECT 1) FROM users": "texts are joined too often",
        "SELECT users::VARCHAR FROM users": "'users' names a table",
        "SELECT main.users FROM users": "'users' names a table",
        "SELECT max(U) FROM users u": "'U' names a table",
        "WITH w AS (SELECT * FROM users) SELECT w FROM w": "'w' names a table",
        "SELECT t FROM (SELECT 1 AS a) t": "'t' names a table",
        "SELECT t FROM (VALUES (1)) t(a)": "'t' names a table",
        "SELECT event ->> '$..*' FROM events": "without [*]",
        "SELECT json_extract_string(event, _id) FROM events": "a text in quotes",
        "SELECT regexp_matches(_id, '(?:.?x?){200}') FROM users": "repeats too often",
        "SELECT 1 FROM users WHERE " + " OR ".join(["contains(_id, 'a')"] * 21): "searched too often",
        "SELECT 1 FROM users WHERE " + " OR ".join([f"regexp_matches(_id, '{'a' * 250}')"] * 10): "together",
    }.items(),
    ids=range(26),
)
def test_forms_that_grow_are_refused(sql, problem):
    with pytest.raises(InvalidRequest, match=problem):
        admit(sql, VIEWS)


LEVELS = {
    "ctes": "WITH t0 AS (SELECT _id, eventCount AS a FROM users){}SELECT _id FROM t12 WHERE a > 1".format(
        "".join(
            f", t{n} AS (SELECT _id, CASE WHEN a > 1 THEN a ELSE a END AS a FROM t{n - 1})" for n in range(1, 13)
        )
    ),
    "subqueries": "SELECT _id FROM "
    + "(SELECT _id, CASE WHEN a > 1 THEN a ELSE a END AS a FROM " * 12
    + "(SELECT _id, eventCount AS a FROM users)"
    + ")" * 12
    + " WHERE a > 1",
    "set operations": "SELECT _id FROM "
    + "(SELECT _id, a FROM users SEMI JOIN users x USING (_id), (SELECT 1 AS a) UNION ALL SELECT _id, a + a + a FROM " * 12
    + "(SELECT _id, eventCount AS a FROM users)"
    + ")" * 12
    + " WHERE a > 1",
    "lateral aliases": "SELECT _id, eventCount AS a0"
    + "".join(f", a{n - 1} + a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 13))
    + " FROM users WHERE a12 > 1",
    "repeated names": "SELECT _id FROM "
    + "(SELECT _id, 1 AS a, a_1 + a_1 + a_1 AS a FROM " * 12
    + "(SELECT _id, 1 AS a, eventCount AS a FROM users)"
    + ")" * 12
    + " WHERE a_1 > 1",
    "renamed columns": "SELECT b FROM "
    + "(SELECT a, b + b + b FROM " * 12
    + "(SELECT _id, eventCount FROM users) t(a, b)"
    + ") t(a, b)" * 12,
    "replaced columns": "SELECT _id FROM "
    + "(SELECT * REPLACE (eventCount * eventCount + eventCount AS eventCount) FROM " * 12
    + "users"
    + ")" * 12
    + " WHERE eventCount > 1",
}  # fmt: skip


@pytest.mark.parametrize("form", LEVELS)
def test_columns_that_multiply_through_inner_queries_are_refused(form):
    sql = LEVELS[form]
    with pytest.raises(InvalidRequest, match="more than 10,000 terms once"):
        admit(sql, VIEWS)


def test_levels_of_plain_columns_and_of_aggregates_are_admitted():
    ctes = "WITH t0 AS (SELECT _id, eventCount AS a FROM users)"
    for column in ("a", "max(CASE WHEN a > 1 THEN a ELSE a END) OVER (PARTITION BY _id)", "a + 1"):
        levels = "".join(f", t{n} AS (SELECT _id, {column} AS a FROM t{n - 1})" for n in range(1, 6))
        assert admit(f"{ctes}{levels} SELECT _id FROM t5 WHERE a > 1", VIEWS).text, column


def test_long_queries_are_admitted():
    for sql in [
        "SELECT " + "(" * 64 + "1" + ")" * 64,
        "SELECT _id FROM users WHERE " + "eventCount > 0 AND " * 300 + "true",
        "SELECT CASE eventCount WHEN 1 THEN _id WHEN 2 THEN CASE 1 WHEN 1 THEN _id END END FROM users",
        "SELECT current_date, current_timestamp",
        "SELECT _id FROM users AS case_when WHERE case_when.eventCount = 1",
        "SELECT _id FROM users WHERE (_id, eventCount) IN (SELECT userId, 1 FROM events)",
        "SELECT _id FROM users WHERE (_id, eventCount) = ('a', 1)",
        "SELECT _id FROM users WHERE regexp_matches(_id, '(?i)a[^A]{12}b')",
        "SELECT _id FROM users WHERE regexp_matches(_id, 'a[^A]{12}b', 'i')",
        "SELECT _id FROM users WHERE regexp_full_match(_id, 'a.{12}b')",
    ]:
        assert admit(sql, VIEWS).text, sql


@pytest.mark.parametrize(
    "arguments", ["'(?s)a.*a.*z'", "'a.*a.*z', 's'", "'a(?s:.)*a.*z', 's' || ''", r"'(?s)a.*a.*\Qz'"]
)
def test_patterns_are_not_turned_into_like(arguments):
    text = admit(f"SELECT v FROM s WHERE Regexp_Matches(v, {arguments})", {"s": ("v",)}).text
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE s AS SELECT unnest(['a' || chr(10) || 'az', 'az', 'zaa', NULL]) AS v"
        )
        assert connection.execute(text).fetchall() == [("a\naz",)]
        ((_, plan),) = connection.execute(f"EXPLAIN {text}").fetchall()
        assert "regexp_matches" in plan
        assert "~~" not in plan


def test_the_largest_patterns_stay_allowed():
    for pattern in ["(?i)" + "a" * 252, "(?s)" + "a" * 60 + "b?" * 6, "(?s)" + "ab?" * 12]:
        assert admit(f"SELECT _id FROM users WHERE regexp_matches(_id, '{pattern}')", VIEWS).text, pattern


def test_texts_are_searched_to_the_4096th_character():
    for condition in [
        "regexp_matches(v, 'z')",
        "v LIKE '%z%'",
        "contains(v, 'z')",
        "strpos(v, 'z') > 0",
        "split_part(v, 'z', 2) = 'y'",
    ]:
        text = admit(f"SELECT n FROM s WHERE {condition}", {"s": ("n", "v")}).text
        with duckdb.connect() as connection:
            connection.execute(
                "CREATE TABLE s AS SELECT n, repeat('é', n) || 'zy' AS v FROM (VALUES (4094), (4096)) t(n)"
            )
            assert connection.execute(text).fetchall() == [(4094,)], condition


def test_allowed_functions_exist():
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    # The parser rewrites these, or they have no parentheses.
    rewritten = {
        "current_date",
        "current_timestamp",
        "percentile_cont",
        "percentile_disc",
        "nullif",
        "count_star",
    }
    assert FUNCTIONS - rewritten - {name for (name,) in rows} == set()


WORDS = st.sampled_from([
    "SELECT", "FROM", "users", "events", "WHERE", "(", ")", "(", ")", ",", "'a'", "1", "1.5", "_id", "userId", "AND",
    "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "END", "JOIN", "ON", "USING", "WITH", "AS", "UNION", "ALL", "GROUP BY",
    "ORDER BY", "LIMIT", "OVER", "PARTITION BY", "WINDOW", "w", "IN", "EXISTS", "BETWEEN", "IS", "NULL", "LIKE", "*",
    "+", "-", "||", "::", "INT", "[", "]", "{", "}", "$1", "?", ";", ".", "->", "->>", "count(*)", "sum(", "CAST(",
    "INTERVAL", "DAY", "DISTINCT", "FILTER", "HAVING", "QUALIFY", "VALUES", "PIVOT", "LATERAL", "--", "/*", "*/", "'",
    '"', "é", "\n", "ARRAY[", "EXTRACT(", "ROWS", "PRECEDING", "RECURSIVE", "COLUMNS(", "LAMBDA", "#1", "1e999", "x'",
])  # fmt: skip


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(max_examples=300)
@given(
    st.lists(WORDS, max_size=60),
    st.sampled_from(["SELECT ", "SELECT _id FROM users ", "WITH ", "FROM ", "("]),
)
def test_any_words_are_admitted_or_refused_in_time(words, start):
    assert seconds(start + " ".join(words)) < LONGEST


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(FORMS)), st.integers(1, 12)), min_size=1, max_size=8),
    st.sampled_from(sorted(TABLES)),
    st.integers(0, 8),
)
def test_forms_within_forms_take_no_longer(forms, table, times):
    text = "1"
    for form, repeated in forms:
        opening, _, closing = FORMS[form]
        text = opening * repeated + text + closing * repeated
    assert seconds(f"SELECT {text} FROM {nested(TABLES[table], times)}"[:MOST]) < LONGEST


COLUMNS = ("a", "b", "t.a")


def expressions():
    leaves = st.sampled_from(["1", "2.5", "NULL", "true", "'x'", "DATE '2025-01-31'", *COLUMNS])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(
                inner, st.sampled_from(["+", "-", "*", "=", "<>", "<", ">=", "AND", "OR", "||"]), inner
            ).map(" ".join),
            inner.map(lambda part: f"({part})"),
            inner.map(lambda part: f"NOT {part}"),
            inner.map(lambda part: f"- {part}"),
            inner.map(lambda part: f"{part} IS NULL"),
            st.tuples(inner, inner).map(lambda parts: f"{parts[0]} IN ({parts[1]}, 3)"),
            st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} BETWEEN {p[1]} AND {p[2]})"),
            st.tuples(inner, inner, inner).map(lambda p: f"CASE {p[0]} WHEN {p[1]} THEN {p[2]} ELSE 1 END"),
            st.tuples(inner, inner).map(lambda parts: f"CASE WHEN {parts[0]} THEN {parts[1]} END"),
            inner.map(lambda part: f"coalesce({part}, 1)"),
            inner.map(lambda part: f"CAST({part} AS VARCHAR) NOT LIKE '%1_'"),
            inner.map(lambda part: f"CAST({part} AS VARCHAR) ILIKE '%X%'"),
            inner.map(lambda part: f"(SELECT max({part}) FROM s AS t)"),
            inner.map(lambda part: f"EXISTS (SELECT 1 FROM s AS u WHERE u.a = {part})"),
        ),
        max_leaves=6,
    )


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(max_examples=300)
@given(
    expressions(),
    st.sampled_from(["", " WHERE {0}", " ORDER BY {0}, a LIMIT 2", " GROUP BY ALL HAVING true"]),
)
def test_admitted_queries_keep_their_meaning(expression, clause):
    sql = f"SELECT {expression} AS c FROM s AS t" + clause.format(expression)
    try:
        text = admit(sql, {"s": ("a", "b")}).text
    except InvalidRequest as refused:
        # Only these forms are refused, or are not SQL.
        event(refused.message[:40])
        return
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE s AS SELECT * FROM (VALUES (1, 2), (2, NULL), (21, 1)) AS v(a, b)")
        assert outcome(connection, text) == outcome(connection, sql)


def outcome(connection, sql):
    try:
        return sorted(map(repr, connection.execute(sql).fetchall()))
    except duckdb.Error as error:
        return type(error)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT _id FROM users LIMIT 10%",
        "SELECT " + "(" * 65 + "1" + ")" * 65,
        "SELECT 1 WHERE " + "true AND (" * 70 + "true" + ")" * 70,
        "SELECT CAST(_id AS json) FROM users",
        "SELECT CAST(_id AS timestamp(3)) FROM users",
        "SELECT CAST(_id AS main.varchar) FROM users",
        "SELECT CAST(_id AS varchar[]) FROM users",
        "SELECT _id FROM a.b.c.users",
        "SELECT system.main.abs(1) FROM users",
        "SELECT _id FROM users AT (VERSION => 1)",
    ],
)
def test_g260_every_release_of_duckdb_refuses(sql):
    with pytest.raises(InvalidRequest, match="sql: "):
        admit(sql, VIEWS)


@pytest.mark.parametrize("name", ["text", "bool", "int8", "numeric(5, 1)", "varchar(10)", "timestamptz"])
def test_g260_names_of_types_are_admitted_by_every_release_of_duckdb(name):
    assert admit(f"SELECT _id FROM users WHERE CAST(_id AS {name}) IS NOT NULL", VIEWS).tables == 1
