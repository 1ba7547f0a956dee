"""Seeded journeys for benchmarks: touchpoints and conversions as Parquet, rows shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

START = np.datetime64("2025-01-01", "us")
DAY = np.timedelta64(86_400_000_000, "us")


def write_journeys(
    folder: Path, *, journeys: int, conversions: int, nodes: int = 12, seed: int = 20250101, first: int = 0
) -> int:
    """Write ``touchpoints.parquet`` and ``conversions.parquet``; return the number of touchpoints.

    Journeys have a geometric length with mean 4, at most 20, within 30 days; each converts at most once, after
    its last touchpoint. Users and conversions are numbered from ``first`` on.
    """
    random = np.random.default_rng(seed)
    lengths = np.minimum(random.geometric(0.25, journeys), 20)
    user = np.repeat(np.arange(journeys), lengths)
    touches = len(user)
    order = random.permutation(touches)
    date = START + (random.random(touches) * 30 * DAY.astype(np.int64)).astype("timedelta64[us]")
    names = pa.array([f"node {index:02d}" for index in range(nodes)])
    node = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, nodes, touches), pa.int32()), names)
    touchpoints = pa.table(
        {
            "user_id": _named("u", user[order] + first),
            "node_id": node.cast(pa.string()),
            "date": pa.array(date[order], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(touchpoints, folder / "touchpoints.parquet")
    converting = random.choice(journeys, conversions, replace=False)
    converted = pa.table(
        {
            "event_id": _named("e", np.arange(conversions) + first),
            "user_id": _named("u", converting + first),
            "date": pa.array(np.full(conversions, START + 31 * DAY), pa.timestamp("us", "UTC")),
            "value": random.lognormal(3, 1, conversions).round(2),
        }
    )
    pq.write_table(converted, folder / "conversions.parquet")
    return touches


def _named(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.compute.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")
