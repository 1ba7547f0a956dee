"""Evaluates conditions of audiences (G-094)."""

from __future__ import annotations

import json
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import ibis

from attrib_ds import instants
from attrib_ds.contract.precision import truncate
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.filters import from_json
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.queries.expressions import timestamp
from attrib_ds.service.users.interaction_totals import countable_interactions
from attrib_ds.service.users.matching import comparisons, match_users
from attrib_ds.service.users.project_keys import ProjectKeys
from attrib_ds.service.users.properties import with_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.users.matching import Describe

    Condition = Mapping[str, Any]

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": operator.eq,
    "notEquals": operator.ne,
    "greaterThan": operator.gt,
    "greaterThanOrEquals": operator.ge,
    "lessThan": operator.lt,
    "lessThanOrEquals": operator.le,
}
#: Maximum number of predicates of a condition and all the audiences that it names, each time it names them.
_MOST_PARTS: Final = 200
_PARTS: Final = {"condition": ("condition", "rules"), "operation": ("operator", "operands")}


def meets(
    backend: Backend,
    users: ir.Table,
    condition: str | Condition,
    *,
    argument: str,
    describe: Describe = with_properties,
) -> ir.BooleanValue:
    """Return whether each user meets a condition.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    condition : str or mapping
        The id of an audience, or a well-formed condition.
    argument : str
        Name of the condition in error messages.
    describe : callable, optional
        As for :func:`.match_users`; by default conditions cannot ask for audiences of users.

    Returns
    -------
    ibis BooleanValue
        Over ``users``, never null. Bots and filtered traffic do not count as interactions.

    Raises
    ------
    NotFound
        If there is no such audience.
    InvalidRequest
        If the project has no such key or event type.
    """
    if isinstance(condition, str):
        condition = _condition_of(backend, condition, argument)
    kind = condition["type"]
    if kind in _PARTS:
        combinator, members = _PARTS[kind]
        rules = [
            meets(backend, users, rule, argument=argument, describe=describe) for rule in condition[members]
        ]
        join = operator.and_ if condition[combinator] == "AND" else operator.or_
        joined = reduce(join, rules) if rules else ibis.literal(True)
        return ~joined if condition.get("not", False) else joined
    if kind == "audience":
        # Evaluate an audience once, however often it is named.
        ids = list(dict.fromkeys(condition["value"]))
        belongs = reduce(
            operator.or_, (meets(backend, users, id, argument=argument, describe=describe) for id in ids)
        )
        return ~belongs if condition["operator"] == "notIn" else belongs
    if kind == "event":
        return _compares_count(users, _events(backend, condition, argument), condition)
    if kind == "interaction":
        return _compares_count(users, _interactions(backend, condition), condition)
    predicate = from_json(dict(condition), kind="user")
    matched = match_users(backend, users.select("_id"), predicate, argument=argument, describe=describe)
    return users["_id"].isin(matched["_id"])


def check_size(backend: Backend, condition: str | Condition, *, argument: str) -> None:
    """Refuse a condition that is too large with the audiences that it names, and those that they name.

    Parameters
    ----------
    backend, condition, argument
        As for :func:`meets`.

    Raises
    ------
    NotFound
        If there is no such audience.
    InvalidRequest
        If it has too many parts.
    """
    sizes: dict[str, int] = {}

    def size_of(part: str | Condition) -> int:
        if isinstance(part, str):
            if part not in sizes:
                sizes[part] = size_of(_condition_of(backend, part, argument))
            return sizes[part]
        return sum(
            sum(map(size_of, dict.fromkeys(leaf["value"]))) if leaf["type"] == "audience" else 1
            for leaf in leaves(part)
        )

    size = size_of(condition)
    if size > _MOST_PARTS:
        raise InvalidRequest(
            f"{argument}: consists of {size:,} predicates with all the audiences it names; allowed: "
            f"{_MOST_PARTS:,}",
            field=argument,
        )


def check(backend: Backend, condition: Condition, *, argument: str) -> None:
    """Refuse a condition that an audience cannot have.

    Parameters
    ----------
    backend, condition, argument
        As for :func:`meets`, which raises the same errors.

    Raises
    ------
    InvalidRequest
        If it names ``audienceIds``, which depend on the audience.
    """
    for leaf in leaves(condition):
        if leaf["type"] in {"audience", "event", "interaction"}:
            continue
        if any(
            comparison.field == "audienceIds"
            for comparison in comparisons(from_json(dict(leaf), kind="user"))
        ):
            raise InvalidRequest(
                f"{argument}: 'audienceIds' is not allowed in the condition of an audience; "
                "allowed: type 'audience'",
                field=argument,
            )
    check_size(backend, condition, argument=argument)
    meets(backend, backend.table("users").select("_id"), condition, argument=argument)


def leaves(condition: Condition) -> list[Condition]:
    """Return the leaves of the tree of conditions."""
    if condition["type"] in _PARTS:
        return [leaf for rule in condition[_PARTS[condition["type"]][1]] for leaf in leaves(rule)]
    return [condition]


def memberships(backend: Backend, users: ir.Table, audiences: Sequence[tuple[str, str]]) -> ir.Table:
    """Return the members of audiences.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``: possible members.
    audiences : sequence of tuple
        Id and condition, as JSON text, of at least one audience.

    Returns
    -------
    ibis.Table
        ``userId`` and ``audienceId``, in no order.
    """
    members = [
        users.filter(meets(backend, users, json.loads(condition), argument="audience")).select(
            userId="_id", audienceId=ibis.literal(id)
        )
        for id, condition in audiences
    ]
    return ibis.union(members[0], *members[1:])


def _condition_of(backend: Backend, id: str, argument: str) -> Condition:
    row = backend.con.execute("SELECT condition FROM audiences WHERE _id = ?", [id]).fetchone()
    if row is None:
        raise NotFound(f"{argument}: there is no audience {id!r}", field=argument)
    condition: Condition = json.loads(row[0])
    return condition


def _events(backend: Backend, condition: Condition, argument: str) -> ir.Table:
    reference = condition["eventType"]
    try:
        ProjectKeys(backend.con).check_key(f"eventTypesCount.{reference}", argument=argument)
    except InvalidRequest as refusal:
        message = refusal.message.replace("eventTypesCount.", "")
        raise InvalidRequest(message, field=argument) from None
    events = backend.table("events")
    conditions = [events.eventType == reference]
    if condition.get("since") is not None:
        conditions.append(events.eventDate >= timestamp(instants.parse(condition["since"], argument="since")))
    if condition.get("until") is not None:
        conditions.append(events.eventDate <= timestamp(instants.parse(condition["until"], argument="until")))
    return events.filter(conditions).select("userId")


def _interactions(backend: Backend, condition: Condition) -> ir.Table:
    interactions = countable_interactions(backend)
    if condition.get("filter") is not None:
        predicate = from_json(condition["filter"], kind="interaction")
        interactions = interactions.filter(to_ibis(truncate(predicate), interactions))
    return interactions.select("userId")


def _compares_count(users: ir.Table, records: ir.Table, condition: Condition) -> ir.BooleanValue:
    """Compare the number of a user's records; users without records have no row among the counts."""
    compare, number = _COMPARE[condition["operator"]], int(condition["value"])
    own = records.semi_join(users, records.userId == users["_id"])
    counts = own.group_by("userId").agg(count=own.count())
    holds = compare(counts["count"], number)
    if compare(0, number):
        return ~users["_id"].isin(counts.filter(~holds).userId)
    return users["_id"].isin(counts.filter(holds).userId)
