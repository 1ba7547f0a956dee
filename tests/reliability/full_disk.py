"""Fills what a project may write, and goes on when there is room again: run by ``test_full_disk.py``.

Takes the folder, how many bytes a file may grow by, and the size of an event; prints what came of it as JSON.
"""

import json
import random
import resource
import sys
from pathlib import Path

from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.errors import AttribError
from attrib_ds.service import Service

UNLIMITED = resource.RLIM_INFINITY


def main(folder: Path, room: int, size: int) -> dict:
    randomness = random.Random(1)
    accepted = {}

    def put(nonce: str, *, operation: str = "create_event", size: int = size) -> None:
        data = {"unheard": randomness.randbytes(size // 2).hex()}
        accepted[nonce] = send(service, operation, **order(nonce, data=data)).value

    service = Service.open("shop", folder / "shop.duckdb")
    declare_order(service)
    for number in range(10):
        put(f"before-{number}")
    service.close()
    service = Service.open("shop", folder / "shop.duckdb")
    # The log begins with nothing, and reaches a small limit long before the file has to grow.
    largest = max(each.stat().st_size for each in folder.glob("shop.duckdb*")) if room > 2**20 else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, UNLIMITED))
    failures = []
    for number in range(200):
        try:
            put(f"full-{number}")
        except AttribError as error:
            failures.append(f"{type(error).__name__}: {error}")
            if len(failures) == 3:
                break
    try:
        send(service, "list_trashed_events")
    except AttribError as error:
        # Of what was accepted, the tables may lack some: then nothing is read that would pass for all.
        failures.append(f"{type(error).__name__}: {error}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
    for number in range(3):
        put(f"after-{number}", operation="create_event_sync", size=100)
    service.close()
    service = Service.open("shop", folder / "shop.duckdb")
    service._ingestion.settle()
    with service._store.cursor() as cursor:
        stored = dict(cursor.execute("SELECT nonce, _id FROM raw_events").fetchall())
    findings = send(service, "check_project").read().to_pylist()
    service.close()
    lost = [nonce for nonce, id in accepted.items() if stored.get(nonce) != id]
    return {"failures": failures, "lost": lost, "findings": findings}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
