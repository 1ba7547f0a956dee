"""Errors (R317 to R323)."""

import json
import re

import pytest
from conformance.shop import PLACE, VENDOR, event, hex_id, new, uuid
from conformance.transports import OverHttp

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.service.http.server import RATES, Rate, ServerOptions, running

REASONS = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict"}
#: Traces, statements, files and engines.
INSIDE = re.compile(
    r"Traceback|File \"|\.py\b|SELECT |INSERT |duckdb|ibis|\.duckdb|/tmp|/home|/work|pydantic|sqlglot|<class",
    re.I,
)
TOKENLESS = [name for name, operation in OPERATIONS.items() if not operation.token and operation.path]
WITH_TOKEN = [name for name, operation in OPERATIONS.items() if operation.token and operation.path]
WITH_BODY = [
    name
    for name, operation in OPERATIONS.items()
    if operation.path
    and operation.method in ("POST", "PUT", "PATCH")
    and operation.base != "auth"
    and not operation.upload
    and not operation.body
]


def failures(project):
    """Return an error of each status that both transports know."""
    campaign = {"campaignSlug": new("slug"), "name": "x"}
    project.send("create_campaign", {"vendorId": VENDOR}, body=campaign).ok()
    return [
        (400, project.send("search_interactions", body={"limit": -1})),
        (400, project.send("create_event_sync", body=event(project, data={"mail": None}))),
        (
            400,
            project.send(
                "search_users", body={"fields": [], "sqlQuery": "SELECT * FROM read_csv('/etc/passwd')"}
            ),
        ),
        (400, project.send("search_users", body={"fields": [], "sqlQuery": "SELECT nonsense FROM users"})),
        (400, project.send("search_interactions", body=b"{")),
        (404, project.send("get_interaction", {"id": hex_id(999)})),
        (404, project.send("get_event", {"id": "nonsense"})),
        (409, project.send("create_campaign", {"vendorId": VENDOR}, body=campaign)),
    ]


@pytest.mark.slow
def test_r317_r319_an_error_has_status_message_and_reason(service):
    for status, reply in failures(service):
        assert reply.status == reply.body["statusCode"] == status
        assert reply.body["error"] == REASONS[status]
        assert type(reply.body["message"]) is str
        assert reply.body["message"]


@pytest.mark.http_only
def test_r318_the_body_of_401_has_two_members(http, project):
    path = f"/api/v1/projects/{project.id}/event-types"
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"}):
        reply = http.request("GET", path, headers=headers, token=None)
        assert (reply.status, reply.body) == (401, {"statusCode": 401, "message": "Unauthorized"})


@pytest.mark.http_only
def test_r319_the_status_code_is_the_status_of_every_error(http, project):
    replies = [
        http.request("GET", f"/api/v1/projects/{project.id}/event-types", token=None),
        http.request("GET", "/api/v1/nowhere"),
        http.request("DELETE", f"/api/v1/projects/{project.id}/event-types"),
    ]
    assert [(reply.status, reply.body["statusCode"]) for reply in replies] == [
        (401, 401),
        (404, 404),
        (405, 405),
    ]


def test_r320_some_requests_are_not_errors(service):
    assert service.send("list_hits", {"firstHitId": uuid(999)}).ok() == []
    insights = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-02T00:00:00Z", "metrics": ["nonsense"]}
    body = {**insights, "groupBy": "project", "interval": "year"}
    assert service.send("event_insights", body=body).ok()[0]["values"] == {"nonsense": 0}
    assert service.send("create_event", body=event(service, eventType="nonsense")).status == 200


def test_r321_a_body_that_is_not_an_object_is_400(service):
    for name in WITH_BODY:
        for body in (
            b"{",
            b"no json",
            b"[]",
            b"null x",
            b'"text"',
            b"5",
            b"true",
            b"{'a': 1}",
            b"\xff",
            b'{"a": NaN}',
        ):
            assert service.send(name, PLACE, body=body).status == 400, body


@pytest.mark.http_only
def test_r322_too_many_requests_are_429(http, project):
    """Of one project and account the second request is too many; other projects are not touched."""
    with running(http.home, options=ServerOptions(rate_limits=dict.fromkeys(RATES, Rate(1, 3_600)))) as url:
        limited = OverHttp(http.home, url, http.token)
        for number, name in enumerate(
            operation
            for operation in WITH_TOKEN
            if 429 in (*OPERATIONS[operation].statuses, *OPERATIONS[operation].also)
        ):
            # No such project: the rates come before the search for it.
            path = {**PLACE, "projectId": f"never-made-{number}"}
            statuses = [limited.send(name, path, {}, b"{}", {}).status for _ in range(2)]
            assert statuses[0] != 429, name
            assert statuses[1] == 429, name
        reply = limited.send(name, path, {}, b"{}", {})
        assert reply.body["statusCode"] == 429
        assert int(reply.headers["Retry-After"]) > 0


@pytest.mark.slow
def test_r323_no_error_reveals_internals(service):
    for _, reply in failures(service):
        assert not INSIDE.search(shown := json.dumps(reply.body).replace("read_csv('/etc/passwd')", "")), (
            shown
        )


@pytest.mark.slow
@pytest.mark.http_only
def test_r323_no_error_over_http_reveals_internals(http, project):
    for name in (*WITH_TOKEN, *TOKENLESS):
        operation = OPERATIONS[name]
        path = {**PLACE, "projectId": project.id}
        for token, body in [("secret-token", b"{}"), (http.token, b"\xff{"), (http.token, b'{"a":' * 9_999)]:
            target = BASES[operation.base] + operation.path.format_map(path)
            reply = http.request(operation.method, target, body=body, token=token)
            text = (
                json.dumps(reply.body) if not isinstance(reply.body, bytes) else reply.body.decode("latin-1")
            )
            assert token not in text
            assert reply.status not in (500, 501, 502)
            if reply.status >= 400:
                assert not INSIDE.search(text), (name, text)
