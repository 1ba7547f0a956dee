"""Reads of a large project: streaming over HTTP, insights, restart, consistency check and backup.

``python tests/benchmarks/service_reads.py --interactions 2000000 --events 1000000`` prints the table. Compare only ratios
between machines.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import psutil
from results import Row, parser, report

sys.path.append(str(Path(__file__).parents[1]))
from support.http_caller import Caller, answering, token_of

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key

if TYPE_CHECKING:
    import pyarrow as pa

#: Name of the large project in the test clients.
NAME = "big-shop"
STREAMED = 1_000_000
SERVE = (
    "import sys; from attrib_ds.service.http.server import serve; "
    "from attrib_ds.service.http.server import ServerOptions; "
    "serve(sys.argv[1], port=0, options=ServerOptions(rate_limits=None))"
)
VISITS = (
    "SELECT printf('%024x', range) AS _id, printf('%024x', hash(range) % 300000) AS userId, "
    "'node-' || (hash(range, 1) % 12) AS nodeId, "
    "strftime(TIMESTAMP '2024-01-01' + to_seconds(CAST(hash(range, 2) % 31536000 AS BIGINT)), "
    "'%Y-%m-%dT%H:%M:%SZ') AS startDate, CAST(hash(range, 3) % 900 AS DOUBLE) AS duration, "
    "CAST(hash(range, 4) % 9 AS BIGINT) AS hitCount, "
    "['FR', 'DE', 'NO', 'US'][CAST(1 + hash(range, 5) % 4 AS BIGINT)] AS \"geo.countryCode\" FROM range({})"
)
EVENTS = (
    "SELECT CAST(uuidv7() AS VARCHAR) AS _id, printf('%024x', hash(range) % 300000) AS userId, "
    "strftime(TIMESTAMP '2024-01-01' + to_seconds(CAST(hash(range, 2) % 31536000 AS BIGINT)), "
    "'%Y-%m-%dT%H:%M:%SZ') AS eventDate, 'order' AS eventType, "
    'CAST(hash(range, 6) % 100 AS DOUBLE) AS "statistics.items" FROM range({})'
)
BARE = (
    "SELECT strftime(startDate, '%Y-%m-%d') AS interval, count(*), sum(hitCount), sum(duration) "
    "FROM interactions WHERE NOT isBot AND trafficFilterId IS NULL GROUP BY interval ORDER BY interval"
)


def ask(service: Service, name: str, **arguments: object):
    operation = OPERATIONS[name]
    return service.send(operation, build(operation, project_id=NAME, **arguments))


def seconds(work, times: int = 5) -> float:
    """Return the median seconds of several runs, after a warm-up run."""
    work()
    measured = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        measured.append(time.perf_counter() - began)
    return statistics.median(measured)


def once(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def fill(path: Path, interactions: int, events: int) -> None:
    with closing(Service.open(NAME, path)) as service, duckdb.connect() as made:
        for resource, query in (
            ("interactions", VISITS.format(interactions)),
            ("events", EVENTS.format(events)),
        ):
            rows: pa.Table = made.execute(query).to_arrow_table()
            answer = ask(service, "load_records", resource=resource, source=rows)
            assert answer.read().num_rows == 0, answer.read().slice(0, 3).to_pylist()


def stream(home: Path) -> tuple[float, float]:
    """Search a million interactions over HTTP; return the seconds, and the growth of the server in MB."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(home)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            url = process.stdout.readline().split()[-1]
            call = Caller(url, token_of(url, create_key(home, home / "key.json")))
            # Warm up: the first response opens the project.
            with answering(call, {"limit": 10_000}) as response:
                response.read()
            server = psutil.Process(process.pid)
            before = largest = server.memory_info().rss
            began = time.perf_counter()
            with answering(call, {"limit": STREAMED}) as response:
                while response.read(2**22):
                    largest = max(largest, server.memory_info().rss)
            return time.perf_counter() - began, (largest - before) / 1e6
        finally:
            process.kill()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--interactions", type=int, default=2_000_000)
    arguments.add_argument("--events", type=int, default=1_000_000)
    options = arguments.parse_args()
    size = f"{options.interactions:,} interactions, {options.events:,} events"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = home / f"{NAME}.duckdb"
        loaded = once(lambda: fill(path, options.interactions, options.events))
        opened = seconds(lambda: Service.open(NAME, path).close(), 3)
        with closing(Service.open(NAME, path)) as service:
            insight = seconds(lambda: ask(service, "interaction_insights", interval="day"))
            with service._store.cursor() as cursor:
                bare = seconds(lambda: cursor.execute(BARE).fetchall())
            checked = once(lambda: ask(service, "check_project"))
            backed_up = once(lambda: ask(service, "back_up_project").value.close())
        taken, growth = stream(home)
    report(
        [
            Row(
                "service_reads",
                "insight by day",
                size,
                insight,
                peer="the bare query",
                ratio=insight / bare,
                goal="≤ 1.5",
            ),
            Row(
                "service_reads",
                "open and close",
                size,
                opened,
                peer="target of 5 seconds",
                ratio=opened / 5,
                goal="≤ 1",
            ),
            Row(
                "service_reads",
                f"search of {min(STREAMED, options.interactions):,} interactions over HTTP",
                size,
                taken,
                peak_mb=growth,
                peer="target of 150 MB growth",
                ratio=growth / 150,
                goal="≤ 1",
            ),
            *(
                Row("service_reads", what, size, spent, peer="load all records", ratio=spent / loaded)
                for what, spent in (("check", checked), ("backup", backed_up))
            ),
            Row("service_reads", "load all records", size, loaded),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
