"""Takes in offline interactions: who the person is, which node brought them, and in what order."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract import Answer
from attrib_ds.contract.interactions import CreateOfflineInteraction, GetInteraction
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.identities import resolve
from attrib_ds.service.integrations import require
from attrib_ds.service.interactions import get_interaction
from attrib_ds.service.records import insert_record, read_record
from attrib_ds.service.resolution import resolve_node

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.integrations import Integration
    from attrib_ds.service.store import Store

_AHEAD: Final = timedelta(hours=24)
_EMAIL: Final = "email"
_VENDOR_USER: Final = "vendorUserId"
#: Identity fields of every project (G-216).
_ALWAYS: Final = (_EMAIL, "phone", _VENDOR_USER)


def create_offline_interaction(store: Store, request: CreateOfflineInteraction) -> Answer:
    """Store an offline interaction and answer with it, as :func:`get_interaction` does.

    A second one with the same ``externalId`` in its integration is not stored; the answer is the first one
    (G-143). ``Answer.value`` says whether it was stored now.

    Raises
    ------
    InvalidRequest
        If the date is more than 24 hours ahead, ``userData`` holds what is no identity field, or there is
        no such integration; nothing is stored then.
    """
    now = datetime.now(UTC)
    if request.date > now + _AHEAD:
        date = instants.format(request.date)
        raise InvalidRequest(
            f"date: {date} is more than 24 hours ahead; allowed: until {instants.format(now + _AHEAD)}",
            field="date",
        )
    new_id, campaign_id = store.ids.new(), store.ids.new()

    def job(connection: duckdb.DuckDBPyConnection) -> tuple[str, bool]:
        integration = require(connection, request.nodeData["vendorId"], argument="node_data/vendorId")
        discriminants = _discriminants(connection)
        user_data = _normalised(request.userData, allowed=dict.fromkeys([*_ALWAYS, *discriminants]))
        first = _first(connection, integration, request.externalId)
        if first is not None:
            return first, False
        resolved = resolve_node(
            connection, integration, request.nodeData, project_id=request.projectId, new_id=campaign_id
        )
        # The email counts most, then what the project declares to identify, then the id of a vendor (G-145).
        order = dict.fromkeys([_EMAIL, *discriminants, _VENDOR_USER])
        pairs = [(key, user_data[key]) for key in order if key in user_data]
        _learn(connection, pairs)
        user_id = resolve(connection, store.ids, pairs)
        interaction = {
            "_id": new_id,
            "projectId": request.projectId,
            "type": "offline",
            "userId": user_id,
            "startDate": request.date,
            "endDate": request.date,
            "duration": 0.0,
            "ingestedAt": now,
            "createdAt": now,
            "userData": encode(user_data),
            "integrationId": integration.id,
            "nodeId": resolved.node_id,
            "externalId": request.externalId,
            "isBot": False,
            "partialResolvedVendorId": None if resolved.is_complete else integration.vendor_id,
            "rawUserData": encode(request.userData),
            "rawNodeData": encode(request.nodeData),
        }
        insert_record(connection, "interactions", interaction)
        _renumber(connection, user_id)
        return new_id, True

    id, is_new = store.write(job)
    stored = get_interaction(store, GetInteraction(projectId=request.projectId, id=id))
    return Answer(table=stored.table, value=is_new)


def _first(
    connection: duckdb.DuckDBPyConnection, integration: Integration, external_id: str | None
) -> str | None:
    """Return the interaction that has the external id already, None without one."""
    if external_id is None:
        return None
    first = read_record(
        connection,
        "SELECT _id FROM interactions WHERE type = 'offline' AND integrationId = ? AND externalId = ? "
        "ORDER BY ingestedAt, _id LIMIT 1",
        integration.id,
        external_id,
    )
    return None if first is None else str(first["_id"])


def _discriminants(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the user fields that event types declare to identify a user, oldest type first."""
    declared = connection.execute("SELECT fields FROM event_types ORDER BY createdAt, reference").fetchall()
    fields = [field for (text,) in declared for field in json.loads(text)]
    keys = [each["storageKey"] for each in fields if each["entity"] == "user" and each["discriminant"]]
    return tuple(dict.fromkeys(keys))


def _normalised(user_data: dict[str, Any], *, allowed: dict[str, None]) -> dict[str, str]:
    """Return the identity fields that are given, normalised; anything else is refused (R186)."""
    found = {}
    for key, value in user_data.items():
        field = f"user_data/{key}"
        if key not in allowed:
            raise InvalidRequest.choice(field, key, allowed)
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidRequest(f"{field}: {shown(value)} is not allowed; allowed: text", field=field)
        text = unicodedata.normalize("NFC", value).strip()
        if text:
            found[key] = _read_email(text) if key == _EMAIL else text
    return found


def _read_email(text: str) -> str:
    name, _, host = text.rpartition("@")
    if not name or not host or any(letter.isspace() for letter in text):
        raise InvalidRequest(
            f"user_data/email: {shown(text)} is not allowed; allowed: an address such as 'anna@example.com'",
            field="user_data/email",
        )
    return text.lower()


def _learn(connection: duckdb.DuckDBPyConnection, pairs: list[tuple[str, str]]) -> None:
    """Let loaded interactions say whose identities are that nobody is known by yet."""
    for kind, value in pairs:
        known = "SELECT userId FROM identities WHERE kind = ? AND value = ?"
        if kind not in {_EMAIL, _VENDOR_USER} or read_record(connection, known, kind, value) is not None:
            continue
        given = f"trim(json_extract_string(userData, '$.{kind}'))"
        held = read_record(
            connection,
            f"SELECT userId FROM interactions WHERE userData IS NOT NULL "
            f"AND {f'lower({given})' if kind == _EMAIL else given} = ? ORDER BY startDate, _id LIMIT 1",
            value,
        )
        if held is not None:
            insert_record(connection, "identities", {"kind": kind, "value": value, **held})


def _renumber(connection: duckdb.DuckDBPyConnection, user_id: str) -> None:
    """Count the interactions of a user anew, from the earliest (G-061)."""
    connection.execute(
        "UPDATE interactions SET userLifetimeIndex = ranked.position FROM ("
        'SELECT _id, row_number() OVER (ORDER BY "startDate", _id) AS position '
        "FROM interactions WHERE userId = ?) AS ranked WHERE interactions._id = ranked._id "
        "AND interactions.userLifetimeIndex IS DISTINCT FROM ranked.position",
        [user_id],
    )
