"""Reading pages of JSON records into typed tables, compared with other readers.

``python tests/benchmarks/json_pages.py`` generates a million interactions with 27 leaf columns, as pages of 10,000 and as
NDJSON. Each contender reads them in a separate process, in several rounds, and the table shows medians of processor seconds
(without imports, over all threads) and peak memory. Slow contenders read only the first pages; their seconds are scaled
up, their memory is not.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from results import Row, compared, parser, report

if TYPE_CHECKING:
    import argparse

COLUMNS = [
    *(
        "_id",
        "projectId",
        "type",
        "userId",
        "userLifetimeIndex",
        "startDate",
        "endDate",
        "duration",
        "createdAt",
    ),
    *("integrationId", "nodeId", "firstHitId", "hitCount", "isBot", "referrer", "referrerType", "firstPage"),
    *("firstPageUrl.hostname", "userAgent.browser.name", "userAgent.os.name", "userAgent.device.type"),
    *("asn.asnId", "asn.asnName", "geo.countryCode", "geo.city", "geo.latitude", "geo.longitude"),
]
#: Number of records that slow contenders read.
FEW = 50_000


def schema():
    """Return the columns of the pages."""
    import pyarrow as pa

    from attrib_ds.schema import INTERACTION

    return pa.schema([INTERACTION.field(name) for name in COLUMNS])


def make(folder: Path, records: int, size: int):
    """Write the pages and the same records as NDJSON."""
    import numpy as np
    import pyarrow as pa

    from attrib_ds.records.json_records import to_json

    random = np.random.default_rng(7)

    def identifiers(rows):
        digits = random.bytes(12 * rows).hex()
        return [digits[start : start + 24] for start in range(0, 24 * rows, 24)]

    def words(rows, *choices):
        return [choices[number] for number in random.integers(0, len(choices), rows)]

    def addresses(rows):
        return [
            f"https://shop.example/catalogue/{number}?utm=spring"
            for number in random.integers(0, 90_000, rows)
        ]

    with (folder / "records.ndjson").open("wb") as lines:
        for start in range(0, records, size):
            rows = min(size, records - start)
            started = random.integers(1_700_000_000_000, 1_760_000_000_000, rows) * 1_000
            lasted = random.integers(0, 3_600_000, rows)
            made = {
                "type": words(rows, "session"),
                "userLifetimeIndex": random.integers(1, 40, rows),
                "startDate": started.astype("datetime64[us]"),
                "endDate": (started + lasted * 1_000).astype("datetime64[us]"),
                "duration": lasted / 1_000,
                "createdAt": (started + 5_000_000).astype("datetime64[us]"),
                "hitCount": random.integers(1, 30, rows),
                "isBot": random.random(rows) < 0.02,
                "referrer": addresses(rows),
                "referrerType": words(rows, "search", "social", "website", "direct"),
                "firstPage": addresses(rows),
                "firstPageUrl.hostname": words(rows, "shop.example"),
                "userAgent.browser.name": words(rows, "Chrome", "Mobile Safari", "Firefox", "Edge"),
                "userAgent.os.name": words(rows, "Android", "iOS", "Windows", "Mac OS"),
                "userAgent.device.type": words(rows, "mobile", "tablet", "desktop"),
                "asn.asnId": words(rows, "AS2119", "AS3215", "AS7922"),
                "asn.asnName": words(rows, "Telenor Norge AS", "Orange S.A.", "Comcast Cable"),
                "geo.countryCode": words(rows, "NO", "FR", "US"),
                "geo.city": words(rows, "Tromsø", "Besançon", "Seattle", "Oslo"),
                "geo.latitude": random.uniform(-60, 70, rows).round(4),
                "geo.longitude": random.uniform(-180, 180, rows).round(4),
            }
            arrays = [
                pa.array(made[field.name] if field.name in made else identifiers(rows)).cast(field.type)
                for field in schema()
            ]
            texts = to_json(pa.record_batch(arrays, schema=schema()), resource="Interaction")
            head = f'{{"offset":{start},"limit":{size},"count":{rows},"total":{records},"data":['
            (folder / f"page-{start:09}.json").write_text(f"{head}{','.join(texts)}]}}", encoding="utf-8")
            lines.write("".join(f"{text}\n" for text in texts).encode())


def pages(folder: Path, records: int | None = None):
    """Yield the bytes of each page, as from a connection."""
    for number, path in enumerate(sorted(folder.glob("page-*.json"))):
        content = path.read_bytes()
        if (
            records is not None
            and number * json.loads(content[: content.index(b',"count"')] + b"}")["limit"] >= records
        ):
            return
        yield content


def duckdb(folder: Path):
    """DuckDB read_json, columns given, from NDJSON on disk."""
    import duckdb
    import pyarrow as pa

    names = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}
    tree: dict = {}
    for field in schema():
        *parents, leaf = field.name.split(".")
        holder = tree
        for parent in parents:
            holder = holder.setdefault(parent, {})
        holder[leaf] = names.get(field.type, "TIMESTAMPTZ")

    def kind(part):
        if isinstance(part, str):
            return part
        return (
            f"STRUCT({', '.join(f'{chr(34)}{name}{chr(34)} {kind(below)}' for name, below in part.items())})"
        )

    columns = ", ".join(f"'{name}': '{kind(part)}'" for name, part in tree.items())
    quoted = [".".join(f'"{part}"' for part in name.split(".")) + f' AS "{name}"' for name in COLUMNS]
    start = time.process_time()
    table = (
        duckdb.connect()
        .execute(
            f"SELECT {', '.join(quoted)} FROM read_json('{folder}/records.ndjson', columns={{{columns}}}, "
            "format='newline_delimited')"
        )
        .to_arrow_table()
    )
    return start, table.num_rows


def table(folder: Path):
    """Ours, to an Arrow table."""
    import pyarrow as pa

    from attrib_ds.records.json_records import read_page

    columns = schema()
    start = time.process_time()
    whole = pa.concat_tables(read_page(content, columns).table for content in pages(folder))
    return start, whole.num_rows


def frame(folder: Path):
    """Ours, to a typed DataFrame."""
    import pyarrow as pa

    from attrib_ds.records.frames import to_pandas
    from attrib_ds.records.json_records import read_page

    columns = schema()
    start = time.process_time()
    rows = to_pandas(pa.concat_tables(read_page(content, columns).table for content in pages(folder)))
    return start, len(rows)


def parquet(folder: Path):
    """Ours, spooled to a Parquet file."""
    from attrib_ds.records.json_records import read_page
    from attrib_ds.records.written_files import ParquetSpool

    columns = schema()
    start = time.process_time()
    with ParquetSpool(folder / "spooled.parquet", columns) as spool:
        for content in pages(folder):
            spool.append(read_page(content, columns).table)
    return start, spool.rows


def changed(folder: Path, change, columns):
    """Ours, to an Arrow table, from the first pages with a change of their text."""
    from attrib_ds.records.json_records import read_page

    contents = [change(content) for content in pages(folder, FEW)]
    start = time.process_time()
    return start, sum(read_page(content, columns).table.num_rows for content in contents)


def new_field(folder: Path):
    """Ours, if every record has a field outside the schema."""
    import pyarrow as pa

    columns = pa.schema([field for field in schema() if field.name != "referrerType"])
    return changed(folder, bytes, columns)


def late_new_field(folder: Path):
    """Ours, if the last record of every page has a field outside the schema."""
    return changed(folder, lambda content: content[:-3] + b',"new":1}]}', schema())


def open_object(folder: Path):
    """Ours, with a column whose JSON text is kept."""
    import pyarrow as pa

    from attrib_ds.schema import INTERACTION

    columns = pa.schema([*schema(), INTERACTION.field("userData")])
    added = b'"userData":{"a":[1,"x"]},"hitCount":'
    return changed(folder, lambda content: content.replace(b'"hitCount":', added), columns)


def odd_numbers(folder: Path):
    """Ours, if every whole number is written with a point."""
    return changed(
        folder, lambda content: re.sub(rb'"hitCount":(\d+)', rb'"hitCount":\1.0', content), schema()
    )


def large_numbers(folder: Path):
    """Ours, if every record has a number from 2**53 on, with a point."""
    large = b'"hitCount":9007199254740993.0'
    return changed(folder, lambda content: re.sub(rb'"hitCount":(\d+)', large, content), schema())


def odd_instants(folder: Path):
    """Ours, if every record has an instant with an offset."""
    odd = b'+00:00","duration"'
    return changed(folder, lambda content: content.replace(b'Z","duration"', odd), schema())


def repeated_member(folder: Path):
    """Ours, if one record of every page has a member twice."""
    twice = b'"hitCount":1.0,"hitCount":'
    return changed(folder, lambda content: content.replace(b'"hitCount":', twice, 1), schema())


def orjson(folder: Path):
    """Read by orjson, then pyarrow's Table.from_pylist: nested, timestamps left as text."""
    import orjson
    import pyarrow as pa

    start = time.process_time()
    whole = pa.concat_tables(pa.Table.from_pylist(orjson.loads(content)["data"]) for content in pages(folder))
    return start, whole.num_rows


def normalize(folder: Path):
    """Read by json, then pandas.json_normalize: timestamps left as text."""
    import pandas as pd

    start = time.process_time()
    records = [record for content in pages(folder, FEW) for record in json.loads(content)["data"]]
    return start, len(pd.json_normalize(records))


CONTENDERS = {
    "DuckDB read_json, columns given, ready NDJSON": duckdb,
    "attrib_ds, to an Arrow table": table,
    "attrib_ds, to a typed DataFrame": frame,
    "attrib_ds, spooled to Parquet": parquet,
    "attrib_ds, a new field in every record": new_field,
    "attrib_ds, a new field in the last record of a page": late_new_field,
    "attrib_ds, an open object in every record": open_object,
    "attrib_ds, a whole number with a point in every record": odd_numbers,
    "attrib_ds, one from 2^53 on": large_numbers,
    "attrib_ds, an instant with an offset in every record": odd_instants,
    "attrib_ds, a member given twice in every page": repeated_member,
    "orjson and Table.from_pylist": orjson,
    "json and pandas.json_normalize": normalize,
}
MAIN = list(CONTENDERS)[1:3]


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--page", type=int, default=10_000, help="records per page")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--contender", choices=["make", *CONTENDERS], help="one contender only, in this process"
    )
    arguments.add_argument("--folder", type=Path, help="folder of the pages of a contender")
    options = arguments.parse_args()
    if options.contender == "make":
        make(options.folder, options.records, options.page)
    elif options.contender:
        import pandas  # noqa: F401  (pyarrow imports it when it is first used)

        start, rows = CONTENDERS[options.contender](options.folder)
        seconds = time.process_time() - start
        print(
            json.dumps(
                {
                    "seconds": seconds,
                    "rows": rows,
                    "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )
        )
    else:
        _compare(options)


def _compare(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        packages = folder / "packages"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(packages),
            "orjson",
        ]
        subprocess.run(pip, check=True)
        # This process imports nothing large, because its memory counts towards the peak of its children.
        _run("make", folder, packages, "--records", str(options.records), "--page", str(options.page))
        bytes_made = sum(path.stat().st_size for path in folder.glob("page-*.json"))
        runs: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
        for _ in range(options.rounds):
            for name in CONTENDERS:
                runs[name].append(json.loads(_run(name, folder, packages)))
    rows = []
    for name, results in runs.items():
        scale = options.records / results[0]["rows"]
        rows.append(
            Row(
                "json_pages",
                name if scale == 1 else f"{name} (scaled from {results[0]['rows']:,} records)",
                f"{options.records:,} records, {bytes_made / 1e6:,.0f} MB",
                processor=scale * statistics.median(run["seconds"] for run in results),
                peak_mb=statistics.median(run["mb"] for run in results),
            )
        )
    goals = {
        name: "≤ 1.8" if name in MAIN else "≤ 2.5" for name in CONTENDERS if name.startswith("attrib_ds")
    }
    judged = compared(rows, next(iter(CONTENDERS)))
    report(
        [dataclasses.replace(row, goal=goals.get(row.what.partition(" (")[0])) for row in judged],
        options.json,
    )


def _run(name: str, folder: Path, packages: Path, *more: str) -> str:
    command = [sys.executable, __file__, "--contender", name, "--folder", str(folder), *more]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(packages)]),
    }
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if finished.returncode:
        raise SystemExit(f"{name} failed:\n{finished.stderr}")
    return finished.stdout


if __name__ == "__main__":
    main()
