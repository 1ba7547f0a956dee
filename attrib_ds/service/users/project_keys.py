"""The keys of users that a project has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract.user_keys import PLAIN
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters.vocabulary import AGGREGATIONS, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

#: Fields of every project (G-216): type, and whether a value identifies one person.
ALWAYS: Final[dict[str, tuple[str, bool]]] = {
    "email": ("email", True),
    "phone": ("phone", False),
    "vendorUserId": ("string", True),
}
_COUNTED: Final = "event-count"
_GROUPS: Final = ("fields", "eventTypesCount", "metrics")


@dataclass(frozen=True)
class UserField:
    """The declaration of a user field.

    Parameters
    ----------
    type : str
        Type of its values, such as ``email``.
    discriminating, placing : frozenset of str
        Labels, see :func:`label`, of the event types that declare it discriminant, and of those that
        declare it a most probable location.
    """

    type: str
    discriminating: frozenset[str] = frozenset()
    placing: frozenset[str] = frozenset()


class ProjectKeys:
    """The keys of a project: declared ones are read at once, undeclared ones are looked up in the data.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with; must stay open.

    Attributes
    ----------
    fields : dict of str to UserField
        User fields of the event types, and those of every project.
    declared : frozenset of str
        Keys of the fields that event types declare.
    declarations : tuple
        All declarations, for comparison: equal unless an event type changed.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> with store.read() as backend:
    ...     ProjectKeys(backend.con).check(["fields.email", "fields.emial"], argument="fields")
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: fields/1: 'fields.emial' is not allowed (did you mean 'fields.email'?); \
allowed: fields.email, fields.phone, fields.vendorUserId
    >>> store.close()
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        rows = connection.execute(
            "SELECT versions.reference, versions.version, event_types.version, versions.fields "
            "FROM event_type_versions AS versions "
            "JOIN event_types ON versions.reference = event_types.reference "
            "ORDER BY versions.version = event_types.version DESC, event_types.createdAt, "
            "versions.reference, versions.version DESC"
        ).fetchall()
        self.declarations = tuple(rows)
        self._event_types = {reference for reference, _, _, _ in rows}
        self._metrics = {_COUNTED}
        declared: dict[str, list[tuple[str, int, bool, dict[str, Any]]]] = {}
        for reference, version, present, fields in rows:
            for field in json.loads(fields):
                if field["entity"] == "user":
                    declaration = (reference, version, version == present, field)
                    declared.setdefault(field["storageKey"], []).append(declaration)
                elif field["type"] in {"state", "number", "currency"}:
                    self._metrics.add(field["storageKey"])
                    if field["type"] == "state":
                        self._metrics.add(f"state-delay-{field['storageKey']}")
        self.declared = frozenset(declared)
        self.fields = {key: _merged(declarations) for key, declarations in declared.items()}
        self.fields |= {key: UserField(kind) for key, (kind, _) in ALWAYS.items() if key not in self.fields}

    def check(self, keys: Iterable[str], *, argument: str) -> None:
        """Refuse keys that the project does not have.

        Parameters
        ----------
        keys : iterable of str
            Well-formed.
        argument : str
            Name of the keys in error messages; the position is appended.

        Raises
        ------
        InvalidRequest
            With the closest existing key.
        """
        for position, key in enumerate(keys):
            self.check_key(key, argument=f"{argument}/{position}")

    def check_key(self, key: str, *, argument: str) -> None:
        """Refuse a key that the project does not have; see :meth:`check`."""
        group, _, rest = key.partition(".")
        if group not in _GROUPS or not rest:
            # The same keys in every project; the contract checks them.
            if key not in PLAIN and key not in vocabulary("user"):
                raise InvalidRequest.choice(argument, key, PLAIN)
        elif group == "fields":
            self.find_field(rest, argument=argument)
        elif group == "eventTypesCount":
            if rest not in self._event_types and not self._has("events WHERE eventType = ?", rest):
                existing = self._event_types | self._listed("eventType", "events")
                raise _refusal(argument, key, [f"{group}.{name}" for name in existing])
        else:
            metric, _, aggregation = rest.rpartition(".")
            if metric not in self._metrics and not self._has("metrics WHERE key = ?", metric):
                existing = self._metrics | self._listed("key", "metrics")
                raise _refusal(argument, key, [f"{group}.{name}.{aggregation}" for name in existing])

    def find_field(self, key: str, *, argument: str) -> UserField:
        """Return a user field, declared or found in the data.

        Parameters
        ----------
        key : str
            Without the prefix ``fields.``.
        argument : str
            Name of the key in error messages.

        Raises
        ------
        InvalidRequest
            If there is no such field.
        """
        if key in self.fields:
            return self.fields[key]
        rows = self._connection.execute(
            "SELECT json_extract_string(user, ?) FROM events WHERE contains(user, ?) "
            "AND json_exists(user, ?) GROUP BY 1 LIMIT 2",
            [f'$."{key}".type', f'"{key}"', f'$."{key}"'],
        ).fetchall()
        in_interactions = "interactions WHERE contains(userData, ?) AND json_exists(userData, ?)"
        if not rows and not self._has(in_interactions, f'"{key}"', f'$."{key}"'):
            raise _refusal(argument, f"fields.{key}", [f"fields.{name}" for name in self.fields])
        types = [kind for (kind,) in rows]
        return UserField(types[0] if len(types) == 1 and types[0] else "string")

    def _has(self, relation: str, *values: str) -> bool:
        return bool(self._connection.execute(f"SELECT 1 FROM {relation} LIMIT 1", list(values)).fetchall())

    def _listed(self, column: str, table: str) -> set[str]:
        return {
            name for (name,) in self._connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
        }


def label(reference: str, version: int | None) -> str:
    """Return the label of a version of an event type; the current version if None.

    Examples
    --------
    >>> label("order", 2), label("order", None)
    ('order 2', 'order ')
    """
    return f"{reference} {'' if version is None else version}"


def aggregations(metric: str) -> list[str]:
    """Return the keys of all aggregations of a metric.

    Examples
    --------
    >>> aggregations("turnover")[0]
    'metrics.turnover.sum'
    """
    return [f"metrics.{metric}.{name}" for name in AGGREGATIONS]


def _merged(declarations: list[tuple[str, int, bool, dict[str, Any]]]) -> UserField:
    """Merge the declarations of a field; the type is that of the oldest event type."""
    labels: dict[str, set[str]] = {"discriminant": set(), "isMostProbableLocation": set()}
    for reference, version, is_present, field in declarations:
        for flag, marked in labels.items():
            if field.get(flag):
                marked |= {label(reference, version)} | ({label(reference, None)} if is_present else set())
    return UserField(
        declarations[0][3]["type"],
        frozenset(labels["discriminant"]),
        frozenset(labels["isMostProbableLocation"]),
    )


def _refusal(argument: str, key: str, existing: Iterable[str]) -> InvalidRequest:
    return InvalidRequest.choice(argument, key, existing)
