"""Searches, counts and reads interactions, hits and nodes, and creates offline interactions."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import ibis.expr.types as ir
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from ibis.backends.duckdb import Backend

from attrib_ds import errors, instants, schema, sql_results
from attrib_ds.contract import Answer, identifiers, json_values, operation
from attrib_ds.contract import interactions as contract
from attrib_ds.queries import page_views
from attrib_ds.queries.insights import count_interactions, fetch, filter_interactions, ordering
from attrib_ds.records.sources import literal
from attrib_ds.service.campaigns import Integration, find_campaign, insert_campaigns, require
from attrib_ds.service.events import validation
from attrib_ds.service.identity import merging, tombstones
from attrib_ds.service.identity.identities import VENDOR, resolve
from attrib_ds.service.store import connections, tables
from attrib_ds.service.store.store import Store

_NEWEST_FIRST = {"startDate": -1}


def search_interactions(store: Store, request: contract.SearchInteractions) -> Answer:
    """Return one page of interactions as a stream, with their total from the same snapshot.

    The tables always have the column ``type``: JSON of offline interactions omits some properties.
    """
    columns = operation.projected(request.projection)
    names = columns if "type" in columns else [*columns, "type"]
    read = pa.schema([schema.INTERACTION.field(name) for name in names])
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        matching = filter_interactions(backend.table("interactions"), request, nodes=node_table(backend))
        ordered = matching.order_by(ordering(matching, request.sort or _NEWEST_FIRST)).select(names)
        total = int(matching.count().to_pyarrow().as_py())
        # Not `to_pyarrow_batches` of Ibis 12, which calls a method that DuckDB 2 lacks.
        query = backend.compile(ordered.limit(request.limit, offset=request.offset))
        reader = sql_results.read_batches(backend.con, query, connections.BATCH_ROWS)
        remaining = max(total - request.offset, 0)
        return Answer(
            pa.schema([schema.INTERACTION.field(name) for name in columns]),
            (pa.Table.from_batches([batch.cast(read)]) for batch in reader),
            count=remaining if request.limit is None else min(remaining, request.limit),
            total=total,
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def get_interaction(store: Store, request: contract.GetInteraction) -> Answer:
    """Return one interaction with all properties, bots and filtered traffic included.

    A session that was merged into another one is found by its former id, too.
    """
    missing = f"id: there is no interaction {request.id!r}"
    query = "interactions WHERE _id = ?"
    try:
        return store.one(query, [request.id], schema.INTERACTION, missing)
    except errors.NotFound:
        was_its = f"{id_of_session(store.meta.project_id, 'id')} = ?"
        query = f"interactions WHERE _id = (SELECT sessionId FROM hits WHERE isOpening AND {was_its} LIMIT 1)"
        return store.one(query, [request.id], schema.INTERACTION, missing)


def id_of_session(project_id: str, hit: str) -> str:
    """Return SQL for the id that a hit gives the session that it opens."""
    return f"left(sha256({literal(f'{project_id} ')} || {hit}), 24)"


def list_hits(store: Store, request: contract.ListHits) -> Answer:
    """Return the hits of the session that a hit opened, in the order of arrival; none for an unknown hit.

    A hit opens its session also when an earlier one arrives later, or when the session is merged with others.
    """
    with store.read() as backend:
        interactions, hits = backend.table("interactions"), backend.table("hits")
        loaded = interactions.filter(interactions.firstHitId == request.firstHitId).select(sessionId="_id")
        collected = hits.filter(hits.id == request.firstHitId, hits.isOpening).select("sessionId")
        of_session = hits.semi_join(loaded.union(collected), "sessionId")
        ordered = of_session.order_by("ingestedAt", "serverDate", "id").select(schema.HIT.names)
        return Answer.of(fetch(ordered, schema.HIT))


def interaction_insights(store: Store, request: contract.InteractionInsights) -> Answer:
    """Count interactions by group and interval; see :func:`.count_interactions`."""
    with store.read() as backend:
        return count_interactions(backend.table("interactions"), request, nodes=node_table(backend))


def page_insights(store: Store, request: contract.PageInsights) -> Answer:
    """Count the views of pages; see :func:`.count_pages`."""
    with store.read() as backend:
        return page_views.count_pages(*_views(backend), request, nodes=node_table(backend))


def funnel(store: Store, request: contract.Funnel) -> Answer:
    """Count the steps of a funnel; see :func:`.count_funnel`."""
    with store.read() as backend:
        events = backend.table("events")
        types = backend.con.execute("SELECT eventType FROM events UNION SELECT reference FROM event_types")
        known = {name for (name,) in types.fetchall()}
        for step in request.steps:
            if not contract.is_page(step) and step not in known:
                problem = errors.InvalidRequest.choice("steps", step, known)
                reading = f"{step!r} was read as an event type, since a page begins with '/'"
                raise errors.InvalidRequest(f"{problem}; {reading}", field="steps")
        return page_views.count_funnel(*_views(backend), events, request, nodes=node_table(backend))


def page_conversions(store: Store, request: contract.PageConversions) -> Answer:
    """Return the first views of a page; see :func:`.first_views`."""
    with store.read() as backend:
        return page_views.first_views(*_views(backend), request, nodes=node_table(backend))


def _views(backend: Backend) -> tuple[ir.Table, ir.Table]:
    """Return hits and interactions; refuse a project with visits whose hits it does not have."""
    hits, interactions = backend.table("hits"), backend.table("interactions")
    has_hits, has_counts = (
        bool(rows.limit(1).count().to_pyarrow().as_py())
        for rows in (hits, interactions.filter(interactions.hitCount > 0))
    )
    if has_counts and not has_hits:
        raise errors.InvalidRequest(
            "project_id: the project has visits without their hits; load the hits too, or mirror it with "
            "hits=True"
        )
    return hits, interactions


def list_nodes(store: Store, request: contract.ListNodes) -> Answer:
    """Return one page of nodes, sorted by id, with their total from the same snapshot."""
    text = "concat_ws(chr(0), name, _id)"
    conditions = {"type = ?": request.type, f"contains(lower({text}), lower(?))": request.search}
    return store.page("nodes", conditions, schema.NODE, request, sort={})


def get_node(store: Store, request: contract.GetNode) -> Answer:
    """Return one node."""
    missing = f"id: there is no node {request.id!r}"
    return store.one("nodes WHERE _id = ?", [request.id], schema.NODE, missing)


def node_table(backend: Backend) -> ir.Table:
    """Return the tree of nodes in the ``NODE`` schema."""
    return backend.table("nodes").select(schema.NODE.names)


_AHEAD: Final = timedelta(hours=24)
#: Identity fields of every project. Phones may be shared; they identify only if declared to.
_ALWAYS: Final[dict[str, Mapping[str, Any]]] = {
    key: {"storageKey": key, "type": kind, "discriminant": key != "phone"}
    for key, kind in (("email", "email"), ("phone", "phone"), (VENDOR, "string"))
}


def create_offline_interaction(store: Store, request: contract.CreateOfflineInteraction) -> Answer:
    """Store an offline interaction and return it, as :func:`get_interaction` does.

    A repeated ``externalId`` of an integration is not stored again; the first interaction is returned.
    ``Answer.value`` is whether the interaction is new.

    Raises
    ------
    InvalidRequest
        If the date is more than 24 hours ahead, there is no such integration, or ``userData`` has a key that
        is not an identity field; nothing is stored.
    """
    now = instants.now()
    if request.date > now + _AHEAD:
        date = instants.format(request.date)
        raise errors.InvalidRequest(
            f"date: {date} is more than 24 hours ahead; allowed: until {instants.format(now + _AHEAD)}"
        )
    new_id, campaign_id = store.ids.new(), store.ids.new()

    def job(connection: Connection) -> Answer:
        integration = require(connection, request.nodeData["vendorId"], argument="node_data/vendorId")
        person = _read_person(connection, request.userData, currency=store.meta.currency)
        first = _first(connection, integration, request.externalId)
        if first is not None:
            return _stored(connection, first, is_new=False)
        node_id, is_complete = resolve_node(connection, integration, request.nodeData, campaign_id)
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
            "userData": json_values.encode(person.user_data),
            "integrationId": integration.id,
            "nodeId": node_id,
            "externalId": request.externalId,
            "isBot": False,
            "partialResolvedVendorId": None if is_complete else integration.vendor_id,
            "rawUserData": json_values.encode(request.userData),
            "rawNodeData": json_values.encode(request.nodeData),
        }
        tables.insert_record(connection, "interactions", interaction)
        merging.register(
            connection, f"(SELECT userId, ingestedAt AS seen FROM interactions WHERE _id = '{new_id}')"
        )
        merging.renumber(connection, f"SELECT '{user_id}'")
        return _stored(connection, new_id, is_new=True)

    return store.write(job)


def _stored(connection: Connection, id: str, *, is_new: bool) -> Answer:
    interactions = tables.read_table(connection, "interactions WHERE _id = ?", [id], schema.INTERACTION)
    return Answer.of(interactions, value=is_new)


def _first(connection: Connection, integration: Integration, external_id: str | None) -> str | None:
    """Return the id of the first interaction with the external id, or None."""
    if external_id is None:
        return None
    first = tables.read_record(
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
    identities: list[tuple[str, str]]


def _read_person(connection: Connection, user_data: dict[str, Any], *, currency: str) -> _Person:
    """Normalise identity fields; refuse other keys."""
    fields, countries = _identity_fields(connection)
    settings = validation.Conventions(currency, countries)
    normalised: dict[str, Any] = {}
    identities = []
    for key, value in user_data.items():
        argument = f"user_data/{key}"
        errors.check_choice(argument, key, fields)
        if validation.is_missing(value):
            continue
        field = fields[key]
        try:
            normalised[key] = validation.normalise(field["type"], value, settings)
        except validation.InvalidValue:
            # Keep an unparsable phone number as text unless it must identify the user.
            if not (field["type"] == "phone" and isinstance(value, str) and not field["discriminant"]):
                raise errors.InvalidRequest(
                    f"{argument}: {json_values.shown(value)} is not allowed; allowed: a value of type "
                    f"{field['type']!r}"
                ) from None
            normalised[key] = value.strip()
        pair = validation.identity(field, normalised[key])
        if pair is not None:
            identities.append(pair)
        if field["type"] == "email":
            normalised[key] = normalised[key].lower()
    # Priority: email, then declared identity fields, then the vendor's id.
    ranks = {"email": 0, VENDOR: 2}
    return _Person(normalised, sorted(identities, key=lambda pair: ranks.get(pair[0], 1)))


def _identity_fields(connection: Connection) -> tuple[dict[str, Mapping[str, Any]], tuple[str, ...]]:
    """Return the identity fields of the project by key, and countries for phone numbers."""
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


def _refuse_erased(connection: Connection, person: _Person, date: datetime) -> None:
    """Refuse data of a person who was erased after its date."""
    marks = [(tombstones.identity_kind(kind), value) for kind, value in person.identities]
    erased = tombstones.find_buried(connection, marks).values()
    if any(instants.naive(date) <= erased_at for erased_at in erased):
        raise errors.InvalidRequest(
            f"user_data: belongs to a person who was erased after {instants.format(date)}; allowed: "
            "another person, or a later date"
        )


#: Slug of the campaign of traffic without a campaign.
_DEFAULT_SLUG: Final = "default"
_BY_ID: Final = "(_id = $value OR externalId = $value)"
#: Node type and condition by property, from the top of the tree down.
_LEVELS: Final = {
    "campaignId": ("campaign", f"({_BY_ID} OR campaignSlug IN ($value, $slug))"),
    "campaignSlug": ("campaign", "campaignSlug IN ($value, $slug)"),
    "adsetId": ("adset", _BY_ID),
    "adId": ("ad", _BY_ID),
    "keyword": ("keyword", f"({_BY_ID} OR name = $value)"),
}


def resolve_node(
    connection: Connection, integration: Integration, node_data: Mapping[str, Any], new_id: str
) -> tuple[str, bool]:
    """Follow the properties down the tree; create unknown campaigns.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Owner of the tree.
    node_data : mapping of str to object
        ``vendorId`` and the advertising properties; null means missing.
    new_id : str
        Id of a new campaign.

    Returns
    -------
    str
        The deepest matching node. Without properties the campaign with the slug ``default``; without a match
        the root of the integration.
    bool
        Whether all properties were resolved.

    Raises
    ------
    InvalidRequest
        If a property is not a valid id.
    """
    properties = {
        name: value for name, value in node_data.items() if name != "vendorId" and value is not None
    }
    texts = {name: _text(name, properties[name]) for name in _LEVELS if name in properties}
    if not properties:
        texts = {"campaignSlug": _DEFAULT_SLUG}
    node_id, matched = integration.node_id, 0
    for name, value in texts.items():
        child_id = _below(connection, node_id, name, value)
        if child_id is None and node_id == integration.node_id:
            child_id = _create_campaign(connection, integration, name, value, new_id)
        if child_id is not None:
            node_id, matched = child_id, matched + 1
    return node_id, matched == len(texts) and texts.keys() >= properties.keys()


def _below(connection: Connection, node_id: str, name: str, value: str) -> str | None:
    """Return the node that matches a property: the given node or a descendant."""
    kind, condition = _LEVELS[name]
    row = sql_results.read_row(
        connection,
        f"SELECT _id FROM nodes WHERE type = $kind AND {condition} "
        # Ids take precedence over external ids, and these over slugs.
        "AND (_id = $root OR list_contains(path, $root)) ORDER BY _id <> $value, "
        "coalesce(campaignSlug = $slug, false), len(path), _id LIMIT 1",
        {"kind": kind, "value": value, "root": node_id, "slug": identifiers.slug_of(value)},
    )
    return None if row is None else str(row[0])


def _create_campaign(
    connection: Connection, integration: Integration, name: str, value: str, new_id: str
) -> str | None:
    """Create the campaign of a campaign property and return its node; None for other properties."""
    if name not in ("campaignSlug", "campaignId"):
        return None
    # A campaign of the integration may lie outside the tree of its root.
    existing = find_campaign(connection, integration, value)
    if existing is not None:
        return existing
    slug = identifiers.slug_of(value)
    insert_campaigns(connection, integration, [{"id": new_id, "campaignSlug": slug, "name": value}])
    return new_id


def _text(name: str, value: object) -> str:
    """Return an id as text; refuse other values."""
    field = f"node_data/{name}"
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not text.strip() or len(text) > identifiers.LONGEST_CAMPAIGN:
        raise errors.InvalidRequest(
            f"{field}: {json_values.shown(value)} is not allowed; expected text of 1 to "
            f"{identifiers.LONGEST_CAMPAIGN} characters or a whole number"
        )
    return text
