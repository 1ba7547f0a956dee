"""Opens landing pages that send an order while they load, on busy cores, and looks for orders older than their visit.

    PYTHONPATH=tests python -m reliability.landing_orders --pages 500 --minutes 5

The page view and the order go out at one moment, and each waits for a server that has little time. Both have the time
of the page's clock, so that the order never precedes the visit that led to it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reliability.browser_engines import EARLY, NODE, SPRING, Run, measured, rows
from support.browsers import PROGRAMS, browser, missing, started


@dataclass
class Summary:
    """What came of the pages: how many were opened, how many orders arrived, how many precede their visit."""

    pages: int = 0
    orders: int = 0
    early: int = 0

    @property
    def is_right(self):
        return self.pages == self.orders > 0 == self.early


@contextmanager
def busy(processes):
    """Keep processors busy while the block runs."""
    with ExitStack() as stack:
        for _ in range(processes):
            stack.enter_context(started(sys.executable, "-c", "while True: pass"))
        yield


def run(engine, *, pages, minutes, processes):
    """Open as many landing pages as the time allows; return the summary."""
    summary, deadline = Summary(), time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.duckdb"
        with measured(file) as (world, site), browser(engine) as one, busy(processes):
            visitor = Run(world, site, one, scale=1)
            while summary.pages < pages and time.monotonic() < deadline:
                visitor.forget()
                one.go(f"{site}/order{SPRING[1:]}&n={summary.pages:036}")
                summary.pages += 1
            world.wait(lambda _: len(world.nonces("0000")) >= summary.pages)
            summary.orders = len(world.nonces("0000"))
            one.go("about:blank")
        summary.early = rows(file, EARLY, NODE)[0][0]
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=500, help="landing pages of each engine")
    parser.add_argument("--minutes", type=float, default=5, help="longest time of each engine")
    parser.add_argument(
        "--busy", type=int, default=2 * (os.cpu_count() or 1), help="processes that only compute"
    )
    parser.add_argument("--engines", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    options = parser.parse_args()
    summaries = []
    for engine in options.engines:
        if missing(engine):
            print(f"{engine}: {', '.join(missing(engine))} is not installed", flush=True)
            continue
        summary = run(engine, pages=options.pages, minutes=options.minutes, processes=options.busy)
        print(
            f"{engine}: {summary.pages} pages, {summary.orders} orders, {summary.early} older than their visit",
            flush=True,
        )
        summaries.append(summary)
    return 0 if summaries and all(summary.is_right for summary in summaries) else 1


if __name__ == "__main__":
    sys.exit(main())
