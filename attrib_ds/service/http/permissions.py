"""Which scope each operation needs (G-174)."""

from __future__ import annotations

from typing import Final

#: Scope by name of the operation; those without a token by nature are not here.
NEEDED: Final[dict[str, str]] = {
    "search_interactions": "interactions:read",
    "get_interaction": "interactions:read",
    "list_hits": "interactions:read",
    "interaction_insights": "interactions:read",
    "create_offline_interaction": "interactions:write",
    "create_event": "events:write",
    "create_event_sync": "events:write",
    "create_events": "events:write",
    "validate_event": "events:write",
    "replay_event": "events:write",
    "get_raw_event": "events:read",
    "list_trashed_events": "events:read",
    "event_insights": "events:read",
    "update_event_state": "events:write",
    "update_event_statistic": "events:write",
    "get_event": "events:read",
    "search_users": "users:read",
    "get_user": "users:read",
    "export_users": "users:export",
    "list_user_events": "users:read",
    "list_user_metrics": "users:read",
    "list_event_types": "event-types:read",
    "create_event_type": "event-types:write",
    "get_event_type": "event-types:read",
    "update_event_type": "event-types:write",
    "archive_event_type": "event-types:write",
    "restore_event_type": "event-types:write",
    "list_campaigns": "campaigns:read",
    "create_campaign": "campaigns:write",
    "get_campaign": "campaigns:read",
    "update_campaign": "campaigns:write",
    "list_outlays": "campaigns:read",
    "create_outlay": "campaigns:write",
    "get_outlay": "campaigns:read",
    "update_outlay": "campaigns:write",
    "delete_outlay": "campaigns:write",
    "get_settings": "admin",
    "update_settings": "admin",
    "list_rates": "admin",
    "set_rates": "admin",
    "list_nodes": "interactions:read",
    "get_node": "interactions:read",
    "create_audience": "users:write",
    "list_audiences": "users:read",
    "get_audience": "users:read",
    "delete_audience": "users:write",
    "merge_users": "users:write",
    "split_user": "users:write",
    "delete_user": "privacy:write",
    "export_user_data": "privacy:write",
    "list_audit": "admin",
    "check_project": "admin",
    "back_up_project": "admin",
    "restore_project": "admin",
}
#: Needed, beside that of the operation, for a search by SQL.
SQL: Final = "users:sql"
#: Operations that count as heavy whatever they are asked (G-185).
HEAVY: Final = frozenset(
    {"back_up_project", "check_project", "interaction_insights", "event_insights", "export_users"}
)
#: Operations that are heavy without a limit.
HEAVY_UNLIMITED: Final = frozenset({"search_interactions", "search_users"})
#: Operations whose project is named in the body.
EVENTS: Final = frozenset({"create_event", "create_event_sync", "create_events", "validate_event"})
