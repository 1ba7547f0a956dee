"""The open projects of a server, one file each."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest, NotFound, Unavailable
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDING: Final = ".duckdb"
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

    def close(self) -> None:
        """Finish queued work and close the files; idempotent."""
        with self._lock:
            self._is_closed = True
            services = list(self._open.values())
            self._open.clear()
        for service in services:
            service.close()

    def _add(self, project_id: str) -> Service:
        path = self.home / f"{project_id}{_ENDING}"
        # Service.open would create it.
        if not path.is_file():
            with self._lock:
                self._opening.pop(project_id, None)
            raise NotFound(f"projectId: there is no project {project_id!r}", field="projectId")
        try:
            service = Service.open(project_id, path, has_log=True)
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
