"""Files of older versions are brought up to date when they are opened, and nothing of them is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import TABLES, VERSION

VERSION_1 = Path(__file__).with_name("version_1.sql")


@pytest.fixture
def old(tmp_path):
    """Return a file as version 1 made it, with a user who came twice and another who only bought."""
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(VERSION_1.read_text())
        connection.execute("INSERT INTO meta VALUES (1, 'shop', 'NOK', 'UTC', '2025-01-01', 7)")
        connection.execute(
            "INSERT INTO interactions (_id, userId, startDate, ingestedAt) VALUES "
            "('i1', 'anna', '2025-01-01', '2025-01-02'), ('i2', 'anna', '2025-01-03', '2025-01-04')"
        )
        connection.execute(
            "INSERT INTO events (_id, userId, createdAt) VALUES "
            "('e1', 'anna', '2025-01-01 12:00:00'), ('e2', 'boris', '2025-01-05')"
        )
    return path


def columns_of(path):
    with duckdb.connect(path, read_only=True) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
            "ORDER BY table_name, column_index"
        ).fetchall()
    found = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def test_an_old_file_gets_the_tables_of_a_new_one(old, tmp_path):
    Store.open(old, "shop").close()
    Store.open(tmp_path / "new.duckdb", "shop").close()
    assert columns_of(old) == columns_of(tmp_path / "new.duckdb")
    assert set(columns_of(old)) == set(TABLES)


def test_its_records_stay_and_its_users_are_listed(old):
    with closing(Store.open(old, "shop")) as store, store.cursor() as cursor:
        assert (store.meta.version, store.meta.currency) == (VERSION, "NOK")
        assert cursor.execute("SELECT count(*) FROM interactions").fetchall() == [(2,)]
        users = cursor.execute("SELECT _id, strftime(createdAt, '%d %H') FROM users ORDER BY _id").fetchall()
        assert users == [("anna", "01 12"), ("boris", "05 00")]
    with closing(Store.open(old, "shop")) as again:
        assert again.meta.version == VERSION


def test_who_loaded_records_tell_of_is_known(old):
    with duckdb.connect(old) as connection:
        connection.execute(
            "INSERT INTO interactions (_id, userId, startDate, userData) VALUES "
            "('i3', 'carl', '2025-01-03', '{\"email\": \" Carl@Example.com\", \"vendorUserId\": \"v1\"}'), "
            "('i4', 'dora', '2025-01-02', '{\"email\": \"carl@example.com\"}'), "
            "('i5', 'dora', '2025-01-02', '{\"email\": \" \", \"vendorUserId\": \"v2\"}')"
        )
        connection.execute(
            'INSERT INTO events (_id, userId, eventDate, "user") VALUES '
            "('e3', 'emil', '2025-01-01', '{\"email\": {\"current\": \"emil@example.com\"}}')"
        )
        connection.execute("INSERT INTO identities VALUES ('vendorUserId', 'v2', 'anna')")
    with closing(Store.open(old, "shop")) as store, store.cursor() as cursor:
        assert cursor.execute("SELECT * FROM identities ORDER BY kind, value").fetchall() == [
            ("email", "carl@example.com", "dora"),
            ("email", "emil@example.com", "emil"),
            ("vendorUserId", "v1", "carl"),
            ("vendorUserId", "v2", "anna"),
        ]


def test_an_old_file_cannot_be_only_read(old):
    with pytest.raises(Unavailable, match="older version; open it once without read_only"):
        Store.open(old, "shop", read_only=True)
    assert "users" not in columns_of(old)
