"""Copies users and their events."""

from __future__ import annotations

from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.display import progress
from attrib_ds.filters import user
from attrib_ds.mirroring.copying import whole
from attrib_ds.mirroring.interactions import copy_interactions_of

if TYPE_CHECKING:
    from attrib_ds.filters import Predicate
    from attrib_ds.mirroring.copying import Copying

#: Records of one transaction, and what a kill makes to be read again.
_USERS: Final = 1_000
#: When the service changed a user.
_NOTED: Final = ("updatedAt",)


def copy_users(copying: Copying) -> None:
    """Copy the events of users, of whom the source tells which have changed; it lists no events."""
    where = _within(copying) if copying.changed is None else copying.changes(user, "lastEventDate", _NOTED)
    with progress("users", _users(copying, where, limit=0)[1]) as advance:
        while True:
            users, left = _users(copying, where, limit=_USERS)
            if not users.num_rows:
                return
            _copy_events(copying, users)
            copying.mirror.send("mirror_records", resource="users", records=users)
            copying.keep(users=max(users["_id"].to_pylist()))
            advance(users.num_rows)
            if users.num_rows >= left:
                return


def _within(copying: Copying) -> Predicate | None:
    """Return what tells users who may be in the mirror, None for all."""
    if copying.scope is None and copying.until is None:
        return None
    # What a filter captured, and bots, count for nobody; nor do they date anybody.
    uncounted = (user("interactionCount") == 0) & (user("eventCount") == 0)
    return reduce(or_, [_between(copying, "EventDate"), _between(copying, "InteractionDate"), uncounted])


def _between(copying: Copying, date: str) -> Predicate:
    """Return what tells users whose first date is not behind the period, nor their last one before it."""
    bounds = []
    if copying.scope is not None:
        bounds.append(user(f"last{date}") >= copying.scope)
    if copying.until is not None:
        bounds.append(user(f"first{date}") <= copying.until)
    return reduce(and_, bounds)


def _users(copying: Copying, where: Predicate | None, *, limit: int) -> tuple[pa.Table, int]:
    answer = copying.source.send(
        "search_users",
        fields=["eventCount", "firstEventDate", "lastEventDate", "createdAt"],
        where=where,
        sort="_id",
        id_after=copying.run["users"],
        limit=limit,
    )
    return answer.read(), answer.total or 0


def _copy_events(copying: Copying, users: pa.Table) -> None:
    ids = users["_id"].to_pylist()
    found = list(copying.pool.map(partial(_events, copying), _buyers(copying, users)))
    if found:
        copying.load("events", pa.concat_tables(found))
    if copying.changed is not None:
        # Interactions of users who were merged since then do not tell that they changed.
        copy_interactions_of(copying, ids)


def _buyers(copying: Copying, users: pa.Table) -> list[str]:
    """Return those users who may have events in the period."""
    wanted = pc.greater(users["eventCount"], 0)
    if copying.scope is not None:
        wanted = pc.and_(wanted, pc.greater_equal(users["lastEventDate"], copying.scope))
    if copying.until is not None:
        wanted = pc.and_(wanted, pc.less_equal(users["firstEventDate"], copying.until))
    ids: list[str] = users.filter(wanted)["_id"].to_pylist()
    return ids


def _events(copying: Copying, user_id: str) -> pa.Table:
    return whole(
        copying.source, "list_user_events", id=user_id, since=copying.scope, until=copying.until, sort="_id"
    )
