"""Rule-based attribution of ten million touchpoints, beside what else there is, in one run.

``python tests/benchmarks/attribution.py`` makes the journeys and a virtual environment for the peers, runs every
contender in turn, several rounds, checks that they agree where their definitions do, and prints a table of
medians and ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pandas as pd
from journeys import write_journeys

HERE = Path(__file__).parent
OURS = ("attrib_ds", "attrib_ds_three")
PEERS = {
    "channel_attribution": ["ChannelAttribution==2.2.5", "matplotlib", "pandas<3", "pyarrow"],
    "marketing_attribution_models": ["marketing-attribution-models==2.1.1", "pandas<3", "pyarrow", "seaborn"],
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journeys", type=int, default=2_500_000)
    parser.add_argument("--conversions", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=["channel_attribution"], choices=list(PEERS))
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        touches = write_journeys(folder, journeys=options.journeys, conversions=options.conversions)
        pythons = dict.fromkeys(OURS, sys.executable) | {
            peer: _environment(folder, peer) for peer in options.peers
        }
        runs: dict[str, list[dict]] = {name: [] for name in pythons}
        for _ in range(options.rounds):
            for name, python in pythons.items():
                runs[name].append(_run(python, name, folder, options.timeout))
    _check_agreement(runs)
    ours = statistics.median(run["seconds"] for run in runs["attrib_ds"])
    rows = []
    for name, results in runs.items():
        seconds = statistics.median(run["seconds"] for run in results)
        rows.append(
            {
                "contender": name,
                "models": len(results[0]["credited"]),
                "seconds": round(seconds, 2),
                "ratio to ours": round(seconds / ours, 1),
                "peak MB": round(statistics.median(run["peak_mb"] for run in results)),
            }
        )
    print(
        f"{touches:,} touchpoints, {options.conversions:,} conversions, medians of {options.rounds} rounds\n"
    )
    print(pd.DataFrame(rows).to_string(index=False))


def _environment(folder: Path, peer: str) -> str:
    home = folder / f"venv-{peer}"
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS[peer]], check=True)
    return python


def _run(python: str, name: str, folder: Path, timeout: int) -> dict:
    command = [python, str(HERE / "contenders.py"), name, str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if finished.returncode:
        raise SystemExit(f"{name} failed:\n{finished.stderr[-2000:]}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def _check_agreement(runs: dict[str, list[dict]]) -> None:
    """First, last and linear are defined alike everywhere, so the credits must be equal."""
    ours = runs["attrib_ds"][0]["credited"]
    for name, results in runs.items():
        for model in ("first_touch", "last_touch", "linear"):
            for node, credited in results[0]["credited"].get(model, {}).items():
                if abs(credited - ours[model][node]) > 1e-6 * ours[model][node]:
                    raise SystemExit(
                        f"{name} credits {credited} to {node} under {model}; ours: {ours[model][node]}"
                    )


if __name__ == "__main__":
    main()
