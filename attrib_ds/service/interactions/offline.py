"""Takes in offline interactions: who the person is, which node brought them, and in what order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.campaigns.integrations import require
from attrib_ds.service.events.normalisation import Settings, Unreadable, is_missing, normalise
from attrib_ds.service.events.validation import VENDOR, identity
from attrib_ds.service.identity.lifetimes import renumber
from attrib_ds.service.identity.registry import register
from attrib_ds.service.identity.resolution import resolve
from attrib_ds.service.identity.tombstones import find_buried, identity_kind
from attrib_ds.service.interactions.resolution import resolve_node
from attrib_ds.service.store.batches import naive
from attrib_ds.service.store.records import insert_record, read_record, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.contract.interactions import CreateOfflineInteraction
    from attrib_ds.service.campaigns.integrations import Integration
    from attrib_ds.service.identity.resolution import Pair
    from attrib_ds.service.store.store import Store

_AHEAD: Final = timedelta(hours=24)
#: Identity fields of every project (G-216). A phone, which people share, identifies where it is declared to.
_ALWAYS: Final[dict[str, Mapping[str, Any]]] = {
    key: {"storageKey": key, "type": kind, "discriminant": key != "phone"}
    for key, kind in (("email", "email"), ("phone", "phone"), (VENDOR, "string"))
}


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

    def job(connection: duckdb.DuckDBPyConnection) -> Answer:
        integration = require(connection, request.nodeData["vendorId"], argument="node_data/vendorId")
        person = _read_person(connection, request.userData, currency=store.meta.currency)
        first = _first(connection, integration, request.externalId)
        if first is not None:
            return _stored(connection, first, is_new=False)
        resolved = resolve_node(
            connection, integration, request.nodeData, project_id=request.projectId, new_id=campaign_id
        )
        _refuse_erased(connection, person, request.date)
        user_id = resolve(connection, store.ids, person.identities)
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
            "userData": encode(person.user_data),
            "integrationId": integration.id,
            "nodeId": resolved.node_id,
            "externalId": request.externalId,
            "isBot": False,
            "partialResolvedVendorId": None if resolved.is_complete else integration.vendor_id,
            "rawUserData": encode(request.userData),
            "rawNodeData": encode(request.nodeData),
        }
        insert_record(connection, "interactions", interaction)
        register(connection, f"(SELECT userId, ingestedAt AS seen FROM interactions WHERE _id = '{new_id}')")
        renumber(connection, f"SELECT '{user_id}'")
        return _stored(connection, new_id, is_new=True)

    return store.write(job)


def _stored(connection: duckdb.DuckDBPyConnection, id: str, *, is_new: bool) -> Answer:
    found = read_table(connection, "interactions WHERE _id = ?", [id], schema.INTERACTION)
    return Answer.of(found, value=is_new)


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


@dataclass(frozen=True)
class _Person:
    user_data: dict[str, Any]
    identities: list[Pair]


def _read_person(
    connection: duckdb.DuckDBPyConnection, user_data: dict[str, Any], *, currency: str
) -> _Person:
    """Normalise the identity fields that are given; anything else is refused (R186)."""
    fields, countries = _identity_fields(connection)
    settings = Settings(currency, countries)
    found: dict[str, Any] = {}
    identities = []
    for key, value in user_data.items():
        argument = f"user_data/{key}"
        if key not in fields:
            raise InvalidRequest.choice(argument, key, fields)
        if is_missing(value):
            continue
        field = fields[key]
        try:
            found[key] = normalise(field["type"], value, settings)
        except Unreadable:
            # Without a country, a national number is just what somebody wrote down; it identifies nobody.
            if not (field["type"] == "phone" and isinstance(value, str) and not field["discriminant"]):
                raise InvalidRequest(
                    f"{argument}: {shown(value)} is not allowed; allowed: a value of type {field['type']!r}",
                    field=argument,
                ) from None
            found[key] = value.strip()
        pair = identity(field, found[key])
        if pair is not None:
            identities.append(pair)
        if field["type"] == "email":
            found[key] = found[key].lower()
    # The email counts most, then what the project declares to identify, then the id of a vendor (G-145).
    ranks = {"email": 0, VENDOR: 2}
    return _Person(found, sorted(identities, key=lambda pair: ranks.get(pair[0], 1)))


def _identity_fields(
    connection: duckdb.DuckDBPyConnection,
) -> tuple[dict[str, Mapping[str, Any]], tuple[str, ...]]:
    """Return the identity fields of the project by key, and the countries of its phone numbers (G-216)."""
    declared = connection.execute(
        "SELECT fields, phoneParsingConfig FROM event_types ORDER BY createdAt, reference"
    ).fetchall()
    fields = dict(_ALWAYS)
    countries: list[str] = []
    for texts, phones in declared:
        for field in json.loads(texts):
            if field["entity"] == "user" and field["discriminant"]:
                fields[field["storageKey"]] = field
        tried = sorted(json.loads(phones or "[]"), key=lambda phone: phone["order"])
        countries += [phone["countryCode"] for phone in tried]
    return fields, tuple(dict.fromkeys(countries))


def _refuse_erased(connection: duckdb.DuckDBPyConnection, person: _Person, date: datetime) -> None:
    """Refuse what is about somebody who was erased later than its date (G-209)."""
    marks = [(identity_kind(kind), value) for kind, value in person.identities]
    erased = find_buried(connection, marks).values()
    if any(naive(date) <= moment for moment in erased):
        raise InvalidRequest(
            f"user_data: is somebody whose data was erased later than {instants.format(date)}; allowed: "
            "somebody else, or a later date",
            field="user_data",
        )
