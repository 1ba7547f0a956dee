"""Finds who meets the condition of an audience (G-094)."""

from __future__ import annotations

import json
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import ibis

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.filters import from_json
from attrib_ds.filters.engine import to_ibis
from attrib_ds.service.interactions.selection import moment
from attrib_ds.service.users.interaction_counts import counted
from attrib_ds.service.users.matching import comparisons, matching
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    Condition = Mapping[str, Any]

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": operator.eq,
    "notEquals": operator.ne,
    "greaterThan": operator.gt,
    "greaterThanOrEquals": operator.ge,
    "lessThan": operator.lt,
    "lessThanOrEquals": operator.le,
}
_PARTS: Final = {"condition": ("condition", "rules"), "operation": ("operator", "operands")}


def meets(backend: Backend, users: ir.Table, condition: str | Condition, *, argument: str) -> ir.BooleanValue:
    """Say of each user whether a condition is met.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    condition : str or mapping
        The id of an audience, or a condition whose form is checked.
    argument : str
        What the condition is called in an error message.

    Returns
    -------
    ibis BooleanValue
        Over ``users``; never null. Interactions of bots and filtered traffic do not count.

    Raises
    ------
    NotFound
        If an audience is not known.
    InvalidRequest
        If a key or an event type is not known in the project.
    """
    if isinstance(condition, str):
        return meets(backend, users, _condition_of(backend, condition, argument), argument=argument)
    kind = condition["type"]
    if kind in _PARTS:
        combinator, members = _PARTS[kind]
        rules = [meets(backend, users, rule, argument=argument) for rule in condition[members]]
        join = operator.and_ if condition[combinator] == "AND" else operator.or_
        joined = reduce(join, rules) if rules else ibis.literal(True)
        return ~joined if condition.get("not", False) else joined
    if kind == "audience":
        # The same audience may be named many times and costs as much each time.
        ids = list(dict.fromkeys(condition["value"]))
        belongs = reduce(operator.or_, (meets(backend, users, id, argument=argument) for id in ids))
        return ~belongs if condition["operator"] == "notIn" else belongs
    if kind == "event":
        return _compares_count(users, _events(backend, condition, argument), condition)
    if kind == "interaction":
        return _compares_count(users, _interactions(backend, condition), condition)
    predicate = from_json(dict(condition), kind="user")
    return users["_id"].isin(matching(backend, users.select("_id"), predicate, argument=argument)["_id"])


def check(backend: Backend, condition: Condition, *, argument: str) -> None:
    """Refuse the condition of an audience that cannot be kept.

    Parameters
    ----------
    backend, condition, argument
        As for :func:`meets`, which raises the same errors.

    Raises
    ------
    InvalidRequest
        If it asks for ``audienceIds``, which would depend on itself.
    """
    for leaf in leaves(condition):
        if leaf["type"] in {"audience", "event", "interaction"}:
            continue
        if any(each.field == "audienceIds" for each in comparisons(from_json(dict(leaf), kind="user"))):
            raise InvalidRequest(
                f"{argument}: asks for 'audienceIds', which depend on it; allowed: type 'audience'",
                field=argument,
            )
    meets(backend, backend.table("users").select("_id"), condition, argument=argument)


def leaves(condition: Condition) -> list[Condition]:
    """Return the conditions that a condition is made of."""
    if condition["type"] in _PARTS:
        return [leaf for rule in condition[_PARTS[condition["type"]][1]] for leaf in leaves(rule)]
    return [condition]


def memberships(backend: Backend, users: ir.Table) -> ir.Table | None:
    """Return who belongs to which audience.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``: whose audiences.

    Returns
    -------
    ibis.Table or None
        ``userId`` and ``audienceId``, in no order; None if the project has no audiences.
    """
    kept = backend.con.execute("SELECT _id, condition FROM audiences ORDER BY _id").fetchall()
    members = [
        users.filter(meets(backend, users, json.loads(condition), argument="audience")).select(
            userId="_id", audienceId=ibis.literal(id)
        )
        for id, condition in kept
    ]
    return ibis.union(members[0], *members[1:]) if members else None


def _condition_of(backend: Backend, id: str, argument: str) -> Condition:
    found = backend.con.execute("SELECT condition FROM audiences WHERE _id = ?", [id]).fetchone()
    if found is None:
        raise NotFound(f"{argument}: there is no audience {id!r}", field=argument)
    condition: Condition = json.loads(found[0])
    return condition


def _events(backend: Backend, condition: Condition, argument: str) -> ir.Table:
    reference = condition["eventType"]
    try:
        Vocabulary(backend.con).check_key(f"eventTypesCount.{reference}", argument=argument)
    except InvalidRequest as refusal:
        told = refusal.message.replace("eventTypesCount.", "")
        raise InvalidRequest(told, field=argument) from None
    events = backend.table("events")
    kept = [events.eventType == reference]
    if condition.get("since") is not None:
        kept.append(events.eventDate >= moment(instants.parse(condition["since"], argument="since")))
    if condition.get("until") is not None:
        kept.append(events.eventDate <= moment(instants.parse(condition["until"], argument="until")))
    return events.filter(kept).select("userId")


def _interactions(backend: Backend, condition: Condition) -> ir.Table:
    interactions = counted(backend)
    if condition.get("filter") is not None:
        wanted = from_json(condition["filter"], kind="interaction")
        interactions = interactions.filter(to_ibis(wanted, interactions))
    return interactions.select("userId")


def _compares_count(users: ir.Table, records: ir.Table, condition: Condition) -> ir.BooleanValue:
    """Compare the number of a user's records; users without any are not among the counts."""
    compare, number = _COMPARE[condition["operator"]], int(condition["value"])
    mine = records.semi_join(users, records.userId == users["_id"])
    counts = mine.group_by("userId").agg(count=mine.count())
    holds = compare(counts["count"], number)
    if compare(0, number):
        return ~users["_id"].isin(counts.filter(~holds).userId)
    return users["_id"].isin(counts.filter(holds).userId)
