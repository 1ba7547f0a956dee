"""The contract and the public functions say the same."""

import inspect

import pytest

import attrib_ds
from attrib_ds.contract import OPERATIONS

#: Public functions that are operations of the service.
SHARED = sorted(set(OPERATIONS) & set(attrib_ds.__all__))

#: Arguments that the service requires and that have a default in Python.
ONLY_IN_PYTHON = {("event_insights", "groupBy"): "project", ("event_insights", "interval"): "day"}
#: Arguments that say how records are handed on, and are no part of a request.
HOW_THEY_COME = {"search_interactions": {"chunks", "to"}, "search_users": {"chunks", "to"}}
ONLY_IN_PYTHON |= {
    ("export_users", "outputFormatConfig/type"): None,
    ("export_users", "transformerConfig"): (),
}


def fields_of(operation):
    """Return the attributes of a request with their fields, those of its parts where each is an argument."""
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
        "create_integration",
        "create_outlay",
        "delete_audience",
        "delete_outlay",
        "delete_user",
        "event_insights",
        "export_user_data",
        "export_users",
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
        "list_nodes",
        "list_outlays",
        "list_rates",
        "list_trashed_events",
        "list_user_events",
        "list_user_metrics",
        "merge_users",
        "restore_event_type",
        "search_interactions",
        "search_users",
        "set_rates",
        "split_user",
        "update_campaign",
        "update_event_type",
        "update_outlay",
        "update_settings",
    ]


@pytest.mark.parametrize("name", SHARED)
def test_parameters_are_the_attributes_of_the_request(name):
    operation = OPERATIONS[name]
    project, *parameters = inspect.signature(getattr(attrib_ds, name)).parameters.values()
    assert project.name == "project"
    asked = {operation.arguments.get(attribute, attribute) for attribute in fields_of(operation)}
    assert {parameter.name for parameter in parameters} == asked - {"project_id"} | HOW_THEY_COME.get(
        name, set()
    )


@pytest.mark.parametrize("name", SHARED)
def test_defaults_are_those_of_the_request(name):
    operation = OPERATIONS[name]
    signature = inspect.signature(getattr(attrib_ds, name)).parameters
    for attribute, field in fields_of(operation).items():
        argument = operation.arguments.get(attribute, attribute)
        if argument != "project_id":
            default = signature[argument].default
            if (name, attribute) in ONLY_IN_PYTHON:
                assert field.is_required()
                assert default == ONLY_IN_PYTHON[name, attribute]
                continue
            assert field.is_required() == (default is inspect.Parameter.empty)
            # None stands for "not given" where an empty object is the default.
            asked = None if field.is_required() else field.get_default(call_default_factory=True)
            assert field.is_required() or asked == default or (asked == {} and default is None)
