"""Cost of intervals under all rules, relative to a run without intervals, from Parquet to credits.

``python tests/benchmarks/bootstrap.py`` generates journeys from a seed, credits them without intervals, with closed-form
intervals and with a bootstrap, in several rounds, and prints medians and their ratios to the run without intervals.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pandas as pd
from journeys import write_journeys

import attrib_ds as at
from attrib_ds.attribution.models.named import rule_models


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journeys", type=int, default=1_000_000)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=list(rule_models()))
    options = parser.parse_args()
    ways = {
        "single run": {},
        "closed form": {"confidence": 0.95},
        f"{options.replicates} replicates": {
            "confidence": 0.95,
            "intervals": "bootstrap",
            "replicates": options.replicates,
        },
    }
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        touches = write_journeys(folder, journeys=options.journeys, conversions=options.journeys // 20)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, arguments in ways.items():
                start = time.perf_counter()
                paths = at.Paths.from_frames(
                    folder / "touchpoints.parquet", folder / "conversions.parquet", lookback="40D"
                )
                at.attribute(paths, options.models, **arguments)
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    rows = [
        {"way": name, "seconds": round(each, 2), "ratio": round(each / medians["single run"], 1)}
        for name, each in medians.items()
    ]
    print(f"{touches:,} touchpoints of {options.journeys:,} journeys, {len(options.models)} models\n")
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
