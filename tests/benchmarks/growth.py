"""Growth of cost with the number of touchpoints, on DuckDB with bounded memory and on Spark.

``python tests/benchmarks/growth.py --millions 1 10 100`` runs sizes in millions of touchpoints; ``--spark 1 10`` adds
Spark. Each run is a separate process, measured from Parquet files to credits. Processor seconds are over all threads;
unlike elapsed time, they depend little on other programs.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from journeys import write_journeys
from results import Row, parser, report

#: A journey has four touchpoints on average, and one in twenty converts.
TOUCHES = 4
CONVERTING = 20
#: Number of journeys generated and shuffled at a time, one Parquet file each.
TOGETHER = 2_500_000
#: Models as they are called in the table.
NAMES = {
    "rules": "ten rules",
    "Markov 1": "Markov 1",
    "Markov 2": "Markov 2",
    "Shapley": "Shapley by conversion rates",
    "all": "ten rules, Markov 1 and 2, Shapley by conversion rates",
}

PROGRAM = """
import json, os, resource, sys, time
from pathlib import Path

import attrib_ds as at
from attrib_ds.attribution.models import rule_models

engine, folder, memory, wanted = sys.argv[1:]
models = {"rules": list(rule_models()), "Markov 1": at.models.Markov(), "Markov 2": at.models.Markov(order=2)}
models["Shapley"] = at.models.ConversionRateShapley()
several = {name: name for name in rule_models()} | {"markov": at.models.Markov(), "markov 2": at.models.Markov(order=2)}
models["all"] = several | {"shapley": at.models.ConversionRateShapley()}

def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + sum(_of(pid)[0] for pid in machines)

def _of(pid):
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"), peak

machines = []
started, before = time.perf_counter(), spent()
if engine == "DuckDB":
    paths = at.Paths.from_frames(f"{folder}/touchpoints", f"{folder}/conversions", memory=memory)
else:
    import ibis
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.driver.memory": memory.lower().removesuffix("b"), "spark.sql.shuffle.partitions": "8",
        "spark.local.dir": f"{folder}/spark", "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    backend = ibis.pyspark.connect(builder.getOrCreate())
    machines.append(backend._session.sparkContext._gateway.proc.pid)
    started, before = time.perf_counter(), spent()
    tables = [backend.read_parquet(f"{folder}/{name}", table_name=name) for name in ("touchpoints", "conversions")]
    paths = at.Paths.from_frames(*tables)
credits = at.attribute(paths, models[wanted])
seconds = time.perf_counter() - started
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + sum(_of(pid)[1] for pid in machines)) / 1024
credited = credits.groupby("model")["conversions"].sum()
counted = {"seconds": seconds, "processor": spent() - before, "megabytes": peak}
print(json.dumps(counted | {"conversions": float(credited.drop("participation", errors="ignore").max())}))
"""


def write(folder: Path, millions: float) -> int:
    """Write about the given millions of touchpoints, and return their exact number."""
    journeys, touches = round(millions * 1_000_000 / TOUCHES), 0
    for name in ("touchpoints", "conversions"):
        (folder / name).mkdir(parents=True)
    for part, first in enumerate(range(0, journeys, TOGETHER)):
        count = min(TOGETHER, journeys - first)
        touches += write_journeys(
            folder, journeys=count, conversions=count // CONVERTING, first=first, seed=20250101 + part
        )
        for name in ("touchpoints", "conversions"):
            (folder / f"{name}.parquet").rename(folder / name / f"{part:03d}.parquet")
    return touches


def run(engine: str, folder: Path, memory: str, wanted: str, limit: float) -> dict[str, float] | None:
    """Compute the credits in a separate process."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, engine, str(folder), memory, wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure every size, and print a table."""
    arguments = parser(__doc__)
    arguments.add_argument("--millions", type=float, nargs="*", default=[1, 10, 100])
    arguments.add_argument("--spark", type=float, nargs="*", default=[], help="sizes for Spark; needs Java")
    arguments.add_argument("--memory", default="4GB")
    arguments.add_argument("--limit", type=float, default=900, help="maximum seconds per run")
    arguments.add_argument("--models", nargs="*", default=["rules", "Markov 1", "Markov 2", "Shapley", "all"])
    arguments.add_argument("--folder", type=Path, help="folder for the journeys; temporary by default")
    chosen = arguments.parse_args()
    rows: list[Row] = []
    smallest: dict[tuple[str, str], tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for millions in sorted({*chosen.millions, *chosen.spark}):
            folder = (chosen.folder or Path(temporary)) / f"{millions:g}M"
            count = folder / "touches"
            if not count.exists():
                count.parent.mkdir(parents=True)
                count.write_text(str(write(folder, millions)))
            touches = int(count.read_text())
            engines = [("DuckDB", chosen.millions), ("Spark", chosen.spark)]
            for engine in [name for name, sizes in engines if millions in sizes]:
                for wanted in chosen.models:
                    found = run(engine, folder, chosen.memory, wanted, chosen.limit)
                    if found is None:
                        continue
                    base, seconds = smallest.setdefault((engine, wanted), (touches, found["processor"]))
                    growth = (found["processor"] / seconds) / (
                        touches * math.log(touches) / (base * math.log(base))
                    )
                    rows.append(
                        Row(
                            "growth",
                            f"{engine}: {NAMES[wanted]}",
                            f"{touches:,} touchpoints",
                            found["seconds"],
                            found["processor"],
                            found["megabytes"],
                            peer="n log n from the smallest",
                            ratio=growth,
                            goal="≤ 1",
                        )
                    )
    report(rows, chosen.json)


if __name__ == "__main__":
    main()
