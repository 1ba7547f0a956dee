"""The open projects of a server, one file each: their health, and who may send to them without a token."""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from attrib_ds.errors import AttribError, InvalidRequest, NotFound, Unavailable
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.service import Service
from attrib_ds.service.store.settings import ProjectSettings

_ENDING: Final = ".duckdb"
#: Seconds for which readiness is cached: the route is public, and each check writes to every open project.
_SECONDS_READY: Final = 1.0
#: For all projects: a service manager kills what has not stopped in time.
_SECONDS_TO_CLOSE: Final = 10.0
_log: Final = logging.getLogger(__name__)


class Projects:
    """The projects of a folder, opened on first use and kept open. Thread-safe.

    Parameters
    ----------
    home : str or Path
        Folder with one file per project.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     Service.open("shop", f"{home}/shop.duckdb").close()
    ...     projects = Projects(home)
    ...     projects.get("shop").currency
    ...     projects.close()
    'EUR'
    """

    def __init__(self, home: str | Path) -> None:
        self.home = Path(home).expanduser()
        self._lock = threading.Lock()
        self._open: dict[str, Service] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._is_closed = False

    def get(self, project_id: str) -> Service:
        """Return a project.

        Parameters
        ----------
        project_id : str
            Validated by the caller, since it becomes part of a path.

        Returns
        -------
        Service
            The same for every caller.

        Raises
        ------
        NotFound
            If there is no such project.
        Unavailable
            If its file cannot be opened now, or the projects are closed.
        HttpError
            With 500 if its file is not that of this project.
        """
        with self._lock:
            if project_id in self._open:
                return self._open[project_id]
            opening = self._opening.setdefault(project_id, threading.Lock())
        # Opening a slow file does not block requests for other projects.
        with opening:
            return self._open.get(project_id) or self._add(project_id)

    def find_open(self, project_id: str) -> Service | None:
        """Return a project if it is open, without making the thread wait."""
        return self._open.get(project_id)

    def for_each(self, visit: Callable[[Service], object]) -> None:
        """Call a function with every open project."""
        with self._lock:
            services = list(self._open.values())
        for service in services:
            visit(service)

    def waiting(self) -> dict[str, dict[str, int]]:
        """Return the number of accepted records of each open project that are not yet in its tables."""
        with self._lock:
            return {project_id: service.waiting() for project_id, service in self._open.items()}

    def close(self, *, timeout: float = _SECONDS_TO_CLOSE) -> None:
        """Finish queued work, for some seconds in all, and close the files; idempotent."""
        ends = time.monotonic() + timeout
        with self._lock:
            self._is_closed = True
            services = list(self._open.values())
            self._open.clear()
        for service in services:
            service.close(timeout=ends - time.monotonic())

    def _add(self, project_id: str) -> Service:
        path = self.home / f"{project_id}{_ENDING}"
        # Service.open would create it.
        if not path.is_file():
            with self._lock:
                self._opening.pop(project_id, None)
            raise NotFound(f"projectId: there is no project {project_id!r}", field="projectId")
        try:
            service = Service.open(project_id, path, is_served=True)
        except InvalidRequest as error:
            # A fault of the server, not of the request, and one that lasts.
            _log.error("the project %r cannot be opened: %s", project_id, error.message)
            raise HttpError(500, f"the project {project_id!r} cannot be opened") from None
        with self._lock:
            if not self._is_closed:
                self._open[project_id] = service
                return service
        service.close()
        raise Unavailable("the projects are closed")


class Health:
    """Check whether the accounts and the open projects can be read and written. Thread-safe.

    Parameters
    ----------
    projects : Projects
        Projects of the server.
    accounts : Accounts
        Service accounts of the server.
    """

    def __init__(self, projects: Projects, accounts: Accounts) -> None:
        self._projects = projects
        self._accounts = accounts
        self._lock = threading.Lock()
        self._until = 0.0
        self._is_ready = False

    def is_ready(self) -> bool:
        """Return whether everything works; failures are logged."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._accounts.probe()
                    self._projects.for_each(lambda service: service.probe())
                    self._is_ready = True
                except AttribError:
                    _log.exception("not ready")
                    self._is_ready = False
                self._until = time.monotonic() + _SECONDS_READY
            return self._is_ready


def check_sender(headers: Headers, settings: ProjectSettings) -> None:
    """Check who sends an event without a token.

    Raises
    ------
    HttpError
        With 401 without a required token or ingest key, with 403 for an origin that is not allowed.
    """
    if settings.require_token_for_events:
        raise HttpError(401)
    _check_key(headers.get("x-ingest-key", ""), settings, "the header X-Ingest-Key has none")
    if settings.allowed_origins and headers.get("origin") not in settings.allowed_origins:
        raise HttpError(403, "events of this project are not accepted from this origin")


def check_page(headers: Headers, settings: ProjectSettings, *, ingest_key: str | None) -> None:
    """Check the page of a hit: its ingest key, and its origin.

    A token is never required: a page has none. Images have no ``Origin``, but a ``Referer``.

    Raises
    ------
    HttpError
        With 401 without a required ingest key, with 403 for a page whose origin is not allowed.
    """
    _check_key(ingest_key or headers.get("x-ingest-key", ""), settings, "ingestKey is none")
    origin = headers.get("origin") or "/".join(headers.get("referer", "").split("/", 3)[:3])
    if settings.allowed_origins and origin not in settings.allowed_origins:
        raise HttpError(403, "hits of this project are not accepted from this origin")


def _check_key(key: str, settings: ProjectSettings, problem: str) -> None:
    keys = settings.ingest_keys
    if keys and not any(secrets.compare_digest(key.encode(), known.encode()) for known in keys):
        raise HttpError(401, f"{problem} of the ingest keys of this project")
