"""Damages the files of a project in every way a disk or a person can, and examines what opens.

    PYTHONPATH=tests python -m reliability.damaged_files --trials 1000

A project is copied as a crash would leave it: a database file, a write-ahead log, a write counter and the queue of
accepted events. Each trial damages one file of such a copy and opens it in a process of its own. Either every acknowledged record is there, or
the project says with advice that it is damaged; anything else is a problem.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from reliability.command_line import run_from_command_line
from support.held_writer import held
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.errors import AttribError
from attrib_ds.service import Service
from attrib_ds.service.store.files import counter_of, log_of, queue_files, queue_of, with_advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS_PER_TRIAL = 60
SECONDS_TO_PROCESS = 10
#: Events in the queue that the tables do not have.
ACCEPTED = 5
#: Tables of records, and the columns that tell when and not what was processed.
TABLES = {
    "raw_events": (),
    "events": ("updatedAt",),
    "metrics": ("_id", "createdAt", "updatedAt"),
    "trashed_events": ("processingDate",),
    "users": (),
    "interactions": (),
    "campaigns": (),
    "outlays": (),
}
ADVICE = (
    "put a backup in its place",
    "Put it back, or a backup",
    "upgrade duckdb",
    "remove it to open the project nevertheless",
)


@dataclass(frozen=True)
class Crashed:
    """A copy of a project's files at a moment at which every write was acknowledged."""

    file: Path
    #: Length of the log after each acknowledged write.
    lengths: list[int]
    digest: str


def make_project(folder: Path, *, writes: int = 20) -> Crashed:
    """Write to a project, and copy its files while it is open."""
    path = folder / "live" / "shop.duckdb"
    copy = folder / "crashed" / "shop.duckdb"
    copy.parent.mkdir()
    with closing(Service.open("shop", path)) as service:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
        # The second half of a file is blocks of data; the log begins anew when it is opened again.
        for number in range(writes):
            send(service, "create_event_sync", **_order(f"kept-{number}", number))
    lengths = []
    with closing(Service.open("shop", path)) as service:
        for number in range(writes):
            _write(service, number)
            lengths.append(log_of(path).stat().st_size)
        _await_processing(service)
        with held(service):
            for number in range(ACCEPTED):
                send(service, "create_event", **_order(f"accepted-{number}", number))
            for file in (path, log_of(path), counter_of(path), *queue_files(path)):
                shutil.copy2(file, copy.parent)
    shutil.copytree(copy.parent, folder / "sound")
    with closing(Service.open("shop", folder / "sound" / "shop.duckdb")) as service:
        digest = digest_of(service)
    return Crashed(copy, lengths, digest)


def queue_log_of(file: Path) -> Path:
    """Return the write-ahead log of the queue."""
    return queue_files(file)[1]


def _order(nonce: str, number: int) -> dict:
    data = {"mail": f"user{number % 5}@example.com", "confirmed": number % 2, "items": number}
    return order(nonce, data=data)


def _write(service: Service, number: int) -> None:
    kind = number % 4
    if kind == 0:
        data = {"vendorId": "ads", "campaignSlug": f"slug-{number}"}
        campaign = {"vendor_id": "ads", "campaign_slug": f"slug-{number}", "name": f"Campaign {number}"}
        send(service, "create_campaign", **campaign)
        user = {"email": f"user{number % 5}@example.com"}
        date = "2025-01-30T12:00:00Z"
        send(service, "create_offline_interaction", date=date, node_data=data, user_data=user)
    elif kind == 1:
        id = send(service, "create_event_sync", **_order(f"new-{number}", number)).value
        send(service, "update_event_state", id=id, storage_key="returned", value=1)
    else:
        data = {"items": "many"} if kind == 2 else {}
        envelope = _order(f"new-{number}", number)
        envelope["data"] |= data
        send(service, "create_event", **envelope)


def _rows(service: Service, query: str) -> list[tuple]:
    with service._store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def _await_processing(service: Service) -> None:
    """Wait until events are processed, but not for a damaged file, in which that fails."""
    with suppress(AttribError, duckdb.Error, TimeoutError):
        service._ingestion.intake.settle(SECONDS_TO_PROCESS)


def digest_of(service: Service) -> str:
    """Return a hash of every record of a project, once its events are processed."""
    _await_processing(service)
    digest = hashlib.sha256()
    for table, left_out in TABLES.items():
        columns = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
        for row in sorted(map(repr, _rows(service, f"SELECT {columns} FROM {table}"))):
            digest.update(row.encode())
    return digest.hexdigest()


def damages(crashed: Crashed, trials: int, randomness: random.Random) -> Iterator[tuple[str, Callable]]:
    """Yield the name of each damage, and a function of the project's file that does it."""
    size = crashed.file.stat().st_size
    log_size, counter_size, queue_size, accepted_size = (
        path_of(crashed.file).stat().st_size for path_of in (log_of, counter_of, queue_of, queue_log_of)
    )
    yield "nothing", lambda file: None
    yield "log removed", lambda file: log_of(file).unlink()
    yield "accepted removed", lambda file: queue_log_of(file).unlink()
    yield "queue removed", lambda file: [path.unlink() for path in queue_files(file)]
    yield "queue emptied", lambda file: queue_of(file).write_bytes(b"")
    yield "counter removed", lambda file: counter_of(file).unlink()
    yield "counter emptied", lambda file: counter_of(file).write_bytes(b"")
    yield "file emptied", lambda file: file.write_bytes(b"")
    edges = {0, 1, 7, 8, 16, log_size - 1, log_size - 8}
    # Cut exactly between two transactions, a log is sound for the database.
    edges |= {length + off for length in crashed.lengths for off in (-8, -1, 0, 1, 8)}
    cuts = [each for each in sorted(edges) if 0 <= each < log_size]
    kinds = {
        "log cut": (cuts, lambda: randomness.randrange(log_size), log_of, _cut),
        "log bit": ([], lambda: randomness.randrange(8 * log_size), log_of, _flip),
        "log zeroed": ([], lambda: randomness.randrange(log_size), log_of, _zero),
        "accepted cut": ([0], lambda: randomness.randrange(accepted_size), queue_log_of, _cut),
        "accepted bit": ([], lambda: randomness.randrange(8 * accepted_size), queue_log_of, _flip),
        "accepted zeroed": ([0], lambda: randomness.randrange(accepted_size), queue_log_of, _zero),
        "queue cut": ([4096], lambda: randomness.randrange(queue_size), queue_of, _cut),
        "queue bit": ([], lambda: randomness.randrange(8 * queue_size), queue_of, _flip),
        "queue zeroed": ([0], lambda: randomness.randrange(queue_size), queue_of, _zero),
        "file cut": ([4096, 8192, 12288, size - 1], lambda: randomness.randrange(size), Path, _cut),
        "file bit": ([], lambda: randomness.randrange(8 * size), Path, _flip),
        # Of the magic bytes, the version, and the places of the blocks.
        "header bit": ([64, 100], lambda: randomness.randrange(8 * 12288), Path, _flip),
        "counter bit": ([], lambda: randomness.randrange(8 * counter_size), counter_of, _flip),
    }
    share = max(trials // len(kinds), 1)
    for name, (known, draw, path_of, damage) in kinds.items():
        places = randomness.sample(known, min(len(known), share))
        places += [draw() for _ in range(share - len(places))]
        for place in places:
            yield f"{name} at {place:,}", partial(_damage, damage, path_of, place)


def _damage(
    damage: Callable[[Path, int], None], path_of: Callable[[Path], Path], place: int, file: Path
) -> None:
    damage(path_of(file), place)


def _cut(file: Path, length: int) -> None:
    os.truncate(file, length)


def _zero(file: Path, begin: int) -> None:
    """A file system may keep the length of a file and lose what was written."""
    content = file.read_bytes()
    file.write_bytes(content[:begin] + bytes(len(content) - begin))


def _flip(file: Path, bit: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(bit // 8)
        (byte,) = stream.read(1)
        stream.seek(bit // 8)
        stream.write(bytes([byte ^ (1 << bit % 8)]))


def outcome_of(file: Path, digest: str) -> tuple[str, str]:
    """Open a project and return what came of it, and the message of an error."""
    try:
        with closing(Service.open("shop", file)) as service:
            found = digest_of(service)
            findings = send(service, "check_project").read().to_pylist()
    except AttribError as error:
        advised = any(part in str(error) for part in ADVICE)
        return ("refused" if advised else "refused without advice"), f"{type(error).__name__}: {error}"
    except duckdb.Error as error:
        advised = any(part in with_advice(error) for part in ADVICE)
        return ("unreadable" if advised else "raised"), f"{type(error).__name__}: {error}"
    if [finding["check"] for finding in findings] == ["readable"]:
        return "unreadable", str(findings)
    if findings:
        return "inconsistent", str(findings)
    return ("complete", "") if found == digest else ("lost", "")


def in_child(job: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Run a job in a forked process, which a damaged file may crash or hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(SECONDS_PER_TRIAL)
        try:
            os.write(writing, pickle.dumps(job()))
        except BaseException:  # noqa: BLE001  (the parent must not run on in the child)
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return ("hung" if number == signal.SIGALRM else "crashed"), signal.Signals(number).name
    return pickle.loads(content) if content else ("ended", "")


@dataclass(frozen=True)
class Summary:
    outcomes: Counter
    problems: list[str]


def run(trials: int, seed: int, *, folder: Path | None = None) -> Summary:
    """Damage copies of a project; ``seed`` decides where."""
    outcomes: Counter = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as temporary:
        home = folder or Path(temporary)
        # The database keeps threads, which a forked process would lack.
        done = in_child(lambda: ("made", pickle.dumps(make_project(home)).hex()))
        crashed = pickle.loads(bytes.fromhex(done[1]))
        for name, damage in damages(crashed, trials, random.Random(seed)):
            shutil.rmtree(home / "trial", ignore_errors=True)
            shutil.copytree(crashed.file.parent, home / "trial")
            file = home / "trial" / "shop.duckdb"
            damage(file)
            outcome, message = in_child(partial(outcome_of, file, crashed.digest))
            outcomes[name.partition(" at ")[0], outcome] += 1
            if outcome not in ("complete", "refused", "unreadable"):
                problems.append(f"{name}: {outcome} {message[:400]}")
    return Summary(outcomes, problems)


def main() -> int:
    return run_from_command_line(
        run,
        lambda summary: [
            f"  {count:6,} {damage}: {outcome}"
            for (damage, outcome), count in sorted(summary.outcomes.items())
        ],
        times="trials",
        default=1_000,
        purpose="Damage the files of a project and examine what opens.",
    )


if __name__ == "__main__":
    sys.exit(main())
