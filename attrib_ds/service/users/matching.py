"""Matches users with predicates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, Predicate
from attrib_ds.filters.engine import to_ibis
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.interactions.selection import rows_of
from attrib_ds.service.users.derived import described
from attrib_ds.service.users.field_values import given_values, typed
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_FIELDS: Final = "fields."
#: How values of a field are read (G-093), by the type of the field; all others as text.
_READ_AS: Final = {"number": "number", "boolean": "boolean", "date": "date"}


def matching(backend: Backend, users: ir.Table, predicate: Predicate, *, argument: str) -> ir.Table:
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
        What the predicate is called in an error message.

    Returns
    -------
    ibis.Table
        The column ``_id`` of some of the rows.

    Raises
    ------
    InvalidRequest
        If a key is not known in the project, or its values are of another type than the predicate reads.
    """
    vocabulary = Vocabulary(backend.con)
    settled = _settled(predicate, vocabulary, argument)
    names = list(dict.fromkeys(leaf.field for leaf in comparisons(settled)))
    table = described(backend, users, [name for name in names if not name.startswith(_FIELDS)])
    kinds = {
        name: vocabulary.find_field(name.removeprefix(_FIELDS), argument=argument).type
        for name in names
        if name.startswith(_FIELDS)
    }
    if kinds:
        values = _of_fields(backend, users, vocabulary, kinds)
        table = table.left_join(values, table["_id"] == values.owner).drop("owner")
    return table.filter(to_ibis(settled, table)).select("_id")


def comparisons(predicate: Predicate) -> list[Comparison]:
    """Return the comparisons that a predicate is made of."""
    if isinstance(predicate, Condition):
        return [leaf for rule in predicate.rules for leaf in comparisons(rule)]
    return [predicate] if isinstance(predicate, Comparison) else []


def _of_fields(backend: Backend, users: ir.Table, vocabulary: Vocabulary, kinds: dict[str, str]) -> ir.Table:
    """Return the values of fields, an array for each."""
    keys = [name.removeprefix(_FIELDS) for name in kinds]
    values = given_values(vocabulary, f"({backend.compile(users)}) AS users", keys=keys)
    # Each type is read from the column before any is collected, so that none is read in another's rows.
    types = dict.fromkeys(kinds.values())
    read = ", ".join(f"{typed('current', kind)} AS {quoted(f'as {kind}')}" for kind in types)
    arrays = ", ".join(
        f"list({column}) FILTER (WHERE key = {literal(key)} AND {column} IS NOT NULL) "
        f"AS {quoted(f'{_FIELDS}{key}')}"
        for key, column in zip(keys, (quoted(f"as {kind}") for kind in kinds.values()), strict=True)
    )
    read = f"SELECT userId, key, {read} FROM ({values}) AS given"
    return rows_of(backend, f"SELECT userId AS owner, {arrays} FROM ({read}) AS read GROUP BY userId")


def _settled(predicate: Predicate, vocabulary: Vocabulary, argument: str) -> Predicate:
    """Return the predicate with every value read in the type of its field."""
    if isinstance(predicate, Condition):
        rules = tuple(_settled(rule, vocabulary, argument) for rule in predicate.rules)
        return replace(predicate, rules=rules)
    assert isinstance(predicate, Comparison)  # noqa: S101  (there is no third kind)
    vocabulary.check_key(predicate.field, argument=argument)
    if not predicate.field.startswith(_FIELDS):
        return predicate
    key = predicate.field.removeprefix(_FIELDS)
    kind = vocabulary.find_field(key, argument=argument).type
    wanted = _READ_AS.get(kind, "string")
    if predicate.operator_type == wanted or (predicate.operator_type == "array" and wanted == "string"):
        return predicate
    try:
        # A caller who states no type has text taken for text, which may be how a date is written.
        if predicate.operator_type == "string":
            return replace(predicate, operator_type=wanted)
    except InvalidRequest as error:
        raise InvalidRequest(f"{argument}: {error.message}", field=argument) from error
    raise InvalidRequest(
        f"{argument}: {predicate.field} holds values of type {kind!r} and is compared as "
        f"{predicate.operator_type!r}; allowed: {wanted!r}",
        field=argument,
    )
