"""Every operation of the service, declared once."""

from __future__ import annotations

from typing import Any, Final

from attrib_ds.contract import administration, campaigns, events, interactions, users
from attrib_ds.contract.operation import Answering, Base, Operation
from attrib_ds.contract.request import Request

_PROJECT: Final = "/projects/{projectId}"
_CAMPAIGNS: Final = f"{_PROJECT}/custom-ads/{{vendorId}}/campaigns"
_CAMPAIGN: Final = f"{_CAMPAIGNS}/{{id}}"
_OUTLAYS: Final = f"{_CAMPAIGNS}/{{parentCampaignId}}/outlays"
_OUTLAY: Final = f"{_OUTLAYS}/{{outlayId}}"
_INTERACTIONS: Final = f"{_PROJECT}/interactions"
_NODES: Final = f"{_PROJECT}/nodes"
_EVENT: Final = f"{_PROJECT}/events/{{id}}"
_TRASH: Final = f"{_PROJECT}/trashed-events"
_EVENT_TYPES: Final = f"{_PROJECT}/event-types"
_EVENT_TYPE: Final = f"{_EVENT_TYPES}/{{id}}"
_USERS: Final = f"{_PROJECT}/users"
_USER: Final = f"{_USERS}/{{id}}"
_AUDIENCES: Final = f"{_PROJECT}/audiences"
_AUDIENCE: Final = f"{_AUDIENCES}/{{id}}"
_HOLDOUTS: Final = f"{_PROJECT}/holdouts"
_HOLDOUT: Final = f"{_HOLDOUTS}/{{holdout}}"
_KEYS: Final = f"{_PROJECT}/keys"
_RATES: Final = f"{_PROJECT}/rates"
_SETTINGS: Final = f"{_PROJECT}/settings"
_BACKUP: Final = f"{_PROJECT}/backup"

_POPULATION: Final = {"interactionFilter": "where", "nodeFilter": "nodes", "isBot": "bots"}
_OF_CAMPAIGN: Final = {"parentCampaignId": "campaign_id"}
_BY_REFERENCE: Final = {"id": "reference"}
_EXPORT: Final = {
    "filename": "path",
    "exporterDataConfig/columns": "columns",
    "exporterDataConfig/filters": "where",
    "exporterDataConfig/audience": "audience",
    "outputFormatConfig/type": "format",
    "outputFormatConfig/delimiter": "delimiter",
    "outputFormatConfig/encoding": "encoding",
    "outputFormatConfig/sanitizeFormulas": "sanitize_formulas",
    "transformerConfig": "transformers",
}
_USER_SEARCH: Final = {
    "fields": "columns",
    "filters": "where",
    "audienceCondition": "audience",
    "sqlQuery": "sql",
}

#: Events may come without a token; a full queue answers 503.
_INGESTION: Final[dict[str, Any]] = {"also": (503,), "token": False, "idempotent": True}

#: Title and statuses of the operations that the specification has; all others are extensions.
_SPECIFIED: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "search_interactions": ("Search interactions", (200, 400, 401, 403, 429)),
    "get_interaction": ("Get interaction by id", (200, 400, 401, 403, 404, 429)),
    "list_hits": ("Get hits of an interaction", (200, 401, 403, 429)),
    "interaction_insights": ("Get interaction insights", (200, 400, 401, 403, 429)),
    "create_offline_interaction": ("Create offline interaction", (400, 401, 403, 429)),
    "create_event": ("Create event asynchronously", (200, 400, 500)),
    "create_event_sync": ("Create event synchronously", (200, 400, 409, 500)),
    "get_raw_event": ("Get raw event", (200, 401, 403, 404, 429)),
    "list_trashed_events": ("Get trashed events", (200, 400, 401, 403, 429)),
    "event_insights": ("Event insights", (200, 400, 401, 403, 429)),
    "update_event_state": ("Update event state", (401, 403, 404, 429)),
    "update_event_statistic": ("Update event statistic", (401, 403, 404, 429)),
    "get_event": ("Get event (computed)", (200, 401, 403, 404, 429)),
    "search_users": ("Search users", (200, 400, 401, 403, 404, 429)),
    "get_user": ("Get user by id", (200, 400, 401, 403, 404, 429)),
    "export_users": ("Export users", (400, 401, 403, 429)),
    "list_user_events": ("Get events of a user", (200, 401, 403, 429)),
    "list_user_metrics": ("Get metrics of a user", (200, 401, 403, 404, 429)),
    "list_event_types": ("List event types", (200, 400, 401, 403, 429)),
    "create_event_type": ("Create event type", (201, 401, 403, 429)),
    "get_event_type": ("Get event type", (200, 401, 403, 404, 429)),
    "list_campaigns": ("List custom campaigns", (200, 400, 401, 403)),
    "create_campaign": ("Create custom campaign", (200, 400, 401, 403, 409)),
    "get_campaign": ("Get custom campaign", (200, 400, 401, 403, 404)),
    "update_campaign": ("Update custom campaign", (200, 400, 401, 403)),
    "list_outlays": ("List outlays", (200, 400, 401, 403)),
    "create_outlay": ("Create outlay", (200, 400, 401, 403)),
    "get_outlay": ("Get outlay", (200, 400, 401, 403, 404)),
    "update_outlay": ("Update outlay", (200, 400, 401, 403, 404)),
    "exchange_token": ("Token exchange", ()),
}
#: Titles of extensions that say more than their name.
_TITLES: Final = {
    "list_audit": "List audit log",
    "replay_event": "Replay trashed event",
    "export_user_data": "Export data of a user",
    "anonymise_expired": "Anonymise expired events",
    "keep_mirror": "Keep progress of mirror",
}


def _page(resource: str, *, echo: bool = True) -> Answering:
    return Answering("page", resource, echo)


def _array(resource: str) -> Answering:
    return Answering("array", resource)


def _record(resource: str) -> Answering:
    return Answering("record", resource)


_UUID: Final = Answering("uuid")
_ID: Final = Answering("id")
_MODIFIED: Final = Answering("modified")
_FILE: Final = Answering("file")
_COUNTS: Final = Answering("counts")
_OBJECT: Final = Answering("object")


def _operation(
    name: str,
    method: str,
    path: str,
    request: type[Request],
    answer: Answering,
    *,
    base: Base = "v1",
    success: int = 200,
    also: tuple[int, ...] = (),
    idempotent: bool | None = None,
    **others: Any,
) -> Operation:
    """Declare an operation, with the title and statuses that most of its kind have."""
    title, listed = _SPECIFIED.get(name, (_TITLES.get(name, name.replace("_", " ").capitalize()), ()))
    usual = {success, 401}
    if base in ("v1", "v2"):
        usual |= {403, 429} if method in ("GET", "DELETE") else {403, 413, 429}
    return Operation(
        name,
        title,
        method,
        path,
        request,
        answer,
        base=base,
        success=success,
        statuses=listed,
        also=tuple(sorted({*usual, *also} - {*listed})) if path else (),
        # What only reads or replaces can be repeated.
        idempotent=method in ("GET", "PUT") if idempotent is None else idempotent,
        extension=name not in _SPECIFIED,
        **others,
    )


def _get(name: str, path: str, request: type[Request], answer: Answering, **others: Any) -> Operation:
    return _operation(name, "GET", path, request, answer, **others)


def _post(name: str, path: str, request: type[Request], answer: Answering, **others: Any) -> Operation:
    return _operation(name, "POST", path, request, answer, **others)


def _patch(name: str, path: str, request: type[Request], answer: Answering, **others: Any) -> Operation:
    return _operation(name, "PATCH", path, request, answer, **others)


def _put(name: str, path: str, request: type[Request], answer: Answering, **others: Any) -> Operation:
    return _operation(name, "PUT", path, request, answer, **others)


def _delete(name: str, path: str, request: type[Request], **others: Any) -> Operation:
    return _operation(name, "DELETE", path, request, _MODIFIED, **others)


def _embedded(name: str, request: type[Request], answer: Answering, *, idempotent: bool = True) -> Operation:
    """Declare an operation that only the embedded service has."""
    return _operation(name, "", "", request, answer, base="embedded", idempotent=idempotent)


_OPERATIONS: Final = [
    _post(
        "search_interactions",
        f"{_INTERACTIONS}/search",
        interactions.SearchInteractions,
        _page("Interaction"),
        idempotent=True,
        arguments=_POPULATION | {"projection": "columns"},
    ),
    _get("get_interaction", f"{_INTERACTIONS}/{{id}}", interactions.GetInteraction, _record("Interaction")),
    _get("list_hits", f"{_INTERACTIONS}/{{firstHitId}}/hits", interactions.ListHits, _array("Hit")),
    _post(
        "interaction_insights",
        f"{_INTERACTIONS}/insights",
        interactions.InteractionInsights,
        _array("InteractionInsight"),
        idempotent=True,
        arguments=_POPULATION | {"group": "group_by", "segmentCount": "segments"},
    ),
    _post(
        "create_offline_interaction",
        f"{_INTERACTIONS}/offline",
        interactions.CreateOfflineInteraction,
        _record("Interaction"),
        success=201,
        also=(200,),
    ),
    _post("create_event", "/events", events.CreateEvent, _UUID, **_INGESTION),
    _post("create_event_sync", "/events/sync", events.CreateEvent, _UUID, **_INGESTION),
    _get("get_raw_event", f"{_EVENT}/raw", events.GetEvent, _record("RawEvent")),
    _get("list_trashed_events", _TRASH, events.ListTrashedEvents, _page("TrashedEvent", echo=False)),
    _post(
        "event_insights",
        f"{_PROJECT}/events/insights",
        events.EventInsights,
        _array("EventInsight"),
        idempotent=True,
        arguments={"filter": "event_type"},
    ),
    _put(
        "update_event_state",
        f"{_EVENT}/states/{{storageKey}}",
        events.UpdateEventState,
        _record("Metric"),
        also=(400,),
        synonyms=("PATCH", "POST"),
    ),
    _put(
        "update_event_statistic",
        f"{_EVENT}/statistics/{{storageKey}}",
        events.UpdateEventStatistic,
        _record("Metric"),
        also=(400,),
        synonyms=("PATCH", "POST"),
    ),
    _get("get_event", _EVENT, events.GetEvent, _record("Event")),
    _post(
        "search_users",
        f"{_USERS}/search",
        users.SearchUsers,
        _page("User"),
        base="v2",
        idempotent=True,
        arguments=_USER_SEARCH,
    ),
    _get("get_user", _USER, users.GetUser, _record("User")),
    # 404: an unknown audience, as in a search.
    _post(
        "export_users",
        f"{_USERS}/export",
        users.ExportUsers,
        _FILE,
        also=(404,),
        idempotent=True,
        arguments=_EXPORT,
    ),
    _get("list_user_events", f"{_USER}/events", users.ListUserEvents, _page("Event"), also=(400,)),
    _get("list_user_metrics", f"{_USER}/metrics", users.ListUserMetrics, _page("Metric"), also=(400,)),
    _get("list_event_types", _EVENT_TYPES, events.ListEventTypes, _page("EventType", echo=False)),
    _post(
        "create_event_type",
        _EVENT_TYPES,
        events.CreateEventType,
        _record("EventType"),
        success=201,
        also=(400, 409),
    ),
    _get("get_event_type", _EVENT_TYPE, events.GetEventType, _record("EventType"), arguments=_BY_REFERENCE),
    _get("list_campaigns", _CAMPAIGNS, campaigns.ListCampaigns, _page("Campaign")),
    _post("create_campaign", _CAMPAIGNS, campaigns.CreateCampaign, _ID),
    _get("get_campaign", _CAMPAIGN, campaigns.GetCampaign, _record("Campaign")),
    _patch("update_campaign", _CAMPAIGN, campaigns.UpdateCampaign, _MODIFIED, synonyms=("PUT",)),
    _get("list_outlays", _OUTLAYS, campaigns.ListOutlays, _page("Outlay"), arguments=_OF_CAMPAIGN),
    _post("create_outlay", _OUTLAYS, campaigns.CreateOutlay, _ID, arguments=_OF_CAMPAIGN),
    _get("get_outlay", _OUTLAY, campaigns.GetOutlay, _record("Outlay"), arguments=_OF_CAMPAIGN),
    _patch(
        "update_outlay",
        _OUTLAY,
        campaigns.UpdateOutlay,
        _MODIFIED,
        synonyms=("PUT",),
        arguments=_OF_CAMPAIGN | {"campaignId": "new_campaign_id"},
    ),
    _post(
        "exchange_token",
        "/oidc/token",
        administration.ExchangeToken,
        Answering("token"),
        base="auth",
        also=(400,),
        token=False,
        idempotent=True,
    ),
    # Extensions.
    _get("list_nodes", _NODES, interactions.ListNodes, _page("Node")),
    _get("get_node", f"{_NODES}/{{id}}", interactions.GetNode, _record("Node")),
    _get("check_project", f"{_PROJECT}/check", administration.CheckProject, _array("Finding")),
    _get("back_up_project", _BACKUP, administration.BackUpProject, _FILE, also=(503,)),
    _put(
        "restore_project",
        _BACKUP,
        administration.RestoreProject,
        _COUNTS,
        also=(503,),
        upload="source",
    ),
    _get("list_audit", f"{_PROJECT}/audit", administration.ListAudit, _page("AuditLine")),
    _get("list_keys", _KEYS, administration.ListKeys, _array("Key")),
    # The public key identifies the request.
    _post(
        "create_key",
        _KEYS,
        administration.CreateKey,
        _record("Key"),
        success=201,
        also=(200, 409),
        idempotent=True,
    ),
    _delete("revoke_key", f"{_KEYS}/{{keyId}}", administration.RevokeKey, idempotent=True),
    _post("create_audience", _AUDIENCES, users.CreateAudience, _record("Audience"), success=201),
    _get("list_audiences", _AUDIENCES, users.ListAudiences, _page("Audience")),
    _get("get_audience", _AUDIENCE, users.GetAudience, _record("Audience")),
    _delete("delete_audience", _AUDIENCE, users.DeleteAudience, also=(409,)),
    _post(
        "create_events",
        "/events/batch",
        events.CreateEvents,
        Answering("outcomes"),
        body="events",
        **_INGESTION | {"also": (400, 500, 503)},
    ),
    _post(
        "validate_event",
        "/events/validate",
        events.ValidateEvent,
        Answering("errors"),
        **_INGESTION | {"also": (400, 503)},
    ),
    _post("replay_event", f"{_TRASH}/{{id}}/replay", events.ReplayEvent, _UUID, also=(500,), idempotent=True),
    _patch(
        "update_event_type",
        _EVENT_TYPE,
        events.UpdateEventType,
        _record("EventType"),
        also=(409,),
        idempotent=True,
        arguments=_BY_REFERENCE,
    ),
    _post(
        "archive_event_type",
        f"{_EVENT_TYPE}/archive",
        events.ArchiveEventType,
        _record("EventType"),
        idempotent=True,
        arguments=_BY_REFERENCE,
    ),
    _post(
        "restore_event_type",
        f"{_EVENT_TYPE}/restore",
        events.RestoreEventType,
        _record("EventType"),
        idempotent=True,
        arguments=_BY_REFERENCE,
    ),
    _delete("delete_outlay", _OUTLAY, campaigns.DeleteOutlay, idempotent=True, arguments=_OF_CAMPAIGN),
    _get("get_settings", _SETTINGS, administration.GetSettings, _record("Settings")),
    _patch("update_settings", _SETTINGS, administration.UpdateSettings, _record("Settings"), idempotent=True),
    _get("list_holdouts", _HOLDOUTS, administration.ListHoldouts, _array("Holdout")),
    _put(
        "create_holdout",
        _HOLDOUT,
        administration.CreateHoldout,
        _record("Holdout"),
        also=(409,),
        arguments={"firstDay": "since", "lastDay": "until"},
    ),
    _delete("delete_holdout", _HOLDOUT, administration.DeleteHoldout),
    _get("list_rates", _RATES, campaigns.ListRates, _page("Rate")),
    _put("set_rates", _RATES, campaigns.SetRates, _MODIFIED, body="rates"),
    _post("merge_users", f"{_USER}/merge", users.MergeUsers, _MODIFIED),
    _post("split_user", f"{_USER}/split", users.SplitUser, _MODIFIED, also=(409,)),
    _delete("delete_user", _USER, users.DeleteUser),
    _get("export_user_data", f"{_USER}/data-export", users.ExportUserData, _OBJECT),
    _embedded("anonymise_expired", users.AnonymiseExpired, _MODIFIED),
    _embedded("create_integration", campaigns.CreateIntegration, _ID, idempotent=False),
    _embedded("list_integrations", campaigns.ListIntegrations, _array("Integration")),
    _embedded("load_records", administration.LoadRecords, _COUNTS, idempotent=False),
    _embedded("begin_mirror", administration.BeginMirror, _OBJECT),
    _embedded("keep_mirror", administration.KeepMirror, _OBJECT),
    _embedded("mirror_records", administration.MirrorRecords, _MODIFIED),
]
OPERATIONS: Final = {operation.name: operation for operation in _OPERATIONS}
