"""Sets the clock back by a year, while a project is open and between two runs, and examines what it writes.

    PYTHONPATH=tests python -m reliability.clock_back

The clock is that of ``attrib_ds.instants`` and ``time.time``, shifted in this process alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from reliability.command_line import exit_code
from support.http_caller import Caller, token_of
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds import instants
from attrib_ds.service import Service
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

if TYPE_CHECKING:
    from collections.abc import Iterator

YEAR = timedelta(days=365)


@contextmanager
def shifted(by: timedelta) -> Iterator[None]:
    """Shift the clock of this process while the block runs."""
    real_now, real_time = instants.now, time.time
    with (
        mock.patch.object(instants, "now", lambda: real_now() + by),  # noqa: PT008  (it goes on)
        mock.patch.object(time, "time", lambda: real_time() + by.total_seconds()),  # noqa: PT008
    ):
        yield


def run(folder: Path, *, is_reopened: bool) -> list[str]:
    """Return what is wrong after the clock was set back, with or without a restart in between."""
    problems: list[str] = []
    path = folder / "shop.duckdb"
    service = Service.open("shop", path)

    def hold(is_so: bool, told: str) -> None:
        if not is_so:
            problems.append(told)

    def rows(query: str) -> list[tuple]:
        with service._store.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def put(nonce: str, **data) -> str:
        return send(service, "create_event_sync", **order(nonce, data={"confirmed": 0, **data})).value

    try:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
        before = [put(f"before-{number}") for number in range(5)]
        send(service, "update_event_state", id=before[0], storage_key="confirmed", value=1)
        ((first_update,),) = rows(f"SELECT updatedAt FROM events WHERE _id = '{before[0]}'")
        if is_reopened:
            service.close()
        with shifted(-YEAR):
            if is_reopened:
                service = Service.open("shop", path)
            after = [put(f"after-{number}") for number in range(5)]
            again = put("before-0")
            hold(again == before[0], "a repeated nonce gets another id")
            ids = [id for (id,) in rows("SELECT _id FROM raw_events")]
            hold(len(set(ids)) == len(ids) == 10, "an id is given twice, or an event is lost")
            hold(is_reopened or min(after) > max(before), "ids of one process do not grow")
            # The update received last counts, and says so, whatever the clock says.
            send(service, "update_event_state", id=before[0], storage_key="confirmed", value=0)
            (record,) = send(service, "get_event", id=before[0]).read().to_pylist()
            values = {entry["key"]: entry["data"]["current"] for entry in json.loads(record["metrics"])}
            hold(values["confirmed"] == 0, "the update received last is not the value")
            ((second_update,),) = rows(f"SELECT updatedAt FROM events WHERE _id = '{before[0]}'")
            hold(second_update > first_update, "updatedAt goes back")
            # Retention: nothing expires because of a clock that runs late, and dates of the past are no error.
            send(service, "anonymise_expired")
            # Erasing holds for what was there, though its dates are later than the clock.
            ((user,),) = rows(f"SELECT userId FROM events WHERE _id = '{before[1]}'")
            put("other", mail="ben@example.com")
            send(service, "delete_user", id=user, mode="delete")
            hold(len(rows("FROM events")) == 1, "an erased event is there")
            findings = send(service, "check_project").read().to_pylist()
            hold(not findings, f"the check finds {findings}")
    finally:
        service.close()
    with closing(Service.open("shop", path)) as service:
        hold(len(rows("FROM events")) == 1, "an event is lost or doubled when the clock is right again")
        findings = send(service, "check_project").read().to_pylist()
        hold(not findings, f"the check finds {findings} when the clock is right again")
    return problems


def run_server(folder: Path) -> list[str]:
    """Return problems with tokens after the clock of a server was set back."""
    problems = []
    with closing(Service.open("shop", folder / "shop.duckdb")) as service:
        declare_order(service)
    key = create_key(folder, folder / "key.json")
    path = "/api/v1/projects/shop/event-types"
    # The default is the clock of the machine, which cannot be shifted from here.
    clocked = partial(Accounts.open, clock=lambda: time.time())
    with (
        mock.patch.object(Accounts, "open", clocked),
        running(folder, options=ServerOptions(rate_limits=None)) as url,
    ):
        old = token_of(url, key)
        if Caller(url, old)("GET", path).status != 200:
            problems.append("a token is refused before anything happened")
        with shifted(-YEAR):
            # Issued in the future: whether it holds is the server's choice, but it must not fail.
            status = Caller(url, old)("GET", path).status
            if status not in (200, 401):
                problems.append(f"a token of the future is answered {status}")
            new = token_of(url, key)
            if Caller(url, new)("GET", path).status != 200:
                problems.append("a new token is refused while the clock is late")
        # It was issued for an hour of last year.
        if Caller(url, new)("GET", path).status != 401:
            problems.append("a token of last year holds when the clock is right again")
        if Caller(url, token_of(url, key))("GET", path).status != 200:
            problems.append("a new token is refused when the clock is right again")
    return problems


def main() -> int:
    problems = []
    for name, job in (
        ("while open", lambda folder: run(folder, is_reopened=False)),
        ("between runs", lambda folder: run(folder, is_reopened=True)),
        ("server", run_server),
    ):
        with tempfile.TemporaryDirectory() as folder:
            problems += [f"{name}: {problem}" for problem in job(Path(folder))]
    return exit_code(problems)


if __name__ == "__main__":
    sys.exit(main())
