"""Reads and updates the settings of a project."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_values import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.contract.settings import GetSettings, UpdateSettings
    from attrib_ds.service.store.store import Store

_HOLDOUT_KEY: Final = "holdoutKey"
_BYTES_OF_KEY: Final = 32
#: Attribute of :class:`ProjectSettings` by the name of the setting.
_ATTRIBUTES: Final = {
    "lenientOptionalFields": "lenient_optional_fields",
    "retentionDurationInDays": "retention_duration_in_days",
    "piiFields": "pii_fields",
    "requireTokenForEvents": "require_token_for_events",
    "ingestKeys": "ingest_keys",
    "allowedOrigins": "allowed_origins",
    "excludedReferrers": "excluded_referrers",
    "trafficFilters": "traffic_filters",
    "holdouts": "holdouts",
    _HOLDOUT_KEY: "holdout_key",
    "respectGpc": "respect_gpc",
    "respectDnt": "respect_dnt",
}


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings of a project.

    Parameters
    ----------
    lenient_optional_fields : bool, default False
        Accept events with invalid values of optional fields (G-053).
    retention_duration_in_days : int, default 0
        Retention period of personal values from the date of an event; 0 is unlimited (G-208).
    pii_fields : tuple of str
        Storage keys of personal fields.
    require_token_for_events : bool, default False
        Accept events only with a token (G-175).
    ingest_keys : tuple of str
        Without a token, accept events and hits only with one of these keys; empty for no key.
    allowed_origins : tuple of str
        Without a token, accept events and hits only from these origins; empty for any.
    excluded_referrers : tuple of str
        Hosts whose referrers are no traffic sources, besides those of payment providers (G-190).
    traffic_filters : tuple of str
        Filters that capture hits (G-198).
    holdouts : tuple of str
        Holdouts that the service draws, as text; see :class:`~attrib_ds.contract.settings.Holdout`.
    holdout_key : str
        Secret that decides who is withheld; empty until the first holdout.
    respect_gpc : bool, default True
        Store no lasting tracker id of a browser with Global Privacy Control (G-200).
    respect_dnt : bool, default False
        Store no lasting tracker id of a browser with Do Not Track.
    """

    lenient_optional_fields: bool = False
    retention_duration_in_days: int = 0
    pii_fields: tuple[str, ...] = ()
    require_token_for_events: bool = False
    ingest_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    excluded_referrers: tuple[str, ...] = ()
    traffic_filters: tuple[str, ...] = ()
    holdouts: tuple[str, ...] = ()
    holdout_key: str = ""
    respect_gpc: bool = True
    respect_dnt: bool = False


class SettingsCache:
    """Hold the settings of a project, which every event asks for; thread-safe.

    Parameters
    ----------
    store : Store
        The project.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.cached: ProjectSettings | None = None

    def read(self) -> ProjectSettings:
        """Read the settings and hold them."""
        with self._lock:
            if self.cached is None:
                with self._store.cursor() as cursor:
                    self.cached = read_settings(cursor)
            return self.cached

    def clear(self) -> None:
        """Forget the settings after a change, before it is answered (G-227)."""
        # A reader that still saw the old settings holds the lock until it has stored them.
        with self._lock:
            self.cached = None


def read_settings(connection: duckdb.DuckDBPyConnection) -> ProjectSettings:
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
    stored = {_ATTRIBUTES[name]: json.loads(value) for name, value in rows if name in _ATTRIBUTES}
    return ProjectSettings(**{name: _value(value) for name, value in stored.items()})


def get_settings(store: Store, request: GetSettings) -> Answer:  # noqa: ARG001  (handlers take both)
    """Return the settings of the project, with its currency and time zone."""
    with store.cursor() as cursor:
        return _answer(store, read_settings(cursor))


def update_settings(store: Store, request: UpdateSettings) -> Answer:
    """Update settings of the project and return all of them."""
    requested = {name: getattr(request, name) for name in _ATTRIBUTES if name in request.model_fields_set}

    def write(connection: duckdb.DuckDBPyConnection) -> ProjectSettings:
        change_settings(connection, requested)
        return read_settings(connection)

    return _answer(store, store.write(write))


def change_settings(connection: duckdb.DuckDBPyConnection, requested: Mapping[str, Any]) -> None:
    """Store settings by name, inside a transaction; None clears one (G-227)."""
    before = asdict(read_settings(connection))
    changes = {name: value for name, value in requested.items() if value != before[_ATTRIBUTES[name]]}
    if changes.get("holdouts") and not before["holdout_key"]:
        changes[_HOLDOUT_KEY] = secrets.token_hex(_BYTES_OF_KEY)
    for name, value in changes.items():
        connection.execute("DELETE FROM settings WHERE name = ?", [name])
        if value is not None:
            connection.execute("INSERT INTO settings VALUES (?, ?)", [name, encode(value)])


def _answer(store: Store, settings: ProjectSettings) -> Answer:
    names = {attribute: name for name, attribute in _ATTRIBUTES.items()}
    row = {names[field.name]: getattr(settings, field.name) for field in fields(settings)}
    row |= {"currency": store.meta.currency, "timezone": store.meta.timezone}
    return Answer.of(pa.Table.from_pylist([row], schema.SETTINGS))


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
