"""Lists records of the source, loads them into the mirror and saves the progress of the run."""

from __future__ import annotations

import logging
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.errors import NotFound
from attrib_ds.mirroring.runs import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project

_LOG: Final = logging.getLogger("attrib_ds.mirroring")


class Copier:
    """Copies records of a run from the source to the mirror.

    Each chunk of records is stored before the progress of the run, and storing a chunk twice changes nothing:
    an interrupted run can resume at any point.

    Parameters
    ----------
    source, mirror : Project
        The projects.
    state : dict
        Saved state of the mirror, with the current ``run``; see :func:`.plan_run`.
    pool : ThreadPoolExecutor
        Runs concurrent requests.
    """

    def __init__(
        self,
        source: Project,
        mirror: Project,
        state: dict[str, Any],
        pool: ThreadPoolExecutor,
    ) -> None:
        self.source = source
        self.mirror = mirror
        self.state = state
        self.run: dict[str, Any] = state["run"]
        self.pool = pool
        self.since, self.changed = parse_instant(self.run["since"]), parse_instant(self.run["changed"])
        self.scope, self.until = parse_instant(self.run["scope"]), parse_instant(self.run["asked"]["until"])
        self._written: dict[str, int] = {}

    def changes(
        self, field: Callable[[str], Any], date: str, change_dates: Sequence[str]
    ) -> Predicate | None:
        """Return the predicate for new and changed records, or None for all records."""
        if self.changed is None:
            return None
        bounds = {date: self.since, **dict.fromkeys(change_dates, self.changed)}
        return reduce(or_, [field(name) >= bound for name, bound in bounds.items()])  # type: ignore[no-any-return]

    def list_source(self, operation: str, **arguments: Any) -> pa.Table:
        """List all records of the source; none if it lacks the operation or the parent record."""
        try:
            return list_all(self.source, operation, **arguments)
        except NotFound:
            return schema.RESOURCES[_RESOURCES[operation]].empty_table()

    def load(self, resource: str, records: pa.Table) -> None:
        """Load records into the mirror, replacing earlier versions."""
        if not records.num_rows:
            return
        answer = self.mirror.send("load_records", resource=resource, source=records, replace=True)
        counts: Any = answer.value
        for kind, count in counts.items():
            self._written[kind] = self._written.get(kind, 0) + count
        rejected = answer.read()
        if rejected.num_rows:
            first = rejected.slice(0, 1).to_pylist()[0]
            _LOG.warning(
                "%s: %d invalid records of the source were skipped; the first is %s (%s)",
                resource,
                rejected.num_rows,
                first["id"],
                first["reason"],
            )

    def save_progress(self, **progress: str | None) -> None:
        """Save the progress of the run."""
        self.run |= progress
        self.mirror.send("keep_mirror", progress=self.state)

    def finish(self) -> None:
        """Save up to which date the mirror is complete, and since when the next run reads changes."""
        began = parse_instant(self.run["began"])
        assert began is not None  # noqa: S101  (set by plan_run)
        previous = parse_instant(self.state.get("through"))
        through = began if self.until is None else min(self.until, began)
        if previous is None or self.until is None or self.until >= previous:
            self.state["changed"] = self.run["began"]
        self.state |= {
            "through": format_instant(through if previous is None else max(previous, through)),
            "scope": self.run["scope"],
            "run": None,
        }
        self.mirror.send("keep_mirror", progress=self.state)
        written = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in self._written.items())
        _LOG.info("%s: %s", self.mirror.transport.address, written or "no new records")


#: Listed resource by operation.
_RESOURCES: Final = {
    "list_nodes": "Node",
    "list_campaigns": "Campaign",
    "list_outlays": "Outlay",
    "list_event_types": "EventType",
    "list_rates": "Rate",
}


def list_all(project: Project, operation: str, **arguments: Any) -> pa.Table:
    """Return all pages of a list in one table."""
    parts: list[pa.Table] = []
    count = 0
    while True:
        answer = project.send(operation, offset=count, **arguments)
        part = answer.read()
        parts.append(part)
        count += part.num_rows
        if not part.num_rows or answer.total is None or count >= answer.total:
            return pa.concat_tables(parts)
