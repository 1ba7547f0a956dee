"""Fixtures of the embedded service."""

import pytest

from attrib_ds.service.store.store import Store


@pytest.fixture
def memory_store():
    """An empty project in memory."""
    opened = Store.open(":memory:", "shop")
    yield opened
    opened.close()


@pytest.fixture
def rows(memory_store):
    """Read the rows of an SQL query."""

    def read(query):
        with memory_store.cursor() as cursor:
            return cursor.execute(query).fetchall()

    return read
