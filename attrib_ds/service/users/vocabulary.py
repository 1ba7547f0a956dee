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
        The event types, each as :func:`label` writes it, that declare it discriminant, and those that
        declare it to tell the most probable location.
    """

    type: str
    discriminating: frozenset[str] = frozenset()
    placing: frozenset[str] = frozenset()


class Vocabulary:
    """The keys of a project, as far as they are declared; what data holds beside them is looked up.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To read with, as long as this is used.

    Attributes
    ----------
    fields : dict of str to UserField
        The user fields of the event types, and those that every project has.
    declared : frozenset of str
        Keys of the fields that event types declare.
    declarations : tuple
        Everything that event types declare; equal as long as nothing of it changes.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> with store.read() as backend:
    ...     Vocabulary(backend.con).check(["fields.email", "fields.emial"], argument="fields")
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: fields/1: 'fields.emial' is not allowed (did you mean 'fields.email'?); \
allowed: fields.email, fields.phone, fields.vendorUserId
    >>> store.close()
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        rows = connection.execute(
            "SELECT kept.reference, kept.version, event_types.version, kept.fields "
            "FROM event_type_versions AS kept JOIN event_types ON kept.reference = event_types.reference "
            "ORDER BY kept.version = event_types.version DESC, event_types.createdAt, kept.reference, "
            "kept.version DESC"
        ).fetchall()
        self.declarations = tuple(rows)
        self._event_types = {reference for reference, _, _, _ in rows}
        self._metrics = {_COUNTED}
        declared: dict[str, list[tuple[str, int, bool, dict[str, Any]]]] = {}
        for reference, version, present, fields in rows:
            for each in json.loads(fields):
                if each["entity"] == "user":
                    told = (reference, version, version == present, each)
                    declared.setdefault(each["storageKey"], []).append(told)
                elif each["type"] in {"state", "number", "currency"}:
                    self._metrics.add(each["storageKey"])
                    if each["type"] == "state":
                        self._metrics.add(f"state-delay-{each['storageKey']}")
        self.declared = frozenset(declared)
        self.fields = {key: _merged(told) for key, told in declared.items()}
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
                known = self._event_types | self._listed("eventType", "events")
                raise _refusal(argument, key, [f"{group}.{each}" for each in known])
        else:
            metric, _, aggregation = rest.rpartition(".")
            if metric not in self._metrics and not self._has("metrics WHERE key = ?", metric):
                known = self._metrics | self._listed("key", "metrics")
                raise _refusal(argument, key, [f"{group}.{each}.{aggregation}" for each in known])

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
            If there is none.
        """
        if key in self.fields:
            return self.fields[key]
        found = self._connection.execute(
            "SELECT json_extract_string(user, ?) FROM events WHERE contains(user, ?) "
            "AND json_exists(user, ?) GROUP BY 1 LIMIT 2",
            [f'$."{key}".type', f'"{key}"', f'$."{key}"'],
        ).fetchall()
        given = "interactions WHERE contains(userData, ?) AND json_exists(userData, ?)"
        if not found and not self._has(given, f'"{key}"', f'$."{key}"'):
            raise _refusal(argument, f"fields.{key}", [f"fields.{each}" for each in self.fields])
        types = [kind for (kind,) in found]
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
    return [f"metrics.{metric}.{each}" for each in AGGREGATIONS]


def _merged(declared: list[tuple[str, int, bool, dict[str, Any]]]) -> UserField:
    """Merge the declarations of a field; the type is that of the oldest event type."""
    labels: dict[str, set[str]] = {"discriminant": set(), "isMostProbableLocation": set()}
    for reference, version, is_present, field in declared:
        for flag, marked in labels.items():
            if field.get(flag):
                marked |= {label(reference, version)} | ({label(reference, None)} if is_present else set())
    return UserField(
        declared[0][3]["type"],
        frozenset(labels["discriminant"]),
        frozenset(labels["isMostProbableLocation"]),
    )


def _refusal(argument: str, key: str, known: Iterable[str]) -> InvalidRequest:
    return InvalidRequest.choice(argument, key, known)
