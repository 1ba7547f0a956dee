"""Every operation of the service, declared once."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from attrib_ds.contract import administration, campaigns, events, interactions, users
from attrib_ds.contract.operation import Answering, Base, Operation, snake_case
from attrib_ds.contract.request import Request

_PROJECT: Final = "/projects/{projectId}"

_CAMPAIGNS: Final = "custom-ads/{vendorId}/campaigns"
_OUTLAYS: Final = f"{_CAMPAIGNS}/{{parentCampaignId}}/outlays"
_OUTLAY: Final = f"{_OUTLAYS}/{{outlayId}}"
#: Arguments of the public functions that are named otherwise than the attribute.
_ARGUMENTS: Final = {
    "audienceCondition": "audience",
    "exporterDataConfig/audience": "audience",
    "exporterDataConfig/columns": "columns",
    "exporterDataConfig/filters": "where",
    "filename": "path",
    "filter": "event_type",
    "filters": "where",
    "firstDay": "since",
    "group": "group_by",
    "interactionFilter": "where",
    "isBot": "bots",
    "lastDay": "until",
    "nodeFilter": "nodes",
    "outputFormatConfig/delimiter": "delimiter",
    "outputFormatConfig/encoding": "encoding",
    "outputFormatConfig/sanitizeFormulas": "sanitize_formulas",
    "outputFormatConfig/type": "format",
    "parentCampaignId": "campaign_id",
    "projection": "columns",
    "segmentCount": "segments",
    "sqlQuery": "sql",
    "transformerConfig": "transformers",
}
_BY_REFERENCE: Final[dict[str, Any]] = {"arguments": {"id": "reference"}}
#: A repeated update could overwrite a later one.
_METRIC: Final[dict[str, Any]] = {"also": (400,), "synonyms": ("PATCH", "POST"), "idempotent": False}
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


_page, _array, _record = (partial(Answering, kind) for kind in ("page", "array", "record"))
_UUID, _ID, _MODIFIED, _FILE = map(Answering, ("uuid", "id", "modified", "file"))
_COUNTS, _OBJECT = Answering("counts"), Answering("object")


def _operation(
    method: str,
    path: str,
    request: type[Request],
    answer: Answering,
    *,
    name: str = "",
    base: Base = "v1",
    success: int = 200,
    also: tuple[int, ...] = (),
    idempotent: bool | None = None,
    arguments: Mapping[str, str] | None = None,
    **others: Any,
) -> Operation:
    """Declare an operation, with the name of its request, and the title and statuses of most of its kind."""
    name = name or snake_case(request.__name__)
    title, listed = _SPECIFIED.get(name, (_TITLES.get(name, name.replace("_", " ").capitalize()), ()))
    usual = {success, 401}
    if base in ("v1", "v2"):
        usual |= {403, 429} if method in ("GET", "DELETE") else {403, 413, 429}
    renamed = {at: name for at, name in _ARGUMENTS.items() if at.partition("/")[0] in request.model_fields}
    return Operation(
        name,
        title,
        method,
        path if path.startswith("/") or not path else f"{_PROJECT}/{path}",
        request,
        answer,
        base=base,
        success=success,
        statuses=listed,
        also=tuple(sorted({*usual, *also} - {*listed})) if path else (),
        # What only reads or replaces can be repeated.
        idempotent=method in ("GET", "PUT") if idempotent is None else idempotent,
        extension=name not in _SPECIFIED,
        arguments={**renamed, **(arguments or {})},
        **others,
    )


_get, _post, _patch, _put = (partial(_operation, method) for method in ("GET", "POST", "PATCH", "PUT"))
#: A POST that may be sent again.
_repeat = partial(_post, idempotent=True)


def _delete(path: str, request: type[Request], **others: Any) -> Operation:
    return _operation("DELETE", path, request, _MODIFIED, **others)


def _embedded(request: type[Request], answer: Answering, *, idempotent: bool = True) -> Operation:
    """Declare an operation that only the embedded service has."""
    return _operation("", "", request, answer, base="embedded", idempotent=idempotent)


_OPERATIONS: Final = [
    _repeat("interactions/search", interactions.SearchInteractions, _page("Interaction")),
    _get("interactions/{id}", interactions.GetInteraction, _record("Interaction")),
    _get("interactions/{firstHitId}/hits", interactions.ListHits, _array("Hit")),
    _repeat("interactions/insights", interactions.InteractionInsights, _array("InteractionInsight")),
    _post(
        "interactions/offline",
        interactions.CreateOfflineInteraction,
        _record("Interaction"),
        success=201,
        also=(200,),
    ),
    _post("/events", events.CreateEvent, _UUID, **_INGESTION),
    _post("/events/sync", events.CreateEvent, _UUID, name="create_event_sync", **_INGESTION),
    _get("events/{id}/raw", events.GetEvent, _record("RawEvent"), name="get_raw_event"),
    _get("trashed-events", events.ListTrashedEvents, _page("TrashedEvent", echo=False)),
    _repeat("events/insights", events.EventInsights, _array("EventInsight")),
    _put("events/{id}/states/{storageKey}", events.UpdateEventState, _record("Metric"), **_METRIC),
    _put("events/{id}/statistics/{storageKey}", events.UpdateEventStatistic, _record("Metric"), **_METRIC),
    _get("events/{id}", events.GetEvent, _record("Event")),
    _repeat("users/search", users.SearchUsers, _page("User"), base="v2", arguments={"fields": "columns"}),
    _get("users/{id}", users.GetUser, _record("User")),
    # 404: an unknown audience, as in a search.
    _repeat("users/export", users.ExportUsers, _FILE, also=(404,)),
    _get("users/{id}/events", users.ListUserEvents, _page("Event"), also=(400,)),
    _get("users/{id}/metrics", users.ListUserMetrics, _page("Metric"), also=(400,)),
    _get("event-types", events.ListEventTypes, _page("EventType", echo=False)),
    _post("event-types", events.CreateEventType, _record("EventType"), success=201, also=(400, 409)),
    _get("event-types/{id}", events.GetEventType, _record("EventType"), **_BY_REFERENCE),
    _get(_CAMPAIGNS, campaigns.ListCampaigns, _page("Campaign")),
    _post(_CAMPAIGNS, campaigns.CreateCampaign, _ID),
    _get(f"{_CAMPAIGNS}/{{id}}", campaigns.GetCampaign, _record("Campaign")),
    _patch(f"{_CAMPAIGNS}/{{id}}", campaigns.UpdateCampaign, _MODIFIED, synonyms=("PUT",)),
    _get(_OUTLAYS, campaigns.ListOutlays, _page("Outlay")),
    _post(_OUTLAYS, campaigns.CreateOutlay, _ID),
    _get(_OUTLAY, campaigns.GetOutlay, _record("Outlay")),
    _patch(
        _OUTLAY,
        campaigns.UpdateOutlay,
        _MODIFIED,
        synonyms=("PUT",),
        arguments={"campaignId": "new_campaign_id"},
    ),
    _repeat(
        "/oidc/token", administration.ExchangeToken, Answering("token"), base="auth", also=(400,), token=False
    ),
    # Extensions.
    _repeat("events/search", users.SearchEvents, _page("Event"), arguments={"filter": "event_type"}),
    _repeat("pages/insights", interactions.PageInsights, _array("PageInsight")),
    _repeat("pages/funnel", interactions.Funnel, _array("FunnelStep")),
    _repeat(
        "pages/conversions",
        interactions.PageConversions,
        _array("PageConversion"),
        arguments={"page": "conversion_page"},
    ),
    _get("nodes", interactions.ListNodes, _page("Node")),
    _get("nodes/{id}", interactions.GetNode, _record("Node")),
    _get("check", administration.CheckProject, _array("Finding")),
    _repeat("check", administration.RepairProject, _array("Finding"), also=(503,)),
    _get("backup", administration.BackUpProject, _FILE, also=(503,)),
    _repeat("compact", administration.CompactProject, _COUNTS, also=(503,)),
    _put("backup", administration.RestoreProject, _COUNTS, also=(503,), upload="source"),
    _get("audit", administration.ListAudit, _page("AuditLine")),
    _get("keys", administration.ListKeys, _array("Key")),
    # The public key identifies the request.
    _repeat("keys", administration.CreateKey, _record("Key"), success=201, also=(200, 409)),
    _delete("keys/{keyId}", administration.RevokeKey, idempotent=True),
    _post("audiences", users.CreateAudience, _record("Audience"), success=201),
    _get("audiences", users.ListAudiences, _page("Audience")),
    _get("audiences/{id}", users.GetAudience, _record("Audience")),
    _delete("audiences/{id}", users.DeleteAudience, also=(409,)),
    _post(
        "/events/batch",
        events.CreateEvents,
        Answering("outcomes"),
        body="events",
        **_INGESTION | {"also": (400, 500, 503)},
    ),
    _post("/events/validate", events.ValidateEvent, Answering("errors"), **_INGESTION | {"also": (400, 503)}),
    _repeat("trashed-events/{id}/replay", events.ReplayEvent, _UUID, also=(500,)),
    _patch(
        "event-types/{id}",
        events.UpdateEventType,
        _record("EventType"),
        also=(409,),
        idempotent=True,
        **_BY_REFERENCE,
    ),
    _repeat("event-types/{id}/archive", events.ArchiveEventType, _record("EventType"), **_BY_REFERENCE),
    _repeat("event-types/{id}/restore", events.RestoreEventType, _record("EventType"), **_BY_REFERENCE),
    _delete(_OUTLAY, campaigns.DeleteOutlay, idempotent=True),
    _get("settings", administration.GetSettings, _record("Settings")),
    _patch("settings", administration.UpdateSettings, _record("Settings"), idempotent=True),
    _get("integrations", campaigns.ListIntegrations, _array("Integration")),
    _post("integrations", campaigns.CreateIntegration, _ID, also=(409,)),
    # The client draws the id of a portion, which is loaded once.
    _put("hits/{portionId}", administration.SendHits, _OBJECT, also=(503,), upload="source"),
    _get("collector", administration.GetCollector, _OBJECT),
    _get("holdouts", administration.ListHoldouts, _array("Holdout")),
    _put("holdouts/{holdout}", administration.CreateHoldout, _record("Holdout"), also=(409,)),
    _delete("holdouts/{holdout}", administration.DeleteHoldout),
    _get("rates", campaigns.ListRates, _page("Rate")),
    _put("rates", campaigns.SetRates, _MODIFIED, body="rates"),
    _post("users/{id}/merge", users.MergeUsers, _MODIFIED),
    _post("users/{id}/split", users.SplitUser, _MODIFIED, also=(409,)),
    _operation("DELETE", "users/{id}", users.DeleteUser, _OBJECT),
    _get("users/{id}/data-export", users.ExportUserData, _OBJECT),
    _embedded(users.AnonymiseExpired, _MODIFIED),
    _embedded(administration.LoadRecords, _COUNTS, idempotent=False),
    _embedded(administration.BeginMirror, _OBJECT),
    _embedded(administration.KeepMirror, _OBJECT),
    _embedded(administration.MirrorRecords, _MODIFIED),
]
OPERATIONS: Final = {operation.name: operation for operation in _OPERATIONS}
