"""Credits against the simulated truth, of this package and two others.

``python tests/benchmarks/truth.py`` simulates every scenario with five seeds (``--varied 3`` adds worlds with random
parameters) and credits it with every model. Only one world is in memory at a time. The rows show, as means over worlds:

- the mean absolute error of the paid channels' shares in percentage points;
- the level, the ratio of their credit to the conversions they caused (1 is right), with its extremes over worlds;
- the relative error of amounts, the rank correlation, and the credit of channels without an effect relative to that of
  the paid ones;
- right decisions: which of two channels deserves the next euro, if a touchpoint of either costs the same. The sign of the
  difference of their effects per touchpoint is compared with that of the truth, for all pairs of paid channels. Pairs are
  left out if their true effects differ by less than a tenth of the larger, or by less than two standard errors of the
  simulated truth. A model that sees no difference is right in half of the pairs;
- the verdicts on a model, and the right decisions in worlds where the verdict is clear.

``--active`` adds the worlds of ``worlds.py``, all with users of heavy-tailed activity.

The other packages are installed in environments below ``--work``.
"""

from __future__ import annotations

import dataclasses
import itertools
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
from worlds import WORLDS
from worlds import draw as drawn_world
from worlds import truth as truth_of

import attrib_ds as at
from attrib_ds.attribution.models import rule_models
from attrib_ds.simulation.scenarios import SCENARIOS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from attrib_ds.attribution.models import Model

HERE = Path(__file__).parent
CONTROLS = ["organic", "direct"]
COVARIATES = ["trait"]
#: Share of users from whom each channel is withheld, in a separate world with the same seed.
HOLDOUT = 0.05
#: Pairs whose true effects differ by less than this part of the larger are ties.
TIE = 0.1
RULES = {name.replace("_", " "): name for name in rule_models() if name != "participation"}
HAZARD, EXPERIMENT = "discrete hazard", "holdout"
MODELS: dict[str, Model | str] = RULES | {
    "Markov 1": at.models.Markov(),
    "Markov 2": at.models.Markov(order=2),
    "Shapley of observed sets": at.models.Shapley(),
    "Shapley by conversion rates": at.models.ConversionRateShapley(),
    "Fractribution (first)": at.models.Fractribution(transform="first"),
    HAZARD: at.models.DiscreteHazard(),
}
VERDICTS = ("clear", "cannot tell", "confounded")
#: Titles of the means over worlds; the share error is in percentage points.
MEANS = {
    "error": "Share error",
    "level": "Level",
    "amounts": "Error of amounts",
    "rank": "Rank correlation",
    "controls": "Credit of controls",
    "held": "Coverage",
}


def main() -> None:
    """Evaluate every model in every world, and print the tables."""
    arguments = parser(__doc__)
    choices = [*MODELS, EXPERIMENT]
    arguments.add_argument("--users", type=int, default=300_000)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--first-seed", type=int, default=1)
    arguments.add_argument("--varied", type=int, default=0, help="number of worlds with random parameters")
    arguments.add_argument("--scenarios", nargs="*", default=list(SCENARIOS), choices=list(SCENARIOS))
    arguments.add_argument("--active", nargs="*", default=[], choices=list(WORLDS))
    arguments.add_argument("--models", nargs="*", default=choices, choices=choices)
    arguments.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    arguments.add_argument(
        "--timeout", type=int, default=900, help="maximum seconds per run of another package"
    )
    arguments.add_argument("--work", type=Path, help="folder for the other packages; temporary by default")
    arguments.add_argument("--worlds", type=Path, help="file to write the figures of every world to, as CSV")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pythons = {peer: environment(folder, peer) for peer in options.peers}
        results: list[dict[str, object]] = []
        for world in _worlds(options):
            facts = {"kind": world.kind, "scenario": world.name, "seed": world.seed}
            results += [facts | row for row in _judged(world, options, pythons)]
            print(f"{world.name}, {world.kind} parameters, seed {world.seed}", flush=True)
            if options.worlds:
                pd.DataFrame(results).to_csv(options.worlds, index=False)
        results += _active(options)
    if options.worlds:
        pd.DataFrame(results).to_csv(options.worlds, index=False)
    report(_rows(pd.DataFrame(results), options), options.json)


@dataclasses.dataclass(frozen=True)
class World:
    """A scenario to simulate with a seed; ``kind`` is ``"fixed"``, or ``"random"`` for varied parameters."""

    kind: str
    name: str
    scenario: at.simulation.Scenario
    seed: int
    users: int


def _worlds(options: argparse.Namespace) -> Iterator[World]:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name in options.scenarios:
        for seed in seeds:
            yield World("fixed", name, SCENARIOS[name], seed, options.users)
        for draw in range(options.varied):
            seed = options.first_seed + 1_000 + draw
            yield World("random", name, at.simulation.varied_scenario(name, seed), seed, options.users)


def _judged(
    world: World, options: argparse.Namespace, pythons: dict[str, str]
) -> Iterator[dict[str, object]]:
    """Compare every model, package and experiment with the truth of a world."""
    simulated = at.simulate(world.scenario, users=world.users, seed=world.seed)
    truth = Truth.of(simulated)
    with warnings.catch_warnings():
        # Warnings of confounding and of nodes at the checkout are counted as verdicts.
        warnings.simplefilter("ignore", UserWarning)
        labels = [name for name in options.models if name != EXPERIMENT]
        yield from _ours(labels, _paths(simulated), truth, simulated.scenario.mediations)
        for peer, python in pythons.items():
            yield from _peers(peer, python, simulated, truth, options.timeout)
        del simulated
        if EXPERIMENT in options.models:
            yield from _experiments(world, truth)


def _active(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Compare models with the truth of worlds whose users differ in activity."""
    labels = [name for name in options.models if name != EXPERIMENT]
    for name in options.active:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            drawn = drawn_world(WORLDS[name], users=options.users, seed=seed)
            caused = truth_of(WORLDS[name], users=options.users, plan=seed)
            nodes = [*caused.index, *CONTROLS]
            counts = drawn.touchpoints["node_id"].value_counts().reindex(nodes, fill_value=0)
            truth = Truth(caused.reindex(nodes, fill_value=0.0), counts)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                for row in _ours(labels, drawn.paths(), truth):
                    yield {"kind": "active", "scenario": name, "seed": seed} | row
            print(f"{name}, seed {seed}", flush=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Truth:
    """Conversions caused by each node, and its touchpoints."""

    caused: pd.Series[float]
    touchpoints: pd.Series[int]

    @classmethod
    def of(cls, simulated: at.Simulation) -> Truth:
        caused = simulated.truth().set_index("node_id")["removal"]
        counts = simulated.touchpoints["node_id"].value_counts().reindex(caused.index, fill_value=0)
        return cls(caused, counts)

    @property
    def paid(self) -> pd.Index[str]:
        return self.caused.index.difference(CONTROLS, sort=False)

    def compare(self, credited: pd.Series[float], intervals: pd.DataFrame | None = None) -> dict[str, float]:
        """Compare credits, and perhaps intervals, with the conversions caused."""
        caused, found = self.caused[self.paid], credited.reindex(self.caused.index).fillna(0.0)
        unpaid, found = found[CONTROLS].sum(), found[self.paid]
        share = np.clip(found, 0, None) / np.clip(found, 0, None).sum()
        right, pairs = self._decisions(found)
        compared = {
            "error": 100 * (share - np.clip(caused, 0, None) / np.clip(caused, 0, None).sum()).abs().mean(),
            "level": found.sum() / caused.sum(),
            "amounts": (found - caused).abs().sum() / caused.sum(),
            "rank": spearmanr(found, caused).statistic,
            "controls": unpaid / found.sum(),
            "right": right,
            "pairs": pairs,
        }
        if intervals is not None:
            rows = intervals.reindex(self.paid)
            compared["held"] = float(caused.between(rows["low"], rows["high"]).mean())
        return compared

    def _decisions(self, found: pd.Series[float]) -> tuple[float, int]:
        """Count the right decisions on the next euro, and the pairs of channels without ties."""
        right, pairs = 0.0, 0
        for pair in itertools.combinations(self.paid, 2):
            touched = self.touchpoints[list(pair)].to_numpy(dtype=float)
            if not touched.all():
                continue
            caused = self.caused[list(pair)].to_numpy()
            effects, estimates = caused / touched, found[list(pair)].to_numpy() / touched
            difference = effects[0] - effects[1]
            # Counts of conversions vary like those of a Poisson distribution.
            error = np.sqrt((np.maximum(np.abs(caused), 1) / touched**2).sum())
            if abs(difference) <= max(2 * error, TIE * np.abs(effects).max()):
                continue
            pairs += 1
            right += (1 + np.sign(difference) * np.sign(estimates[0] - estimates[1])) / 2
        return right, pairs


def _ours(
    labels: list[str], paths: at.Paths, truth: Truth, mediations: tuple[tuple[str, str, float], ...] = ()
) -> Iterator[dict[str, object]]:
    for label in labels:
        before = _processor()
        credits = at.attribute(paths, MODELS[label])
        spent = _processor() - before
        row: dict[str, object] = {"model": label, "processor": spent}
        if label != HAZARD:
            by_node = credits.dropna(subset="node_id").set_index("node_id")["conversions"]
            yield row | truth.compare(by_node)
            continue
        mediators: dict[str, list[str]] = {}
        for source, mediator, _ in mediations:
            mediators.setdefault(source, []).append(mediator)
        effects = at.estimate_effects(paths, controls=CONTROLS)
        table = effects.table().dropna(subset="node_id").set_index("node_id")
        test = effects.verdict().iloc[0]
        verdict = {"verdict": test["verdict"], "controls_share": test["share"]}
        yield row | verdict | truth.compare(table["caused"], table)
        if mediators:
            through = effects.through(mediators).set_index("node_id")
            total = through[["total", "total_low", "total_high"]].set_axis(["caused", "low", "high"], axis=1)
            total = total.combine_first(table[["caused", "low", "high"]])
            yield {"model": f"{HAZARD}, mediators named"} | verdict | truth.compare(total["caused"], total)


def _paths(simulated: at.Simulation) -> at.Paths:
    return at.Paths.from_frames(simulated.touchpoints, simulated.conversions, users=simulated.users)


def _peers(
    peer: str, python: str, simulated: at.Simulation, truth: Truth, timeout: int
) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        simulated.touchpoints.to_parquet(Path(folder) / "touchpoints.parquet")
        simulated.conversions.to_parquet(Path(folder) / "conversions.parquet")
        command = [python, str(HERE / "truth_peers.py"), peer, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    for model, credited in json.loads(done.stdout.strip().splitlines()[-1]).items():
        yield {"model": f"{peer}: {model}", **truth.compare(pd.Series(credited))}


def _experiments(world: World, truth: Truth) -> Iterator[dict[str, object]]:
    """Run a holdout on every channel, and combine its effects with a model and the proportions of a rule."""
    simulated = at.simulate(world.scenario, users=world.users, seed=world.seed, holdout=HOLDOUT)
    paths = _paths(simulated)
    effects = at.estimate_effects(paths, controls=CONTROLS)
    logged = simulated.withheld.merge(simulated.opportunities, how="left")
    for name, withheld in (("", simulated.withheld), (", opportunities logged", logged)):
        holdout = at.experiments.holdout_effects(paths, withheld, covariates=COVARIATES)
        for label, result in (("holdout only", holdout), ("holdout and models", effects.combine(holdout))):
            table = result.table().dropna(subset="node_id").set_index("node_id")
            yield {"model": f"{label}{name}", **truth.compare(table["caused"], table)}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rows(results: pd.DataFrame, options: argparse.Namespace) -> Iterator[Row]:
    """Return means over worlds, of the errors per scenario and of the cost per fit."""
    for (kind, scenario), part in results.groupby(["kind", "scenario"], sort=False):
        size = scenario + {"random": ", random parameters", "active": ", active users"}.get(kind, "")
        for label, runs in part.groupby("model", sort=False):
            yield Row(
                "truth", label, size, peer="conversions caused in the simulation", figures=_figures(runs)
            )
    if "processor" not in results:
        return
    fits = results.groupby("model", sort=False)["processor"].mean().dropna()
    rule = fits[fits.index.isin(RULES)].mean()
    for label, seconds in ({"any rule": rule} | fits.drop(RULES, errors="ignore").to_dict()).items():
        row = Row("fit", label, f"{options.users:,} users", processor=seconds)
        is_compared = label != "any rule" and rule > 0
        if label == "any rule" and np.isnan(rule):
            continue
        yield dataclasses.replace(row, peer="any rule", ratio=seconds / rule) if is_compared else row


def _figures(runs: pd.DataFrame) -> dict[str, float]:
    """Return the figures of a model in a scenario."""
    means = runs[[name for name in MEANS if name in runs]].mean().dropna()
    figures = {MEANS[name]: round(float(mean), 3) for name, mean in means.items()}
    figures |= {
        "Lowest level": round(float(runs["level"].min()), 3),
        "Highest level": round(float(runs["level"].max()), 3),
        "Right decisions": round(float(runs["right"].sum() / max(runs["pairs"].sum(), 1)), 3),
        "Pairs": int(runs["pairs"].sum()),
        "Worlds": len(runs),
    }
    if "verdict" not in runs or not runs["verdict"].notna().any():
        return figures
    figures |= {verdict.capitalize(): int((runs["verdict"] == verdict).sum()) for verdict in VERDICTS}
    clear = runs[runs["verdict"] == "clear"]
    if clear["pairs"].sum():
        figures["Right if clear"] = round(float(clear["right"].sum() / clear["pairs"].sum()), 3)
    return figures


if __name__ == "__main__":
    main()
