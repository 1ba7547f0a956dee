"""Converts predicates to the JSON of the specification and back."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, Final

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest, check_choice
from attrib_ds.filters.predicates import MOST_LEVELS, Comparison, Condition, Predicate
from attrib_ds.filters.values import Value, calendar_days, settle
from attrib_ds.filters.vocabulary import KINDS, OPERATORS, FieldType, Kind, check_kind, is_open

#: Prefix of the field, by the ``type`` of a user predicate.
_USER_PREFIXES: Final[Mapping[str, str]] = {
    "fields": "fields.",
    "eventTypesCount": "eventTypesCount.",
    "metrics": "metrics.",
    "counters": "",
}
_COMBINATORS: Final = ("AND", "OR")
#: Names of the combinator and the list of rules, by the ``type`` of a condition.
CONDITION_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "condition": ("condition", "rules"),
    "operation": ("operator", "operands"),
}


def to_json(predicate: Predicate) -> dict[str, Any]:
    """Write a predicate as a JSON object of the specification.

    The specification has no event predicates: they are written like interaction predicates, with
    ``"entity": "event"`` added.

    Parameters
    ----------
    predicate : Predicate
        Of any kind.

    Returns
    -------
    dict
        Text, numbers, flags, lists and dicts only. Ids are paths from the root: ``"0"``, ``"0.1"``.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.to_json(at.interaction("geo.city") == "Paris")
    {'type': 'predicate', 'field': 'geo.city', 'operator': 'equals', 'value': 'Paris'}
    """
    written = _write(predicate, "0")
    # Without a comparison nothing else shows the kind, and `from_json` assumes interactions.
    if predicate.kind in {"node", "event"} and _find_leaf(written) is None:
        written["entity"] = predicate.kind
    return written


def from_json(obj: object, kind: Kind | None = None) -> Predicate:
    """Read a predicate from a JSON object of the specification.

    Parameters
    ----------
    obj : dict
        A predicate, condition or operation. Ids are ignored, and so are values of operators that take none.
    kind : {"interaction", "node", "user", "event"}, optional
        Kind of record; inferred from the first comparison by default.

    Returns
    -------
    Predicate
        ``from_json(to_json(p)) == p``.

    Raises
    ------
    InvalidRequest
        If the shape, a field, an operator or a value is not allowed; ``field`` of the error is the JSON
        pointer of the wrong part, such as ``/rules/0/field``.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.from_json({"type": "predicate", "filterId": "channel", "operator": "equals", "value": "search"})
    node("channel") == "search"
    """
    return _read(obj, check_kind(kind) if kind is not None else _infer_kind(obj), "", 1)


@singledispatch
def _write(predicate: Predicate, path: str) -> dict[str, Any]:  # noqa: ARG001  (used by the registered ones)
    raise InvalidRequest(f"predicate: must be a predicate, got {type(predicate).__name__}")


@_write.register
def _(predicate: Comparison, path: str) -> dict[str, Any]:
    written = _write_subject(predicate, path)
    written["operator"] = predicate.operator
    if OPERATORS[predicate.operator].shape != "none":
        value = predicate.value
        if predicate.operator_type == FieldType.INSTANT:
            _refuse_days(value, predicate.field)
        written["value"] = list(value) if isinstance(value, tuple) else value
    return written


@_write.register
def _(predicate: Condition, path: str) -> dict[str, Any]:
    rules = [_write(rule, f"{path}.{position}") for position, rule in enumerate(predicate.rules)]
    written: dict[str, Any]
    if predicate.kind == "user":
        written = {"type": "operation", "operator": predicate.combinator, "operands": rules}
    else:
        written = {"id": path, "type": "condition", "condition": predicate.combinator, "rules": rules}
    if predicate.negated:
        written["not"] = True
    return written


def _write_subject(predicate: Comparison, path: str) -> dict[str, Any]:
    """Write the field, which every kind names differently."""
    if predicate.kind == "node":
        return {"id": path, "type": "predicate", "filterId": predicate.field}
    if predicate.kind == "interaction":
        return {"type": "predicate", "field": predicate.field}
    if predicate.kind == "event":
        written = {"type": "predicate", "entity": "event", "field": predicate.field}
    else:
        group = _user_group(predicate.field)
        written = {"type": group, "field": predicate.field.removeprefix(_USER_PREFIXES[group])}
    if predicate.operator_type is not None and (
        predicate.operator_type != "object"
        and (predicate.kind == "user" or is_open(predicate.kind, predicate.field))
    ):
        written["operatorType"] = predicate.operator_type
    return written


def _user_group(name: str) -> str:
    return next((group for group, prefix in _USER_PREFIXES.items() if name.startswith(prefix)), "counters")


def _read(obj: object, kind: Kind, pointer: str, level: int) -> Predicate:
    if not isinstance(obj, dict):
        raise _wrong_shape(obj, pointer, "must be an object with a `type`")
    if level > MOST_LEVELS:
        raise InvalidRequest(f"{pointer}: is nested too deeply; expected at most {MOST_LEVELS} levels")
    leaf_types = tuple(_USER_PREFIXES) if kind == "user" else ("predicate",)
    group_types = ("condition", "operation") if kind == "user" else ("condition",)
    shape = _get(obj, "type", pointer)
    if not isinstance(shape, str) or shape not in leaf_types + group_types:
        raise InvalidRequest.choice(f"{pointer}/type", shape, leaf_types + group_types)
    if obj.get("entity", kind) != kind:
        raise InvalidRequest.choice(f"{pointer}/entity", obj["entity"], [kind])
    if shape in group_types:
        return _read_condition(obj, kind, pointer, level)
    return _read_comparison(obj, kind, pointer)


def _read_condition(obj: Mapping[str, object], kind: Kind, pointer: str, level: int) -> Condition:
    combinator_name, rules_name = CONDITION_PARTS[str(obj["type"])]
    combinator = _get(obj, combinator_name, pointer)
    check_choice(f"{pointer}/{combinator_name}", combinator, _COMBINATORS)
    rules = _get(obj, rules_name, pointer)
    if not isinstance(rules, list):
        raise _wrong_shape(rules, f"{pointer}/{rules_name}", "must be an array")
    negated = obj.get("not", False)
    if not isinstance(negated, bool):
        raise _wrong_shape(negated, f"{pointer}/not", "must be true or false")
    read = [
        _read(rule, kind, f"{pointer}/{rules_name}/{position}", level + 1)
        for position, rule in enumerate(rules)
    ]
    try:
        return Condition(kind, "AND" if combinator == "AND" else "OR", tuple(read), negated)
    except InvalidRequest as error:
        problem = error.message.removeprefix("rules: ")
        raise InvalidRequest(f"{pointer}/{rules_name}: {problem}") from error


def _read_comparison(obj: Mapping[str, object], kind: Kind, pointer: str) -> Comparison:
    field_name = "filterId" if kind == "node" else "field"
    field = _get(obj, field_name, pointer)
    if kind == "user" and isinstance(field, str):
        prefix = _USER_PREFIXES[str(obj["type"])]
        # Otherwise a "counters" predicate could use a field of another type.
        if not prefix and _user_group(field) != "counters":
            raise InvalidRequest.choice(f"{pointer}/type", obj["type"], [_user_group(field)])
        field = f"{prefix}{field}"
    operator = _get(obj, "operator", pointer)
    operator_type = obj.get("operatorType") if kind in {"user", "event"} else None
    shape = OPERATORS[operator].shape if isinstance(operator, str) and operator in OPERATORS else "none"
    value = None if shape == "none" else _get(obj, "value", pointer)
    if shape in {"values", "pair"} and not isinstance(value, list):
        raise _wrong_shape(value, f"{pointer}/value", "must be an array")
    names = (f"{pointer}/{field_name}", f"{pointer}/operator", f"{pointer}/operatorType", f"{pointer}/value")
    field_type, settled = settle(kind, field, operator, value, operator_type, names)
    if field_type is FieldType.INSTANT:
        _refuse_days(settled, names[3])
    return Comparison(kind, str(field), str(operator), settled, field_type.value)


def _refuse_days(value: Value, argument: str) -> None:
    """Refuse calendar days, which are in the time zone of a project: the service compares instants."""
    for day in calendar_days(value if isinstance(value, tuple) else [value]):
        instants.parse_exact(day, argument=argument)


def _get(obj: Mapping[str, object], name: str, pointer: str) -> object:
    if name not in obj:
        raise InvalidRequest(f"{pointer}/{name}: is required")
    return obj[name]


def _wrong_shape(got: object, pointer: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(
        f"{pointer or 'filter'}: {wanted}, got {reprlib.repr(got)} ({type(got).__name__})", field=pointer
    )


def _infer_kind(obj: object) -> Kind:
    """Infer the kind from the first comparison, or from the root if there is none."""
    if not isinstance(obj, dict):
        return "interaction"
    if obj.get("type") == "operation":
        return "user"
    leaf = _find_leaf(obj)
    marked = leaf if leaf is not None else obj
    for kind in KINDS:
        if marked.get("entity") == kind:
            return kind
    if "filterId" in marked:
        return "node"
    shape = marked.get("type")
    return "user" if isinstance(shape, str) and shape in _USER_PREFIXES else "interaction"


def _find_leaf(obj: Mapping[str, Any], level: int = 1) -> Mapping[str, Any] | None:
    """Return the first comparison of a tree, down to the maximum level."""
    parts = CONDITION_PARTS.get(str(obj.get("type")))
    if parts is None:
        return obj
    rules = obj.get(parts[1])
    if not isinstance(rules, list) or level >= MOST_LEVELS:
        return None
    found = (_find_leaf(rule, level + 1) for rule in rules if isinstance(rule, dict))
    return next((leaf for leaf in found if leaf is not None), None)
