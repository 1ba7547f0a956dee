"""Time from touchpoints to credits, compared with other packages.

``python tests/benchmarks/attribution.py --journeys 1000000`` generates journeys as Parquet files, installs the other
packages in environments below ``--work``, runs every contender in several rounds, checks that credits agree where the
definitions do, and prints a Markdown table of medians. ``ours_as_...`` computes the models of that contender only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from journeys import write_journeys
from peers import PEERS, environment

HERE = Path(__file__).parent
OURS = ("ours", "ours_as_numpy_floor", "ours_as_channel_attribution", "ours_rules", "numpy_floor")
#: Number of journeys per conversion.
CONVERTING = 20
SAME = ("first_touch", "last_touch", "linear", "position_based", "time_decay", "markov_1", "markov_2")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journeys", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--timeout", type=int, default=900, help="maximum seconds per run")
    parser.add_argument("--work", type=Path, help="folder for the other packages; temporary by default")
    options = parser.parse_args()
    print("| Journeys | Contender | Models | Seconds | Processor seconds | Whole process | Peak MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        pythons = dict.fromkeys(OURS, sys.executable) | {
            peer: environment(work, peer) for peer in options.peers
        }
        for journeys in options.journeys:
            folder = Path(temporary) / str(journeys)
            folder.mkdir()
            write_journeys(folder, journeys=journeys, conversions=journeys // CONVERTING)
            runs: dict[str, list[dict]] = {name: [] for name in pythons}
            for _ in range(options.rounds):
                for name, python in pythons.items():
                    runs[name].append(_run(python, name, folder, options.timeout))
            _check_agreement(runs)
            for name, results in runs.items():
                seconds, processor, process, peak = (
                    statistics.median(run[key] for run in results)
                    for key in ("seconds", "processor", "process", "peak_mb")
                )
                print(
                    f"| {journeys:,} | {name} | {len(results[0]['credited'])} | {seconds:.2f} | "
                    f"{processor:.2f} | {process:.2f} | {peak:,.0f} |",
                    flush=True,
                )


def _run(python: str, name: str, folder: Path, timeout: int) -> dict:
    command = [python, str(HERE / "contenders.py"), name, str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if finished.returncode:
        raise SystemExit(f"{name} failed:\n{finished.stderr[-2000:]}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def _check_agreement(runs: dict[str, list[dict]]) -> None:
    """Stop if credits differ between contenders with the same definition."""
    ours = runs["ours"][0]["credited"]
    for name, results in runs.items():
        for model in SAME:
            for node, credited in results[0]["credited"].get(model, {}).items():
                if abs(credited - ours[model][node]) > 1e-9 * ours[model][node]:
                    raise SystemExit(
                        f"{name} credits {credited} to {node} under {model}; ours: {ours[model][node]}"
                    )


if __name__ == "__main__":
    main()
