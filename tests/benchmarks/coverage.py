"""How often intervals of credits hold what they should, over repeated worlds.

``python tests/benchmarks/coverage.py`` simulates a world again and again with other users, credits each of them with
intervals, and compares: the true standard deviation of a credit is that over the worlds, and what an interval should
hold is the mean over the worlds. It prints, for each model and kind of interval, the standard deviation that intervals
tell over the true one, and the share of intervals that hold the mean; both are means over the nodes. An interval
measures sampling error: this says nothing of whether the mean itself is what the node caused.
"""

from __future__ import annotations

import argparse
from statistics import NormalDist

import numpy as np
import pandas as pd
from scipy.stats import t as student

import attrib_ds as at
from attrib_ds.attribution.models import PathModel, model_named, rule_models
from attrib_ds.attribution.tally import GROUPS

BOUNDS = {
    "conversions": ("low", "high"),
    "value": ("value_low", "value_high"),
    "share": ("share_low", "share_high"),
}


def main() -> None:
    """Run the worlds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--scenario", default="random")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument(
        "--models",
        nargs="*",
        default=[*rule_models(), "shapley", "markov", "markov_2", "conversion_rate_shapley", "fractribution"],
    )
    parser.add_argument("--intervals", nargs="*", default=["closed_form", "bootstrap"])
    options = parser.parse_args()
    credits = pd.concat(
        _credited(options, world, intervals)
        for world in range(options.worlds)
        for intervals in options.intervals
    )
    print(
        f"{options.worlds} worlds of {options.users:,} users, {options.scenario}, {options.confidence:.0%}\n"
    )
    print(_judged(credits, options.confidence, options.worlds).to_string(index=False))


def _credited(options: argparse.Namespace, world: int, intervals: str) -> pd.DataFrame:
    made = at.simulate(options.scenario, users=options.users, seed=10_000 + world)
    paths = at.Paths.from_frames(made.touchpoints, made.conversions)
    credits = at.attribute(
        paths,
        options.models,
        confidence=options.confidence,
        intervals=intervals,
        replicates=options.replicates,
        seed=world,
    )
    credits.attrs = {}
    return credits.assign(world=world, intervals=intervals)


def _judged(credits: pd.DataFrame, confidence: float, worlds: int) -> pd.DataFrame:
    cells = credits.groupby(["intervals", "model", "node_id"], dropna=False, sort=False)
    credits = credits[cells["world"].transform("size") == worlds]
    cells = credits.groupby(["intervals", "model", "node_id"], dropna=False, sort=False)
    rows = []
    normal = NormalDist().inv_cdf(0.5 + confidence / 2)
    for (intervals, model, _), cell in cells:
        is_jackknife = intervals == "closed_form" and isinstance(model_named(model), PathModel)
        reach = student.ppf(0.5 + confidence / 2, GROUPS - 1) if is_jackknife else normal
        row = {"intervals": intervals, "model": model}
        for name, (low, high) in BOUNDS.items():
            truth = cell[name].mean()
            # Bounds that stop at zero would tell a smaller deviation than the interval means.
            told = (cell[high] - cell[name]) if intervals == "closed_form" else (cell[high] - cell[low]) / 2
            row[f"sd {name}"] = np.sqrt((told**2).mean()) / reach / cell[name].std()
            row[f"holds {name}"] = ((cell[low] <= truth) & (truth <= cell[high])).mean()
        rows.append(row)
    by_node = pd.DataFrame(rows)
    return by_node.groupby(["intervals", "model"], sort=False).mean().round(3).reset_index()


if __name__ == "__main__":
    main()
