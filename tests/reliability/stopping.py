"""Stops a server under load by SIGTERM again and again, and examines what it leaves behind.

    PYTHONPATH=tests python -m reliability.stopping --rounds 50

As ``kill_rounds.py``, but the server may finish: it exits in time and by itself, what it acknowledged is there, nothing
waits to be recovered, and no half-written file is left.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from reliability.command_line import run_from_command_line
from reliability.kill_rounds import SERVE, Journal, examine, make_project, start_clients
from support.http_caller import token_of

from attrib_ds.errors import AttribError
from attrib_ds.service.accounts.accounts import create_key

#: The server gives running requests 30 s by default, and a project as long to finish its writes.
SECONDS_TO_EXIT = 60
#: A project is its file and its counter; accounts and the key lie beside it.
LEFT = {"shop.duckdb", "shop.duckdb.queue", "shop.duckdb.writes", "key.json"}


@dataclass(frozen=True)
class Summary:
    problems: list[str]
    accepted: int
    slowest_exit: float


def run(rounds: int, seed: int) -> Summary:
    """Stop a server several times; ``seed`` decides what is sent and when it is stopped."""
    problems = []
    slowest = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        path = make_project(home)
        key = create_key(home, home / "key.json")
        journal = Journal()
        for number in range(rounds):
            seconds, found = _stop_once(home, key, journal, f"{seed}-{number}")
            slowest = max(slowest, seconds)
            others = {file.name for file in home.iterdir()} - LEFT
            found += [f"{name} is left behind" for name in sorted(others) if not name.startswith("accounts")]
            # A server that stops answers what it had begun, and refuses what comes later.
            journal.surprises = [each for each in journal.surprises if ": 503 " not in each]
            try:
                found += examine(path, journal)
            except AttribError as error:
                found.append(f"the project cannot be opened: {error}")
            problems += [f"round {number}: {problem}" for problem in found]
    return Summary(problems, len(journal.accepted), slowest)


def _stop_once(home: Path, key: object, journal: Journal, seed: str) -> tuple[float, list[str]]:
    """Send to a server and stop it; return how long that took, and what was wrong."""
    problems = []
    command = [sys.executable, "-c", SERVE, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[-1]
            token = token_of(url, key)
            clients = start_clients(url, token, journal, seed, seed)
            time.sleep(random.Random(seed).uniform(0, 1))
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            for client in clients:
                client.join(SECONDS_TO_EXIT)
            try:
                process.wait(SECONDS_TO_EXIT)
            except subprocess.TimeoutExpired:
                problems.append(f"the server runs {SECONDS_TO_EXIT} s after SIGTERM")
            seconds = time.monotonic() - began
        finally:
            process.kill()
        if process.returncode != 0:
            problems.append(f"the server exits with {process.returncode}")
        if told := process.stderr.read():
            problems.append(f"the server complains: {told[-500:]}")
    return seconds, problems


def main() -> int:
    return run_from_command_line(
        run,
        lambda summary: [
            f"{summary.accepted:,} events acknowledged; the slowest exit took {summary.slowest_exit:.1f} s"
        ],
        times="rounds",
        default=50,
        purpose="Stop a server under load and examine what it leaves behind.",
    )


if __name__ == "__main__":
    sys.exit(main())
