"""The contract and the public functions say the same."""

import inspect
import re

import attrib_ds
from attrib_ds.contract import OPERATIONS

HOMES = (attrib_ds, attrib_ds.admin, attrib_ds.experiments)
FUNCTIONS = {name: getattr(home, name) for home in HOMES for name in dir(home)}
#: Public functions that are operations of the service.
SHARED = sorted(set(OPERATIONS) & set(FUNCTIONS))

#: Attributes of requests, with the public parameters whose names are not the same in snake_case.
RENAMED = {
    "audienceCondition": "audience",
    "exporterDataConfig/audience": "audience",
    "exporterDataConfig/columns": "columns",
    "exporterDataConfig/filters": "where",
    "filename": "path",
    "filter": "event_type",
    "filters": "where",
    "group": "group_by",
    "interactionFilter": "where",
    "isBot": "bots",
    "nodeFilter": "nodes",
    "order": "sort",
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
#: Those that have another name in other operations.
RENAMED_IN = {
    ("archive_event_type", "id"): "reference",
    ("create_holdout", "firstDay"): "since",
    ("create_holdout", "lastDay"): "until",
    ("get_event_type", "id"): "reference",
    ("restore_event_type", "id"): "reference",
    ("search_users", "fields"): "columns",
    ("update_event_type", "id"): "reference",
    ("update_outlay", "campaignId"): "new_campaign_id",
}

#: Arguments that the service requires and that have a default in Python.
ONLY_IN_PYTHON = {("event_insights", "groupBy"): "project", ("event_insights", "interval"): "day"}
#: Arguments that say how records are handed on, and are no part of a request.
HOW_THEY_COME = {
    "create_key": {"path"},
}
#: Attributes that the function makes itself, and those that only pages over HTTP need.
MADE = {("create_key", "publicKey"), *(("search_users", name) for name in ("idAfter", "idFrom", "idTo"))}
ONLY_IN_PYTHON |= {
    ("export_users", "outputFormatConfig/type"): None,
    ("export_users", "transformerConfig"): (),
}


def parameter_of(operation, attribute):
    """Return the public parameter of an attribute."""
    in_snake_case = re.sub("([A-Z])", r"_\1", attribute).lower()
    return RENAMED_IN.get((operation.name, attribute)) or RENAMED.get(attribute, in_snake_case)


def fields_of(operation):
    """Return the attributes of a request with their fields; the parts of one that is split into parameters."""
    fields = {}
    for name, field in operation.request.model_fields.items():
        inner = [each for each in operation.arguments if each.startswith(f"{name}/")]
        parts = field.annotation.model_fields if inner else {}
        fields |= {each: parts[each.partition("/")[2]] for each in inner} or {name: field}
    return fields


def test_what_can_be_done_from_python_is_there():
    assert SHARED == [
        "archive_event_type",
        "create_audience",
        "create_campaign",
        "create_event_type",
        "create_holdout",
        "create_integration",
        "create_key",
        "create_outlay",
        "delete_audience",
        "delete_holdout",
        "delete_outlay",
        "delete_user",
        "event_insights",
        "export_user_data",
        "export_users",
        "funnel",
        "get_audience",
        "get_campaign",
        "get_event",
        "get_event_type",
        "get_interaction",
        "get_outlay",
        "get_raw_event",
        "get_settings",
        "get_user",
        "interaction_insights",
        "list_audiences",
        "list_audit",
        "list_campaigns",
        "list_event_types",
        "list_hits",
        "list_holdouts",
        "list_keys",
        "list_nodes",
        "list_outlays",
        "list_rates",
        "list_trashed_events",
        "list_user_events",
        "list_user_metrics",
        "merge_users",
        "page_insights",
        "restore_event_type",
        "revoke_key",
        "search_events",
        "search_interactions",
        "search_users",
        "set_rates",
        "split_user",
        "update_campaign",
        "update_event_type",
        "update_outlay",
        "update_settings",
    ]


def test_parameters_are_the_attributes_of_the_request():
    for name in SHARED:
        operation = OPERATIONS[name]
        project, *parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
        assert project.name == "project", name
        given = [attribute for attribute in fields_of(operation) if (name, attribute) not in MADE]
        expected = {parameter_of(operation, attribute) for attribute in given} - {"project_id"}
        assert {parameter.name for parameter in parameters} == expected | HOW_THEY_COME.get(name, set()), name


def test_errors_name_the_public_parameters():
    for name in SHARED:
        operation = OPERATIONS[name]
        for attribute in fields_of(operation):
            # The public `sort` never fails at `order`: its sign becomes the order.
            if attribute != "order":
                assert operation.argument(attribute) == parameter_of(operation, attribute), name


def test_defaults_are_those_of_the_request():
    for name in SHARED:
        operation = OPERATIONS[name]
        signature = inspect.signature(FUNCTIONS[name]).parameters
        for attribute, field in fields_of(operation).items():
            parameter = parameter_of(operation, attribute)
            if parameter != "project_id" and (name, attribute) not in MADE:
                default = signature[parameter].default
                if (name, attribute) in ONLY_IN_PYTHON:
                    assert field.is_required(), name
                    assert default == ONLY_IN_PYTHON[name, attribute], name
                    continue
                assert field.is_required() == (default is inspect.Parameter.empty), name
                # None stands for "not given" where an empty object or list is the default.
                expected = None if field.is_required() else field.get_default(call_default_factory=True)
                assert (
                    field.is_required() or expected == default or (expected in ({}, ()) and default is None)
                ), name


POSITIONAL = {
    "archive_event_type": ["reference"],
    "create_audience": ["name", "condition"],
    "create_campaign": ["vendor_id", "campaign_slug"],
    "create_event_type": ["reference"],
    "create_holdout": ["holdout"],
    "create_integration": ["vendor_id"],
    "create_key": ["path"],
    "create_outlay": ["vendor_id", "campaign_id"],
    "delete_holdout": ["holdout"],
    "delete_outlay": ["vendor_id", "campaign_id", "outlay_id"],
    "export_users": ["path"],
    "funnel": ["steps"],
    "get_campaign": ["vendor_id", "id"],
    "get_event_type": ["reference"],
    "get_outlay": ["vendor_id", "campaign_id", "outlay_id"],
    "list_campaigns": ["vendor_id"],
    "list_hits": ["first_hit_id"],
    "list_outlays": ["vendor_id", "campaign_id"],
    "merge_users": ["id", "user_id"],
    "restore_event_type": ["reference"],
    "revoke_key": ["key_id"],
    "set_rates": ["rates"],
    "split_user": ["id", "user_id"],
    "update_campaign": ["vendor_id", "id"],
    "update_event_type": ["reference"],
    "update_outlay": ["vendor_id", "campaign_id", "outlay_id"],
}
POSITIONAL |= {
    name: ["id"]
    for name in (
        "delete_audience",
        "delete_user",
        "export_user_data",
        "get_audience",
        "get_event",
        "get_interaction",
        "get_raw_event",
        "get_user",
        "list_user_events",
        "list_user_metrics",
    )
}


def test_positions_are_for_the_project_and_what_a_function_acts_on():
    for name in SHARED:
        parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
        _, *positional = [
            each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        assert positional == POSITIONAL.get(name, []), name
