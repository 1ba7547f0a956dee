"""Operations over HTTP that write: their statuses, their forms and the words of their errors."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest
from service.http.caller import Caller, token_of

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.service import Service
from attrib_ds.service.accounts.administration import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.http.settings import Settings

PROJECT = "/api/v1/projects/shop"
CAMPAIGNS = f"{PROJECT}/custom-ads/ads/campaigns"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("writing")
    create = OPERATIONS["create_integration"]
    with closing(Service.open("shop", home / "shop.duckdb")) as service:
        service.answer(create, build(create, project_id="shop", vendor_id="ads", name="Ads"))
    return home


@pytest.fixture(scope="module")
def write(folder):
    """Call a server whose project may be changed."""
    key = create_key(folder, folder / "key.json", projects=["shop"])
    with running(folder, settings=Settings(rates=None)) as url:
        yield Caller(url, token_of(url, key))


@pytest.fixture(scope="module")
def event_type(write):
    fields = [
        {
            "type": "email",
            "entity": "user",
            "storageKey": "email",
            "ingestionKey": "email",
            "discriminant": True,
        },
        {"type": "currency", "entity": "event", "storageKey": "turnover", "ingestionKey": "turnover"},
    ]
    usual = {"discriminant": False, "isPii": False, "isMostProbableLocation": False, "optional": False}
    body = {
        "reference": "order",
        "name": "Order",
        "fields": [usual | field for field in fields],
        "metadata": {},
    }
    reply = write("POST", f"{PROJECT}/event-types", body)
    assert reply.status == 201, reply.content
    assert reply.json()["reference"] == "order"
    return "order"


def event(nonce, **changes):
    data = {"email": "anna@example.com", "turnover": {"amount": 10.10, "currency": "EUR"}}
    return {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": data, **changes}


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events/sync"])
def test_an_event_is_answered_by_its_id(write, event_type, path):
    reply = Caller(write.url)("POST", path, event(path))
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert uuid.UUID(reply.json())
    assert write("POST", path, event(path)).json() == reply.json()


def test_r117_a_synchronous_event_is_there_at_once(write, event_type):
    event_id = write("POST", "/api/v1/events/sync", event("sync")).json()
    computed = write("GET", f"{PROJECT}/events/{event_id}").json()
    assert computed["user"]["email"]["current"] == "anna@example.com"
    assert computed["expirationPolicy"] is None
    assert {each["key"] for each in computed["metrics"]} >= {"turnover", "event-count"}
    raw = write("GET", f"{PROJECT}/events/{event_id}/raw").content
    assert b'"amount":10.1,' in raw.replace(b" ", b"")


def test_g132_an_invalid_synchronous_event_is_told_with_its_errors(write, event_type):
    # A decimal that is no binary fraction comes back as it was.
    reply = write("POST", "/api/v1/events/sync", event("wrong", data={"email": 0.10, "turnover": 1}))
    assert reply.status == 400
    body = reply.json()
    assert body["message"].startswith("/data/email: ")
    assert uuid.UUID(body["eventId"])
    (error,) = body["errors"]
    assert error["type"] == "invalid-field"
    assert error["field"]["storageKey"] == "email"
    assert "eventId" not in error
    assert b"0.1}" in reply.content or b"0.1," in reply.content
    trashed = write("GET", f"{PROJECT}/trashed-events").json()
    assert body["eventId"] in {each["_id"] for each in trashed["data"]}
    assert set(trashed) == {"count", "total", "data"}


def test_r320_an_invalid_asynchronous_event_is_accepted(write):
    assert write("POST", "/api/v1/events", event("unknown type", eventType="nonsense")).status == 200


def test_g131_a_nonce_with_other_content_is_a_conflict(write, event_type):
    write("POST", "/api/v1/events/sync", event("twice"))
    reply = write("POST", "/api/v1/events/sync", event("twice", trackerId="other"))
    assert (reply.status, reply.json()["error"]) == (409, "Conflict")
    assert reply.json()["message"].startswith("/nonce: ")


def test_g143_a_repeated_offline_interaction_was_not_created(write):
    body = {
        "date": "2025-01-31T12:00:00Z",
        "userData": {"email": "anna@example.com"},
        "nodeData": {"vendorId": "ads"},
        "externalId": "call-1",
    }
    replies = [write("POST", f"{PROJECT}/interactions/offline", body) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 200]
    assert replies[0].json() == replies[1].json()
    assert replies[0].json()["rawNodeData"] == {"vendorId": "ads"}
    assert "geo" not in replies[0].json()


def test_errors_of_the_service_name_members_of_the_body(write):
    body = {
        "date": "2025-01-31T12:00:00Z",
        "userData": {"email": "anna@example.com"},
        "nodeData": {"vendorId": "nobody"},
    }
    reply = write("POST", f"{PROJECT}/interactions/offline", body)
    assert reply.status == 400
    assert reply.json()["message"].startswith("/nodeData/vendorId: ")


@pytest.fixture(scope="module")
def campaign_id(write):
    reply = write("POST", CAMPAIGNS, {"campaignSlug": "brand", "name": "Brand"})
    assert reply.status == 200
    assert list(reply.json()) == ["id"]
    return reply.json()["id"]


def test_r118_a_campaign_is_changed_by_patch_and_its_synonym(write, campaign_id):
    path = f"{CAMPAIGNS}/{campaign_id}"
    for method, active, count in (("PATCH", False, 1), ("PUT", True, 1), ("PUT", True, 0)):
        reply = write(method, path, {"active": active})
        assert (reply.status, reply.json()) == (200, {"modifiedCount": count})
        assert write("GET", path).json()["active"] is active


def test_g183_a_slug_that_is_taken_is_a_conflict(write, campaign_id):
    reply = write("POST", CAMPAIGNS, {"campaignSlug": "brand", "name": "Other"})
    body = reply.json()
    assert (reply.status, body["statusCode"], body["error"]) == (409, 409, "Conflict")
    assert "brand" in body["message"]


def test_g042_an_outlay_keeps_its_digits(write, campaign_id):
    outlays = f"{CAMPAIGNS}/{campaign_id}/outlays"
    body = (
        b'{"amount": 123456789012345678.123456, "startDate": "2025-01-01T00:00:00Z", '
        b'"endDate": "2025-02-01T00:00:00+02:00"}'
    )
    outlay_id = write("POST", outlays, body).json()["id"]
    reply = write("GET", f"{outlays}/{outlay_id}")
    assert b'"amount":{"amount":123456789012345678.123456,"currency":"EUR"}' in reply.content
    assert reply.json()["endDate"] == "2025-01-31T22:00:00.000Z"
    page = write("GET", f"{outlays}?since=2025-01-15T00:00:00+01:00&limit=5").json()
    assert {name: page[name] for name in ("count", "total", "offset", "limit")} == {
        "count": 1,
        "total": 1,
        "offset": 0,
        "limit": 5,
    }


def test_g033_a_state_is_set_by_any_of_its_methods(write, event_type):
    event_id = write("POST", "/api/v1/events/sync", event("states")).json()
    path = f"{PROJECT}/events/{event_id}/statistics/turnover"
    for method, value in (("PUT", 1), ("PATCH", 2), ("POST", 3.5)):
        reply = write(method, path, {"value": value})
        assert reply.status == 200, reply.content
        assert reply.json()["data"]["current"] == {"amount": value, "currency": "EUR"}
    assert write("PUT", path.replace("turnover", "nonsense"), {"value": 1}).status == 404
