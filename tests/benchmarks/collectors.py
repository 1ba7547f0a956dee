"""Hits per second that 1, 2 and 4 collectors accept, each against as many bare Starlette handlers.

``python tests/benchmarks/collectors.py`` starts collectors on one folder, without rate limits that matter, and sends hits over
keep-alive connections shared out among them, each as soon as the previous response has arrived; a hit is answered once it is
durable in the collector's journal. Before each round as many bare handlers are measured in the same way. Then the parts are
loaded into a new project. The medians of the rounds are printed.

The client competes with the servers for processors: with more processes than processors only the cost of a hit tells.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from collection import figures
from results import Row, parser, report
from service_events import PROJECT, Load, Tally, rate_of, started

import attrib_ds as at

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDLESS = ("--rate", "hits=100000000/1", "--rate", "hits-by-address=100000000/1")


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--hits", type=int, default=5_000, help="hits of a round")
    options.add_argument("--seconds", type=float, default=20.0, help="maximum seconds of a round")
    options.add_argument("--connections", type=int, default=32, help="of all processes together")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    options = options.parse_args()
    rows = []
    for number in options.processes:
        rows += measured(number, options)
    report(rows, options.json)


def measured(number: int, options) -> list[Row]:
    """Measure some collectors, and the loading of their parts."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        bare = [stack.enter_context(started("bare")) for _ in range(number)]
        with ExitStack() as collecting:
            own = [collecting.enter_context(collector(Path(made))) for _ in range(number)]
            rounds = [
                tuple(asyncio.run(total(each, options)) for each in (bare, own))
                for _ in range(options.rounds)
            ]
        size = f"{number} process{'es' if number > 1 else ''}, {options.hits:,} hits"
        began = resource.getrusage(resource.RUSAGE_SELF)
        start = time.monotonic()
        with at.connect(PROJECT, path=Path(made) / f"{PROJECT}.duckdb") as project:
            counts = at.load(project, hits=Path(made) / "parts").counts
        seconds = time.monotonic() - start
    ended = resource.getrusage(resource.RUSAGE_SELF)
    sent = sum(tally.events for _, tally in rounds)
    if counts["hits"] != sent:
        raise SystemExit(f"{sent} hits were accepted, and {counts['hits']} loaded")
    ratio = statistics.median(rate_of(accepted) / rate_of(before) for before, accepted in rounds)
    processor = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    return [
        Row("collectors", "bare handlers", size, figures=figures([before for before, _ in rounds])),
        Row(
            "collectors",
            "collectors",
            size,
            peer="bare handlers",
            ratio=ratio,
            figures=figures([accepted for _, accepted in rounds]),
        ),
        Row(
            "collectors",
            "load of their parts",
            f"{sent:,} hits in {counts['parts']} parts",
            figures={"hits/s": sent / seconds, "CPU ms/hit": 1_000 * processor / sent},
        ),
    ]


async def total(servers: list[tuple[str, int]], options) -> Tally:
    """Send the hits of a round to all servers at once."""
    share = max(options.connections // len(servers), 1)
    loads = [Load(url, process_id, "", share, sends_token=False) for url, process_id in servers]
    tallies = await asyncio.gather(
        *(load.run("hit", options.hits // len(servers), options.seconds) for load in loads)
    )
    together = Tally()
    for tally in tallies:
        together.add(tally)
    together.seconds = max(tally.seconds for tally in tallies)
    return together


@contextmanager
def collector(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a collector; yields its address and process id."""
    settings = folder / "settings.json"
    settings.write_text("{}")
    command = [sys.executable, "-m", "attrib_ds", "collect", PROJECT, "--to", str(folder / "parts"), *ENDLESS]
    command += ["--settings", str(settings), "--port", "0", "--home", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait(60)


if __name__ == "__main__":
    main()
