"""Requests that follow the links of our own description: what one creates, others read, update and delete."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from conformance.drawn_requests import DESCRIBED, description_for, drawn_project
from conformance.shop import ORDER
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    use_after_free,
)

if TYPE_CHECKING:
    from conformance.transports import OverHttp
    from schemathesis import Case
    from schemathesis.core.transport import Response

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, use_after_free]
PROJECT = "linked-shop"
#: Sequences of requests in each run of Hypothesis.
EXAMPLES = 3
EVENT: dict[str, Any] = {
    "projectId": {"enum": [PROJECT]},
    "eventType": {"enum": ["order"]},
    "nonce": {"type": "string", "minLength": 1, "maxLength": 20},
    "data": {
        "type": "object",
        "properties": {
            "mail": {"enum": ["anna@example.com", "ben@example.com"]},
            "turnover": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["mail"],
    },
}
#: Operations left out of the long run, so that more of its requests concern what it created.
OTHERS = "^(list|search)_|^create_(event|events|offline_interaction)$"
WORD = {"type": "string", "pattern": "^[a-z]{3,12}$"}
#: Members of the bodies that create a resource; what the document allows is seldom accepted as a whole.
BODIES: dict[str, dict[str, Any]] = {
    "create_event": EVENT,
    "create_event_sync": EVENT,
    "create_event_type": {"reference": WORD, "name": WORD, "fields": {"enum": [ORDER["fields"]]}},
    "create_audience": {
        "name": WORD,
        "condition": {"enum": [{"type": "fields", "field": "email", "operator": "equals", "value": "anna"}]},
    },
    "create_campaign": {"campaignSlug": WORD, "name": WORD},
    "create_outlay": {
        "amount": {"type": "integer", "minimum": 0, "maximum": 1_000},
        "startDate": {"enum": ["2025-01-01T00:00:00Z", "2025-01-10T00:00:00Z"]},
        "endDate": {"enum": ["2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"]},
    },
}
#: Operations whose request carries an id that an earlier one answered with; one of each group must succeed.
REACHED = [
    {"get_event", "get_raw_event", "update_event_state", "update_event_statistic"},
    {"get_event_type"},
    {"update_event_type", "archive_event_type", "restore_event_type"},
    {"get_audience", "delete_audience"},
    {"get_campaign", "update_campaign"},
    {"create_outlay"},
    {"get_outlay", "update_outlay"},
    {"delete_outlay"},
]


def run(http: OverHttp, project_id: str, *, runs: int, steps: int, without: str = "") -> Counter[str]:
    """Follow links, and return how often each operation succeeded; ``without`` leaves out operations."""
    schema = description_for(drawn_project(http, project_id), has_ids=False)
    if without:
        schema = schema.exclude(operation_id_regex=without)
    schema.config.generation.update(modes=[GenerationMode.POSITIVE])
    # Only our links, not those that Schemathesis guesses from names.
    schema.config.phases.stateful.inference.algorithms = []
    for methods in schema.raw_schema["paths"].values():
        for operation in methods.values():
            _narrow(operation, project_id)
    succeeded: Counter[str] = Counter()
    failures: list[object] = []

    class Linked(schema.as_state_machine()):
        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {http.token}"}
            return {"base_url": http.url, "headers": headers, "timeout": 60}

        def validate_response(self, response: Response, case: Case, **others: Any) -> None:
            record = DESCRIBED["paths"][case.operation.path][case.operation.method.lower()]
            if str(response.status_code) not in record["responses"]:
                failures.append((record["operationId"], case.body, response.status_code, response.content))
            try:
                case.validate_response(response, checks=CHECKS, recorder=self.recorder)
            except FailureGroup as group:
                failures.extend(group.exceptions)
            if response.status_code < 300:
                succeeded[record["operationId"]] += 1

    profile = settings(
        max_examples=EXAMPLES,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for number in range(runs):
        # The project keeps its records, so that a repeated choice may have another outcome.
        with suppress(Flaky):
            run_state_machine_as_test(seed(number)(Linked), settings=profile)
    assert not failures, getattr(failures[0], "message", failures[0])
    return succeeded


def _narrow(operation: dict[str, Any], project_id: str) -> None:
    """Let a request that creates a resource be accepted, and a deletion delete."""
    name = operation["operationId"]
    if name in BODIES:
        members = BODIES[name]
        if "projectId" in members:
            members = {**members, "projectId": {"enum": [project_id]}}
        body = operation["requestBody"]["content"]["application/json"]
        body["schema"] = {
            "type": "object",
            "properties": members,
            "required": list(members),
            "additionalProperties": False,
        }
    for parameter in operation["parameters"]:
        if name == "delete_user" and parameter["name"] == "mode":
            # The default keeps the user without personal values.
            parameter |= {"required": True, "schema": {"const": "delete"}}


@pytest.mark.slow
@pytest.mark.http_only
def test_links_lead_from_an_answer_to_requests_that_are_described(http: OverHttp) -> None:
    assert run(http, PROJECT, runs=1, steps=6, without="^(?!.*(campaign|outlay))")


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.http_only
def test_every_resource_that_is_created_can_be_read_changed_and_deleted(http: OverHttp) -> None:
    succeeded = run(http, f"{PROJECT}-2", runs=25, steps=15, without=OTHERS)
    assert not [group for group in REACHED if not group & succeeded.keys()], succeeded
