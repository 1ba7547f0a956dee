"""The operations against the tables of the specification and the decisions, written out by hand."""

import dataclasses

from attrib_ds.contract import OPERATIONS
from attrib_ds.schema import RESOURCES

CAMPAIGNS = "/projects/{projectId}/custom-ads/{vendorId}/campaigns"
OUTLAYS = "/projects/{projectId}/custom-ads/{vendorId}/campaigns/{parentCampaignId}/outlays"
#: The endpoint table of the specification and G-001 to G-030: title, method, base, path, success.
ROWS = [
    ("Search interactions", "POST", "v1", "/projects/{projectId}/interactions/search", 200),
    ("Get interaction by id", "GET", "v1", "/projects/{projectId}/interactions/{id}", 200),
    ("Get hits of an interaction", "GET", "v1", "/projects/{projectId}/interactions/{firstHitId}/hits", 200),
    ("Get interaction insights", "POST", "v1", "/projects/{projectId}/interactions/insights", 200),
    ("Create offline interaction", "POST", "v1", "/projects/{projectId}/interactions/offline", 201),
    ("Create event asynchronously", "POST", "v1", "/events", 200),
    ("Create event synchronously", "POST", "v1", "/events/sync", 200),
    ("Get raw event", "GET", "v1", "/projects/{projectId}/events/{id}/raw", 200),
    ("Get trashed events", "GET", "v1", "/projects/{projectId}/trashed-events", 200),
    ("Event insights", "POST", "v1", "/projects/{projectId}/events/insights", 200),
    ("Update event state", "PUT", "v1", "/projects/{projectId}/events/{id}/states/{storageKey}", 200),
    ("Update event statistic", "PUT", "v1", "/projects/{projectId}/events/{id}/statistics/{storageKey}", 200),
    ("Get event (computed)", "GET", "v1", "/projects/{projectId}/events/{id}", 200),
    ("Search users", "POST", "v2", "/projects/{projectId}/users/search", 200),
    ("Get user by id", "GET", "v1", "/projects/{projectId}/users/{id}", 200),
    ("Export users", "POST", "v1", "/projects/{projectId}/users/export", 200),
    ("Get events of a user", "GET", "v1", "/projects/{projectId}/users/{id}/events", 200),
    ("Get metrics of a user", "GET", "v1", "/projects/{projectId}/users/{id}/metrics", 200),
    ("List event types", "GET", "v1", "/projects/{projectId}/event-types", 200),
    ("Create event type", "POST", "v1", "/projects/{projectId}/event-types", 201),
    ("Get event type", "GET", "v1", "/projects/{projectId}/event-types/{id}", 200),
    ("List custom campaigns", "GET", "v1", CAMPAIGNS, 200),
    ("Create custom campaign", "POST", "v1", CAMPAIGNS, 200),
    ("Get custom campaign", "GET", "v1", f"{CAMPAIGNS}/{{id}}", 200),
    ("Update custom campaign", "PATCH", "v1", f"{CAMPAIGNS}/{{id}}", 200),
    ("List outlays", "GET", "v1", OUTLAYS, 200),
    ("Create outlay", "POST", "v1", OUTLAYS, 200),
    ("Get outlay", "GET", "v1", f"{OUTLAYS}/{{outlayId}}", 200),
    ("Update outlay", "PATCH", "v1", f"{OUTLAYS}/{{outlayId}}", 200),
    ("Token exchange", "POST", "auth", "/oidc/token", 200),
]

#: The statuses that the specification lists for each operation; none for the token exchange.
LISTED = {
    "search_interactions": (200, 400, 401, 403, 429),
    "get_interaction": (200, 400, 401, 403, 404, 429),
    "list_hits": (200, 401, 403, 429),
    "interaction_insights": (200, 400, 401, 403, 429),
    "create_offline_interaction": (400, 401, 403, 429),
    "create_event": (200, 400, 500),
    "create_event_sync": (200, 400, 409, 500),
    "get_raw_event": (200, 401, 403, 404, 429),
    "list_trashed_events": (200, 400, 401, 403, 429),
    "event_insights": (200, 400, 401, 403, 429),
    "update_event_state": (401, 403, 404, 429),
    "update_event_statistic": (401, 403, 404, 429),
    "get_event": (200, 401, 403, 404, 429),
    "search_users": (200, 400, 401, 403, 404, 429),
    "get_user": (200, 400, 401, 403, 404, 429),
    "export_users": (400, 401, 403, 429),
    "list_user_events": (200, 401, 403, 429),
    "list_user_metrics": (200, 401, 403, 404, 429),
    "list_event_types": (200, 400, 401, 403, 429),
    "create_event_type": (201, 401, 403, 429),
    "get_event_type": (200, 401, 403, 404, 429),
    "list_campaigns": (200, 400, 401, 403),
    "create_campaign": (200, 400, 401, 403, 409),
    "get_campaign": (200, 400, 401, 403, 404),
    "update_campaign": (200, 400, 401, 403),
    "list_outlays": (200, 400, 401, 403),
    "create_outlay": (200, 400, 401, 403),
    "get_outlay": (200, 400, 401, 403, 404),
    "update_outlay": (200, 400, 401, 403, 404),
    "exchange_token": (),
}

#: What each operation answers: kind, resource, and whether a page echoes offset and limit.
ANSWERS = {
    "search_interactions": ("page", "Interaction", True),
    "get_interaction": ("record", "Interaction", True),
    "list_hits": ("array", "Hit", True),
    "interaction_insights": ("array", "InteractionInsight", True),
    "create_offline_interaction": ("record", "Interaction", True),
    "create_event": ("uuid", None, True),
    "create_event_sync": ("uuid", None, True),
    "get_raw_event": ("record", "RawEvent", True),
    "list_trashed_events": ("page", "TrashedEvent", False),
    "event_insights": ("array", "EventInsight", True),
    "update_event_state": ("record", "Metric", True),
    "update_event_statistic": ("record", "Metric", True),
    "get_event": ("record", "Event", True),
    "search_users": ("page", "User", True),
    "get_user": ("record", "User", True),
    "export_users": ("file", None, True),
    "list_user_events": ("page", "Event", True),
    "list_user_metrics": ("page", "Metric", True),
    "list_event_types": ("page", "EventType", False),
    "create_event_type": ("record", "EventType", True),
    "get_event_type": ("record", "EventType", True),
    "list_campaigns": ("page", "Campaign", True),
    "create_campaign": ("id", None, True),
    "get_campaign": ("record", "Campaign", True),
    "update_campaign": ("modified", None, True),
    "list_outlays": ("page", "Outlay", True),
    "create_outlay": ("id", None, True),
    "get_outlay": ("record", "Outlay", True),
    "update_outlay": ("modified", None, True),
    "exchange_token": ("token", None, True),
    "search_events": ("page", "Event", True),
    "page_insights": ("array", "PageInsight", True),
    "funnel": ("array", "FunnelStep", True),
    "page_conversions": ("array", "PageConversion", True),
    "list_nodes": ("page", "Node", True),
    "get_node": ("record", "Node", True),
    "create_audience": ("record", "Audience", True),
    "list_audiences": ("page", "Audience", True),
    "get_audience": ("record", "Audience", True),
    "delete_audience": ("modified", None, True),
    "list_audit": ("page", "AuditLine", True),
    "list_keys": ("array", "Key", True),
    "create_key": ("record", "Key", True),
    "revoke_key": ("modified", None, True),
    "check_project": ("array", "Finding", True),
    "repair_project": ("array", "Finding", True),
    "back_up_project": ("file", None, True),
    "compact_project": ("counts", None, True),
    "restore_project": ("counts", None, True),
    "create_events": ("outcomes", None, True),
    "validate_event": ("errors", None, True),
    "replay_event": ("uuid", None, True),
    "update_event_type": ("record", "EventType", True),
    "archive_event_type": ("record", "EventType", True),
    "restore_event_type": ("record", "EventType", True),
    "delete_outlay": ("modified", None, True),
    "get_settings": ("record", "Settings", True),
    "update_settings": ("record", "Settings", True),
    "list_holdouts": ("array", "Holdout", True),
    "create_holdout": ("record", "Holdout", True),
    "delete_holdout": ("modified", None, True),
    "list_rates": ("page", "Rate", True),
    "set_rates": ("modified", None, True),
    "merge_users": ("modified", None, True),
    "split_user": ("modified", None, True),
    "delete_user": ("object", None, True),
    "export_user_data": ("object", None, True),
    "anonymise_expired": ("modified", None, True),
    "create_integration": ("id", None, True),
    "list_integrations": ("array", "Integration", True),
    "send_hits": ("object", None, True),
    "get_collector": ("object", None, True),
    "load_records": ("counts", None, True),
    "begin_mirror": ("object", None, True),
    "keep_mirror": ("object", None, True),
    "mirror_records": ("modified", None, True),
}

BY_TITLE = {operation.title: operation for operation in OPERATIONS.values()}


def test_every_operation_of_the_specification_is_declared_and_nothing_else() -> None:
    assert [operation.title for operation in OPERATIONS.values() if not operation.extension] == [
        title for title, *_ in ROWS
    ]
    assert {operation.name for operation in OPERATIONS.values() if operation.extension} == {
        "search_events",
        "page_insights",
        "funnel",
        "page_conversions",
        "list_nodes",
        "get_node",
        "create_audience",
        "list_audiences",
        "get_audience",
        "delete_audience",
        "list_audit",
        "list_keys",
        "create_key",
        "revoke_key",
        "check_project",
        "repair_project",
        "back_up_project",
        "compact_project",
        "restore_project",
        "create_events",
        "validate_event",
        "replay_event",
        "update_event_type",
        "archive_event_type",
        "restore_event_type",
        "delete_outlay",
        "get_settings",
        "update_settings",
        "list_holdouts",
        "create_holdout",
        "delete_holdout",
        "list_rates",
        "set_rates",
        "merge_users",
        "split_user",
        "delete_user",
        "export_user_data",
        "anonymise_expired",
        "create_integration",
        "list_integrations",
        "send_hits",
        "get_collector",
        "load_records",
        "begin_mirror",
        "keep_mirror",
        "mirror_records",
    }


def test_method_path_and_success_are_those_decided():
    for title, method, base, path, success in ROWS:
        operation = BY_TITLE[title]
        assert (operation.method, operation.base, operation.path) == (method, base, path), (title, method)
        assert operation.success == success, (title, method)
        assert success in operation.statuses + operation.also, (title, method)


def test_listed_statuses_are_those_of_the_specification():
    for name in LISTED:
        assert OPERATIONS[name].statuses == LISTED[name], name
        assert not set(OPERATIONS[name].also) & set(LISTED[name]), name


def test_every_operation_of_the_specification_has_its_statuses_here() -> None:
    assert set(LISTED) == {operation.name for operation in OPERATIONS.values() if not operation.extension}


def test_answers_have_the_shapes_of_the_specification() -> None:
    found = {name: dataclasses.astuple(operation.answer) for name, operation in OPERATIONS.items()}
    assert found == ANSWERS
    assert {resource for _, resource, _ in ANSWERS.values() if resource} <= set(RESOURCES)


def test_nodes_are_an_extension_of_the_same_form() -> None:
    nodes, node = OPERATIONS["list_nodes"], OPERATIONS["get_node"]
    assert (nodes.method, nodes.path) == ("GET", "/projects/{projectId}/nodes")
    assert (node.method, node.path) == ("GET", "/projects/{projectId}/nodes/{id}")
    assert set(nodes.request.model_fields) == {"projectId", "type", "search", "offset", "limit"}


def test_what_only_an_embedded_project_does_has_no_path():
    for name in ["load_records", "mirror_records", "begin_mirror", "anonymise_expired"]:
        operation = OPERATIONS[name]
        assert (operation.base, operation.method, operation.path) == ("embedded", "", ""), name


def test_only_event_creation_and_the_token_itself_need_no_token() -> None:
    free = {operation.name for operation in OPERATIONS.values() if not operation.token}
    assert free == {
        "create_event",
        "create_event_sync",
        "create_events",
        "validate_event",
        "exchange_token",
    }


def test_what_is_safe_to_repeat() -> None:
    unsafe = {operation.name for operation in OPERATIONS.values() if not operation.idempotent}
    assert unsafe == {
        "create_offline_interaction",
        "create_event_type",
        "create_campaign",
        "update_campaign",
        "create_outlay",
        "update_outlay",
        # A repetition could overwrite a later value.
        "update_event_state",
        "update_event_statistic",
        "create_audience",
        "delete_audience",
        "delete_holdout",
        "merge_users",
        "split_user",
        "delete_user",
        "create_integration",
        "load_records",
    }


def test_synonyms_are_those_decided() -> None:
    synonyms = {operation.name: operation.synonyms for operation in OPERATIONS.values() if operation.synonyms}
    assert synonyms == {
        "update_event_state": ("PATCH", "POST"),
        "update_event_statistic": ("PATCH", "POST"),
        "update_campaign": ("PUT",),
        "update_outlay": ("PUT",),
    }


def test_attributes_travel_where_the_specification_puts_them():
    for name, attribute, location in [
        ("search_interactions", "projectId", "path"),
        ("search_interactions", "projection", "body"),
        ("create_event", "projectId", "body"),
        ("list_user_events", "attributable", "query"),
        ("list_hits", "firstHitId", "path"),
        ("list_campaigns", "campaignId", "query"),
        ("update_outlay", "campaignId", "body"),
        ("update_outlay", "parentCampaignId", "path"),
        ("exchange_token", "assertion", "body"),
    ]:
        assert OPERATIONS[name].location(attribute) == location, (name, attribute)


def test_every_placeholder_is_a_required_attribute():
    for operation in OPERATIONS.values():
        placeholders = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
        assert all(operation.request.model_fields[name].is_required() for name in placeholders), operation


def test_python_arguments_are_those_of_the_public_functions():
    for name, arguments in [
        (
            "search_interactions",
            {
                "projectId": "project_id",
                "interactionFilter": "where",
                "nodeFilter": "nodes",
                "since": "since",
                "until": "until",
                "projection": "columns",
                "sort": "sort",
                "limit": "limit",
                "offset": "offset",
                "filtered": "filtered",
                "isBot": "bots",
            },
        ),
        (
            "interaction_insights",
            {
                "projectId": "project_id",
                "group": "group_by",
                "interval": "interval",
                "segmentCount": "segments",
                "interactionFilter": "where",
                "nodeFilter": "nodes",
                "since": "since",
                "until": "until",
                "sort": "sort",
                "filtered": "filtered",
                "isBot": "bots",
                "timezone": "timezone",
            },
        ),
        (
            "event_insights",
            {
                "projectId": "project_id",
                "metrics": "metrics",
                "since": "since",
                "until": "until",
                "groupBy": "group_by",
                "interval": "interval",
                "filter": "event_type",
                "timezone": "timezone",
            },
        ),
        ("list_hits", {"projectId": "project_id", "firstHitId": "first_hit_id"}),
        (
            "search_users",
            {
                "projectId": "project_id",
                "fields": "columns",
                "filters": "where",
                "audienceCondition": "audience",
                "sqlQuery": "sql",
                "sort": "sort",
                "order": "order",
                "idAfter": "id_after",
                "idFrom": "id_from",
                "idTo": "id_to",
                "multiFieldMode": "multi_field_mode",
                "offset": "offset",
                "limit": "limit",
            },
        ),
        (
            "export_users",
            {
                "projectId": "project_id",
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
    ]:
        assert OPERATIONS[name].arguments == arguments, (name, arguments)


def test_a_deployment_can_replace_a_path() -> None:
    moved = dataclasses.replace(OPERATIONS["list_hits"], path="/p/{projectId}/hits", method="GET")
    assert moved.location("firstHitId") == "query"
    assert moved.arguments == OPERATIONS["list_hits"].arguments
