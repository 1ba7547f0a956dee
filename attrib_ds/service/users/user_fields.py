"""The fields and keys of users that a project has, and their values, extracted in SQL."""

import json
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from duckdb import DuckDBPyConnection as Connection

from attrib_ds.contract.users import PLAIN
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters.vocabulary import vocabulary
from attrib_ds.records.sources import literal

#: Fields of every project: type, and whether a value identifies one person.
ALWAYS: Final[dict[str, tuple[str, bool]]] = {
    "email": ("email", True),
    "phone": ("phone", False),
    "vendorUserId": ("string", True),
}
_COUNTED: Final = "event-count"
_GROUPS: Final = ("fields", "eventTypesCount", "metrics")


@dataclass(frozen=True)
class UserField:
    """A user field, as the event types declare it.

    Parameters
    ----------
    type : str
        Type of its values, such as ``email``; that of the oldest event type.
    discriminating, placing : frozenset of str
        The event types that declare it discriminant, and a most probable location, in any version.
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
    undeclared : set of str
        Keys of the fields of every project that no event type declares.
    has_anonymous : bool
        Whether there are events that came without a token.
    declarations : tuple
        All of this, for comparison: equal unless an event type changed.

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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        rows = connection.execute(
            "SELECT versions.reference, versions.fields FROM event_type_versions AS versions "
            "JOIN event_types ON versions.reference = event_types.reference "
            "ORDER BY versions.version = event_types.version DESC, event_types.createdAt, "
            "versions.reference, versions.version DESC"
        ).fetchall()
        self.has_anonymous = bool(
            connection.execute("SELECT 1 FROM events WHERE isAnonymous LIMIT 1").fetchall()
        )
        self.declarations = (self.has_anonymous, *rows)
        self._event_types = {reference for reference, _ in rows}
        self._metrics = {_COUNTED}
        self.fields: dict[str, UserField] = {}
        for reference, field in ((name, field) for name, fields in rows for field in json.loads(fields)):
            key = field["storageKey"]
            if field["entity"] == "user":
                before = self.fields.get(key, UserField(field["type"]))
                self.fields[key] = UserField(
                    before.type,
                    before.discriminating | ({reference} if field.get("discriminant") else set()),
                    before.placing | ({reference} if field.get("isMostProbableLocation") else set()),
                )
            elif field["type"] in {"state", "number", "currency"}:
                self._metrics.add(key)
                if field["type"] == "state":
                    self._metrics.add(f"state-delay-{key}")
        self.undeclared = ALWAYS.keys() - self.fields.keys()
        self.fields = {key: UserField(kind) for key, (kind, _) in ALWAYS.items()} | self.fields

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
                raise InvalidRequest.choice(argument, key, [f"{group}.{name}" for name in existing])
        else:
            metric, _, aggregation = rest.rpartition(".")
            if metric not in self._metrics and not self._has("metrics WHERE key = ?", metric):
                existing = self._metrics | self._listed("key", "metrics")
                raise InvalidRequest.choice(
                    argument, key, [f"{group}.{name}.{aggregation}" for name in existing]
                )

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
            raise InvalidRequest.choice(argument, f"fields.{key}", [f"fields.{name}" for name in self.fields])
        types = [kind for (kind,) in rows]
        return UserField(types[0] if len(types) == 1 and types[0] else "string")

    def _has(self, relation: str, *values: str) -> bool:
        return bool(self._connection.execute(f"SELECT 1 FROM {relation} LIMIT 1", list(values)).fetchall())

    def _listed(self, column: str, table: str) -> set[str]:
        return {
            name for (name,) in self._connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
        }


#: Pattern of keys; other members of ``userData`` are not fields.
KEY: Final = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Letters whose case folding has several letters.
_LONGER: Final = ("ß", "ŉ", "ǰ", "ﬀ", "ﬁ", "ﬂ", "ﬃ", "ﬄ", "ﬅ", "ﬆ", "և", "ﬓ", "ﬔ", "ﬕ", "ﬖ", "ﬗ")
#: One past the last letter with a case folding.
_LAST_FOLDED: Final = 0x1E944
#: Cast of text by the type of its field; text by default.
TYPED: Final = {
    "number": "try_cast({} AS DOUBLE)",
    "boolean": "try_cast({} AS BOOLEAN)",
    "date": "try_cast({} AS TIMESTAMPTZ)::TIMESTAMP",
}
#: JSON pointer to a member of a document; valid for any key, unlike a JSON path.
_MEMBER: Final = "json_extract({}, concat('/', key))"


def field_values(project_keys: ProjectKeys, users: str, *, keys: Iterable[str] | None = None) -> str:
    """Return the query of the values of user fields.

    Parameters
    ----------
    project_keys : ProjectKeys
        Keys of the project.
    users : str
        Relation in SQL, for a FROM clause, with the column ``_id``.
    keys : iterable of str, optional
        The fields; all by default.

    Returns
    -------
    str
        SQL. One row per value, in no order: ``userId``, ``key``, ``type``, ``current`` and ``raw`` (JSON),
        ``date`` (naive, in UTC), ``invalid``, ``anonymized``, ``discriminant``, ``placing`` (whether it
        is a most probable location), ``source`` (``event`` or ``interaction``) and ``sourceId``.
        Only the first of consecutive equal values of a field is returned.
    """
    value = "{'current': current::VARCHAR, 'type': type, 'anonymized': anonymized, 'invalid': invalid}"
    return (
        f"SELECT * FROM ({all_values(project_keys, users, keys=keys)}) AS given "
        f"QUALIFY {value} IS DISTINCT FROM lag({value}) OVER "
        "(PARTITION BY userId, key ORDER BY date, sourceId, source)"
    )


def all_values(project_keys: ProjectKeys, users: str, *, keys: Iterable[str] | None = None) -> str:
    """Return the query of values including consecutive duplicates, which is faster.

    For the parameters and the columns see :func:`field_values`.
    """
    names = None if keys is None else list(dict.fromkeys(keys))
    values = (
        f"{_of_events(project_keys, users, names)} UNION ALL {_of_interactions(project_keys, users, names)}"
    )
    if not project_keys.has_anonymous:
        return values
    # A value that came without a token stands in for a missing one, and replaces none.
    return (
        f"SELECT * EXCLUDE (isAnonymous) FROM ({values}) AS given "
        "QUALIFY NOT isAnonymous OR bool_and(isAnonymous) OVER (PARTITION BY userId, key)"
    )


def reduced(values: str, mode: str) -> str:
    """Return the query of one value per user and field.

    Parameters
    ----------
    values : str
        From :func:`field_values`.
    mode : {"latest", "earliest", "alphabetical"}
        The latest or earliest value, or the first in alphabetical order.

    Returns
    -------
    str
        SQL of a subset of the rows.
    """
    direction = "DESC" if mode == "latest" else "ASC"
    order = f"date {direction}, sourceId {direction}, source {direction}"
    if mode == "alphabetical":
        text = text_of("current")
        order = f"{case_folded(text)}, {text}, {order}"
    return (
        f"SELECT * FROM ({values}) AS kept "
        f"QUALIFY row_number() OVER (PARTITION BY userId, key ORDER BY {order}) = 1"
    )


def as_entry() -> str:
    """Return a SQL expression over :func:`field_values` for a value as nested JSON."""
    members = {
        **{name: name for name in ("type", "current", "raw")},
        "date": instant_text("date"),
        **{name: name for name in ("invalid", "anonymized", "discriminant")},
        "from": "{'type': source, 'id': sourceId}",
    }
    return f"to_json({{{', '.join(f'{literal(name)}: {value}' for name, value in members.items())}}})"


def object_of(key: str, value: str) -> str:
    """Return a SQL aggregate for a JSON object with a member per row, sorted by key."""
    return f"to_json(map(list({key} ORDER BY {key}), list({value} ORDER BY {key})))::VARCHAR"


def instant_text(instant: str) -> str:
    """Return a SQL expression that formats an instant as :func:`attrib_ds.instants.format` does."""
    return f"strftime({instant}, '%Y-%m-%dT%H:%M:%S.%gZ')"


def text_of(current: str) -> str:
    """Return a SQL expression for the text of a value: the address of a location, else the text or JSON."""
    return (
        f"coalesce(json_extract_string({current}, '$.formattedAddress'), json_extract_string({current}, '$'))"
    )


def case_folded(text: str) -> str:
    """Return a SQL expression that case-folds text."""
    letters, forms = _singly_folded()
    lowered = f"translate(lower({text}), {literal(letters)}, {literal(forms)})"
    for letter in _LONGER:
        lowered = f"replace({lowered}, {literal(letter)}, {literal(letter.casefold())})"
    # ASCII text, by far the most common, is a hundred times faster to fold.
    return f"CASE WHEN regexp_matches({text}, '[^\\x00-\\x7F]') THEN {lowered} ELSE lower({text}) END"


def typed(current: str, kind: str) -> str:
    """Return a SQL expression that casts a value to the type in which its field is compared."""
    return TYPED.get(kind, "{}").format(text_of(current))


def _of_events(project_keys: ProjectKeys, users: str, keys: list[str] | None) -> str:
    columns = 'userId, eventDate, eventType, isAnonymous, _id AS sourceId, "user" AS document'
    anonymous = ", coalesce(isAnonymous, false) AS isAnonymous" if project_keys.has_anonymous else ""
    current, raw = "json_extract(entry, '$.current')", "json_extract(entry, '$.raw')"
    date = TYPED["date"].format("json_extract_string(entry, '$.date')")
    default = _by_key({key: kind for key, (kind, _) in ALWAYS.items()}, "string")
    fields = project_keys.fields
    discriminant = _is_declared({key: field.discriminating for key, field in fields.items()})
    placing = _is_declared({key: field.placing for key, field in fields.items()})
    certain = _is_one_of(key for key in sorted(project_keys.undeclared) if ALWAYS[key][1])
    return (
        f"""SELECT userId, key, coalesce(json_extract_string(entry, '$.type'), {default}) AS type, """
        f"coalesce({current}, {raw}) AS current, coalesce({raw}, {current}) AS raw, "
        f"coalesce({date}, eventDate) AS date, "
        f"{_flag('invalid')} AS invalid, {_flag('anonymized')} AS anonymized, "
        f"{discriminant} OR {certain} AS discriminant, {placing} AS \"placing\", 'event' AS source, "
        f"sourceId{anonymous} "
        f"FROM ({_entries(columns, 'events', users, keys)}) AS entries"
    )


def _of_interactions(project_keys: ProjectKeys, users: str, keys: list[str] | None) -> str:
    columns = "userId, startDate, _id AS sourceId, userData AS document, rawUserData AS sent"
    kinds = {key: field.type for key, field in project_keys.fields.items()}
    certain = [key for key, (_, is_certain) in ALWAYS.items() if is_certain]
    certain += [key for key, field in project_keys.fields.items() if field.discriminating]
    text = f"trim(json_extract_string(entry, '$'), {literal(string.whitespace)})"
    anonymous = ", false AS isAnonymous" if project_keys.has_anonymous else ""
    return (
        f"SELECT userId, key, {_by_key(kinds, 'string')} AS type, "
        # Values of loaded interactions are not normalised.
        f"CASE WHEN key = 'email' THEN to_json(lower({text})) ELSE entry END AS current, "
        f"coalesce({_MEMBER.format('sent')}, entry) AS raw, startDate AS date, "
        f"false AS invalid, false AS anonymized, "
        f'{_is_one_of(certain)} AS discriminant, false AS "placing", '
        f"'interaction' AS source, sourceId{anonymous} "
        f"FROM ({_entries(columns, 'interactions', users, keys)}) AS entries WHERE {text} <> ''"
    )


def _entries(columns: str, table: str, users: str, keys: list[str] | None) -> str:
    """Return the query of one row per member of the documents; all members without ``keys``."""
    names = "json_keys(document)" if keys is None else f"{_listed(keys)}::VARCHAR[]"
    rows = (
        f"SELECT *, unnest({names}) AS key FROM (SELECT {columns} FROM {table} "
        f"WHERE userId IN (SELECT _id FROM {users})) AS documents WHERE document IS NOT NULL"
    )
    only_keys = f"AND regexp_matches(key, '{KEY}')" if keys is None else ""
    return (
        f"SELECT *, {_MEMBER.format('document')} AS entry FROM ({rows}) AS named "
        f"WHERE entry IS NOT NULL {only_keys}"
    )


def _flag(name: str) -> str:
    return f"coalesce(try_cast(json_extract_string(entry, '$.{name}') AS BOOLEAN), false)"


def _listed(values: Iterable[str]) -> str:
    return f"[{', '.join(literal(value) for value in values)}]"


def _is_one_of(keys: Iterable[str]) -> str:
    listed = ", ".join(map(literal, keys))
    return f"key IN ({listed})" if listed else "false"


def _is_declared(types_by_key: Mapping[str, frozenset[str]]) -> str:
    """Return a SQL condition that the event type is one of those of the key."""
    types = {key: ", ".join(map(literal, sorted(names))) for key, names in types_by_key.items() if names}
    conditions = [f"key = {literal(key)} AND eventType IN ({names})" for key, names in types.items()]
    return f"({' OR '.join(conditions) or 'false'})"


def _by_key(values: Mapping[str, str], otherwise: str) -> str:
    cases = (f"WHEN {literal(key)} THEN {literal(value)}" for key, value in values.items())
    return f"CASE key {' '.join(cases)} ELSE {literal(otherwise)} END"


@lru_cache(maxsize=1)
def _singly_folded() -> tuple[str, str]:
    """Return the lower-case letters whose case folding differs, and their case foldings."""
    pairs = [
        (letter, letter.casefold())
        for letter in map(chr, range(0x80, _LAST_FOLDED))
        if letter.lower() == letter != letter.casefold() and len(letter.casefold()) == 1
    ]
    return "".join(letter for letter, _ in pairs), "".join(form for _, form in pairs)
