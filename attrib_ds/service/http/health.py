"""Readiness check: whether the server can read and write (G-215)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import AttribError

if TYPE_CHECKING:
    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.http.projects import Projects

#: Seconds for which a result is cached: the route is public, and each check writes to every open project.
_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)


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
                self._is_ready = self._check()
                self._until = time.monotonic() + _SECONDS
            return self._is_ready

    def _check(self) -> bool:
        try:
            self._accounts.probe()
            self._projects.for_each(lambda service: service.probe())
        except AttribError:
            _log.exception("not ready")
            return False
        return True
