"""Credits against the simulated truth, of this package and two others.

``python tests/benchmarks/truth.py --users 300000 --seeds 2`` simulates the scenarios (``--varied 3`` adds worlds with
random parameters) and credits them with every model. The rows show the mean absolute error of the paid channels' shares
in percentage points; the level, the ratio of their credit to the conversions they caused (1 is right); the relative error
of amounts; the rank correlation; and the credit of channels without an effect relative to that of the paid ones. All are
means over worlds. The other packages are installed in environments below ``--work``. ``--slow`` adds latent intent, which
takes minutes per fit.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from peers import PEERS, environment
from results import Row, parser, report
from scipy.stats import spearmanr

import attrib_ds as at
from attrib_ds.attribution.models.named import rule_models
from attrib_ds.simulation.scenarios import SCENARIOS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from attrib_ds.attribution.models.model import Model

HERE = Path(__file__).parent
CONTROLS = ["organic", "direct"]
COVARIATES = ["trait"]
#: Share of users from whom each channel is withheld, in a separate world with the same seed.
HOLDOUT = 0.05
MODELS: dict[str, Model | str] = {name: name for name in rule_models() if name != "participation"} | {
    "Markov 1": at.models.Markov(),
    "Markov 2": at.models.Markov(order=2),
    "Shapley of observed sets": at.models.Shapley(),
    "Shapley of conversion rates": at.models.ConversionRateShapley(),
    "Fractribution (first)": at.models.Fractribution(transform="first"),
    "discrete hazard": at.models.DiscreteHazard(),
}
#: Titles of the means; the share error is in percentage points.
FIGURES = {
    "error": "Share error",
    "level": "Level",
    "amounts": "Error of amounts",
    "rank": "Rank correlation",
    "controls": "Credit of controls",
    "held": "Coverage",
    "warned": "Warned",
}
SLOW = {"latent intent with controls": at.models.LatentIntent(controls=tuple(CONTROLS))}


def main() -> None:
    """Evaluate every model in every world, and print the tables."""
    arguments = parser(__doc__)
    arguments.add_argument("--users", type=int, default=300_000)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--first-seed", type=int, default=1)
    arguments.add_argument("--varied", type=int, default=0, help="number of worlds with random parameters")
    arguments.add_argument("--scenarios", nargs="*", default=list(SCENARIOS), choices=list(SCENARIOS))
    arguments.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    arguments.add_argument("--slow", action="store_true", help="include latent intent")
    arguments.add_argument("--only-slow", action="store_true", help="run latent intent only")
    arguments.add_argument(
        "--timeout", type=int, default=900, help="maximum seconds per run of another package"
    )
    arguments.add_argument("--work", type=Path, help="folder for the other packages; temporary by default")
    options = arguments.parse_args()
    models = MODELS | (SLOW if options.slow else {})
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pythons = {peer: environment(folder, peer) for peer in options.peers}
        results = []
        for kind, name, world in _worlds(options):
            if options.only_slow:
                rows = list(_ours(SLOW, _simulated(world, options.users)))
            else:
                simulated = _simulated(world, options.users)
                rows = [
                    *_ours(models, simulated),
                    *(row for each in pythons.items() for row in _peers(*each, simulated, options.timeout)),
                    *_experiments(world, options.users),
                ]
            results += [{"kind": kind, "scenario": name, **row} for row in rows]
    report(_rows(pd.DataFrame(results), options), options.json)


def _worlds(options: argparse.Namespace) -> Iterator[tuple[str, str, tuple[at.Scenario, int]]]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name in options.scenarios:
        for seed in seeds:
            yield "fixed", name, (SCENARIOS[name], seed)
        for draw in range(options.varied):
            seed = options.first_seed + 1_000 + draw
            yield "random", name, (at.varied_scenario(name, seed), seed)


def _simulated(world: tuple[at.Scenario, int], users: int) -> at.Simulation:
    scenario, seed = world
    return at.simulate(scenario, users=users, seed=seed)


def _paths(simulated: at.Simulation) -> at.Paths:
    return at.Paths.from_frames(simulated.touchpoints, simulated.conversions, users=simulated.users)


def _ours(models: dict[str, Model | str], simulated: at.Simulation) -> Iterator[dict[str, object]]:
    truth, paths = _truth(simulated), _paths(simulated)
    for label, model in models.items():
        before = _processor()
        credits = at.attribute(paths, model)
        spent = _processor() - before
        by_node = credits.dropna(subset="node_id").set_index("node_id")["conversions"]
        yield {"model": label, "processor": spent, **_compared(by_node, truth)}


def _peers(peer: str, python: str, simulated: at.Simulation, timeout: int) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        simulated.touchpoints.to_parquet(Path(folder) / "touchpoints.parquet")
        simulated.conversions.to_parquet(Path(folder) / "conversions.parquet")
        command = [python, str(HERE / "truth_peers.py"), peer, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    truth = _truth(simulated)
    for model, credited in json.loads(done.stdout.strip().splitlines()[-1]).items():
        yield {"model": f"{peer}: {model}", **_compared(pd.Series(credited), truth)}


def _experiments(world: tuple[at.Scenario, int], users: int) -> Iterator[dict[str, object]]:
    """Run a holdout on every channel, and combine its effects with models."""
    scenario, seed = world
    simulated = at.simulate(scenario, users=users, seed=seed, holdout=HOLDOUT)
    truth, paths = _truth(simulated), _paths(simulated)
    credits = at.attribute(
        paths, {"linear": "linear", "discrete hazard": at.models.DiscreteHazard()}, confidence=0.95
    )
    for name, opportunities in (("", None), (", opportunities logged", simulated.opportunities)):
        found = at.experiments.holdout_effects(
            paths, simulated.withheld, opportunities=opportunities, covariates=COVARIATES
        )
        measured = found.set_index("node_id")
        yield {"model": f"holdout only{name}", **_compared(measured["caused"], truth, measured)}
        both = at.experiments.combine_with_experiment(credits, found, controls=CONTROLS, scaled=["linear"])
        averaged = both[both["model"] == "averaged"].set_index("node_id")
        yield {"model": f"holdout and models{name}", **_compared(averaged["combined"], truth, averaged)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", at.errors.ConfoundingWarning)
        effects = at.incremental_effects(paths, controls=CONTROLS)
    effects = effects.dropna(subset="node_id").set_index("node_id")
    warned = any(issubclass(warning.category, at.errors.ConfoundingWarning) for warning in caught)
    yield {
        "model": "discrete hazard",
        "warned": warned,
        "held": _held(effects, truth),
    }


def _truth(simulated: at.Simulation) -> pd.Series[float]:
    return simulated.truth().set_index("node_id")["removal"]


def _compared(
    credited: pd.Series[float], truth: pd.Series[float], intervals: pd.DataFrame | None = None
) -> dict[str, object]:
    """Compare credits with the conversions caused."""
    paid = truth.index.difference(CONTROLS, sort=False)
    caused, found = truth[paid], credited.reindex(truth.index).fillna(0.0)
    unpaid, found = found[CONTROLS].sum(), found[paid]
    share = np.clip(found, 0, None) / np.clip(found, 0, None).sum()
    compared = {
        "error": 100 * (share - np.clip(caused, 0, None) / np.clip(caused, 0, None).sum()).abs().mean(),
        "level": found.sum() / caused.sum(),
        "amounts": (found - caused).abs().sum() / caused.sum(),
        "rank": spearmanr(found, caused).statistic,
        "controls": unpaid / found.sum(),
    }
    return compared | ({} if intervals is None else {"held": _held(intervals, truth)})


def _held(intervals: pd.DataFrame, truth: pd.Series[float]) -> float:
    paid = truth.index.difference(CONTROLS, sort=False)
    rows = intervals.reindex(paid)
    return float(truth[paid].between(rows["low"], rows["high"]).mean())


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rows(results: pd.DataFrame, options: argparse.Namespace) -> Iterator[Row]:
    """Return means over worlds, of the errors per scenario and of the cost per fit."""
    for (kind, scenario), part in results.groupby(["kind", "scenario"], sort=False):
        worlds = options.seeds if kind == "fixed" else options.varied
        size = f"{scenario}, {kind} parameters, {worlds} worlds of {options.users:,} users"
        for label, runs in part.groupby("model", sort=False):
            means = runs[[name for name in FIGURES if name in runs]].mean()
            figures = {FIGURES[name]: round(float(mean), 3) for name, mean in means.dropna().items()}
            yield Row("truth", label, size, peer="conversions caused in the simulation", figures=figures)
    fits = results.groupby("model", sort=False)["processor"].mean().dropna()
    for label, seconds in fits.items():
        row = Row("fit", label, f"{options.users:,} users", processor=seconds)
        yield (
            dataclasses.replace(row, peer="linear", ratio=seconds / fits["linear"])
            if "linear" in fits
            else row
        )


if __name__ == "__main__":
    main()
