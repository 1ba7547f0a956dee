"""Sessions and sources of raw hits, compared with the gap rule alone in plain DuckDB SQL.

``python tests/benchmarks/sessions.py --millions 10`` makes seeded hits as Parquet and measures each step in a process of
its own, where DuckDB may use 4 GB (``--memory``): the rule that 30 minutes without a hit end a session, all rules of
sessions, and ``load(hits=…)``, which also reads and validates the hits, resolves their sources and stores them. The hits of
a tracker come in visits of three on average; a fifth of the visits begins with a campaign and another fifth with a search
engine.
"""

import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

import duckdb
from results import Row, compared, parser, report

import attrib_ds as at
from attrib_ds.service.collection.hits import split_into_sessions

PLAIN = "gap rule in plain DuckDB SQL"

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
CREATE TABLE resolved AS SELECT 0 AS row, id, trackerId, serverDate, false AS isBot, CAST(NULL AS VARCHAR) AS sessionId, NULL::VARCHAR AS formerId,
    search <> '' AS isCampaign,
    CASE WHEN search <> '' THEN 'campaign' WHEN referrer IS NULL THEN 'direct' ELSE 'search' END AS referrerType,
    CASE WHEN search <> '' THEN search ELSE coalesce(referrer, 'direct') END AS nodeId
FROM hits
"""


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--millions", type=float, nargs="+", default=[10], help="millions of hits")
    options.add_argument("--memory", default="4GB", help="memory for DuckDB")
    options = options.parse_args()
    rows = []
    for millions in options.millions:
        count = int(millions * 1_000_000)
        with tempfile.TemporaryDirectory() as folder:
            apart(write, folder, options.memory, count)
            for name, step in STEPS.items():
                used, figures = apart(step, folder, options.memory)
                figures = {"hits/s": count / used["seconds"], **figures}
                rows.append(Row("sessions", name, f"{count:,} hits", **used, figures=figures))
            size = sum(part.stat().st_size for part in Path(folder).glob("bench.duckdb*"))
            rows[-1].figures["MB of file per million hits"] = size / millions / 1e6
    report(compared(rows, PLAIN), options.json)


def apart(step, *arguments):
    """Call a function in a new process."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(step, arguments)


def write(folder: str, memory: str, count: int) -> None:
    """Write the hits, for plain SQL and to be loaded."""
    with plain(folder, memory) as connection:
        connection.execute(f"SELECT setseed(0.5); {HITS.format(count=count)}")
        connection.execute(RESOLVED)
        connection.execute(
            "COPY (SELECT id AS hitId, trackerId, serverDate AS date, 'https://shop.example/' || search AS pageUrl, "
            f"referrer, userAgent FROM hits) TO '{folder}/hits.parquet'"
        )
        connection.execute(
            "COPY (SELECT id AS _id, trackerId, 'order' AS eventType, serverDate + INTERVAL 1 MINUTE AS eventDate "
            f"FROM hits WHERE hash(id) % 60 = 0) TO '{folder}/orders.parquet'"
        )


def plain(folder: str, memory: str) -> duckdb.DuckDBPyConnection:
    """Open the database for plain SQL."""
    return duckdb.connect(str(Path(folder) / "plain.duckdb"), config={"memory_limit": memory})


def gap_rule(folder: str, memory: str) -> tuple[dict, dict]:
    """Number sessions by the gap rule."""
    with plain(folder, memory) as connection:
        return measured(lambda: connection.execute(GAP_RULE)), {}


def all_rules(folder: str, memory: str) -> tuple[dict, dict]:
    """Split hits into sessions as the service does."""
    with plain(folder, memory) as connection:
        return measured(lambda: split_into_sessions(connection, "resolved", into="split_hits")), {}


def load(folder: str, memory: str) -> tuple[dict, dict]:
    """Load the hits into a project."""
    with at.connect("bench", path=Path(folder) / "bench.duckdb") as project:
        with project.transport._store.cursor() as cursor:
            cursor.execute("SET GLOBAL memory_limit = ?", [memory])
        used = measured(lambda: at.load(project, hits=Path(folder) / "hits.parquet"))
        return used, {"sessions": project.send("search_interactions", limit=0, bots=None).total}


STEPS = {PLAIN: gap_rule, "all session rules": all_rules, "load: read, resolve, store": load}


def measured(job, process: int | None = None) -> dict[str, float]:
    """Return seconds, processor seconds and peak memory of a call in this process, and in another that it uses."""
    started, before = time.perf_counter(), spent(process)[0]
    job()
    seconds, (after, peak) = time.perf_counter() - started, spent(process)
    return {"seconds": seconds, "processor": after - before, "peak_mb": peak}


def spent(process: int | None) -> tuple[float, float]:
    """Return processor seconds and peak megabytes of this process so far, and of another."""
    seconds, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if process is not None:
        ticks = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        seconds += (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        peak += next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return seconds, peak / 1024


if __name__ == "__main__":
    main()
