"""Sessions and sources of raw hits, beside the gap rule alone in plain DuckDB SQL.

    python tests/benchmarks/sessions.py [MILLIONS OF HITS]

Prints one row per step: seconds, hits a second, and the ratio to the gap rule. The hits of a tracker come in visits of
three on average; a fifth of the visits begins with a campaign and another fifth with a search engine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import duckdb

import attrib_ds as at
from attrib_ds.service.collection.session_breaks import split_into_sessions

HITS = """
CREATE TABLE hits AS
SELECT CAST(uuid() AS VARCHAR) AS id, 'tracker-' || CAST(hash(visit) % ({count} // 10) AS VARCHAR) AS trackerId,
    TIMESTAMP '2025-01-01' + to_seconds(CAST(floor(visit * 37 % 7776000) + random() * 900 AS BIGINT)) AS serverDate,
    CASE WHEN kind < 0.07 THEN '?utm_source=google&utm_medium=cpc&utm_campaign=c' || CAST(visit % 50 AS VARCHAR)
        ELSE '' END AS search,
    CASE WHEN kind BETWEEN 0.07 AND 0.14 THEN 'https://www.google.com/' WHEN kind > 0.3 THEN 'https://shop.example/'
        END AS referrer,
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.'
        || CAST(visit % 400 AS VARCHAR) || '.0 Safari/537.36' AS userAgent
FROM (SELECT CAST(range // 3 AS BIGINT) AS visit, random() AS kind FROM range({count}))
"""
GAP_RULE = """
CREATE OR REPLACE TABLE by_gap AS
SELECT id, trackerId, count(*) FILTER (opens) OVER (PARTITION BY trackerId ORDER BY serverDate, id) AS session
FROM (
    SELECT *, coalesce(serverDate - lag(serverDate) OVER (PARTITION BY trackerId ORDER BY serverDate, id)
        >= INTERVAL 30 MINUTE, true) AS opens FROM hits
)
"""
RESOLVED = """
CREATE TABLE resolved AS SELECT id, trackerId, serverDate, false AS isBot, CAST(NULL AS VARCHAR) AS sessionId,
    search <> '' AS isCampaign, CASE WHEN search <> '' THEN search ELSE coalesce(referrer, 'direct') END AS nodeId
FROM hits
"""


def main(millions: float) -> None:
    count = int(millions * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hits.parquet"
        with duckdb.connect(str(Path(folder) / "plain.duckdb")) as connection:
            connection.execute(f"SELECT setseed(0.5); {HITS.format(count=count)}")
            connection.execute(RESOLVED)
            connection.execute(
                "COPY (SELECT id AS hitId, trackerId, serverDate AS date, 'https://shop.example/' || search AS pageUrl, "
                f"referrer, userAgent FROM hits) TO '{file}'"
            )
            gap = seconds(lambda: connection.execute(GAP_RULE))
            show("gap rule, plain SQL", gap, gap, count)
            rules = seconds(lambda: split_into_sessions(connection, "resolved", into="split_hits"))
            show("all session rules", rules, gap, count)
        with at.connect("bench", path=Path(folder) / "bench.duckdb") as project:
            loading = seconds(lambda: print(at.load(project, hits=file)))
            show("load: read, resolve, store", loading, gap, count)
        size = sum(part.stat().st_size for part in Path(folder).glob("bench.duckdb*"))
        print(f"{size / millions / 1e6:,.0f} MB of file per million hits")


def seconds(job) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def show(name: str, taken: float, gap: float, count: int) -> None:
    print(f"{name:28} {taken:8.1f} s  {count / taken:12,.0f} hits/s  {taken / gap:6.1f} x")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
