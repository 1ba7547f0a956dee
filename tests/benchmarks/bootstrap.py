"""Cost of intervals under all rules, relative to a run without intervals, from Parquet to credits.

``python tests/benchmarks/bootstrap.py`` generates journeys from a seed, credits them without intervals, with closed-form
intervals and with a bootstrap, in several rounds, and prints medians and their ratios to the run without intervals.
"""

import statistics
import tempfile
import time
from pathlib import Path

from journeys import write_journeys
from results import Row, compared, parser, report

import attrib_ds as at
from attrib_ds.attribution.models import rule_models

#: Maximum cost of intervals aimed at, relative to a run without.
GOAL = "≤ 10"


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--journeys", type=int, default=1_000_000)
    arguments.add_argument("--replicates", type=int, default=200)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--models", nargs="*", default=list(rule_models()))
    options = arguments.parse_args()
    ways = {
        "without intervals": {},
        "closed form": {"confidence": 0.95},
        f"{options.replicates} replicates": {
            "confidence": 0.95,
            "intervals": "bootstrap",
            "replicates": options.replicates,
        },
    }
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_journeys(folder, journeys=options.journeys, conversions=options.journeys // 20)
        elapsed: dict[str, list[float]] = {name: [] for name in ways}
        processor: dict[str, list[float]] = {name: [] for name in ways}
        for round_number in range(options.rounds + 1):
            for name, intervals in ways.items():
                start, before = time.perf_counter(), time.process_time()
                paths = at.Paths.from_frames(
                    folder / "touchpoints.parquet", folder / "conversions.parquet", lookback="40D"
                )
                at.attribute(paths, options.models, **intervals)
                if round_number:  # the first one warms up
                    elapsed[name].append(time.perf_counter() - start)
                    processor[name].append(time.process_time() - before)
    rows = [
        Row(
            "intervals",
            name,
            f"{options.journeys:,} journeys",
            seconds=statistics.median(elapsed[name]),
            processor=statistics.median(processor[name]),
        )
        for name in ways
    ]
    report(compared(rows, "without intervals", goal=GOAL), options.json)


if __name__ == "__main__":
    main()
