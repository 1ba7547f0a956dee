"""A service of one project that tests stop, restart or kill.

Run as a program it starts a service, sends events, prints the answers as JSON, and kills itself.
"""

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from conformance.shop import event, made, send_event
from conformance.transports import Embedded, OverHttp, Project
from support.http_caller import read_key, token_of

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

ID = "killed-shop"


class Restarting:
    """The service of the project ``killed-shop`` in its own folder, over one transport."""

    def __init__(self, name: str, home: Path) -> None:
        self.home = home
        self._name = name
        self._running = ExitStack()

    @property
    def file(self) -> Path:
        return self.home / f"{ID}.duckdb"

    def start(self, **records) -> Project:
        """Start the service and return the project, created if it does not exist."""
        transport = self._transport()
        if not self.file.exists():
            return made(transport, ID, **records)
        if self._name == "embedded":
            transport.open(ID, lambda service: None)
        return Project(ID, transport)

    def stop(self) -> None:
        """Stop the service in an orderly way."""
        self._running.close()

    def restart(self) -> Project:
        self.stop()
        return self.start()

    def _transport(self) -> Embedded | OverHttp:
        if self._name == "embedded":
            transport = Embedded(self.home)
            self._running.callback(transport.close)
            return transport
        path = self.home / "key.json"
        key = read_key(path) if path.exists() else create_key(self.home, path)
        url = self._running.enter_context(running(self.home, options=ServerOptions(rate_limits=None)))
        return OverHttp(self.home, url, token_of(url, key))


def main(name: str, home: str) -> None:
    service = Restarting(name, Path(home))
    project = service.start()
    answers = {"state": send_event(project, "known@example.com", data={"turnover": 5})}
    place = {"id": answers["state"], "storageKey": "confirmed"}
    project.send("update_event_state", place, body={"value": 1}).ok()
    bodies = [
        event(project, f"user-{number % 2}@example.com", data={"turnover": 1 if number % 4 else "much"})
        for number in range(24)
    ]
    answers["bodies"] = bodies
    answers["ids"] = [project.send("create_event", body=body).ok() for body in bodies]
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
