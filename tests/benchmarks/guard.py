"""What the guard against hits and sessions that would be stored twice costs: a bulk load, and hits one by one.

``python tests/benchmarks/guard.py --hits 1000000 --single 400`` loads hits, and then takes single ones, each in a
transaction of its own, as they come at two a second. Each step runs in a process of its own, with and without the guard
in turn; the rows are the medians of the rounds. Processor seconds are compared.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from results import compared, parser, report
from sessions import Row, apart, measured, write

import attrib_ds as at
from attrib_ds.contract.interactions import read_hit
from attrib_ds.service.collection import hits
from attrib_ds.service.http import pages
from attrib_ds.service.http.limits import ServiceRequest
from attrib_ds.service.store.settings import ProjectSettings

WITH, WITHOUT = "with the guard", "without it"
SECONDS = 300


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--hits", type=int, default=1_000_000, help="hits that are loaded")
    options.add_argument("--single", type=int, default=400, help="hits that come one by one")
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        apart(write, folder, "4GB", options.hits)
        for _ in range(options.rounds):
            for name in (WITH, WITHOUT):
                loaded, taken = apart(take, folder, name, options.single)
                rows.append(Row("guard", name, f"load of {options.hits:,} hits", **loaded))
                rows.append(Row("guard", name, f"{options.single:,} hits, one by one", **taken))
    report(compared(medians(rows), WITHOUT, goal="≤ 1.05"), options.json)


def medians(rows: list[Row]) -> list[Row]:
    """Return the medians of the rounds."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.size, row.what), []).append(row)
    return [
        dataclasses.replace(
            same[0],
            seconds=statistics.median(row.seconds for row in same),
            processor=statistics.median(row.processor for row in same),
            peak_mb=max(row.peak_mb for row in same),
        )
        for same in (groups[key] for key in sorted(groups))
    ]


def take(folder: str, name: str, single: int) -> tuple[dict, dict]:
    """Load the hits into a new project, then take single ones."""
    if name == WITHOUT:
        hits._set_repeated_aside = lambda *_, **__: False
    with (
        tempfile.TemporaryDirectory() as home,
        at.connect("bench", path=Path(home) / "bench.duckdb") as project,
    ):
        loaded = measured(lambda: at.load(project, hits=Path(folder) / "hits.parquet"))
        service = project.transport
        records = [record(number) for number in range(single)]

        def one_by_one() -> None:
            for each in records:
                service.start_hit(each).result(SECONDS)
                service._hits.settle()

        return loaded, measured(one_by_one)


def record(number: int) -> dict:
    """Return the row of a hit as the server accepts it."""
    body = {
        "projectId": "bench",
        "hitId": f"00000000-0000-7000-8000-{number:012x}",
        "pageUrl": "https://shop.example/",
        "trackerId": f"single-{number % 50}",
        "isPersistent": True,
    }
    request = ServiceRequest({"type": "http", "headers": [], "client": ("203.0.113.7", 1)})
    moment = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1) + timedelta(seconds=number / 2)
    row = pages._record(read_hit(body), request, ProjectSettings(), None)
    return row | {"serverDate": moment, "ingestedAt": moment}


if __name__ == "__main__":
    main()
