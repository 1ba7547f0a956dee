"""Credits of raw hits where they lie, on DuckDB and on Spark.

``python tests/benchmarks/opened_hits.py --millions 1 10 --spark 1`` makes the hits of ``sessions.py``, with an order after
one hit in sixty, and measures ``open_hits`` from the Parquet files to the credits of three heuristics. Each run is a process
of its own; processor seconds and memory include those of Spark's Java process.
"""

import tempfile
import warnings
from typing import Any

import ibis
from results import Row, compared, parser, report
from sessions import apart, measured, write

import attrib_ds as at


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument(
        "--millions", type=float, nargs="*", default=[1, 10], help="millions of hits for DuckDB"
    )
    options.add_argument("--spark", type=float, nargs="*", default=[], help="millions for Spark; needs Java")
    options.add_argument("--memory", default="4GB", help="memory for DuckDB, or for Spark's driver")
    options = options.parse_args()
    rows = []
    for millions in sorted({*options.millions, *options.spark}):
        count = int(millions * 1_000_000)
        with tempfile.TemporaryDirectory() as folder:
            apart(write, folder, options.memory, count)
            for engine, sizes in (("DuckDB", options.millions), ("Spark", options.spark)):
                if millions in sizes:
                    used, figures = apart(opened, engine, folder, options.memory)
                    figures = {"hits/s": count / used["seconds"], **figures}
                    rows.append(Row("opened_hits", engine, f"{count:,} hits", **used, figures=figures))
    report(compared(rows, "DuckDB"), options.json)


def opened(engine: str, folder: str, memory: str) -> tuple[dict, dict]:
    """Credit orders to the sources of hits that an engine makes into sessions."""
    backend, process = ENGINES[engine](folder, memory)
    tables = [
        backend.read_parquet(f"{folder}/{name}.parquet", table_name=name) for name in ("hits", "orders")
    ]
    found: dict[str, float] = {}

    def credit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            site = at.open_hits(backend, hits=tables[0], events=tables[1])
            credits = at.attribute(
                at.conversion_paths(site, event_type="order"), ["first_touch", "last_touch", "linear"]
            )
        found["conversions"] = credits.groupby("model").conversions.sum().iloc[0]

    return measured(credit, process), found


def on_duckdb(folder: str, memory: str) -> tuple[Any, int | None]:
    """Return DuckDB, which spills to a file, and no process beside this one."""
    return ibis.duckdb.connect(f"{folder}/opened.duckdb", memory_limit=memory), None


def on_spark(folder: str, memory: str) -> tuple[Any, int | None]:
    """Return Spark with two cores, and its process."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.driver.memory": memory.lower().removesuffix("b"), "spark.sql.shuffle.partitions": "8",
        "spark.local.dir": f"{folder}/spark", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    backend = ibis.pyspark.connect(builder.getOrCreate())
    return backend, backend._session.sparkContext._gateway.proc.pid


ENGINES = {"DuckDB": on_duckdb, "Spark": on_spark}


if __name__ == "__main__":
    main()
