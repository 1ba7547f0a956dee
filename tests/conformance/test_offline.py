"""Creating offline interactions (R184 to R188)."""

import pytest
from conformance.shop import NOON, VENDOR, email, hex_id, search


def send(project, **parts):
    usual = {"date": NOON, "userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}}
    body = {name: value for name, value in {**usual, **parts}.items() if value is not ...}
    return project.send("create_offline_interaction", body=body)


def test_r184_node_data_without_vendor_id_is_refused(service):
    for node_data in [{}, {"campaignId": "c"}, {"vendorId": None}, {"vendorId": 5}, None, [], ...]:
        reply = send(service, nodeData=node_data)
        assert reply.status == 400, node_data
        assert "nodeData" in reply.body["message"], node_data
        if isinstance(node_data, dict) and node_data.get("vendorId") is None:
            assert "nodeData: has no vendorId" in reply.body["message"], node_data


@pytest.mark.slow
def test_r185_a_refused_interaction_is_not_stored(service):
    for wrong in [
        {"nodeData": {}},
        {"nodeData": {"vendorId": "unknown"}},
        {"userData": {}},
        {"userData": {"email": "no email"}},
        {"userData": {"email": "anna@example.com", "shoeSize": 42}},
        {"userData": ...},
        {"date": "2025-02-30T00:00:00Z"},
        {"date": ...},
    ]:
        before = search(service, isBot=None, filtered=None)["total"]
        assert send(service, **wrong).status == 400, wrong
        assert search(service, isBot=None, filtered=None)["total"] == before, wrong


@pytest.mark.slow
def test_r185_an_accepted_interaction_can_be_read_at_once(service):
    for _ in range(3):
        created = send(service)
        assert created.status == 201
        assert service.send("get_interaction", {"id": created.body["_id"]}).ok() == created.body
        assert created.body["_id"] in [record["_id"] for record in search(service)["data"]]


def test_r186_identity_fields_are_accepted(service):
    for field in ["email", "phone", "vendorUserId"]:
        value = {"email": email(), "phone": "+33612345678", "vendorUserId": "v-1"}[field]
        assert send(service, userData={field: value}).ok()["userData"] == {field: value}, field


def test_r186_other_fields_are_refused(service):
    """The first is a field of the user's schema that identifies no user, the next ones are of the event."""
    for field in ["firstName", "coupon", "turnover", "mail", "shoeSize", "_id", "userId"]:
        assert send(service, userData={"email": email(), field: "x"}).status == 400, field


def test_r187_the_new_interaction_is_offline_and_starts_at_its_date(service):
    created = send(service, date="2025-01-31T13:30:00+01:00").ok()
    assert (created["type"], created["isBot"]) == ("offline", False)
    assert created["startDate"] == created["endDate"] == "2025-01-31T12:30:00.000Z"
    session_only = {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"}
    assert session_only & set(created) == set()


def test_r188_an_unknown_vendor_is_refused(service):
    for vendor in ["unknown", "MY-ADS", "", hex_id(1)]:
        assert send(service, nodeData={"vendorId": vendor}).status == 400, vendor
