"""Every operation of the service, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import (
    accounts,
    campaigns,
    event_types,
    events,
    exports,
    integrations,
    interactions,
    loading,
    nodes,
    users,
)
from attrib_ds.contract.answer import Answering
from attrib_ds.contract.operation import Operation, index_by_name

if TYPE_CHECKING:
    from attrib_ds.contract.request import Request

_PROJECT: Final = "/projects/{projectId}"
_CAMPAIGNS: Final = f"{_PROJECT}/custom-ads/{{vendorId}}/campaigns"
_OUTLAYS: Final = f"{_CAMPAIGNS}/{{parentCampaignId}}/outlays"
_EVENT: Final = f"{_PROJECT}/events/{{id}}"
_USER: Final = f"{_PROJECT}/users/{{id}}"

_POPULATION: Final = {"interactionFilter": "where", "nodeFilter": "nodes", "isBot": "bots"}
_ORDER: Final = {"order": "descending"}
#: Statuses of writing events that only the decisions know (G-136, G-140, G-175, G-187).
_INGESTION: Final = (401, 403, 413, 429, 503)


def _page(resource: str, *, echo: bool = True) -> Answering:
    return Answering("page", resource, echo)


def _array(resource: str) -> Answering:
    return Answering("array", resource)


def _record(resource: str) -> Answering:
    return Answering("record", resource)


def _get(
    name: str, title: str, path: str, request: type[Request], answer: Answering, **others: Any
) -> Operation:
    return Operation(name, title, "GET", path, request, answer, idempotent=True, **others)


OPERATIONS: Final[dict[str, Operation]] = index_by_name(
    [
        Operation(
            "search_interactions",
            "Search interactions",
            "POST",
            f"{_PROJECT}/interactions/search",
            interactions.SearchInteractions,
            _page("Interaction"),
            statuses=(200, 400, 401, 403, 429),
            also=(413,),
            idempotent=True,
            arguments=_POPULATION | {"projection": "columns"},
        ),
        _get(
            "get_interaction",
            "Get interaction by id",
            f"{_PROJECT}/interactions/{{id}}",
            interactions.GetInteraction,
            _record("Interaction"),
            statuses=(200, 400, 401, 403, 404, 429),
        ),
        _get(
            "list_hits",
            "Get hits of an interaction",
            f"{_PROJECT}/interactions/{{firstHitId}}/hits",
            interactions.ListHits,
            _array("Hit"),
            statuses=(200, 401, 403, 429),
        ),
        Operation(
            "interaction_insights",
            "Get interaction insights",
            "POST",
            f"{_PROJECT}/interactions/insights",
            interactions.InteractionInsights,
            _array("InteractionInsight"),
            statuses=(200, 400, 401, 403, 429),
            also=(413,),
            idempotent=True,
            arguments=_POPULATION | {"segmentCount": "segments"},
        ),
        Operation(
            "create_offline_interaction",
            "Create offline interaction",
            "POST",
            f"{_PROJECT}/interactions/offline",
            interactions.CreateOfflineInteraction,
            _record("Interaction"),
            success=201,
            statuses=(400, 401, 403, 429),
            also=(200, 201, 413),
        ),
        Operation(
            "create_event",
            "Create event asynchronously",
            "POST",
            "/events",
            events.CreateEvent,
            Answering("uuid"),
            statuses=(200, 400, 500),
            also=_INGESTION,
            token=False,
            idempotent=True,
        ),
        Operation(
            "create_event_sync",
            "Create event synchronously",
            "POST",
            "/events/sync",
            events.CreateEvent,
            Answering("uuid"),
            statuses=(200, 400, 409, 500),
            also=_INGESTION,
            token=False,
            idempotent=True,
        ),
        _get(
            "get_raw_event",
            "Get raw event",
            f"{_EVENT}/raw",
            events.GetEvent,
            _record("RawEvent"),
            statuses=(200, 401, 403, 404, 429),
        ),
        _get(
            "list_trashed_events",
            "Get trashed events",
            f"{_PROJECT}/trashed-events",
            events.ListTrashedEvents,
            _page("TrashedEvent", echo=False),
            statuses=(200, 400, 401, 403, 429),
        ),
        Operation(
            "event_insights",
            "Event insights",
            "POST",
            f"{_PROJECT}/events/insights",
            events.EventInsights,
            _array("EventInsight"),
            statuses=(200, 400, 401, 403, 429),
            also=(413,),
            idempotent=True,
            arguments={"filter": "event_types"},
        ),
        Operation(
            "update_event_state",
            "Update event state",
            "PUT",
            f"{_EVENT}/states/{{storageKey}}",
            events.UpdateEventState,
            _record("Metric"),
            statuses=(401, 403, 404, 429),
            also=(200, 400, 413),
            idempotent=True,
            synonyms=("PATCH", "POST"),
        ),
        Operation(
            "update_event_statistic",
            "Update event statistic",
            "PUT",
            f"{_EVENT}/statistics/{{storageKey}}",
            events.UpdateEventStatistic,
            _record("Metric"),
            statuses=(401, 403, 404, 429),
            also=(200, 400, 413),
            idempotent=True,
            synonyms=("PATCH", "POST"),
        ),
        _get(
            "get_event",
            "Get event (computed)",
            _EVENT,
            events.GetEvent,
            _record("Event"),
            statuses=(200, 401, 403, 404, 429),
        ),
        Operation(
            "search_users",
            "Search users",
            "POST",
            f"{_PROJECT}/users/search",
            users.SearchUsers,
            _page("User"),
            base="v2",
            statuses=(200, 400, 401, 403, 404, 429),
            also=(413,),
            idempotent=True,
            arguments=_ORDER | {"filters": "where", "audienceCondition": "audience", "sqlQuery": "sql"},
        ),
        _get(
            "get_user",
            "Get user by id",
            _USER,
            users.GetUser,
            _record("User"),
            statuses=(200, 400, 401, 403, 404, 429),
        ),
        Operation(
            "export_users",
            "Export users",
            "POST",
            f"{_PROJECT}/users/export",
            exports.ExportUsers,
            Answering("file"),
            statuses=(400, 401, 403, 429),
            also=(200, 413),
            idempotent=True,
            arguments={
                "filename": "path",
                "exporterDataConfig/columns": "columns",
                "exporterDataConfig/filters": "where",
                "exporterDataConfig/audience": "audience",
                "outputFormatConfig/type": "format",
                "outputFormatConfig/delimiter": "delimiter",
                "outputFormatConfig/encoding": "encoding",
                "outputFormatConfig/sanitizeFormulas": "sanitize_formulas",
                "transformerConfig": "transformers",
            },
        ),
        _get(
            "list_user_events",
            "Get events of a user",
            f"{_USER}/events",
            users.ListUserEvents,
            _page("Event"),
            statuses=(200, 401, 403, 429),
            also=(400,),
            arguments=_ORDER,
        ),
        _get(
            "list_user_metrics",
            "Get metrics of a user",
            f"{_USER}/metrics",
            users.ListUserMetrics,
            _page("Metric"),
            statuses=(200, 401, 403, 404, 429),
            also=(400,),
            arguments=_ORDER,
        ),
        _get(
            "list_event_types",
            "List event types",
            f"{_PROJECT}/event-types",
            event_types.ListEventTypes,
            _page("EventType", echo=False),
            statuses=(200, 400, 401, 403, 429),
        ),
        Operation(
            "create_event_type",
            "Create event type",
            "POST",
            f"{_PROJECT}/event-types",
            event_types.CreateEventType,
            _record("EventType"),
            success=201,
            statuses=(201, 401, 403, 429),
            also=(400, 409, 413),
        ),
        _get(
            "get_event_type",
            "Get event type",
            f"{_PROJECT}/event-types/{{id}}",
            event_types.GetEventType,
            _record("EventType"),
            statuses=(200, 401, 403, 404, 429),
        ),
        _get(
            "list_campaigns",
            "List custom campaigns",
            _CAMPAIGNS,
            campaigns.ListCampaigns,
            _page("Campaign"),
            statuses=(200, 400, 401, 403),
            also=(429,),
            arguments=_ORDER,
        ),
        Operation(
            "create_campaign",
            "Create custom campaign",
            "POST",
            _CAMPAIGNS,
            campaigns.CreateCampaign,
            Answering("id"),
            statuses=(200, 400, 401, 403, 409),
            also=(413, 429),
        ),
        _get(
            "get_campaign",
            "Get custom campaign",
            f"{_CAMPAIGNS}/{{id}}",
            campaigns.GetCampaign,
            _record("Campaign"),
            statuses=(200, 400, 401, 403, 404),
            also=(429,),
        ),
        Operation(
            "update_campaign",
            "Update custom campaign",
            "PATCH",
            f"{_CAMPAIGNS}/{{id}}",
            campaigns.UpdateCampaign,
            Answering("modified"),
            statuses=(200, 400, 401, 403),
            also=(413, 429),
            synonyms=("PUT",),
        ),
        _get(
            "list_outlays",
            "List outlays",
            _OUTLAYS,
            campaigns.ListOutlays,
            _page("Outlay"),
            statuses=(200, 400, 401, 403),
            also=(429,),
            arguments=_ORDER,
        ),
        Operation(
            "create_outlay",
            "Create outlay",
            "POST",
            _OUTLAYS,
            campaigns.CreateOutlay,
            Answering("id"),
            statuses=(200, 400, 401, 403),
            also=(413, 429),
        ),
        _get(
            "get_outlay",
            "Get outlay",
            f"{_OUTLAYS}/{{outlayId}}",
            campaigns.GetOutlay,
            _record("Outlay"),
            statuses=(200, 400, 401, 403, 404),
            also=(429,),
        ),
        Operation(
            "update_outlay",
            "Update outlay",
            "PATCH",
            f"{_OUTLAYS}/{{outlayId}}",
            campaigns.UpdateOutlay,
            Answering("modified"),
            statuses=(200, 400, 401, 403, 404),
            also=(413, 429),
            synonyms=("PUT",),
        ),
        Operation(
            "exchange_token",
            "Token exchange",
            "POST",
            "/oidc/token",
            accounts.ExchangeToken,
            Answering("token"),
            base="auth",
            also=(200, 400, 401),
            token=False,
            idempotent=True,
        ),
        _get(
            "list_nodes",
            "List nodes",
            f"{_PROJECT}/nodes",
            nodes.ListNodes,
            _page("Node"),
            also=(200, 400, 401, 403, 429),
            extension=True,
        ),
        _get(
            "get_node",
            "Get node",
            f"{_PROJECT}/nodes/{{id}}",
            nodes.GetNode,
            _record("Node"),
            also=(200, 401, 403, 404, 429),
            extension=True,
        ),
        Operation(
            "create_integration",
            "Create integration",
            "",
            "",
            integrations.CreateIntegration,
            Answering("id"),
            base="embedded",
            extension=True,
        ),
        Operation(
            "list_integrations",
            "List integrations",
            "",
            "",
            integrations.ListIntegrations,
            _array("Integration"),
            base="embedded",
            idempotent=True,
            extension=True,
        ),
        Operation(
            "load_records",
            "Load records",
            "",
            "",
            loading.LoadRecords,
            Answering("counts"),
            base="embedded",
            extension=True,
        ),
    ]
)
