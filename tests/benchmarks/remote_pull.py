"""Time and memory of reading interactions from a server, as JSON and as Arrow, in pages and as one stream.

Run ``python tests/benchmarks/remote_pull.py``. The server and every read are separate processes, so that their memory is
measured separately.
"""

import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from results import Row, compared, parser, report


def fill(folder: Path, rows: int) -> None:
    """Create a project with the given number of interactions and values in most columns."""
    import numpy as np
    import pyarrow as pa

    import attrib_ds as at

    draw = np.random.default_rng(1)
    number = np.arange(rows)
    starts = np.datetime64("2025-01-01T00:00:00", "us") + draw.integers(0, 365 * 86_400_000, rows) * 1_000
    words = np.array([f"word-{each}" for each in range(200)])
    visits = {
        "_id": [f"{each:024x}" for each in number],
        "userId": [f"{each:024x}" for each in draw.integers(1, rows // 3, rows)],
        "nodeId": ["ads"] * rows,
        "startDate": pa.array(starts, pa.timestamp("us", tz="UTC")),
        "hitCount": draw.integers(1, 20, rows),
        "duration": draw.random(rows) * 600,
    }
    names = (
        "geo.city",
        "geo.countryCode",
        "device.browser.name",
        "device.os.name",
        "landingPage.url",
        "referrer",
    )
    from attrib_ds.schema import INTERACTION

    visits |= {name: draw.choice(words, rows) for name in names if name in INTERACTION.names}
    with at.connect("shop", path=folder / "shop.duckdb") as shop:
        assert at.load(shop, interactions=pa.table(visits)).rejected.empty


@contextmanager
def served(folder: Path):
    """Serve the folder in another process."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("stop")
        process.join()


def _serve(folder: Path, pipe) -> None:
    from attrib_ds.service.accounts.accounts import create_key
    from attrib_ds.service.http.server import ServerOptions, running

    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        create_key(folder, folder / "key.json", projects=["shop"])
        pipe.send(url)
        pipe.recv()


def pull(url: str, folder: Path, way: str, until: str | None) -> dict:
    """Read once, and return seconds, rows and the growth of the process in MB."""
    import attrib_ds as at
    from attrib_ds import Project
    from attrib_ds.transports.http import answers
    from attrib_ds.transports.http.configuration import Remote
    from attrib_ds.transports.http.transport import Options, open_http

    form, kind, *workers = way.split()
    accept = answers.JSON if form == "json" else answers.EITHER
    options = Options(accept=accept, workers=int(workers[0]) if workers else 4)
    with Project("shop", open_http(Remote(url=url, key=folder / "key.json"), options=options)) as shop:
        at.search_interactions(shop, limit=10)
        if kind == "pages":
            # As with a service without Arrow, which cannot stream all rows at once.
            shop.transport._offers_arrow = False
        before, start, processor = _peak(), time.perf_counter(), time.process_time()
        if kind in ("frame", "pages"):
            rows = len(at.search_interactions(shop, until=until))
        else:
            at.export_interactions(shop, folder / "pulled.parquet", until=until)
            rows = None
        return {
            "seconds": time.perf_counter() - start,
            "processor": time.process_time() - processor,
            "rows": rows,
            "mb": _peak() - before,
        }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


#: Format, destination and number of concurrent pages (4 by default).
WAYS = (
    "arrow frame",
    "arrow pages",
    "arrow pages 1",
    "json frame",
    "json frame 1",
    "arrow file",
    "json file",
)


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, default=300_000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--ways", nargs="*", default=WAYS)
    arguments.add_argument("--pull", nargs=4, help="one read only, in this process")
    options = arguments.parse_args()
    if options.pull:
        url, folder, way, until = options.pull
        print(json.dumps(pull(url, Path(folder), way, until or None)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        # In a separate process, because memory of the parent counts towards the peak of its children.
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=(folder, options.rows))
        filling.start()
        filling.join()
        with served(folder) as url:
            rows = []
            for way in options.ways:
                whole = [_run(url, folder, way, "") for _ in range(options.rounds)]
                part = _run(url, folder, way, "2025-04-02T06:00:00Z")
                seconds = min(each["seconds"] for each in whole)
                assert whole[0]["rows"] in (None, options.rows)
                grew = min(each["mb"] for each in whole)
                rows.append(
                    Row(
                        "remote_pull",
                        way,
                        f"{options.rows:,} interactions",
                        seconds,
                        min(each["processor"] for each in whole),
                        grew,
                        figures={"MB for a quarter of the rows": round(part["mb"])},
                    )
                )
    judged = compared(rows, "json frame", by="seconds")
    report([replace(row, goal="≤ 0.2") if row.what == "arrow frame" else row for row in judged], options.json)


def _run(url: str, folder: Path, way: str, until: str) -> dict:
    command = [sys.executable, __file__, "--pull", url, str(folder), way, until]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(finished.stderr)
    return json.loads(finished.stdout)


if __name__ == "__main__":
    main()
