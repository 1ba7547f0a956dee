"""Runs tests again and again in random order, beside a process that keeps a core busy, and lists what fails.

    PYTHONPATH=tests python -m reliability.random_order --rounds 10 tests/service/store tests/sending

Without paths it runs what ``python -m pytest`` does. Each round has its own order, which its seed repeats. As a plug-in
of pytest, which each round loads, this file shuffles files and the tests inside them; the cells of a notebook stay in
their order.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = "ATTRIB_DS_ORDER"
BUSY = "while True: pass"


def pytest_collection_modifyitems(items):
    draw = random.Random(os.environ[SEED])
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    draw.shuffle(groups)
    for group in groups:
        if group[0].path.suffix != ".ipynb":
            draw.shuffle(group)
    items[:] = [item for group in groups for item in group]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--busy", type=int, default=1, help="number of busy processes beside the tests")
    parser.add_argument("--minutes", type=float, default=90, help="no round begins later")
    options, arguments = parser.parse_known_args()
    print(f"seed {options.seed}", flush=True)
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    began, failing, rounds = time.monotonic(), {}, 0
    try:
        while rounds < options.rounds and time.monotonic() - began < 60 * options.minutes:
            for name in _failing(f"{options.seed}-{rounds}", arguments):
                failing.setdefault(name, []).append(rounds)
            rounds += 1
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"{rounds} rounds, {len(failing)} problems")
    for name, found in failing.items():
        print(f"  {name} in rounds {found}")
    return int(bool(failing) or not rounds)


def _failing(seed: str, arguments: list[str]) -> list[str]:
    """Run one round; return the names of tests that failed, flaky ones too."""
    environment = {
        **os.environ,
        SEED: seed,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "auto",
        "-q",
        "-p",
        "reliability.random_order",
        *arguments,
    ]
    finished = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    failed = re.findall(r"^(?:FAILED|ERROR|FLAKY) (\S+)", finished.stdout, re.MULTILINE)
    print(seed, finished.stdout.strip().rpartition("\n")[2], *failed, sep="\n  ", flush=True)
    if finished.returncode and not failed:
        print(finished.stdout[-3_000:])
        return [f"exit code {finished.returncode}"]
    return list(dict.fromkeys(failed))


if __name__ == "__main__":
    sys.exit(main())
