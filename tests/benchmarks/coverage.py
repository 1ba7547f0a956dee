"""Coverage of the intervals of credits, over simulated worlds.

``python tests/benchmarks/coverage.py`` simulates worlds that differ only in their users and credits each with intervals.
For each model and kind of interval it prints ``width``, the mean half-width relative to that of a normal interval with
the standard deviation over worlds, and ``holds``, the share of intervals that contain the mean over worlds. Both are
means over nodes; ``least`` is the lowest share of a node. Intervals measure sampling error, so this does not test
whether the mean is what the node caused.

With 200 worlds, the standard error of a share is 1.5 points for one node, and smaller for the mean over nodes.
"""

from __future__ import annotations

import time
from statistics import NormalDist
from typing import TYPE_CHECKING

import pandas as pd
from results import Row, parser, report
from tqdm import tqdm

import attrib_ds as at
from attrib_ds.attribution.models import DiscreteHazard, model_named, rule_models

if TYPE_CHECKING:
    import argparse

BOUNDS = {
    "conversions": ("low", "high"),
    "value": ("value_low", "value_high"),
    "share": ("share_low", "share_high"),
}


def main() -> None:
    """Run the worlds and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--worlds", type=int, default=200)
    arguments.add_argument("--users", type=int, default=5_000)
    arguments.add_argument("--scenario", default="random")
    arguments.add_argument("--minutes", type=float, default=0.0, help="maximum minutes; 0 for no limit")
    arguments.add_argument("--nodes", action="store_true", help="also print a table by node")
    arguments.add_argument("--confidence", type=float, default=0.95)
    arguments.add_argument("--replicates", type=int, default=200)
    arguments.add_argument(
        "--models",
        nargs="*",
        default=[*rule_models(), "shapley", "markov", "markov_2", "conversion_rate_shapley", "fractribution"],
    )
    arguments.add_argument("--intervals", nargs="*", default=["closed_form", "bootstrap"])
    options = arguments.parse_args()
    start, parts = time.monotonic(), []
    for world in tqdm(range(options.worlds), unit="world"):
        parts += [_credited(options, world, intervals) for intervals in options.intervals]
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
    worlds = world + 1
    credits = pd.concat(parts)
    by_node = _judged(credits, options.confidence, worlds)
    if options.nodes:
        print(by_node.round(3).to_string(index=False), "\n")
    size = f"{worlds} worlds of {options.users:,} users, {options.scenario}"
    report([_row(cell, size, options.confidence) for _, cell in _summed(by_node).iterrows()], options.json)


def _row(cell: pd.Series, size: str, confidence: float) -> Row:
    figures = {
        f"{name}{which}": round(float(cell[f"{column} {name}"]), 3)
        for name in BOUNDS
        for which, column in (("", "holds"), (", lowest node", "least"))
    }
    held = float(cell["holds conversions"])
    return Row(
        "coverage",
        f"{cell['model']}, {cell['intervals'].replace('_', ' ')}",
        size,
        peer=f"nominal coverage of {confidence:.0%}",
        ratio=held / confidence,
        figures=figures,
    )


def _credited(options: argparse.Namespace, world: int, intervals: str) -> pd.DataFrame:
    world_frames = at.simulate(options.scenario, users=options.users, seed=10_000 + world)
    paths = at.Paths.from_frames(world_frames.touchpoints, world_frames.conversions, users=world_frames.users)
    wanted = [
        name
        for name in options.models
        if intervals == "closed_form" or not isinstance(model_named(name), DiscreteHazard)
    ]
    credits = at.attribute(
        paths,
        wanted,
        confidence=options.confidence,
        intervals=intervals,
        replicates=options.replicates,
        seed=world,
    )
    credits.attrs = {}
    return credits.assign(world=world, intervals=intervals)


def _judged(credits: pd.DataFrame, confidence: float, worlds: int) -> pd.DataFrame:
    keys = ["intervals", "model", "node_id"]
    cells = credits.groupby(keys, dropna=False, sort=False)
    credits = credits[cells["world"].transform("size") == worlds]
    rows = []
    normal = NormalDist().inv_cdf(0.5 + confidence / 2)
    for cell_keys, cell in credits.groupby(keys, dropna=False, sort=False):
        row = dict(zip(keys, cell_keys, strict=True)) | {"credited": cell["conversions"].mean()}
        for name, (low, high) in BOUNDS.items():
            truth = cell[name].mean()
            row[f"width {name}"] = (cell[high] - cell[low]).mean() / 2 / normal / cell[name].std()
            row[f"holds {name}"] = ((cell[low] <= truth) & (truth <= cell[high])).mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _summed(by_node: pd.DataFrame) -> pd.DataFrame:
    models = by_node.drop(columns=["node_id", "credited"]).groupby(["intervals", "model"], sort=False)
    means = models.mean()
    for name in BOUNDS:
        means[f"least {name}"] = models[f"holds {name}"].min()
    return means.round(3).reset_index()


if __name__ == "__main__":
    main()
