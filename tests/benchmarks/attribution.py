"""Time from touchpoints to credits, compared with other packages.

``python tests/benchmarks/attribution.py --journeys 1000000`` generates journeys as Parquet files, installs the other
packages in environments below ``--work``, runs every contender in several rounds, checks that credits agree where the
definitions do, and prints a Markdown table of medians. ``ours_as_...`` computes the models of that contender only.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from journeys import write_journeys
from peers import PEERS, environment
from results import Row, compared, parser, report

HERE = Path(__file__).parent
OURS = (
    *("ours", "ours_as_numpy_floor", "ours_as_channel_attribution", "ours_rules", "numpy_floor"),
    *("ours_three", "ours_three_from_frames", "plain_duckdb", "plain_polars", "plain_polars_from_frames"),
    "plain_duckdb_seven",
)
#: Number of journeys per conversion.
CONVERTING = 20
#: Contenders as they are called in the table.
WHAT = {
    "ours": "attrib_ds: ten rules, Markov 1 and 2, Shapley by conversion rates",
    "ours_rules": "attrib_ds: ten rules",
    "ours_as_numpy_floor": "attrib_ds: five rules, Markov 1 and 2",
    "numpy_floor": "plain NumPy: the same seven",
    "ours_as_channel_attribution": "attrib_ds: first, last, linear, Markov 1",
    "channel_attribution": "ChannelAttribution: the same four",
    "marketing_attribution_models": "marketing-attribution-models: six",
    "ours_three": "attrib_ds: first, last, linear",
    "ours_three_from_frames": "attrib_ds: first, last, linear, from pandas",
    "plain_duckdb": "a plain statement of DuckDB: the same three",
    "plain_duckdb_seven": "plain statements of DuckDB, chains in NumPy: the same seven",
    "plain_polars": "plain Polars: the same three",
    "plain_polars_from_frames": "plain Polars: the same three, from pandas",
}
#: What each is compared with, and the goal for the ratio of processor seconds.
PAIRS = {
    "ours": ("numpy_floor", ""),
    "ours_rules": ("numpy_floor", ""),
    "ours_as_numpy_floor": ("plain_duckdb_seven", "≤ 1.3"),
    "numpy_floor": ("ours_as_numpy_floor", "≥ 2"),
    "ours_as_channel_attribution": ("channel_attribution", "≤ 0.1"),
    "marketing_attribution_models": ("ours", ""),
    "ours_three": ("plain_duckdb", "≤ 1.3"),
    "ours_three_from_frames": ("plain_polars_from_frames", "≤ 1.3"),
}
SAME = ("first_touch", "last_touch", "linear", "position_based", "time_decay", "markov_1", "markov_2")


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--journeys", type=int, nargs="*", default=[100_000, 1_000_000])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    arguments.add_argument("--timeout", type=int, default=900, help="maximum seconds per run")
    arguments.add_argument("--work", type=Path, help="folder for the other packages; temporary by default")
    options = arguments.parse_args()
    rows: list[Row] = []
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
                seconds, processor, peak = (
                    statistics.median(run[key] for run in results)
                    for key in ("seconds", "processor", "peak_mb")
                )
                models = {"Models": len(results[0]["credited"])}
                rows.append(
                    Row(
                        "attribution",
                        WHAT[name],
                        f"{journeys:,} journeys",
                        seconds,
                        processor,
                        peak,
                        figures=models,
                    )
                )
    report(_compared(rows), options.json)


def _compared(rows: list[Row]) -> list[Row]:
    for ours, (peer, goal) in PAIRS.items():
        judged = {
            (row.size, row.what): row
            for row in compared(rows, WHAT[peer], goal=goal)
            if row.what == WHAT[ours]
        }
        rows = [judged.get((row.size, row.what), row) for row in rows]
    return rows


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
