import json
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.contract.openapi import document
from attrib_ds.schema import RESOURCES

SERVED = [operation for operation in OPERATIONS.values() if operation.base != "embedded"]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document()


@pytest.mark.slow
def test_the_document_is_valid(described: dict[str, Any]) -> None:
    validate(described, cls=OpenAPIV31SpecValidator)
    assert described["openapi"] == "3.1.0"
    assert described == json.loads(json.dumps(described))


def test_each_operation_is_described(described):
    for operation in SERVED:
        methods = described["paths"][f"{BASES[operation.base]}{operation.path}"]
        member = methods[operation.method.lower()]
        assert member["operationId"] == operation.name, operation
        statuses = {int(status) for status in member["responses"] if status != "default"}
        of_project = {400, 404} if "{projectId}" in operation.path else set()
        assert statuses == {*operation.statuses, *operation.also, *of_project}, operation
        in_parameters = {record["name"] for record in member["parameters"] if record["in"] != "header"}
        media = next(iter(member.get("requestBody", {"content": {"": {}}})["content"].values()))
        in_body = set(media.get("schema", {}).get("properties", {})) | {operation.upload, operation.body} - {
            ""
        }
        assert in_parameters | in_body == set(operation.request.model_fields), operation
        assert not in_parameters & in_body, operation
        assert {record.lower() for record in operation.synonyms} <= set(methods), operation


def test_every_path_is_an_operation(described: dict[str, Any]) -> None:
    paths = {f"{BASES[operation.base]}{operation.path}" for operation in SERVED}
    assert set(described["paths"]) == paths
    ids = [member["operationId"] for path in described["paths"].values() for member in path.values()]
    assert len(ids) == len(set(ids)) == len(SERVED) + 6  # two synonyms twice, one synonym twice


def test_users_are_searched_under_the_second_version_only(described: dict[str, Any]) -> None:  # R121, R325
    assert "/api/v2/projects/{projectId}/users/search" in described["paths"]
    assert "/api/v1/projects/{projectId}/users/search" not in described["paths"]


def test_headers_that_change_an_answer_are_described(described: dict[str, Any]) -> None:  # G-175, G-212
    headers: dict[str, set[str]] = {}
    for path in described["paths"].values():
        for member in path.values():
            for parameter in member["parameters"]:
                if parameter["in"] == "header":
                    assert parameter["required"] is False
                    headers.setdefault(parameter["name"], set()).add(member["operationId"])
    assert headers == {
        "X-Ingest-Key": {"create_event", "create_event_sync", "create_events", "validate_event"},
        "X-Trashed-Field": {"create_event_sync", "list_trashed_events", "replay_event", "validate_event"},
    }


def test_tokens_are_asked_for(described: dict[str, Any]) -> None:
    paths = described["paths"]
    assert paths["/api/v1/projects/{projectId}/nodes"]["get"]["security"] == [{"token": []}]
    assert paths["/api/v1/events"]["post"]["security"] == [{}, {"token": []}]
    assert paths["/auth/oidc/token"]["post"]["security"] == []


def test_a_token_is_asked_for_by_a_form(described: dict[str, Any]) -> None:  # R308
    body = described["paths"]["/auth/oidc/token"]["post"]["requestBody"]
    assert list(body["content"]) == ["application/x-www-form-urlencoded"]
    assert body["content"]["application/x-www-form-urlencoded"]["schema"]["required"] == [
        "grant_type",
        "client_id",
        "assertion",
    ]


def test_pages_echo_where_the_specification_says(described: dict[str, Any]) -> None:  # R156, R206, R274
    def members(path: str, method: str) -> set[str]:
        answer = described["paths"][f"/api/v1/projects/{{projectId}}{path}"][method]["responses"]["200"]
        return set(answer["content"]["application/json"]["schema"]["properties"])

    assert members("/interactions/search", "post") == {"offset", "limit", "count", "total", "data"}
    assert members("/trashed-events", "get") == {"count", "total", "data"}
    assert members("/event-types", "get") == {"count", "total", "data"}


def test_resources_are_nested(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert set(RESOURCES) <= set(schemas)
    browser = schemas["Interaction"]["properties"]["userAgent"]["properties"]["browser"]["properties"]
    assert browser == {name: {"type": ["string", "null"]} for name in ("name", "version", "major")}
    assert schemas["Interaction"]["properties"]["userData"] == {}
    assert schemas["Outlay"]["properties"]["amount"]["properties"]["amount"] == {"type": ["number", "null"]}
    assert schemas["Hit"]["properties"]["serverDate"] == {"type": ["string", "null"], "format": "date-time"}
    assert schemas["User"]["properties"]["audienceIds"]["items"] == {"type": ["string", "null"]}


def test_what_events_may_lack_is_null(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert schemas["Event"]["properties"]["expirationPolicy"]["type"] == ["object", "null"]
    assert schemas["Interaction"]["properties"]["geo"]["type"] == "object"


@pytest.mark.slow
def test_each_call_gives_a_document_of_its_own() -> None:
    first = document()
    first["paths"].clear()
    first["components"]["schemas"]["Error"].clear()
    assert document()["paths"]
    assert document()["components"]["schemas"]["Error"]
