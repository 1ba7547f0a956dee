"""Filters users by predicates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, Predicate
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.users.field_values import all_values, typed
from attrib_ds.service.users.project_keys import ProjectKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    Describe = Callable[[Backend, ir.Table, list[str]], ir.Table]

_FIELDS: Final = "fields."
#: Type in which values of a field are compared (G-093), by the type of the field; others as text.
_COMPARED_AS: Final = {"number": "number", "boolean": "boolean", "date": "date"}


def match_users(
    backend: Backend, users: ir.Table, predicate: Predicate, *, argument: str, describe: Describe
) -> ir.Table:
    """Return the users who match a predicate.

    A field of several values matches when any of them does; a negative operator, when none does (G-091).

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
    describe : callable
        Adds properties to users: :func:`.with_properties`, or :func:`.describe_users` for predicates on
        audiences too.

    Returns
    -------
    ibis.Table
        The column ``_id`` of the matching rows.

    Raises
    ------
    InvalidRequest
        If the project has no such key, or the predicate compares its values as another type.
    """
    project_keys = ProjectKeys(backend.con)
    typed_predicate = _with_types(predicate, project_keys, argument)
    names = list(dict.fromkeys(leaf.field for leaf in comparisons(typed_predicate)))
    table = describe(backend, users, [name for name in names if not name.startswith(_FIELDS)])
    kinds = {
        name: project_keys.find_field(name.removeprefix(_FIELDS), argument=argument).type
        for name in names
        if name.startswith(_FIELDS)
    }
    if kinds:
        values = _field_arrays(backend, users, project_keys, kinds)
        table = table.left_join(values, table["_id"] == values.owner).drop("owner")
    return table.filter(to_ibis(typed_predicate, table)).select("_id")


def comparisons(predicate: Predicate) -> list[Comparison]:
    """Return all comparisons of a predicate."""
    if isinstance(predicate, Condition):
        return [leaf for rule in predicate.rules for leaf in comparisons(rule)]
    return [predicate] if isinstance(predicate, Comparison) else []


def _field_arrays(
    backend: Backend, users: ir.Table, project_keys: ProjectKeys, kinds: dict[str, str]
) -> ir.Table:
    """Return the values of fields, one array per field."""
    keys = [name.removeprefix(_FIELDS) for name in kinds]
    values = all_values(project_keys, f"({backend.compile(users)}) AS users", keys=keys)
    # Cast before aggregating, so that no value is cast to the type of another field.
    types = dict.fromkeys(kinds.values())
    read = ", ".join(f"{typed('current', kind)} AS {quoted(f'as {kind}')}" for kind in types)
    arrays = ", ".join(
        f"list({column}) FILTER (WHERE key = {literal(key)} AND {column} IS NOT NULL) "
        f"AS {quoted(f'{_FIELDS}{key}')}"
        for key, column in zip(keys, (quoted(f"as {kind}") for kind in kinds.values()), strict=True)
    )
    read = f"SELECT userId, key, {read} FROM ({values}) AS given"
    return sql_table(backend, f"SELECT userId AS owner, {arrays} FROM ({read}) AS read GROUP BY userId")


def _with_types(predicate: Predicate, project_keys: ProjectKeys, argument: str) -> Predicate:
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
    except InvalidRequest as error:
        raise InvalidRequest(f"{argument}: {error.message}", field=argument) from error
    raise InvalidRequest(
        f"{argument}: {predicate.field} holds values of type {kind!r} and is compared as "
        f"{predicate.operator_type!r}; allowed: {expected!r}",
        field=argument,
    )
