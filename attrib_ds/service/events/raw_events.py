"""Raw events: their rows, and their storage once per nonce (G-129 to G-131)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from attrib_ds import instants
from attrib_ds.contract.json_values import encode
from attrib_ds.instants import naive
from attrib_ds.json_numbers import ExtremeNumber
from attrib_ds.service.identity.tombstones import find_erased
from attrib_ds.service.store.table_access import insert_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from attrib_ds.contract.events import CreateEvent
    from attrib_ds.service.store.ids import Uuids


@dataclass(frozen=True)
class Accepted:
    """The event stored for a nonce, the id given to the event sent, and whether their contents agree."""

    id: str
    sent_id: str
    agrees: bool

    @property
    def is_new(self) -> bool:
        """Whether the event sent was stored, rather than an earlier one with its nonce."""
        return self.sent_id == self.id


def match_nonces(
    connection: duckdb.DuckDBPyConnection,
    records: Sequence[dict[str, Any]],
    *,
    known: Mapping[str, tuple[str, str]] | None = None,
) -> tuple[list[dict[str, Any]], list[Accepted]]:
    """Return the raw events whose nonces are new, and the event stored for each.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    records : sequence of dict
        From :func:`raw_event`.
    known : mapping of str to tuple, optional
        Ids and fingerprints by nonce of events that are not in the tables yet.

    Returns
    -------
    list of dict, and list of Accepted
        The first event of each new nonce, and one result per record.
    """
    # A group of the log whose events are all repeats has audit entries alone, and IN () is no SQL.
    if not records:
        return [], []
    nonces = [record["nonce"] for record in records]
    places = ", ".join("?" for _ in records)
    rows = connection.execute(
        f"SELECT nonce, _id, fingerprint FROM raw_events WHERE nonce IN ({places})", nonces
    ).fetchall()
    first = {nonce: (id, fingerprint) for nonce, id, fingerprint in rows} | dict(known or {})
    erased = find_erased(connection, nonces)
    new = []
    accepted = []
    for record in records:
        if record["nonce"] in erased:
            # The content was erased, so it cannot be compared (G-210).
            accepted.append(Accepted(erased[record["nonce"]], record["_id"], agrees=True))
            continue
        if record["nonce"] not in first:
            first[record["nonce"]] = record["_id"], record["fingerprint"]
            new.append(record)
        id, fingerprint = first[record["nonce"]]
        accepted.append(Accepted(id, record["_id"], fingerprint == record["fingerprint"]))
    return new, accepted


def all_new(records: Sequence[dict[str, Any]]) -> list[Accepted]:
    """Return the results of raw events whose nonces are new."""
    return [Accepted(record["_id"], record["_id"], agrees=True) for record in records]


def store_raw_events(
    connection: duckdb.DuckDBPyConnection,
    records: Sequence[dict[str, Any]],
    *,
    are_pending: bool = True,
    are_new: bool = False,
) -> list[Accepted]:
    """Store raw events once per nonce in a transaction; return one result per record (G-129).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    records : sequence of dict
        From :func:`raw_event`.
    are_pending : bool, default True
        Whether to list them for processing.
    are_new : bool, default False
        Whether all nonces are known to be new.
    """
    new, accepted = (records, all_new(records)) if are_new else match_nonces(connection, records)
    insert_raw_events(connection, new, are_pending=are_pending)
    return accepted


def insert_raw_events(
    connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]], *, are_pending: bool
) -> None:
    """Insert raw events, whose nonces are new, and list them for processing if they are pending."""
    insert_records(connection, "raw_events", records)
    if are_pending:
        insert_records(connection, "pending_events", [{"_id": record["_id"]} for record in records])


def raw_event(request: CreateEvent, ids: Uuids) -> dict[str, Any]:
    """Return the row of the table ``raw_events`` for an event sent now."""
    date = kept = request.eventDate
    if isinstance(date, datetime):
        # Sends that differ only in digits that are not kept have the same content (G-224).
        truncated = instants.truncate(date)
        kept = instants.format(truncated)
        date = kept if truncated == date else instants.format(date)
    content = [request.eventType, kept, request.trackerId, request.data.members]
    return {
        "_id": ids.new(),
        "projectId": request.projectId,
        "nonce": request.nonce,
        "eventType": request.eventType,
        "trackerId": request.trackerId,
        "createdAt": naive(instants.now()),
        "data": request.data.text,
        "eventDate": None if date is None else encode(date),
        "fingerprint": fingerprint(content),
    }


def fingerprint(content: object) -> str:
    """Return a hash of a JSON value; equal values have the same, however numbers are written.

    Examples
    --------
    >>> fingerprint({"value": 10, "of": "a"}) == fingerprint({"of": "a", "value": Decimal("1.0e1")})
    True
    """
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(value: Any) -> str:
    """Return the canonical JSON text of a value, in which numbers are text."""
    if isinstance(value, str):
        return encode_basestring_ascii(f"text {value}")
    if isinstance(value, dict):
        members = [f"{encode_basestring_ascii(key)}: {_canonical(value[key])}" for key in sorted(value)]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join([_canonical(member) for member in value])}]"
    if value is None or isinstance(value, bool):
        return encode(value)
    if type(value) is int:
        # As below, without the detour over Decimal.
        plain = str(abs(value))
        whole = plain.rstrip("0")
        return f'"number {int(value < 0)} {whole} {len(plain) - len(whole) if whole else 0}"'
    if isinstance(value, ExtremeNumber):
        return f'"number {value.text.lower()}"'
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    plain = "".join(map(str, digits)).lstrip("0")
    whole = plain.rstrip("0")
    return (
        f'"number {sign if whole else 0} {whole} {int(exponent) + len(plain) - len(whole) if whole else 0}"'
    )
