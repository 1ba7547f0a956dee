"""Opens the projects of a folder, each once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest, NotFound, Unavailable
from attrib_ds.service.service import Service
from attrib_ds.service.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDING: Final = ".duckdb"


@dataclass(frozen=True)
class Project:
    """A project that is open.

    Parameters
    ----------
    service : Service
        Answers its operations.
    store : Store
        Its data, for answers that are sent while they are read.
    """

    service: Service
    store: Store

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        self.store.close()
        self.service.close()


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
    ...     projects.get("shop").service.currency
    ...     projects.close()
    'EUR'
    """

    def __init__(self, home: str | Path) -> None:
        self.home = Path(home).expanduser()
        self._lock = threading.Lock()
        self._open: dict[str, Project] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._is_closed = False

    def get(self, project_id: str) -> Project:
        """Return a project.

        Parameters
        ----------
        project_id : str
            Checked: it becomes part of a path.

        Returns
        -------
        Project
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

    def each(self, visit: Callable[[Project], object]) -> None:
        """Call a function with every project that is open."""
        with self._lock:
            projects = list(self._open.values())
        for project in projects:
            visit(project)

    def close(self) -> None:
        """Finish what is queued and let go of the files; closing again does nothing."""
        with self._lock:
            self._is_closed = True
            projects = list(self._open.values())
            self._open.clear()
        for project in projects:
            project.close()

    def _add(self, project_id: str) -> Project:
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
        # Both are of one database: within a process DuckDB opens a file once.
        project = Project(service, Store.open(path, project_id))
        with self._lock:
            if not self._is_closed:
                self._open[project_id] = project
                return project
        project.close()
        raise Unavailable("the projects are closed")
