"""Compares DuckDB releases: credits of the sample to the last bit, and the time of the main computation.

Run as ``python tests/environments/duckdb_releases.py [1.5.6 2.0.1] [--journeys 1000000]``. It lets ``uv`` make an
environment for each release and prints the table of ``docs/reference/installation.md``.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BENCHMARKS = ROOT / "tests" / "benchmarks"
_ROUNDS = 3


def digest_of_the_sample() -> str:
    """Return a checksum of all credits of the sample shop, every bit of each number."""
    import attrib_ds as at
    from attrib_ds.attribution.models import rule_models

    models = {name: name for name in rule_models()}
    models |= {"markov": at.models.Markov(), "shapley": at.models.ConversionRateShapley()}
    with at.sample_project() as shop:
        paths = at.conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
        credits = at.attribute(paths, models)
    values = hashlib.sha256()
    for name, column in credits.items():
        is_number = column.dtype.kind == "f"
        values.update(
            f"{name} {[value.hex() for value in column] if is_number else column.tolist()}".encode()
        )
    return values.hexdigest()


def environment(folder: Path, release: str) -> str:
    """Make an environment with a release of DuckDB, and return its Python."""
    uv = shutil.which("uv") or sys.exit("uv is not installed")
    python = folder / release / "bin" / "python"
    settings = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder / release], check=True, env=settings)
    command = [uv, "pip", "install", "-q", "--python", python, str(ROOT), f"duckdb=={release}"]
    subprocess.run(command, check=True, env=settings)
    return str(python)


def answer(*command: str) -> str:
    """Run a program and return the last line that it prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]


def compare(releases: list[str], journeys: int) -> int:
    """Print the table, and return 1 if credits differ."""
    sys.path.append(str(_BENCHMARKS))
    from journeys import write_journeys

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pythons = {release: environment(folder, release) for release in releases}
        digests = {release: answer(python, __file__, "--digest") for release, python in pythons.items()}
        data = folder / "data"
        data.mkdir()
        write_journeys(data, journeys=journeys, conversions=journeys // 20)
        runs: dict[str, list[dict]] = {release: [] for release in releases}
        # In turns, so that a machine that others load is as busy for each release.
        for _ in range(_ROUNDS):
            for release, python in pythons.items():
                runs[release].append(
                    json.loads(answer(python, str(_BENCHMARKS / "contenders.py"), "ours", str(data)))
                )
    print(
        "| DuckDB | Credits of the sample | Seconds | Processor seconds | Peak, MB |\n|---|---|--:|--:|--:|"
    )
    for release in releases:
        figures = (
            f"{statistics.median(run[key] for run in runs[release]):.1f}"
            for key in ("seconds", "processor", "peak_mb")
        )
        print(f"| {release} | `{digests[release][:16]}` | {' | '.join(figures)} |")
    credited = [run["credited"] for release in releases for run in runs[release]]
    return int(len(set(digests.values())) > 1 or any(each != credited[0] for each in credited))


def main() -> int:
    """Compare releases, or print the checksum of the release that is installed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", nargs="*", default=["1.5.6", "2.0.1"])
    parser.add_argument("--journeys", type=int, default=1_000_000)
    parser.add_argument("--digest", action="store_true", help="print the checksum of the installed release")
    options = parser.parse_args()
    if options.digest:
        print(digest_of_the_sample())
        return 0
    return compare(options.releases, options.journeys)


if __name__ == "__main__":
    sys.exit(main())
