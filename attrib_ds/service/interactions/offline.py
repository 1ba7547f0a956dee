"""Creates offline interactions, with identity resolution and node resolution."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest
from attrib_ds.instants import naive
from attrib_ds.service.campaigns.integrations import require
from attrib_ds.service.events.normalisation import InvalidValue, Settings, is_missing, normalise
from attrib_ds.service.events.validation import identity
from attrib_ds.service.identity.lifetime_index import renumber
from attrib_ds.service.identity.registry import register
from attrib_ds.service.identity.resolution import VENDOR, resolve
from attrib_ds.service.identity.tombstones import find_buried, identity_kind
from attrib_ds.service.interactions.node_resolution import resolve_node
from attrib_ds.service.store.table_access import insert_record, read_record, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.contract.interactions import CreateOfflineInteraction
    from attrib_ds.service.campaigns.integrations import Integration
    from attrib_ds.service.identity.resolution import Pair
    from attrib_ds.service.store.store import Store

_AHEAD: Final = timedelta(hours=24)
#: Identity fields of every project (G-216). Phones may be shared; they identify only if declared to.
_ALWAYS: Final[dict[str, Mapping[str, Any]]] = {
    key: {"storageKey": key, "type": kind, "discriminant": key != "phone"}
    for key, kind in (("email", "email"), ("phone", "phone"), (VENDOR, "string"))
}


def create_offline_interaction(store: Store, request: CreateOfflineInteraction) -> Answer:
    """Store an offline interaction and return it, as :func:`get_interaction` does.

    A repeated ``externalId`` of an integration is not stored again; the first interaction is returned
    (G-143). ``Answer.value`` is whether the interaction is new.

    Raises
    ------
    InvalidRequest
        If the date is more than 24 hours ahead, there is no such integration, or ``userData`` has a key that
        is not an identity field; nothing is stored.
    """
    now = instants.now()
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
    interactions = read_table(connection, "interactions WHERE _id = ?", [id], schema.INTERACTION)
    return Answer.of(interactions, value=is_new)


def _first(
    connection: duckdb.DuckDBPyConnection, integration: Integration, external_id: str | None
) -> str | None:
    """Return the id of the first interaction with the external id, or None."""
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
    """Normalise identity fields; refuse other keys (R186)."""
    fields, countries = _identity_fields(connection)
    settings = Settings(currency, countries)
    normalised: dict[str, Any] = {}
    identities = []
    for key, value in user_data.items():
        argument = f"user_data/{key}"
        if key not in fields:
            raise InvalidRequest.choice(argument, key, fields)
        if is_missing(value):
            continue
        field = fields[key]
        try:
            normalised[key] = normalise(field["type"], value, settings)
        except InvalidValue:
            # Keep an unparsable phone number as text unless it must identify the user.
            if not (field["type"] == "phone" and isinstance(value, str) and not field["discriminant"]):
                raise InvalidRequest(
                    f"{argument}: {shown(value)} is not allowed; allowed: a value of type {field['type']!r}",
                    field=argument,
                ) from None
            normalised[key] = value.strip()
        pair = identity(field, normalised[key])
        if pair is not None:
            identities.append(pair)
        if field["type"] == "email":
            normalised[key] = normalised[key].lower()
    # Priority: email, then declared identity fields, then the vendor's id (G-145).
    ranks = {"email": 0, VENDOR: 2}
    return _Person(normalised, sorted(identities, key=lambda pair: ranks.get(pair[0], 1)))


def _identity_fields(
    connection: duckdb.DuckDBPyConnection,
) -> tuple[dict[str, Mapping[str, Any]], tuple[str, ...]]:
    """Return the identity fields of the project by key, and countries for phone numbers (G-216)."""
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
    """Refuse data of a person who was erased after its date (G-209)."""
    marks = [(identity_kind(kind), value) for kind, value in person.identities]
    erased = find_buried(connection, marks).values()
    if any(naive(date) <= erased_at for erased_at in erased):
        raise InvalidRequest(
            f"user_data: belongs to a person who was erased after {instants.format(date)}; allowed: "
            "another person, or a later date",
            field="user_data",
        )
