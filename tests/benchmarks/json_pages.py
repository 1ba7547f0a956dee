"""Reading pages of JSON records into typed tables, compared with other readers.

``python tests/benchmarks/json_pages.py`` generates a million interactions with 27 leaf columns, as pages of 10,000 and as
NDJSON. Each contender reads them in a separate process, in several rounds, and the table shows the minimum of CPU seconds
(without imports, over all threads) and peak memory. Slow contenders read only the first pages; their seconds are scaled
up, their memory is not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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

    from attrib_ds.records.json_pages import read_page

    columns = schema()
    start = time.process_time()
    whole = pa.concat_tables(read_page(content, columns).table for content in pages(folder))
    return start, whole.num_rows


def frame(folder: Path):
    """Ours, to a typed DataFrame."""
    import pyarrow as pa

    from attrib_ds.records.frames import to_pandas
    from attrib_ds.records.json_pages import read_page

    columns = schema()
    start = time.process_time()
    rows = to_pandas(pa.concat_tables(read_page(content, columns).table for content in pages(folder)))
    return start, len(rows)


def parquet(folder: Path):
    """Ours, spooled to a Parquet file."""
    from attrib_ds.records.json_pages import read_page
    from attrib_ds.records.parquet_spool import ParquetSpool

    columns = schema()
    start = time.process_time()
    with ParquetSpool(folder / "spooled.parquet", columns) as spool:
        for content in pages(folder):
            spool.append(read_page(content, columns).table)
    return start, spool.rows


def new_field(folder: Path):
    """Ours, to an Arrow table, if every record has a field outside the schema."""
    import pyarrow as pa

    from attrib_ds.records.json_pages import read_page

    columns = pa.schema([field for field in schema() if field.name != "referrerType"])
    start = time.process_time()
    read = [read_page(content, columns) for content in pages(folder)]
    assert read[0].unknown.column_names == ["referrerType"]
    return start, sum(page.table.num_rows for page in read)


def slow_way(folder: Path):
    """Ours, if every page has a value that only the slow reader can parse."""
    import pyarrow as pa

    from attrib_ds.records.json_pages import read_page

    columns = schema()
    start = time.process_time()
    odd = (
        content.replace(b'"hitCount":', b'"hitCount":1.0,"hitCount":', 1) for content in pages(folder, FEW)
    )
    whole = pa.concat_tables(read_page(content, columns).table for content in odd)
    return start, whole.num_rows


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
    "ours to a table": table,
    "ours to a typed DataFrame": frame,
    "ours spooled to Parquet": parquet,
    "ours to a table, a new field in every record": new_field,
    "ours to a table, an odd number in every page": slow_way,
    "orjson + Table.from_pylist": orjson,
    "json + pandas.json_normalize": normalize,
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--page", type=int, default=10_000, help="records per page")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contender", choices=["make", *CONTENDERS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
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
        print(
            f"{options.records:,} records of {len(COLUMNS)} leaf columns, {bytes_made / 1e6:,.0f} MB of pages"
        )
        runs: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
        for _ in range(options.rounds):
            for name in CONTENDERS:
                runs[name].append(json.loads(_run(name, folder, packages)))
        print(f"minimum of {options.rounds} rounds\n\n{'':48}{'CPU s':>8}{'ratio':>8}{'peak MB':>9}")
        base = None
        for name, results in runs.items():
            rows = results[0]["rows"]
            seconds = min(run["seconds"] for run in results) * options.records / rows
            base = base or seconds
            peak = min(run["mb"] for run in results)
            part = "" if rows == options.records else f"  scaled from {rows:,} records"
            print(f"{name:48}{seconds:8.2f}{seconds / base:8.2f}{peak:9.0f}{part}")


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
