"""Creates, reads and deletes audiences; their members are computed on reading."""

import json
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from ibis.backends.duckdb import Backend

from attrib_ds import errors, instants, schema, sql_results
from attrib_ds.contract import Answer, json_values
from attrib_ds.contract import users as contract
from attrib_ds.contract.request import truncate
from attrib_ds.filters import Comparison, Condition, Predicate, from_json, ibis_form
from attrib_ds.filters.predicates import comparisons
from attrib_ds.filters.vocabulary import STATISTICS
from attrib_ds.filters.wire import CONDITION_PARTS
from attrib_ds.queries.insights import filtered_events, within
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.store import Store, writes
from attrib_ds.service.store.tables import insert_record, sql_table
from attrib_ds.service.users import properties, user_fields

ConditionRecord = Mapping[str, Any]


#: Number of compiled queries from which on the cache is emptied.
_MOST_QUERIES: Final = 256
_COLUMNS = "_id, projectId, name, condition"


def create_audience(store: Store, request: contract.CreateAudience) -> Answer:
    """Create and return an audience.

    Raises
    ------
    InvalidRequest
        If the condition names an unknown key or event type, or ``audienceIds``.
    NotFound
        If it names an audience that does not exist.
    """
    with store.read() as backend:
        check(backend, request.condition, argument="condition")
    now, new_id = instants.now(), store.ids.new()
    record = {
        "_id": new_id,
        "projectId": request.projectId,
        "name": request.name,
        "condition": json_values.encode(request.condition),
        "createdAt": instants.naive(now),
        "updatedAt": instants.naive(now),
    }

    def write(connection: Connection) -> None:
        # An audience of the condition may have been deleted since the check.
        for id in sorted(_audience_ids(request.condition)):
            _condition_of(connection, id, "condition")
        insert_record(connection, "audiences", record)

    store.write(write)
    return _read(store, new_id)


def list_audiences(store: Store, request: contract.ListAudiences) -> Answer:
    """Return one page of audiences, sorted by name, with their current sizes."""
    page = "" if request.limit is None else f"LIMIT {request.limit}"
    with store.read() as backend:
        ((total,),) = backend.con.execute("SELECT count(*) FROM audiences").fetchall()
        rows = backend.con.execute(
            f"SELECT {_COLUMNS} FROM audiences ORDER BY name, _id {page} OFFSET {request.offset}"
        ).fetchall()
        table = _table(backend, rows)
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


def get_audience(store: Store, request: contract.GetAudience) -> Answer:
    """Return one audience with its current size."""
    return _read(store, request.id)


@writes
def delete_audience(connection: Connection, _: Store, request: contract.DeleteAudience) -> int:
    """Delete an audience, not its users; return 1.

    Raises
    ------
    NotFound
        If there is no such audience.
    Conflict
        If the condition of another audience names it.
    """
    _condition_of(connection, request.id, "id")
    for name, condition in connection.execute(
        "SELECT name, condition FROM audiences ORDER BY _id"
    ).fetchall():
        if request.id in _audience_ids(json.loads(condition)):
            raise errors.Conflict(
                f"id: the condition of the audience {name!r} names {request.id!r}; delete {name!r} first"
            )
    connection.execute("DELETE FROM audiences WHERE _id = ?", [request.id])
    return 1


def _read(store: Store, id: str) -> Answer:
    with store.read() as backend:
        _condition_of(backend.con, id, "id")
        rows = backend.con.execute(f"SELECT {_COLUMNS} FROM audiences WHERE _id = ?", [id]).fetchall()
        return Answer.of(_table(backend, rows))


def _table(backend: Backend, rows: Sequence[tuple[str, str, str, str]]) -> pa.Table:
    users = backend.table("users").select("_id")
    now = instants.now()
    records = [
        {
            "_id": id,
            "projectId": project_id,
            "name": name,
            "condition": condition,
            "size": users.filter(meets(backend, users, json.loads(condition), argument="condition"))
            .count()
            .to_pyarrow()
            .as_py(),
            "computedAt": now,
        }
        for id, project_id, name, condition in rows
    ]
    return pa.Table.from_pylist(records, schema.AUDIENCE)


def _audience_ids(condition: dict[str, object]) -> set[str]:
    """Return the ids of the audiences in a condition."""
    return {id for leaf in leaves(condition) if leaf["type"] == "audience" for id in leaf["value"]}


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


def meets(
    backend: Backend, users: ir.Table, condition: str | ConditionRecord, *, argument: str
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
        condition = _condition_of(backend.con, condition, argument)
    kind = condition["type"]
    if kind in CONDITION_PARTS:
        combinator, members = CONDITION_PARTS[kind]
        rules = [meets(backend, users, rule, argument=argument) for rule in condition[members]]
        join = operator.and_ if condition[combinator] == "AND" else operator.or_
        joined = reduce(join, rules) if rules else ibis.literal(True)
        return ~joined if condition.get("not", False) else joined
    if kind == "audience":
        # Evaluate an audience once, however often it is named.
        ids = list(dict.fromkeys(condition["value"]))
        belongs = reduce(operator.or_, (meets(backend, users, id, argument=argument) for id in ids))
        return ~belongs if condition["operator"] == "notIn" else belongs
    if kind == "event":
        return _compares_count(users, _events(backend, condition, argument), condition)
    if kind == "interaction":
        return _compares_count(users, _interactions(backend, condition), condition)
    predicate = from_json(dict(condition), kind="user")
    matched = match_users(backend, users.select("_id"), predicate, argument=argument)
    return users["_id"].isin(matched["_id"])


def check_size(backend: Backend, condition: str | ConditionRecord, *, argument: str) -> None:
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

    def size_of(part: str | ConditionRecord) -> int:
        if isinstance(part, str):
            if part not in sizes:
                sizes[part] = size_of(_condition_of(backend.con, part, argument))
            return sizes[part]
        return sum(
            sum(map(size_of, dict.fromkeys(leaf["value"]))) if leaf["type"] == "audience" else 1
            for leaf in leaves(part)
        )

    size = size_of(condition)
    if size > _MOST_PARTS:
        raise errors.InvalidRequest(
            f"{argument}: consists of {size:,} predicates with all the audiences it names; allowed: "
            f"{_MOST_PARTS:,}"
        )


def check(backend: Backend, condition: ConditionRecord, *, argument: str) -> None:
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
            raise errors.InvalidRequest(
                f"{argument}: 'audienceIds' is not allowed in the condition of an audience; "
                "allowed: type 'audience'"
            )
    check_size(backend, condition, argument=argument)
    meets(backend, backend.table("users").select("_id"), condition, argument=argument)


def leaves(condition: ConditionRecord) -> list[ConditionRecord]:
    """Return the leaves of the tree of conditions."""
    if condition["type"] in CONDITION_PARTS:
        return [leaf for rule in condition[CONDITION_PARTS[condition["type"]][1]] for leaf in leaves(rule)]
    return [condition]


def describe_users(backend: Backend, users: ir.Table, keys: Iterable[str]) -> ir.Table:
    """Add properties to users; for the parameters see :func:`.properties_query`."""
    ids = f"({backend.compile(users.select('_id'))}) AS users"
    return sql_table(backend, description_query(backend, ids, keys, cache={}))


def description_query(
    backend: Backend, users: str, keys: Iterable[str], mode: str = "latest", *, cache: dict[Hashable, str]
) -> str:
    """Return the query of users with the requested properties.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users, keys, mode
        As for :func:`.properties_query`.
    cache : dict
        Keeps the compiled conditions of audiences.

    Returns
    -------
    str
        SQL, as from :func:`.properties_query`.
    """
    project_keys, names = user_fields.ProjectKeys(backend.con), list(keys)
    members = _memberships_query(backend, users, project_keys, cache) if "audienceIds" in names else None
    return properties.properties_query(project_keys, users, names, mode, memberships=members)


def _memberships_query(
    backend: Backend, users: str, project_keys: user_fields.ProjectKeys, cache: dict[Hashable, str]
) -> str:
    audiences = tuple(backend.con.execute("SELECT _id, condition FROM audiences ORDER BY _id").fetchall())
    if not audiences:
        return "SELECT NULL::VARCHAR AS userId, NULL::VARCHAR AS audienceId WHERE false"

    key = (users, audiences, project_keys.declarations)
    query = cache.get(key)
    if query is None:
        listed = sql_table(backend, f"SELECT _id FROM {users}")
        members = [
            listed.filter(meets(backend, listed, json.loads(condition), argument="audience")).select(
                userId="_id", audienceId=ibis.literal(id)
            )
            for id, condition in audiences
        ]
        query = str(backend.compile(ibis.union(members[0], *members[1:])))
        if len(cache) >= _MOST_QUERIES:
            cache.clear()
        cache[key] = query
    return query


def _condition_of(connection: Connection, id: str, argument: str) -> ConditionRecord:
    row = sql_results.read_row(connection, "SELECT condition FROM audiences WHERE _id = ?", [id])
    if row is None:
        raise errors.NotFound(f"{argument}: there is no audience {id!r}")
    condition: ConditionRecord = json.loads(row[0])
    return condition


def _events(backend: Backend, condition: ConditionRecord, argument: str) -> ir.Table:
    reference, where = condition["eventType"], None
    project_keys = user_fields.ProjectKeys(backend.con)
    _check_named(project_keys, f"eventTypesCount.{reference}", "eventTypesCount.", argument)
    if condition.get("filter") is not None:
        where = truncate(from_json(condition["filter"], kind="event"))
        for leaf in comparisons(where):
            if leaf.field.startswith(STATISTICS):
                key = leaf.field.removeprefix(STATISTICS)
                _check_named(project_keys, f"metrics.{key}.sum", "metrics.", argument)
    events = backend.table("events")
    since, until = (
        None if condition.get(name) is None else instants.parse(condition[name], argument=name)
        for name in ("since", "until")
    )
    is_counted = (events.eventType == reference) & within(events.eventDate, since, until)
    events = events.filter(is_counted)
    if where is not None:
        events = filtered_events(events, backend.table("metrics"), where)
    return events.select("userId")


def _check_named(keys: user_fields.ProjectKeys, key: str, prefix: str, argument: str) -> None:
    """Refuse a key that the project does not have, in the words of the condition."""
    try:
        keys.check_key(key, argument=argument)
    except errors.InvalidRequest as refusal:
        message = refusal.message.replace(prefix, "").replace(".sum", "")
        raise errors.InvalidRequest(message, field=argument) from None


def _interactions(backend: Backend, condition: ConditionRecord) -> ir.Table:
    interactions = sql_table(backend, f"SELECT * FROM interactions WHERE {properties.IS_COUNTABLE}")
    if condition.get("filter") is not None:
        predicate = from_json(condition["filter"], kind="interaction")
        interactions = interactions.filter(ibis_form.to_ibis(truncate(predicate), interactions))
    return interactions.select("userId")


def _compares_count(users: ir.Table, records: ir.Table, condition: ConditionRecord) -> ir.BooleanValue:
    """Compare the number of a user's records; users without records have no row among the counts."""
    compare, number = _COMPARE[condition["operator"]], int(condition["value"])
    own = records.semi_join(users, records.userId == users["_id"])
    counts = own.group_by("userId").agg(count=own.count())
    holds = compare(counts["count"], number)
    if compare(0, number):
        return ~users["_id"].isin(counts.filter(~holds).userId)
    return users["_id"].isin(counts.filter(holds).userId)


_FIELDS: Final = "fields."
#: Type in which values of a field are compared, by the type of the field; others as text.
_COMPARED_AS: Final = {"number": "number", "boolean": "boolean", "date": "date"}


def match_users(backend: Backend, users: ir.Table, predicate: Predicate, *, argument: str) -> ir.Table:
    """Return the users who match a predicate.

    A field of several values matches when any of them does; a negative operator, when none does.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``.
    predicate : Predicate
        On users.
    argument : str
        Name of the predicate in error messages.

    Returns
    -------
    ibis.Table
        The column ``_id`` of the matching rows.

    Raises
    ------
    InvalidRequest
        If the project has no such key, or the predicate compares its values as another type.
    """
    project_keys = user_fields.ProjectKeys(backend.con)
    typed_predicate = _with_types(predicate, project_keys, argument)
    names = list(dict.fromkeys(leaf.field for leaf in comparisons(typed_predicate)))
    table = describe_users(backend, users, [name for name in names if not name.startswith(_FIELDS)])
    kinds = {
        name: project_keys.find_field(name.removeprefix(_FIELDS), argument=argument).type
        for name in names
        if name.startswith(_FIELDS)
    }
    if kinds:
        values = _field_arrays(backend, users, project_keys, kinds)
        table = table.left_join(values, table["_id"] == values.owner).drop("owner")
    return table.filter(ibis_form.to_ibis(typed_predicate, table)).select("_id")


def _field_arrays(
    backend: Backend, users: ir.Table, project_keys: user_fields.ProjectKeys, kinds: dict[str, str]
) -> ir.Table:
    """Return the values of fields, one array per field."""
    keys = [name.removeprefix(_FIELDS) for name in kinds]
    values = user_fields.all_values(project_keys, f"({backend.compile(users)}) AS users", keys=keys)
    # Cast before aggregating, so that no value is cast to the type of another field.
    types = dict.fromkeys(kinds.values())
    read = ", ".join(f"{user_fields.typed('current', kind)} AS {quoted(f'as {kind}')}" for kind in types)
    arrays = ", ".join(
        f"list({column}) FILTER (WHERE key = {literal(key)} AND {column} IS NOT NULL) "
        f"AS {quoted(f'{_FIELDS}{key}')}"
        for key, column in zip(keys, (quoted(f"as {kind}") for kind in kinds.values()), strict=True)
    )
    read = f"SELECT userId, key, {read} FROM ({values}) AS given"
    return sql_table(backend, f"SELECT userId AS owner, {arrays} FROM ({read}) AS read GROUP BY userId")


def _with_types(predicate: Predicate, project_keys: user_fields.ProjectKeys, argument: str) -> Predicate:
    """Return the predicate with every value in the type of its field."""
    if isinstance(predicate, Condition):
        rules = tuple(_with_types(rule, project_keys, argument) for rule in predicate.rules)
        return replace(predicate, rules=rules)
    assert isinstance(predicate, Comparison)  # noqa: S101  (there is no third kind)
    project_keys.check_key(predicate.field, argument=argument)
    if not predicate.field.startswith(_FIELDS):
        return predicate
    key = predicate.field.removeprefix(_FIELDS)
    kind = project_keys.find_field(key, argument=argument).type
    expected = _COMPARED_AS.get(kind, "string")
    if predicate.operator_type == expected or (predicate.operator_type == "array" and expected == "string"):
        return predicate
    try:
        # Text without a declared type may be a date.
        if predicate.operator_type == "string":
            return replace(predicate, operator_type=expected)
    except errors.InvalidRequest as error:
        raise errors.InvalidRequest(f"{argument}: {error.message}") from error
    raise errors.InvalidRequest(
        f"{argument}: {predicate.field} holds values of type {kind!r} and is compared as "
        f"{predicate.operator_type!r}; allowed: {expected!r}"
    )
