"""SQL of users: what it may say, what it answers, and what it cannot do."""

from __future__ import annotations

import sys
import threading

import pytest
from support.service_records import hex_id, send, table, visit
from support.sql_project import ANNA, BEN, CARL, NAMES, fill

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.sql import admit
from attrib_ds.service.users import sandbox
from attrib_ds.service.users.sandbox import VIEWS, user_ids


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    opened = Service.open("shop", tmp_path_factory.mktemp("sql") / "shop.duckdb")
    fill(opened)
    yield opened
    opened.close()


@pytest.fixture
def ask(service):
    """Return the names of the users whose ids a query yields."""

    def ask(sql):
        with service._store.read() as backend:
            return sorted(NAMES.get(value, value) for value in user_ids(backend, sql)["_id"].to_pylist())

    return ask


FRIENDLY = {
    "SELECT _id FROM users": "anna ben carl dora",
    "select _id from USERS": "anna ben carl dora",
    "FROM users": "anna ben carl dora",
    "(SELECT _id FROM users);": "anna ben carl dora",
    "SELECT _id FROM users -- everybody": "anna ben carl dora",
    "SELECT * FROM users WHERE eventCount = 2": "anna",
    "SELECT _id FROM users WHERE eventCount = 0": "dora",
    "SELECT _id FROM users WHERE interactionCount >= 2 AND hitCount = 4": "anna",
    "SELECT _id FROM users ORDER BY lastEventDate DESC NULLS LAST LIMIT 1": "anna",
    "SELECT _id FROM users ORDER BY firstEventDate LIMIT 1 OFFSET 1": "anna",
    "SELECT userId FROM events WHERE eventType = 'lead'": "carl",
    "SELECT DISTINCT userId FROM events WHERE eventType IN ('order', 'refund')": "anna ben",
    "SELECT userId, count(*) AS orders FROM events GROUP BY userId HAVING count(*) > 1": "anna",
    "SELECT userId FROM events GROUP BY ALL HAVING count_if(eventType = 'lead') = 1": "carl",
    "SELECT userId FROM metrics WHERE key = 'turnover' GROUP BY userId HAVING sum(amount) >= 100": "anna",
    "SELECT userId FROM metrics WHERE key = 'turnover' GROUP BY 1 HAVING avg(amount) < 50": "ben",
    "SELECT e.userId FROM events e JOIN metrics m ON m.eventId = e._id WHERE m.amount = 60": "anna",
    "SELECT userId FROM metrics WHERE amount BETWEEN 39.5 AND 40.5 AND currency = 'EUR'": "ben",
    "SELECT userId FROM interactions WHERE \"geo.city\" = 'Bergen'": "anna",
    "SELECT userId FROM interactions i WHERE i.\"geo.city\" ILIKE 'oS%' AND NOT coalesce(isBot, false)": "anna ben",
    "SELECT userId FROM interactions WHERE type = 'offline'": "carl",
    "SELECT userId FROM user_fields WHERE key = 'email' AND value LIKE '%@example.org'": "anna",
    "SELECT userId FROM user_fields WHERE split_part(value, '@', 2) = 'shop.example'": "ben",
    "SELECT userId FROM user_fields WHERE regexp_matches(value, '^b.n@')": "ben",
    "SELECT userId FROM user_fields WHERE lower(key) || ':' || left(value, 1) = 'email:a'": "anna",
    "SELECT _id FROM users EXCEPT SELECT userId FROM events": "dora",
    "SELECT userId FROM events WHERE eventType = 'order' INTERSECT SELECT userId FROM interactions "
    "WHERE \"geo.city\" = 'Bergen'": "anna",
    "SELECT userId FROM events WHERE eventType = 'lead' UNION ALL SELECT userId FROM metrics WHERE amount < 50":
        "ben carl",
    "SELECT _id FROM users u WHERE EXISTS (SELECT 1 FROM events e WHERE e.userId = u._id AND "
    "e.eventDate > TIMESTAMP '2025-02-01')": "anna",
    "SELECT _id FROM users WHERE _id NOT IN (SELECT userId FROM interactions WHERE \"geo.city\" = 'Oslo')": "carl",
    "SELECT u._id FROM users u LEFT JOIN events e ON e.userId = u._id WHERE e._id IS NULL": "dora",
    "SELECT _id FROM users ANTI JOIN events ON users._id = events.userId": "dora",
    # Anna has two orders, 23 days apart.
    "SELECT a.userId FROM events a JOIN events b USING (userId) WHERE a.eventDate < b.eventDate "
    "AND date_diff('day', a.eventDate, b.eventDate) = 23": "anna",
    "SELECT userId FROM events WHERE eventDate - INTERVAL 30 DAY > TIMESTAMP '2025-01-01'": "anna",
    "SELECT userId FROM events WHERE date_trunc('month', eventDate) = DATE '2025-02-01'": "anna",
    "SELECT userId FROM events WHERE extract(day FROM eventDate) = 11 AND month(eventDate) = 1": "ben",
    "SELECT userId FROM events WHERE strftime(eventDate, '%Y-%m') = '2025-02' AND eventDate < now()": "anna",
    "WITH orders AS (SELECT userId, eventDate, row_number() OVER (PARTITION BY userId ORDER BY eventDate) AS place "
    "FROM events WHERE eventType = 'order') SELECT userId FROM orders WHERE place = 2": "anna",
    "SELECT userId FROM events QUALIFY lag(eventDate) OVER (PARTITION BY userId ORDER BY eventDate) IS NOT NULL":
        "anna",
    "SELECT userId FROM (SELECT userId, sum(amount) OVER w AS added FROM metrics WHERE key = 'turnover' "
    "WINDOW w AS (PARTITION BY userId "
    "ORDER BY date ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) WHERE added = 150": "anna",
    # The ranks of what each has spent: anna 150, ben 40.
    "WITH spent AS (SELECT userId, sum(amount) AS total FROM metrics WHERE key = 'turnover' GROUP BY 1), "
    "ranked AS (SELECT *, rank() OVER (ORDER BY total DESC) AS place FROM spent) "
    "SELECT userId FROM ranked WHERE place <= (SELECT count(*) / 2 FROM spent)": "anna",
    "WITH a AS (SELECT userId FROM events), b AS (SELECT * FROM a) SELECT x.userId FROM b x, b y "
    "WHERE x.userId < y.userId": "anna ben",
    "WITH users AS (SELECT * FROM users WHERE eventCount = 1) SELECT _id FROM users": "ben carl",
    "SELECT CASE WHEN eventCount > 1 THEN _id ELSE 'nobody' END FROM users": "anna",
    "SELECT userId FROM events GROUP BY userId HAVING median(epoch(eventDate)) > epoch(TIMESTAMP '2025-01-12')": "anna",
    "SELECT arg_max(userId, eventDate) FROM events": "anna",
    "SELECT _id FROM users WHERE (_id, eventCount) IN (SELECT userId, 1 FROM events)": "ben carl",
    "SELECT v.id FROM (VALUES ('%s'), ('x')) AS v(id)" % BEN: "ben",  # noqa: UP031
    "SELECT 1, _id FROM users": "",
    "SELECT NULL": "",
    "SELECT eventDate FROM events": "",
    "SELECT _id FROM users WHERE false": "",
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("sql", FRIENDLY)
def test_results_match_counts_by_hand(ask, sql):
    assert ask(sql) == FRIENDLY[sql].split()


def test_only_ids_are_taken_from_the_first_column(ask):
    assert ask(f"SELECT upper('{ANNA}') UNION SELECT '{BEN} ' UNION SELECT '{CARL}' UNION SELECT ''") == [
        "carl"
    ]
    # One that the project does not have is the caller's to leave out.
    assert ask(f"SELECT '{hex_id(77)}'") == [hex_id(77)]


def test_merged_ids_stand_for_the_survivor(tmp_path):
    service = Service.open("shop", tmp_path / "shop.duckdb")
    fill(service)
    merged = f"INSERT INTO merged_users (_id, userId) VALUES ('{hex_id(1)}', '{ANNA}')"
    service._store.write(lambda connection: connection.execute(merged))
    with service._store.read() as backend:
        assert user_ids(backend, f"SELECT '{hex_id(1)}'")["_id"].to_pylist() == [ANNA]
        assert user_ids(backend, f"SELECT '{BEN}'")["_id"].to_pylist() == [BEN]
    service.close()


LIMITED = {
    "SELECT userId FROM user_fields WHERE key = 'email'": {"email"},
    "SELECT userId FROM user_fields WHERE KEY = 'email' AND (value = 'Oslo' AND date IS NULL)": {"email"},
    "SELECT userId FROM user_fields f WHERE (F.key IN ('email', 'city') AND f.value LIKE 'a%')": {
        "email",
        "city",
    },
    "SELECT value AS key, userId FROM user_fields WHERE key = 'city'": {"city"},
    "SELECT _id FROM users WHERE EXISTS (SELECT 1 FROM user_fields WHERE key = 'email' AND userId = _id)": {
        "email"
    },
    "WITH mails AS (SELECT * FROM user_fields WHERE key = 'email') SELECT userId FROM mails": {"email"},
    "SELECT userId FROM user_fields WHERE key = 'email' AND userId IN "
    "(SELECT userId FROM user_fields WHERE key = 'city')": {"email", "city"},
    "SELECT userId FROM user_fields WHERE key = 'email' EXCEPT SELECT userId FROM user_fields WHERE key = 'city'": {
        "email",
        "city",
    },
    "SELECT userId FROM user_fields WHERE key IN ('nested', 'nested/x', '')": {"nested", "nested/x", ""},
    "SELECT userId FROM user_fields WHERE key = 'email' GROUP BY userId HAVING count(*) = 2": {"email"},
}
UNLIMITED = [
    "SELECT userId FROM user_fields",
    "SELECT userId FROM user_fields WHERE key = 'email' OR value = 'Oslo'",
    "SELECT userId FROM user_fields WHERE NOT key = 'email'",
    "SELECT userId FROM user_fields WHERE key <> 'email'",
    "SELECT userId FROM user_fields WHERE key NOT IN ('email')",
    "SELECT userId FROM user_fields WHERE key = lower('EMAIL')",
    "SELECT userId FROM user_fields WHERE key IN (SELECT 'email')",
    "SELECT userId FROM user_fields WHERE lower(key) = 'email'",
    "SELECT a FROM user_fields AS f(a, kind, b, key) WHERE key IN ('Oslo', 'email')",
    "SELECT userId FROM (SELECT value AS key, userId FROM user_fields) WHERE key = 'Oslo'",
    "SELECT userId FROM user_fields GROUP BY userId HAVING min(key) = 'email'",
    "SELECT _id FROM users u LEFT JOIN user_fields f ON f.userId = u._id AND f.key = 'email'",
    "SELECT userId FROM user_fields WHERE key = 'email' UNION ALL SELECT userId FROM user_fields WHERE value = 'Oslo'",
    "SELECT userId FROM user_fields m WHERE key = 'email' AND EXISTS "
    "(SELECT 1 FROM user_fields f WHERE m.key = 'email' AND f.value = 'Oslo')",
    "SELECT userId FROM user_fields WHERE CASE WHEN key = 'email' THEN false ELSE true END",
]


@pytest.fixture(scope="module")
def cities():
    """Return a service whose users A and B have fields: A two e-mails, a city and an object, B a city."""
    opened = Service.open("shop", ":memory:")
    fields = (
        (ANNA, '{"email":"a@example.org","city":"Oslo","nested":{"x":"Oslo"}}'),
        (ANNA, '{"email":"a@example.com"}'),
        (BEN, '{"city":"Oslo"}'),
    )
    visits = [
        visit(place, userId=user, userData=data, startDate=f"2025-01-{place:02}T10:00:00Z")
        for place, (user, data) in enumerate(fields, start=1)
    ]
    assert send(opened, "load_records", resource="interactions", source=table(*visits)).read().num_rows == 0
    yield opened
    opened.close()


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize("sql", [*LIMITED, *UNLIMITED])
def test_keys_in_conditions_limit_the_fields_computed_and_change_no_answer(cities, sql):
    keys = admit(sql, VIEWS).keys
    assert keys == LIMITED.get(sql)
    with cities._store.read() as backend:
        connection = backend.con
        whole = sandbox._view_query(connection, "user_fields", VIEWS["user_fields"], None)
        only = sandbox._view_query(connection, "user_fields", VIEWS["user_fields"], keys)
        computed = {key for (key,) in connection.execute(f"SELECT key FROM ({only})").fetchall()}
        existing = {"email", "city", "nested"}
        assert computed == (existing if keys is None else existing & keys)
        found = user_ids(backend, sql)["_id"].to_pylist()
        # Without the sandbox and the limit.
        query = f"WITH user_fields AS ({whole}) SELECT DISTINCT answer FROM ({sql}) AS answers(answer)"
        expected = {value for (value,) in connection.execute(query).fetchall()}
    assert sorted(found) == sorted(expected & NAMES.keys())


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_views_have_the_columns_they_are_said_to_have(service, view):
    with service._store.read() as backend:
        for column in VIEWS[view]:
            user_ids(backend, f'SELECT "{column}" FROM {view}')
        user_ids(backend, f"SELECT * FROM {view}")


def test_docs_name_every_view_and_column():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "how-to" / "users-by-sql.md").read_text(encoding="utf-8")
    for view, columns in VIEWS.items():
        assert f"## `{view}`" in page
        if view != "interactions":
            assert [column for column in columns if f"`{column}`" not in page] == []


CTES = ", ".join(f"c{n} AS (SELECT * FROM c{n - 1} UNION ALL SELECT * FROM c{n - 1})" for n in range(1, 30))
HOSTILE = {
    # files
    "SELECT * FROM 'x.csv'": "the table 'x.csv' is not known",
    "FROM '/etc/passwd'": "the table '/etc/passwd' is not known",
    'SELECT * FROM "/etc/passwd"': "the table '/etc/passwd' is not known",
    "SELECT * FROM read_csv('/etc/passwd')": "not allowed",
    "SELECT * FROM read_text('/etc/passwd')": "not allowed",
    "SELECT * FROM read_parquet(['a.parquet'])": "not allowed",
    "SELECT * FROM glob('/*')": "not allowed",
    "SELECT content FROM read_blob('/etc/passwd')": "not allowed",
    "COPY (SELECT 1) TO 'x.csv'": "one SELECT",
    "COPY users FROM 'x.csv'": "one SELECT",
    "EXPORT DATABASE 'x'": "one SELECT",
    "SELECT _id INTO copied FROM users": "INTO not supported|cannot be read as SQL",
    "WITH \"x.csv\" AS (SELECT 1) SELECT * FROM (SELECT * FROM \"x.csv\")": "the name 'x.csv' is not allowed",
    # the network, extensions, other databases
    "SELECT * FROM 'https://example.org/x.parquet'": "is not known",
    "SELECT * FROM 's3://bucket/x'": "is not known",
    "INSTALL httpfs": "one SELECT",
    "LOAD httpfs": "one SELECT",
    "ATTACH 'other-shop.duckdb' AS other": "one SELECT",
    "USE other": "one SELECT",
    "SELECT * FROM other.main.users": "too many parts",
    "SELECT * FROM main.users": "too many parts",
    "SELECT main.users._id FROM users": "too many parts",
    "SELECT * FROM sqlite_scan('x', 'y')": "not allowed",
    "SELECT * FROM postgres_query('x', 'y')": "not allowed",
    # writing and settings
    "DELETE FROM users": "one SELECT",
    "INSERT INTO users VALUES ('a')": "one SELECT",
    "UPDATE users SET _id = 'a'": "one SELECT",
    "DROP TABLE users": "one SELECT",
    "CREATE TABLE x AS SELECT 1": "one SELECT",
    "CREATE MACRO f() AS 1": "one SELECT",
    "WITH x AS (DELETE FROM users RETURNING _id) SELECT * FROM x": "A CTE needs a SELECT|DELETE QUERY is not allowed",
    "SET memory_limit = '1TB'": "one SELECT",
    "RESET memory_limit": "one SELECT",
    "PRAGMA database_list": "one SELECT",
    "CALL pragma_version()": "one SELECT",
    "CHECKPOINT": "one SELECT",
    "EXPLAIN ANALYZE SELECT 1": "one SELECT",
    "SELECT _id FROM users FOR UPDATE": "locking clause is not supported|cannot be read as SQL",
    "SELECT set_config('memory_limit', '1TB')": "not allowed",
    "SELECT nextval('x')": "not allowed",
    # the system
    "SELECT * FROM information_schema.tables": "too many parts",
    "SELECT * FROM duckdb_settings()": "not allowed",
    "SELECT * FROM duckdb_settings": "is not known",
    "SELECT * FROM pg_catalog.pg_tables": "too many parts",
    "SELECT * FROM pragma_table_info('users')": "not allowed",
    "SELECT * FROM sqlite_master": "is not known",
    "WITH a AS (WITH duckdb_views AS (SELECT 1) SELECT 1) SELECT * FROM duckdb_views": "is not known",
    "WITH duckdb_views AS (SELECT * FROM duckdb_views) SELECT * FROM duckdb_views": "is not known",
    "SELECT getenv('HOME')": "'getenv' is not allowed",
    "SELECT current_setting('memory_limit')": "'current_setting' is not allowed",
    "SELECT getvariable('x')": "'getvariable' is not allowed",
    "SELECT current_user": "not allowed",
    "SELECT version()": "not allowed",
    "SELECT current_database()": "not allowed",
    "SELECT * FROM raw_events": "is not known",
    "SELECT * FROM meta": "is not known",
    # SQL in SQL
    "SELECT * FROM query('SELECT 1')": "not allowed",
    "SELECT * FROM query_table('users')": "not allowed",
    "SELECT query('SELECT 1')": "'query' is not allowed",
    "SELECT * FROM sql_auto_complete('SEL')": "not allowed",
    "SELECT json_execute_serialized_sql('x')": "not allowed",
    "SELECT * FROM json_execute_serialized_sql('x')": "not allowed",
    "SELECT eval('1')": "not allowed",
    # several statements and comments
    "SELECT 1; DROP TABLE users": "several statements",
    "SELECT 1;;SELECT 2": "several statements",
    "SELECT 1 /* ; */; /* */ COPY users TO 'x'": "several statements",
    "/* SELECT */ DROP TABLE users": "one SELECT",
    "-- SELECT 1\nATTACH 'x'": "one SELECT",
    "": "allowed: 1 to 8,192",
    " -- nothing": "one SELECT",
    "SELECT '" + "x" * 8_200 + "'": "allowed: 1 to 8,192",
    # endless work
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT x FROM t": "RECURSIVE",
    "SELECT x FROM (WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x FROM t) SELECT * FROM t)": "RECURSIVE",
    "SELECT * FROM range(1000000000000)": "not allowed",
    "SELECT * FROM generate_series(1, 1000000000000)": "not allowed",
    "SELECT unnest(range(1000000000))": "not allowed",
    "SELECT repeat('x', 4000000000)": "'repeat' is not allowed",
    "SELECT lpad('x', 1000000000, 'y')": "not allowed",
    "SELECT format('{:1000000000d}', 1)": "not allowed",
    "SELECT printf('%1000000000d', 1)": "not allowed",
    "SELECT bar(1, 0, 1, 1000000000)": "not allowed",
    "SELECT replace(_id, '0', '0000000000') FROM users": "not allowed",
    "SELECT string_agg(_id, _id) FROM users": "not allowed",
    "SELECT list(_id) FROM users": "not allowed",
    "SELECT max(_id, 1000000) FROM users": "two arguments",
    "SELECT x || x || x || x || x || x FROM (SELECT _id AS x FROM users)": "joined too often",
    "SELECT concat(_id, _id, _id, _id, _id, _id, _id, _id, _id) FROM users": "joined too often",
    f"WITH c0 AS (SELECT _id FROM users), {CTES} SELECT * FROM c29": "reads too many tables",
    "SELECT u0._id FROM " + ", ".join(f"users u{n}" for n in range(40)): "reads too many tables",
    "SELECT *, * FROM users": "a star is repeated",
    "SELECT u.*, U.* FROM users u": "a star is repeated",
    "SELECT *, u._id, u.* FROM users u": "a star is repeated",
    "SELECT regexp_matches(_id, '((a{1,100}){1,100}){1,100}') FROM users": "repeats too often",
    f"SELECT regexp_matches(_id, '{'(a|b)*' * 60}c') FROM users": "a pattern is too long",
    "SELECT regexp_matches(_id, _id) FROM users": "a pattern must be a text in quotes",
    "SELECT 1 FROM users a, users b WHERE a._id LIKE b._id": "a pattern must be a text in quotes",
    "SELECT _id GLOB '*a*a*a*' FROM users": "not allowed",
    "SELECT levenshtein(_id, _id) FROM users": "not allowed",
    # concat is allowed, and to the parser this is a kind of it.
    "SELECT concat_ws(_id, _id, _id) FROM users": "the function 'concat_ws' is not allowed",
    f"SELECT strftime(createdAt, '{'%c' * 500}') FROM users": "format of a date",
    "SELECT median(eventCount) OVER (ROWS UNBOUNDED PRECEDING) FROM users": "not allowed over a window",
    "SELECT " + "abs(" * 100 + "1" + ")" * 100: "nested too deeply",
    "SELECT " + "NOT " * 2_000 + "true": "cannot be read",
    "SELECT " + "CASE WHEN true THEN " * 100 + "1" + " END" * 100: "nested too deeply",
    "SELECT count(DISTINCT (_id, createdAt)), count(DISTINCT _id, createdAt) FROM users": "several values",
    # forms of the engine's own
    "SELECT COLUMNS('.*') FROM users": "not allowed",
    "SELECT COLUMNS(c -> c LIKE '%a') FROM users": "not allowed",
    "SELECT list_transform([1], x -> x)": "not allowed",
    "SELECT [x FOR x IN [1]]": "not allowed",
    "SELECT {'a': 1}": "not allowed",
    "SELECT _id[1] FROM users": "not allowed",
    "SELECT TRY(_id) FROM users": "TRY is not allowed",
    "SELECT 'x'.getenv()": "cannot be read|the function 'getenv' is not allowed",
    "SELECT * FROM users PIVOT (count(*) FOR _id IN ('a'))": "PIVOT is not allowed",
    "PIVOT users ON _id": "one SELECT",
    "UNPIVOT users ON _id": "one SELECT",
    "DESCRIBE users": "one SELECT",
    "SUMMARIZE users": "one SELECT",
    "SELECT * FROM users, LATERAL (SELECT 1)": "LATERAL is not allowed",
    "SELECT * FROM users NATURAL JOIN events": "NATURAL JOIN is not allowed",
    "SELECT * FROM users POSITIONAL JOIN events": "POSITIONAL JOIN is not allowed",
    "SELECT * FROM users ASOF JOIN events ON _id >= userId": "ASOF JOIN is not allowed",
    "SELECT _id FROM users USING SAMPLE 10%": "not allowed",
    "SELECT _id FROM users TABLESAMPLE 10%": "not allowed",
    "SELECT unnest([1])": "not allowed",
    "SELECT _id::STRUCT(x INT) FROM users": "type STRUCT is not allowed",
    "SELECT _id::INT[] FROM users": "not allowed",
    "SELECT _id::BLOB FROM users": "not allowed",
    "SELECT ?": "a parameter is not allowed",
    "SELECT $1": "a parameter is not allowed",
    "SELECT $name": "a parameter is not allowed",
    "PREPARE x AS SELECT 1": "one SELECT",
    "EXECUTE x": "one SELECT",
    # unicode and quoting
    "SELECT _id FROM uſers": "is not known",
    "SELECT * FROM \"users\u200b\"": "is not known",
    "SELECT 1 \x00; DROP TABLE users": "control characters",
    "SELECT * FROM users AS \"a;b\"": "the name 'a;b' is not allowed",
    "SELECT '\ud800'": "control characters",
    "SELECT $$x$$": "",
    "SELECT 'a": "cannot be read",
    "SELECT": "",
    "SELECT FROM WHERE": "",
}  # fmt: skip


@pytest.mark.few(82)
@pytest.mark.slow
@pytest.mark.parametrize("sql", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_refused(ask, sql):
    with pytest.raises(InvalidRequest) as refused:
        ask(sql)
    assert refused.value.field == "sql"
    # Each release of DuckDB has words of its own for what it cannot read.
    assert any(words in refused.value.message for words in HOSTILE[sql].split("|"))
    assert len(refused.value.message) < 400


PLACES = [
    "SELECT (SELECT max(a) FROM {0})", "SELECT 1 WHERE EXISTS (SELECT * FROM {0})", "SELECT 1 FROM users ORDER BY (SELECT 1 FROM {0})",
    "SELECT 1 GROUP BY (SELECT 1 FROM {0})", "SELECT count(*) FROM users HAVING 1 IN (SELECT 1 FROM {0})",
    "SELECT 1 FROM users LIMIT (SELECT 1 FROM {0})", "SELECT 1 FROM users OFFSET (SELECT 1 FROM {0})",
    "SELECT 1 FROM users a JOIN users b ON (SELECT true FROM {0})", "SELECT 1 UNION SELECT * FROM {0}",
    "WITH a AS (SELECT * FROM {0}) SELECT 1", "SELECT * FROM (SELECT * FROM (SELECT * FROM {0}))",
    "SELECT CASE WHEN (SELECT true FROM {0}) THEN 1 END", "SELECT sum(1) FILTER (WHERE (SELECT true FROM {0})) FROM users",
    "SELECT row_number() OVER (ORDER BY (SELECT 1 FROM {0})) FROM users", "SELECT * FROM (VALUES ((SELECT 1 FROM {0}))) v(a)",
    "SELECT 1 FROM users QUALIFY (SELECT true FROM {0})", "SELECT DISTINCT ON ((SELECT 1 FROM {0})) 1 FROM users",
    "SELECT * REPLACE ((SELECT 1 FROM {0}) AS _id) FROM users", "SELECT 1 IN (SELECT 1 FROM {0})", "SELECT 1 = ANY (SELECT 1 FROM {0})",
    "SELECT 1 FROM users JOIN {0} USING (_id)", "SELECT 1 FROM users, {0}",
]  # fmt: skip


@pytest.mark.few(20)
@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_nothing_hides_in_a_clause(ask, place):
    for name in ("'x.csv'", "read_csv('x.csv')", "duckdb_settings()", "meta"):
        with pytest.raises(InvalidRequest, match=r"not known|not allowed"):
            ask(place.format(name))


@pytest.mark.slow
def test_the_sandbox_stops_queries_that_the_check_would_admit(service, tmp_path, monkeypatch):
    """The second wall: the settings of the database that the query runs in."""
    (tmp_path / "x.csv").write_text("a\n1\n")
    written = tmp_path / "written.csv"
    secret = 1  # noqa: F841  (a variable that a query could name, were it allowed to)
    for text in (
        f"SELECT * FROM '{tmp_path}/x.csv'",
        f"SELECT * FROM read_csv('{tmp_path}/x.csv')",
        f"COPY (SELECT 1) TO '{written}'",
        f"ATTACH '{tmp_path}/other.duckdb'",
        "SET memory_limit = '1TB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT * FROM secret",
        "SELECT * FROM meta",
        "SELECT * FROM events",
    ):
        admitted = sandbox.admit("SELECT 1", VIEWS)
        monkeypatch.setattr(
            sandbox,
            "admit",
            lambda sql, views, text=text, admitted=admitted: type(admitted)(text, {}, 0, None),
        )
        monkeypatch.setattr(sandbox, "_run", lambda box, query: box.execute(query).fetchall())
        with service._store.read() as backend, pytest.raises(InvalidRequest) as refused:
            user_ids(backend, text)
        assert str(tmp_path) not in refused.value.message
        assert "LINE" not in refused.value.message
        monkeypatch.undo()
    assert not written.exists()
    assert not (tmp_path / "other.duckdb").exists()


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A project of a hundred thousand users."""
    opened = Service.open("shop", tmp_path_factory.mktemp("big") / "shop.duckdb")
    made = "INSERT INTO users SELECT printf('%024x', i), TIMESTAMP '2025-01-01' FROM range(100000) made(i)"
    opened._store.write(lambda connection: connection.execute(made))
    yield opened
    opened.close()


@pytest.mark.slow
def test_time_is_limited(big, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.2)
    before = set(threading.enumerate())
    endless = "SELECT count(*) FROM users a, users b, users c WHERE a._id <> b._id"
    with big._store.read() as backend:
        with pytest.raises(InvalidRequest, match=r"^sql: it takes longer than 0\.2 seconds$"):
            user_ids(backend, endless)
        monkeypatch.setattr(sandbox, "SECONDS", 60)
        # The connection of the search is as good as before.
        assert user_ids(backend, "SELECT _id FROM users LIMIT 3").num_rows == 3
    # Those of other tests may end meanwhile.
    assert not set(threading.enumerate()) - before


def test_errors_while_rows_are_fetched_are_refusals(ask, monkeypatch):
    # Arrow raises them as OSError, whose text is that of the engine.
    def fails(error):
        def run(box, query):
            raise error

        monkeypatch.setattr(sandbox, "_run", run)
        with pytest.raises(InvalidRequest) as refused:
            ask("SELECT _id FROM users")
        return refused.value.message

    assert fails(OSError("INTERRUPT Error: Interrupted!")) == "sql: it takes longer than 5 seconds"
    assert fails(OSError("Out of Memory Error: x")) == "sql: it needs more memory than 256MB"
    assert fails(OSError("IO Error: /home/shop.duckdb")) == "sql: it fails"


@pytest.mark.slow
def test_memory_is_limited(big, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 60)
    pairs = (
        "SELECT a._id FROM users a, users b WHERE b._id < '000000000000000000000080' ORDER BY a._id, b._id"
    )
    with big._store.read() as backend, pytest.raises(InvalidRequest, match="needs more memory than 256MB"):
        user_ids(backend, pairs)


@pytest.mark.slow
def test_rows_are_limited(big, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 60)
    pairs = "SELECT a._id FROM users a, (SELECT * FROM users LIMIT {}) b"
    with big._store.read() as backend:
        assert user_ids(backend, pairs.format(10)).num_rows == 100_000
        with pytest.raises(InvalidRequest, match="returns more than 1,000,000 rows"):
            user_ids(backend, pairs.format(11))


def test_like_takes_time_that_grows_with_the_text_alone(ask):
    # As LIKE this takes longer than anyone waits, and cannot be interrupted.
    text = "a" * 1_000
    assert ask(f"SELECT _id FROM users WHERE '{text}' || _id LIKE '{'%a' * 12}_b'") == []


def test_failures_tell_the_user_alone(ask):
    for sql, message in {
        "SELECT nonsense FROM users": 'sql: it fails: Referenced column "nonsense" not found in FROM clause!',
        "SELECT CAST('x' AS INTEGER)": "sql: it fails: Could not convert string 'x' to INT32",
        "SELECT sum(_id) FROM users": "sql: it fails: No function matches the given name and argument types",
    }.items():
        with pytest.raises(InvalidRequest) as refused:
            ask(sql)
        assert refused.value.message.startswith(message)
        assert "\n" not in refused.value.message
        assert refused.value.__cause__ is None


@pytest.mark.large
@pytest.mark.slow
def test_one_query_sees_one_snapshot(service):
    """Two scans of a query that runs while users come in see the same users."""
    stop = threading.Event()

    def write():
        number = 1
        while not stop.is_set():
            row = f"INSERT INTO users VALUES ('{hex_id(0xF00000 + number)}', TIMESTAMP '2025-01-01')"
            service._store.write(lambda connection, row=row: connection.execute(row))
            number += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(20):
            with service._store.read() as backend:
                found = user_ids(backend, "SELECT _id FROM users EXCEPT SELECT _id FROM users u")
                assert found.num_rows == 0
    finally:
        stop.set()
        writing.join()
        service._store.write(
            lambda connection: connection.execute(f"DELETE FROM users WHERE _id >= '{hex_id(0xF00000)}'")
        )


def test_deep_recursion_leaves_the_interpreter_as_it_was(ask):
    limit = sys.getrecursionlimit()
    with pytest.raises(InvalidRequest):
        ask("SELECT 1 WHERE " + "true AND (" * 700 + "true" + ")" * 700)
    assert sys.getrecursionlimit() == limit
