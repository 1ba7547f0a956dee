"""Opens the projects of a folder, each once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest, NotFound, Unavailable
from attrib_ds.service.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDING: Final = ".duckdb"


class Projects:
    """The projects of a folder, opened when they are asked for and kept open.

    Its methods may be called from any thread.

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
            Checked: it becomes part of a path.

        Returns
        -------
        Service
            The same for every caller.

        Raises
        ------
        NotFound
            If there is no such project.
        Unavailable
            If its file cannot be opened, or the projects are closed.
        """
        with self._lock:
            if project_id in self._open:
                return self._open[project_id]
            opening = self._opening.setdefault(project_id, threading.Lock())
        # A slow file holds up nobody who asks for another one.
        with opening:
            return self._open.get(project_id) or self._add(project_id)

    def each(self, visit: Callable[[Service], object]) -> None:
        """Call a function with every project that is open."""
        with self._lock:
            services = list(self._open.values())
        for service in services:
            visit(service)

    def close(self) -> None:
        """Finish what is queued and let go of the files; closing again does nothing."""
        with self._lock:
            self._is_closed = True
            services = list(self._open.values())
            self._open.clear()
        for service in services:
            service.close()

    def _add(self, project_id: str) -> Service:
        path = self.home / f"{project_id}{_ENDING}"
        # Opening would make it.
        if not path.is_file():
            with self._lock:
                self._opening.pop(project_id, None)
            raise NotFound(f"projectId: there is no project {project_id!r}", field="projectId")
        try:
            service = Service.open(project_id, path)
        except InvalidRequest as error:
            # It holds something else, which is no fault of who asks.
            raise Unavailable(f"the project {project_id!r} cannot be opened") from error
        with self._lock:
            if not self._is_closed:
                self._open[project_id] = service
                return service
        service.close()
        raise Unavailable("the projects are closed")
