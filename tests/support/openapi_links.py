"""Links of the OpenAPI document: from an answer with an id to the operations that take the id."""

import re
from collections.abc import Mapping
from typing import Any

from attrib_ds.contract import OPERATIONS, Operation
from attrib_ds.contract.openapi import document

_PROJECT = "/projects/{projectId}"
_EVENT = f"{_PROJECT}/events/{{id}}"
_TRASHED_EVENT = f"{_PROJECT}/trashed-events/{{id}}"
_INTERACTION = f"{_PROJECT}/interactions/{{id}}"
_HITS = f"{_PROJECT}/interactions/{{firstHitId}}"
_NODE = f"{_PROJECT}/nodes/{{id}}"
_USER = f"{_PROJECT}/users/{{id}}"
_EVENT_TYPE = f"{_PROJECT}/event-types/{{id}}"
_AUDIENCE = f"{_PROJECT}/audiences/{{id}}"
_CAMPAIGN = f"{_PROJECT}/custom-ads/{{vendorId}}/campaigns/{{id}}"
_CHILDREN_OF_CAMPAIGN = f"{_PROJECT}/custom-ads/{{vendorId}}/campaigns/{{parentCampaignId}}"
_OUTLAY = f"{_CHILDREN_OF_CAMPAIGN}/outlays/{{outlayId}}"
#: Resources whose ids an operation answers with, and the place of the id in the body of the answer.
_IDS = {
    "create_event": {_EVENT: ""},
    "create_event_sync": {_EVENT: ""},
    "create_events": {_EVENT: "#/0/id"},
    "list_trashed_events": {_TRASHED_EVENT: "#/data/0/_id", _EVENT: "#/data/0/_id"},
    "replay_event": {_EVENT: ""},
    "get_event": {_USER: "#/userId", _EVENT_TYPE: "#/eventType"},
    "create_offline_interaction": {
        _INTERACTION: "#/_id",
        _HITS: "#/firstHitId",
        _NODE: "#/nodeId",
        _USER: "#/userId",
    },
    "search_interactions": {
        _INTERACTION: "#/data/0/_id",
        _HITS: "#/data/0/firstHitId",
        _NODE: "#/data/0/nodeId",
        _USER: "#/data/0/userId",
    },
    "list_nodes": {_NODE: "#/data/0/_id"},
    "search_users": {_USER: "#/data/0/_id"},
    "list_user_events": {_EVENT: "#/data/0/_id"},
    "search_events": {_EVENT: "#/data/0/_id"},
    "list_user_metrics": {_EVENT: "#/data/0/eventId"},
    "create_event_type": {_EVENT_TYPE: "#/reference"},
    "list_event_types": {_EVENT_TYPE: "#/data/0/reference"},
    "create_audience": {_AUDIENCE: "#/_id"},
    "list_audiences": {_AUDIENCE: "#/data/0/_id"},
    "create_campaign": {_CAMPAIGN: "#/id", _CHILDREN_OF_CAMPAIGN: "#/id"},
    "list_campaigns": {_CAMPAIGN: "#/data/0/id", _CHILDREN_OF_CAMPAIGN: "#/data/0/id"},
    "create_outlay": {_OUTLAY: "#/id"},
    "list_outlays": {_OUTLAY: "#/data/0/_id"},
}
#: Operations that delete a resource. They are linked too: a test can see what a later request gets.
_DELETES = {
    "delete_audience": _AUDIENCE,
    "delete_outlay": _OUTLAY,
    "delete_user": _USER,
}
_RESOURCES = {path for paths in _IDS.values() for path in paths}
_PLACEHOLDER = re.compile(r"{(\w+)}")


def linked_document() -> dict[str, Any]:
    """Return the document in which each successful answer has its links."""
    described = document()
    for methods in described["paths"].values():
        for member in methods.values():
            name = member["operationId"].rpartition("_")[0]
            operation = OPERATIONS.get(member["operationId"]) or OPERATIONS[name]
            for status, response in member["responses"].items():
                if status.startswith("2") and (linked := links(operation, OPERATIONS)):
                    response["links"] = linked
    return described


def links(operation: Operation, operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Return the links of an operation's successful answer, by the name of the linked operation."""
    found: dict[str, Any] = {}
    for path, pointer in _IDS.get(operation.name, {}).items():
        *parents, own = _PLACEHOLDER.findall(path)
        parameters = {parent: _from_request(operation, parent) for parent in parents}
        found |= _linked(path, parameters | {own: f"$response.body{pointer}"}, operation, operations)
    deleted = _DELETES.get(operation.name, "")
    if deleted:
        parameters = {name: _from_request(operation, name) for name in _PLACEHOLDER.findall(deleted)}
        found |= _linked(deleted, parameters, operation, operations)
    return found


def _linked(
    path: str, parameters: dict[str, str], operation: Operation, operations: Mapping[str, Operation]
) -> dict[str, Any]:
    return {
        other.name: {"operationId": other.name, "parameters": parameters}
        for other in operations.values()
        if _linked_resource(other) == path and other is not operation
    }


def _linked_resource(operation: Operation) -> str:
    """Return the path of the innermost resource that an operation is about; empty if it is about none."""
    around = [path for path in _RESOURCES if f"{operation.path}/".startswith(f"{path}/")]
    return max(around, key=len, default="")


def _from_request(operation: Operation, name: str) -> str:
    location = operation.location(name)
    return f"$request.body#/{name}" if location == "body" else f"$request.{location}.{name}"
