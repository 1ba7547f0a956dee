"""Copies users and their events."""

from __future__ import annotations

from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.display import progress
from attrib_ds.filters import user
from attrib_ds.mirroring.copier import list_all
from attrib_ds.mirroring.interactions import copy_interactions_of

if TYPE_CHECKING:
    from attrib_ds.filters import Predicate
    from attrib_ds.mirroring.copier import Copier

#: Records per transaction; a killed process reads at most as many again.
_USERS: Final = 1_000
#: Dates on which the service changed a user.
_CHANGE_DATES: Final = ("updatedAt",)


def copy_users(copier: Copier) -> None:
    """Copy users and their events, found by the users that changed, as services list no events."""
    where = (
        _within(copier) if copier.changed is None else copier.changes(user, "lastEventDate", _CHANGE_DATES)
    )
    with progress("users", _users(copier, where, limit=0)[1]) as advance:
        while True:
            users, left = _users(copier, where, limit=_USERS)
            if not users.num_rows:
                return
            _copy_events(copier, users)
            copier.mirror.send("mirror_records", resource="users", records=users)
            copier.save_progress(users=max(users["_id"].to_pylist()))
            advance(users.num_rows)
            if users.num_rows >= left:
                return


def _within(copier: Copier) -> Predicate | None:
    """Return the predicate for users of the mirrored period, or None for all users."""
    if copier.scope is None and copier.until is None:
        return None
    # Users with only bots or filtered traffic have no counts and no dates.
    uncounted = (user("interactionCount") == 0) & (user("eventCount") == 0)
    return reduce(or_, [_between(copier, "EventDate"), _between(copier, "InteractionDate"), uncounted])


def _between(copier: Copier, date: str) -> Predicate:
    """Return the predicate for users whose range from first to last date overlaps the period."""
    bounds = []
    if copier.scope is not None:
        bounds.append(user(f"last{date}") >= copier.scope)
    if copier.until is not None:
        bounds.append(user(f"first{date}") <= copier.until)
    return reduce(and_, bounds)


def _users(copier: Copier, where: Predicate | None, *, limit: int) -> tuple[pa.Table, int]:
    answer = copier.source.send(
        "search_users",
        columns=["eventCount", "firstEventDate", "lastEventDate", "createdAt"],
        where=where,
        sort="_id",
        id_after=copier.run["users"],
        limit=limit,
    )
    return answer.read(), answer.total or 0


def _copy_events(copier: Copier, users: pa.Table) -> None:
    ids = users["_id"].to_pylist()
    tables = list(copier.pool.map(partial(_events, copier), _users_with_events(copier, users)))
    if tables:
        copier.load("events", pa.concat_tables(tables))
    if copier.changed is not None:
        # A merge changes interactions of a user without updating their dates.
        copy_interactions_of(copier, ids)


def _users_with_events(copier: Copier, users: pa.Table) -> list[str]:
    """Return the ids of users who may have events in the period."""
    mask = pc.greater(users["eventCount"], 0)
    if copier.scope is not None:
        mask = pc.and_(mask, pc.greater_equal(users["lastEventDate"], copier.scope))
    if copier.until is not None:
        mask = pc.and_(mask, pc.less_equal(users["firstEventDate"], copier.until))
    ids: list[str] = users.filter(mask)["_id"].to_pylist()
    return ids


def _events(copier: Copier, user_id: str) -> pa.Table:
    return list_all(
        copier.source, "list_user_events", id=user_id, since=copier.scope, until=copier.until, sort="_id"
    )
