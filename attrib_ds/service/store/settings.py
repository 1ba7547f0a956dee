"""The settings of a project, and the holdouts among them: read, cached and changed."""

import json
import re
import secrets
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from pydantic.alias_generators import to_camel

from attrib_ds import schema
from attrib_ds.contract import OPERATIONS, Answer, administration, build
from attrib_ds.errors import Conflict, InvalidRequest
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings of a project.

    Parameters
    ----------
    lenient_optional_fields : bool, default False
        Accept events with invalid values of optional fields.
    retention_duration_in_days : int, default 0
        Retention period of personal values from the date of an event; 0 is unlimited.
    pii_fields : tuple of str
        Storage keys of personal fields.
    require_token_for_events : bool, default False
        Accept events only with a token.
    ingest_keys : tuple of str
        Without a token, accept events and hits only with one of these keys; empty for no key.
    allowed_origins : tuple of str
        Without a token, accept events and hits only from these origins; empty for any.
    excluded_referrers : tuple of str
        Hosts whose referrers are not traffic sources, besides those of payment providers.
    domains : tuple of str
        Domains of the site: no traffic sources, and a tracker id follows links between them.
    traffic_filters : tuple of str
        Filters that capture hits.
    holdouts : tuple of str
        Holdouts that the service draws, as text; see :class:`~attrib_ds.contract.administration.Holdout`.
    holdout_key : str
        Secret that decides who is withheld; empty until the first holdout.
    anonymous_nodes_per_day : int, default 10_000
        Most traffic-source nodes that collected hits create on a day; the others are credited to "(other)".
    respect_gpc : bool, default True
        Store no lasting tracker id of a browser with Global Privacy Control.
    respect_dnt : bool, default False
        Store no lasting tracker id of a browser with Do Not Track.
    visitor_of_the_day : bool, default True
        Recognise a browser that keeps no id until the end of the day.
    anonymous_identification : bool, default False
        Let events without a token identify users as those with one do.
    """

    lenient_optional_fields: bool = False
    retention_duration_in_days: int = 0
    pii_fields: tuple[str, ...] = ()
    require_token_for_events: bool = False
    ingest_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    excluded_referrers: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    traffic_filters: tuple[str, ...] = ()
    holdouts: tuple[str, ...] = ()
    holdout_key: str = ""
    anonymous_nodes_per_day: int = 10_000
    respect_gpc: bool = True
    respect_dnt: bool = False
    visitor_of_the_day: bool = True
    anonymous_identification: bool = False


#: Attribute of :class:`ProjectSettings` by the name of the setting.
_ATTRIBUTES: Final = {to_camel(field.name): field.name for field in fields(ProjectSettings)}


#: Further settings that the service stores: those that are numbers, and those that are texts.
_NUMBERS: Final = frozenset({"appliedLogGroup", "appliedHits"})
_TEXTS: Final = frozenset({"holdoutKey", "visitorSecret", "visitorSalt", "tombstoneSalt"})


#: What records of settings have beside those that can be updated.
_BESIDE: Final = frozenset({"currency", "timezone", "day", "salt", "holdouts", "holdoutKey"})


def read_settings(connection: Connection) -> ProjectSettings:
    """Return the settings of a project; defaults for those not set.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.

    Returns
    -------
    ProjectSettings
        Unknown stored names are ignored.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> store.write(read_settings).lenient_optional_fields
    False
    >>> store.close()
    """
    rows = connection.execute("SELECT name, value FROM settings").fetchall()
    stored: dict[str, Any] = {}
    for name, text in rows:
        if name in _ATTRIBUTES:
            value = json.loads(text)
            stored[_ATTRIBUTES[name]] = tuple(value) if isinstance(value, list) else value
    return ProjectSettings(**stored)


def from_record(record: Mapping[str, Any]) -> ProjectSettings:
    """Return the settings of a record with their names, such as the answer of ``get_settings``.

    Raises
    ------
    InvalidRequest
        If a name is not known, or a value is not allowed.

    Examples
    --------
    >>> from_record({"respectGpc": False}).respect_gpc
    False
    """
    operation = OPERATIONS["update_settings"]
    given = {name: value for name, value in record.items() if value is not None and name not in _BESIDE}
    for name in given.keys() - operation.arguments.keys():
        raise InvalidRequest.choice("settings", name, sorted(operation.arguments.keys() - {"projectId"}))
    arguments = {operation.arguments[name]: value for name, value in given.items()}
    checked = build(operation, project_id="any-project", **arguments)
    return ProjectSettings(**{_ATTRIBUTES[name]: getattr(checked, name) for name in given})


def find_invalid(connection: Connection) -> list[str]:
    """Return the names of stored settings whose values the service would not have written."""
    operation = OPERATIONS["update_settings"]

    def check(name: str, text: str) -> None:
        if name in _NUMBERS:
            if not re.fullmatch("[0-9]{1,18}", text):
                raise ValueError
            return
        value = json.loads(text)
        if name == "holdouts":
            deque(map(administration.Holdout.parse, value), maxlen=0)
        elif name == "erasedSince":
            datetime.fromisoformat(value)
        elif name in operation.arguments:
            build(operation, project_id="any-project", **{operation.arguments[name]: value})
        elif name in _TEXTS and not all(isinstance(part, str) for part in _listed(value)):
            raise TypeError

    invalid = []
    for name, text in connection.execute("SELECT name, value FROM settings ORDER BY name").fetchall():
        try:
            check(name, text)
        except (ValueError, TypeError, KeyError, AttributeError):
            invalid.append(str(name))
    return invalid


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def get_settings(store: Store, request: administration.GetSettings) -> Answer:  # noqa: ARG001  (handlers take both)
    """Return the settings of the project, with its currency and time zone."""
    with store.cursor() as cursor:
        return _answer(store, read_settings(cursor))


@writes
def update_settings(connection: Connection, store: Store, request: administration.UpdateSettings) -> Answer:
    """Update settings of the project and return all of them."""
    names = _ATTRIBUTES.keys() & request.model_fields_set
    change_settings(connection, {name: getattr(request, name) for name in sorted(names)})
    return _answer(store, read_settings(connection))


def change_settings(connection: Connection, requested: Mapping[str, Any]) -> None:
    """Store settings by name, inside a transaction; None clears one."""
    before = asdict(read_settings(connection))
    changes = {name: value for name, value in requested.items() if value != before[_ATTRIBUTES[name]]}
    if changes.get("holdouts") and not before["holdout_key"]:
        changes["holdoutKey"] = secrets.token_hex(32)
    for name, value in changes.items():
        tables.write_setting(connection, name, value)


def _answer(store: Store, settings: ProjectSettings) -> Answer:
    row = {name: getattr(settings, attribute) for name, attribute in _ATTRIBUTES.items()}
    row |= {"currency": store.meta.currency, "timezone": store.meta.timezone}
    return Answer.of(pa.Table.from_pylist([row], schema.SETTINGS))


def list_holdouts(store: Store, request: administration.ListHoldouts) -> Answer:  # noqa: ARG001  (handlers take both)
    """Return the holdouts, by name."""
    with store.cursor() as cursor:
        holdouts = map(administration.Holdout.parse, read_settings(cursor).holdouts)
        return _holdout_answer(cursor, sorted(holdouts, key=lambda holdout: holdout.name))


@writes
def create_holdout(connection: Connection, _: Store, request: administration.CreateHoldout) -> Answer:
    """Create or change a holdout and return it.

    Raises
    ------
    Conflict
        If the holdout exists and has another node or a larger share.
    """
    created = administration.Holdout(
        name=request.holdout,
        share=request.share,
        node_id=request.nodeId,
        since=request.firstDay,
        until=request.lastDay,
    )
    texts = read_settings(connection).holdouts
    stored = administration.find_holdout(texts, created.name)
    if stored is not None and (stored.node_id != created.node_id or stored.share > created.share):
        raise Conflict(
            f"holdout {stored.name!r} withholds node {stored.node_id!r} from {stored.share:.6g}; "
            "allowed: the same node and a share that is not smaller, or another name"
        )
    change_settings(connection, {"holdouts": (*_without(texts, created.name), str(created))})
    return _holdout_answer(connection, [created])


@writes
def delete_holdout(connection: Connection, _: Store, request: administration.DeleteHoldout) -> int:
    """Delete a holdout; return 1.

    Raises
    ------
    NotFound
        If there is no such holdout.
    """
    texts = read_settings(connection).holdouts
    administration.get_holdout(texts, request.holdout)
    change_settings(connection, {"holdouts": _without(texts, request.holdout)})
    return 1


def _without(texts: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(text for text in texts if administration.Holdout.parse(text).name != name)


def _holdout_answer(connection: Connection, holdouts: Iterable[administration.Holdout]) -> Answer:
    rows = [
        {
            "holdout": holdout.name,
            "nodeId": holdout.node_id,
            "share": holdout.share,
            "firstDay": None if holdout.since is None else str(holdout.since),
            "lastDay": None if holdout.until is None else str(holdout.until),
        }
        for holdout in holdouts
    ]
    query = "SELECT _id FROM nodes WHERE _id IN (SELECT unnest(?))"
    existing = connection.execute(query, [[row["nodeId"] for row in rows]]).fetchall()
    rows = [row | {"nodeExists": (row["nodeId"],) in existing} for row in rows]
    return Answer.of(pa.Table.from_pylist(rows, schema.HOLDOUT))
