"""What is known of a visitor beside the user agent: the place and the network of the address, the secret."""

import json
import secrets
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import maxminddb
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import schema, sql_results
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import arrow_view
from attrib_ds.traffic.agents import parse_address

_GEO: Final = tuple(schema.leaves(schema.HIT, "geo"))
_ASN: Final = tuple(schema.leaves(schema.HIT, "asn"))
#: Columns of hits that are looked up.
PLACE_COLUMNS: Final = (*_GEO, *_ASN)
_ARROW_TYPES: Final = {name: schema.HIT.field(name).type for name in PLACE_COLUMNS}
#: Members of records by kind of database, as MaxMind and DB-IP name them.
_MEMBERS: Final = {
    "geo": ("country", "city", "location", "subdivisions", "registered_country", "continent"),
    "asn": ("autonomous_system_number", "autonomous_system_organization"),
}
_EXAMPLES: Final = {"geo": "GeoLite2-City.mmdb", "asn": "GeoLite2-ASN.mmdb"}
#: Number of records that decide on the kind of a database.
_MOST_PROBED: Final = 100


class AddressLookup:
    """Finds the place and the network of client addresses; thread-safe.

    Parameters
    ----------
    readers : dict of str to maxminddb.Reader
        Opened databases by kind, ``geo`` and ``asn``.
    """

    def __init__(self, readers: dict[str, maxminddb.Reader]) -> None:
        self._readers = readers
        self._versions = {kind: reader.metadata().ip_version for kind, reader in readers.items()}

    @classmethod
    def open(cls, *, geo: str | Path | None = None, asn: str | Path | None = None) -> Self:
        """Open databases.

        Parameters
        ----------
        geo, asn : str or Path, optional
            MMDB files of places and of networks, in the form of MaxMind's GeoLite2-City (or -Country) and
            GeoLite2-ASN; None for no look-up.

        Raises
        ------
        InvalidRequest
            If a file cannot be read, or is a database of another kind.

        Examples
        --------
        >>> lookup = AddressLookup.open()
        >>> bool(lookup), lookup.find("203.0.113.7")["geo.city"]
        (False, None)
        """
        files = {"geo": geo, "asn": asn}
        return cls({kind: _open(kind, file) for kind, file in files.items() if file is not None})

    def __bool__(self) -> bool:
        return bool(self._readers)

    def find(self, address: str) -> dict[str, Any]:
        """Return the value of each of :data:`COLUMNS`, None where it is unknown.

        Raises
        ------
        InvalidRequest
            If a database is damaged.
        """
        found = dict.fromkeys(PLACE_COLUMNS)
        parsed = parse_address(address)
        if parsed is None:
            return found
        for kind, reader in self._readers.items():
            # A database of the shorter addresses only.
            if parsed.version > self._versions[kind]:
                continue
            try:
                record = reader.get(str(parsed))
            except maxminddb.InvalidDatabaseError as error:
                raise InvalidRequest(f"{kind}: the database is damaged: {error}") from error
            if isinstance(record, dict):
                found |= _place(record) if kind == "geo" else _network(record)
        return found

    def create_table(self, connection: Connection, addresses: str, *, into: str) -> None:
        """Create a table of each distinct ``address`` of a relation with :data:`COLUMNS`."""
        texts = [
            text
            for (text,) in connection.execute(
                f"SELECT DISTINCT address FROM {addresses} WHERE address IS NOT NULL"
            ).fetchall()
        ]
        records = [self.find(text) for text in texts]
        columns = {"address": pa.array(texts, pa.string())} | {
            name: pa.array([record[name] for record in records], kind) for name, kind in _ARROW_TYPES.items()
        }
        with arrow_view(connection, pa.table(columns)) as view:
            connection.execute(f"CREATE TABLE {into} AS FROM {view}")

    def close(self) -> None:
        """Close the files; idempotent."""
        for reader in self._readers.values():
            reader.close()


def located(hits: str, places: str) -> str:
    """Return SQL for hits with the place and the network of their address where they have none of their own.

    Parameters
    ----------
    hits : str
        Relation with ``address`` and :data:`COLUMNS`.
    places : str
        Table from :meth:`AddressLookup.create_table`.
    """
    replaced = []
    for group in (_GEO, _ASN):
        is_missing = " AND ".join(f"hit.{quoted(name)} IS NULL" for name in group)
        replaced += [
            f"CASE WHEN {is_missing} THEN place.{quoted(name)} ELSE hit.{quoted(name)} END AS {quoted(name)}"
            for name in group
        ]
    return (
        f"(SELECT hit.* REPLACE ({', '.join(replaced)}) "
        f"FROM {hits} AS hit LEFT JOIN {places} AS place ON place.address = hit.address)"
    )


def _open(kind: str, file: str | Path) -> maxminddb.Reader:
    path = Path(file).expanduser()
    if not path.is_file():
        problem = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InvalidRequest(f"{kind}: {str(path)!r} {problem}")
    try:
        reader = maxminddb.open_database(path)
        records = [record for _, record in islice(reader, _MOST_PROBED)]
    except (maxminddb.InvalidDatabaseError, OSError, ValueError) as error:
        raise InvalidRequest(
            f"{kind}: {str(path)!r} is not a readable MMDB file: {error}; download it again"
        ) from error
    if not any(name in record for record in records if isinstance(record, dict) for name in _MEMBERS[kind]):
        own = reader.metadata().database_type
        reader.close()
        raise InvalidRequest(
            f"{kind}: {str(path)!r} is a database of the type {own!r}, whose records have no "
            f"{_MEMBERS[kind][0]}; expected one such as {_EXAMPLES[kind]}"
        )
    return reader


def _place(record: dict[str, Any]) -> dict[str, Any]:
    location = record.get("location") or {}
    # The first subdivision is the largest.
    state = next(iter(record.get("subdivisions") or ()), None)
    return {
        "geo.countryCode": (record.get("country") or {}).get("iso_code"),
        "geo.state": _name(state),
        "geo.city": _name(record.get("city")),
        "geo.latitude": location.get("latitude"),
        "geo.longitude": location.get("longitude"),
        "geo.zipcode": (record.get("postal") or {}).get("code"),
    }


def _name(place: dict[str, Any] | None) -> str | None:
    """Return the English name of a place."""
    return None if place is None else (place.get("names") or {}).get("en")


def _network(record: dict[str, Any]) -> dict[str, Any]:
    number = record.get("autonomous_system_number")
    return {
        "asn.asnId": None if number is None else f"AS{number}",
        "asn.asnName": record.get("autonomous_system_organization"),
    }


_SETTING: Final = "visitorSecret"
_BYTES: Final = 32


def visitor_secret(store: Store) -> str:
    """Return the secret of the project, created when it is first asked for.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> visitor_secret(store) == visitor_secret(store)
    True
    >>> store.close()
    """

    def write(connection: Connection) -> str:
        row = sql_results.read_row(connection, "SELECT value FROM settings WHERE name = ?", [_SETTING])
        if row is not None:
            return str(json.loads(row[0]))
        secret = secrets.token_hex(_BYTES)
        connection.execute("INSERT INTO settings VALUES (?, ?)", [_SETTING, encode(secret)])
        return secret

    return store.write(write)
