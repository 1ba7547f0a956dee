"""Raw hits in an engine have the sessions, sources and users that an embedded project stores, row by row."""

from __future__ import annotations

import ibis
import pytest
from support import hit_streams

from attrib_ds.service import reading_of_hits

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")


@pytest.mark.parametrize(
    ("seeds", "sizes"),
    [
        ((1,), {"hits": 20, "visitors": 2, "orders": 1}),
        pytest.param(tuple(range(1, 11)), {}, marks=pytest.mark.slow),
    ],
)
def test_every_row_is_the_one_that_loading_stores(seeds, sizes):
    hits, events = hit_streams.streams(seeds, **sizes)
    engine = ibis.duckdb.connect()
    tables = engine.create_table("hits", hits), engine.create_table("events", events)
    hit_streams.check(hit_streams.computed(engine, *tables, reading_of_hits()), hit_streams.loaded(seeds, **sizes))
