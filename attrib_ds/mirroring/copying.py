"""What all copying needs: to list, to load, and to keep how far it is."""

from __future__ import annotations

import logging
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.errors import NotFound
from attrib_ds.mirroring.runs import date, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project

_LOG: Final = logging.getLogger("attrib_ds.mirroring")


class Copying:
    """Copy from the source to the mirror what a run is about.

    Every chunk of records is kept before how far the run is, and keeping one again changes nothing: a run may
    end at any moment and go on later.

    Parameters
    ----------
    source, mirror : Project
        From where, and to where.
    state : dict
        What the mirror keeps of itself; the run is a part of it.
    run : dict
        What is copied, and how far it is.
    pool : ThreadPoolExecutor
        For requests at the same time.
    """

    def __init__(
        self,
        source: Project,
        mirror: Project,
        state: dict[str, Any],
        run: dict[str, Any],
        pool: ThreadPoolExecutor,
    ) -> None:
        self.source = source
        self.mirror = mirror
        self.state = state
        self.run = run
        self.pool = pool
        self.since, self.changed = date(run["since"]), date(run["changed"])
        self.scope, self.until = date(run["scope"]), date(run["asked"]["until"])
        self._written: dict[str, int] = {}

    def changes(self, field: Callable[[str], Any], date: str, noted: Sequence[str]) -> Predicate | None:
        """Return what tells records that are to be read, None for all."""
        if self.changed is None:
            return None
        bounds = {date: self.since, **dict.fromkeys(noted, self.changed)}
        return reduce(or_, [field(name) >= bound for name, bound in bounds.items()])  # type: ignore[no-any-return]

    def listed(self, operation: str, **arguments: Any) -> pa.Table:
        """List all records of the source; none where it does not know the operation or what it is about."""
        try:
            return whole(self.source, operation, **arguments)
        except NotFound:
            return schema.RESOURCES[_LISTED[operation]].empty_table()

    def load(self, resource: str, records: pa.Table) -> None:
        """Load records into the mirror, in place of those that it has of them."""
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
                "%s: %d records of the source do not fit and are left out; the first is %s (%s)",
                resource,
                rejected.num_rows,
                first["id"],
                first["reason"],
            )

    def keep(self, **how_far: str | None) -> None:
        """Keep how far the run is."""
        self.run |= how_far
        self.mirror.send("keep_mirror", progress=self.state)

    def finish(self) -> None:
        """Keep up to when the mirror is complete, and from when on changes are to be read the next time."""
        began = date(self.run["began"])
        assert began is not None  # noqa: S101  (every run has begun)
        held = date(self.state.get("through"))
        through = began if self.until is None else min(self.until, began)
        if held is None or self.until is None or self.until >= held:
            self.state["changed"] = self.run["began"]
        self.state |= {
            "through": text(through if held is None else max(held, through)),
            "scope": self.run["scope"],
            "run": None,
        }
        self.mirror.send("keep_mirror", progress=self.state)
        written = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in self._written.items())
        _LOG.info("%s: %s", self.mirror.transport.address, written or "nothing new")


#: What is listed, by operation.
_LISTED: Final = {
    "list_nodes": "Node",
    "list_campaigns": "Campaign",
    "list_outlays": "Outlay",
    "list_event_types": "EventType",
    "list_rates": "Rate",
}


def whole(project: Project, operation: str, **arguments: Any) -> pa.Table:
    """Return all records of a list, however many the service gives at once."""
    parts: list[pa.Table] = []
    count = 0
    while True:
        answer = project.send(operation, offset=count, **arguments)
        part = answer.read()
        parts.append(part)
        count += part.num_rows
        if not part.num_rows or answer.total is None or count >= answer.total:
            return pa.concat_tables(parts)
