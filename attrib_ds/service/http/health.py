"""Tells whether the server lives, and whether it can read and write (G-215)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import AttribError

if TYPE_CHECKING:
    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.http.projects import Projects

#: How long a finding counts: anyone may ask, and each one writes to every open project.
_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)


class Health:
    """Finds out whether the accounts and the open projects can be read and written.

    Its methods may be called from any thread.

    Parameters
    ----------
    projects : Projects
        What is served.
    accounts : Accounts
        Who may ask.
    """

    def __init__(self, projects: Projects, accounts: Accounts) -> None:
        self._projects = projects
        self._accounts = accounts
        self._lock = threading.Lock()
        self._until = 0.0
        self._is_ready = False

    def is_ready(self) -> bool:
        """Say whether all of it works; what does not is in the log."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._is_ready = self._find_out()
                self._until = time.monotonic() + _SECONDS
            return self._is_ready

    def _find_out(self) -> bool:
        try:
            self._accounts.beat()
            self._projects.each(lambda service: service.beat())
        except AttribError:
            _log.exception("not ready")
            return False
        return True
