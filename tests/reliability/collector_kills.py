"""Kills collectors under load again and again, and holds what was acknowledged against the parts and a project.

    PYTHONPATH=tests python -m reliability.collector_kills --rounds 50

Two collectors write to one folder, with their journals in another. Each round sends hits to both over several
connections, each hit once, ends one collector by SIGKILL at a random moment and starts another in its place. At the end the
collectors are stopped, and one more writes what the killed ones left. Then each acknowledged hit must be in one part, once,
and in a project that loaded the parts in two portions, the second time with parts that were written late.
"""

import contextlib
import http.client
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pyarrow.parquet as pq
from reliability.command_line import run_from_command_line

import attrib_ds as at

COLLECTORS, CONNECTIONS = 2, 3


@dataclass
class Summary:
    """What a run did and found."""

    sent: int = 0
    accepted: int = 0
    kills: int = 0
    parts: int = 0
    problems: list[str] = field(default_factory=list)


class Collector:
    """A process of ``attrib-ds collect``."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "attrib_ds", "collect", "shop", "--to", str(folder / "parts")]
        command += ["--settings", str(folder / "settings.json"), "--port", "0", "--home", str(folder)]
        command += ["--rate", "hits-by-address=1000000/1", "--rate", "hits=1000000/1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = urlsplit(self.process.stdout.readline().split()[-1]).netloc

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(60)
        self.process.stdout.close()


class Client(threading.Thread):
    """Sends hits over one connection until the connection breaks or `ends` is set."""

    def __init__(self, address: str, seed: str, sent: list[str], accepted: list[str]) -> None:
        super().__init__(daemon=True)
        self.random, self.address = random.Random(seed), address
        self.sent, self.accepted, self.ends = sent, accepted, threading.Event()

    def run(self) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        with contextlib.suppress(OSError, http.client.HTTPException), closing(connection):
            while not self.ends.is_set():
                hits = [self.hit() for _ in range(self.random.choice((1, 1, 1, 5)))]
                self.sent += [hit["hitId"] for hit in hits]
                connection.request("POST", "/c", json.dumps(hits if len(hits) > 1 else hits[0]))
                response = connection.getresponse()
                response.read()
                if response.status == 202:
                    self.accepted += [hit["hitId"] for hit in hits]

    def hit(self) -> dict:
        number = self.random.randrange(40)
        page = f"https://shop.example/{number}" + ("?gclid=x" if number % 7 == 0 else "")
        id = str(UUID(int=self.random.getrandbits(128), version=4))
        return {"projectId": "shop", "hitId": id, "trackerId": f"t{number}", "pageUrl": page}


def run(rounds: int, seed: int) -> Summary:
    """Do some rounds and examine what is left."""
    summary, draw = Summary(), random.Random(seed)
    sent: list[str] = []
    accepted: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "settings.json").write_text("{}")
        collectors = [Collector(folder) for _ in range(COLLECTORS)]
        with at.connect("shop", path=folder / "shop.duckdb") as shop:
            for number in range(rounds):
                clients = [
                    Client(each.address, f"{seed} {number} {place} {at}", sent, accepted)
                    for place, each in enumerate(collectors)
                    for at in range(CONNECTIONS)
                ]
                for client in clients:
                    client.start()
                # The parts of a collector are written every five seconds.
                time.sleep(draw.uniform(0.2, 7))
                victim = draw.randrange(COLLECTORS)
                collectors[victim].end(signal.SIGKILL)
                summary.kills += 1
                for client in clients:
                    client.ends.set()
                    client.join()
                collectors[victim] = Collector(folder)
                if number == rounds // 2:
                    at.load(shop, hits=folder / "parts")
            for each in collectors:
                each.end(signal.SIGTERM)
            last = Collector(folder)
            deadline = time.monotonic() + 60
            while len(list((folder / "journals" / "shop").glob("*.queue"))) > 1:
                if time.monotonic() > deadline:
                    summary.problems.append("a journal was not taken over")
                    break
                time.sleep(0.1)
            last.end(signal.SIGTERM)
            examine(folder, shop, sent, accepted, summary)
    return summary


def examine(folder: Path, shop: at.Project, sent: list[str], accepted: list[str], summary: Summary) -> None:
    """Add what is wrong to a summary."""
    parts = sorted((folder / "parts").rglob("*.parquet"))
    written = Counter(hit for part in parts for hit in pq.ParquetFile(part).read()["hitId"].to_pylist())
    loaded = at.load(shop, hits=folder / "parts")
    with shop.transport._store.cursor() as cursor:
        stored = Counter(id for (id,) in cursor.execute("SELECT id FROM hits").fetchall())
    summary.sent, summary.accepted, summary.parts = len(sent), len(accepted), len(parts)
    for place, found in (("parts", written), ("the project", stored)):
        lost = set(accepted) - found.keys()
        several = [hit for hit, count in found.items() if count > 1]
        if lost:
            summary.problems.append(f"{len(lost)} acknowledged hits are not in {place}")
        if several:
            summary.problems.append(f"{len(several)} hits are in {place} more than once")
        if found.keys() - set(sent):
            summary.problems.append(f"hits in {place} were never sent")
    if written.keys() != stored.keys() or len(loaded.rejected):
        summary.problems.append("the project and the parts have different hits")
    if list((folder / "parts").rglob(".*")) and not summary.kills:
        summary.problems.append("temporary files are left")
    summary.problems += at.admin.check(shop)["problem"].tolist()


def show(summary: Summary) -> list[str]:
    """Return the lines about a summary."""
    return [
        f"{summary.kills} kills, {summary.accepted:,} of {summary.sent:,} hits acknowledged, {summary.parts} parts"
    ]


if __name__ == "__main__":
    sys.exit(
        run_from_command_line(
            run,
            show,
            times="rounds",
            default=20,
            purpose="Kill collectors and look for lost and doubled hits.",
        )
    )
