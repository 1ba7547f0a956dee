"""Servers and tables of the engines whose results are compared with those of DuckDB."""

import importlib.util

import ibis
import pytest
from support.engine_tables import engine_tables
from support.postgres_server import programs, served

#: Types of a server's columns. Its texts are sorted by a language, in which capitals do not come first.
POSTGRES_TYPES = {
    "string": 'text COLLATE "en-x-icu"',
    "large_string": 'text COLLATE "en-x-icu"',
    "double": "double precision",
    "int64": "bigint",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamptz",
    "timestamp[us]": "timestamp",
}
#: Types of columns of ClickHouse without missing values.
CLICKHOUSE_TYPES = {
    "string": "String",
    "large_string": "String",
    "double": "Float64",
    "int64": "Int64",
    "bool": "Bool",
    "timestamp[us, tz=UTC]": "DateTime64(6)",
    "timestamp[us]": "DateTime64(6, 'UTC')",
}


@pytest.fixture(scope="session")
def postgres_server():
    """Start a PostgreSQL server on a free local port, and return its connection."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("PostgreSQL needs psycopg; pip install 'attrib-ds[postgres]'")
    if programs() is None:
        pytest.skip("PostgreSQL needs the programs of its server, initdb and pg_ctl")
    with served() as connection:
        yield connection


@pytest.fixture(scope="session")
def duckdb():
    """DuckDB with the tables of ``engine_tables``; so have the other engines."""
    backend = ibis.duckdb.connect()
    for name, table in engine_tables().items():
        backend.create_table(name, table)
    return backend


@pytest.fixture(scope="session")
def postgres(postgres_server):
    backend = ibis.postgres.connect(**postgres_server)
    for name, table in engine_tables().items():
        columns = ", ".join(f'"{each.name}" {POSTGRES_TYPES[str(each.type)]}' for each in table.schema)
        with backend.con.cursor() as cursor:
            cursor.execute(f'CREATE TABLE "{name}" ({columns})')
            with cursor.copy(f'COPY "{name}" FROM STDIN') as lines:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    lines.write_row(row)
            cursor.execute(f'ANALYZE "{name}"')
    yield backend
    backend.disconnect()


@pytest.fixture(scope="session")
def clickhouse(clickhouse_database):
    backend = clickhouse_database("engines")
    for name, table in engine_tables().items():
        columns = ", ".join(f"`{each.name}` {clickhouse_type(table[each.name])}" for each in table.schema)
        backend.con.command(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
        backend.con.insert_arrow(name, table)
    return backend


def clickhouse_type(column):
    """Columns are nullable only where values are missing, and few distinct texts have low cardinality."""
    kind = CLICKHOUSE_TYPES[str(column.type)]
    kind = f"Nullable({kind})" if column.null_count else kind
    is_repeated = len(column.unique()) < 10 < len(column)
    return f"LowCardinality({kind})" if "String" in kind and is_repeated else kind
