"""Queries that are remembered."""

from __future__ import annotations

from attrib_ds.service.store.query_cache import QueryCache


def test_a_query_is_compiled_once():
    compiled = []

    def compile_query():
        compiled.append("SELECT 1")
        return compiled[-1]

    queries = QueryCache()
    assert [queries.get(("a", 1), compile_query) for _ in range(3)] == ["SELECT 1"] * 3
    assert compiled == ["SELECT 1"]


def test_the_oldest_are_forgotten():
    queries = QueryCache()
    for number in range(257):
        queries.get(number, lambda: "old")
    assert queries.get(1, lambda: "new") == "old"
    assert queries.get(0, lambda: "new") == "new"
