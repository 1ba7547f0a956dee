"""Interactions as they are read (R023 to R039, R160 to R163)."""

import pytest
from conformance.shop import (
    COMMON,
    NOON,
    SESSION_ONLY,
    VENDOR,
    email,
    found,
    hex_id,
    hit,
    node,
    search,
    table,
    uuid,
    visit,
)

from attrib_ds.contract import OPERATIONS, build

URL = {
    "protocol": "https:",
    "hostname": "shop.example",
    "port": "8443",
    "origin": "https://shop.example:8443",
    "pathname": "/boots",
    "search": "?size=42",
    "hash": "#top",
}


@pytest.fixture(scope="module")
def records():
    session = visit(
        1,
        "2025-01-01T10:00:00Z",
        type="session",
        endDate="2025-01-01T10:02:03.5Z",
        firstHitId=uuid(1),
        hitCount=3,
        firstPage="/boots",
        userData='{"vendorUserId":"u-1","email":"anna@example.com"}',
        asn__asnId="AS64500",
        asn__asnName="Example Net",
        geo__countryCode="NO",
        geo__state="Oslo",
        geo__city="Oslo",
        geo__zipcode="0150",
        geo__latitude=59.91,
        geo__longitude=10.75,
        userAgent__ua="Mozilla/5.0",
        userAgent__browser__name="Firefox",
        userAgent__browser__version="128.0",
        userAgent__browser__major="128",
        userAgent__os__name="Linux",
        **{f"firstPageUrl__{name}": value for name, value in URL.items()},
    )
    visits = [
        session,
        visit(2, "2025-01-02T10:00:00Z", firstHitId=uuid(4), hitCount=1, endDate="2025-01-02T10:00:00Z"),
        visit(3, "2025-01-03T10:00:00Z", type="offline", geo__city="Bergen", hitCount=9),
        visit(4, "2025-01-04T10:00:00Z", isBot=True),
        visit(5, "2025-01-05T10:00:00Z", trafficFilterId="office"),
        visit(6, "2025-01-06T23:59:59Z", endDate="2025-01-07T00:00:01Z"),
    ]
    hits = [hit(number, 1, f"2025-01-01T10:0{number - 1}:00Z") for number in (1, 2, 3)]
    hits.append(hit(4, 2, "2025-01-02T10:00:00Z"))
    return {"nodes": table(node("ads")), "interactions": table(*visits), "hits": table(*hits)}


def one(project, number):
    return project.send("get_interaction", {"id": hex_id(number)}).ok()


def create_offline(project, **parts):
    body = {"date": NOON, "userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}, **parts}
    return project.send("create_offline_interaction", body=body).ok()


def test_r023_a_session_lasts_from_start_to_end_in_seconds(service):
    assert one(service, 1)["duration"] == 123.5
    assert one(service, 6)["duration"] == 2


def test_r024_a_session_of_one_hit_lasts_0_seconds(service):
    record = one(service, 2)
    assert (record["hitCount"], record["duration"]) == (1, 0)


def test_r025_offline_interactions_have_a_creation_date(service):
    assert one(service, 3)["createdAt"].endswith("Z")
    assert create_offline(service)["createdAt"].endswith("Z")


def test_r026_an_offline_interaction_is_not_a_bot(service):
    assert one(service, 3)["isBot"] in (False, None)
    assert create_offline(service)["isBot"] is False
    for is_bot in (True, False, None):
        offline = [entry for entry in search(service, isBot=is_bot)["data"] if entry["type"] == "offline"]
        assert [entry for entry in offline if entry["isBot"]] == []


def test_r027_the_traffic_filter_is_set_if_it_captured_the_traffic(service):
    assert one(service, 5)["trafficFilterId"] == "office"
    for number in (1, 2, 3, 4, 6):
        record = one(service, number)
        assert "trafficFilterId" in record
        assert record["trafficFilterId"] is None


def test_r028_user_data_is_an_object_of_identities(service):
    assert one(service, 1)["userData"] == {"vendorUserId": "u-1", "email": "anna@example.com"}
    mail = email()
    created = create_offline(service, userData={"email": mail, "vendorUserId": "v-1"})
    assert created["userData"] == {"email": mail, "vendorUserId": "v-1"}


def test_r029_raw_node_data_is_as_sent(service):
    for extra in [
        {},
        {"campaignSlug": "spring", "Ünïcode": "😀", "a": None},
        {"campaignId": "c-1", "shelf": {"row": [1, None, 2.5]}, " x ": " Y "},
    ]:
        created = create_offline(service, nodeData={"vendorId": VENDOR, **extra})
        assert created["rawNodeData"] == {"vendorId": VENDOR, **extra}, extra
        assert (
            service.send("get_interaction", {"id": created["_id"]}).ok()["rawNodeData"]
            == created["rawNodeData"]
        ), extra


def test_r030_offline_interactions_lack_the_keys_of_sessions(service):
    assert SESSION_ONLY & set(one(service, 3)) == set()
    assert SESSION_ONLY & set(create_offline(service)) == set()
    listed = [entry for entry in search(service)["data"] if entry["type"] == "offline"]
    assert listed
    assert all(SESSION_ONLY.isdisjoint(entry) for entry in listed)


def test_r031_the_first_page_has_seven_text_members(service):
    assert one(service, 1)["firstPageUrl"] == URL


def test_r032_the_user_agent_has_its_members(service):
    assert one(service, 1)["userAgent"] == {
        "ua": "Mozilla/5.0",
        "browser": {"name": "Firefox", "version": "128.0", "major": "128"},
        "engine": {"name": None, "version": None},
        "os": {"name": "Linux", "version": None},
        "device": {"vendor": None, "model": None, "type": None},
        "cpu": {"architecture": None},
    }


def test_r033_the_network_has_two_text_members(service):
    assert one(service, 1)["asn"] == {"asnId": "AS64500", "asnName": "Example Net"}


def test_r034_the_location_has_text_and_number_members(service):
    assert one(service, 1)["geo"] == {
        "countryCode": "NO",
        "state": "Oslo",
        "city": "Oslo",
        "zipcode": "0150",
        "latitude": 59.91,
        "longitude": 10.75,
    }


def test_r035_the_first_hit_is_the_one_that_opened_the_session(service):
    first = one(service, 1)["firstHitId"]
    hits = service.send("list_hits", {"firstHitId": first}).ok()
    assert first == uuid(1)
    assert min(hits, key=lambda entry: entry["serverDate"])["id"] == first


def test_r036_hit_count_is_the_number_of_hits(service):
    for number in [1, 2]:
        record = one(service, number)
        assert (
            len(service.send("list_hits", {"firstHitId": record["firstHitId"]}).ok()) == record["hitCount"]
        ), number


def test_r037_nothing_ends_before_it_starts(service):
    for record in search(service, isBot=None, filtered=None)["data"]:
        assert record["startDate"] <= record["endDate"]


def test_r038_the_lifetime_index_is_a_whole_number(service):
    """It counts a user's interactions by start, from 1."""
    indexes = {number: one(service, number)["userLifetimeIndex"] for number in range(1, 7)}
    assert indexes == {number: number for number in range(1, 7)}
    assert type(create_offline(service)["userLifetimeIndex"]) is int


def test_r038_an_earlier_interaction_that_comes_late_moves_the_others(service):
    user = {"email": email()}
    second = create_offline(service, userData=user)
    first = create_offline(service, userData=user, date="2024-06-01T00:00:00Z")
    shown = [service.send("get_interaction", {"id": record["_id"]}).ok() for record in (first, second)]
    assert [record["userLifetimeIndex"] for record in shown] == [1, 2]


def test_r026_r037_other_interactions_are_not_stored(new_project):
    """Neither an offline one that is a bot, nor one that ends before it starts."""
    wrong = [visit(1, type="offline", isBot=True), visit(2, endDate="2025-01-31T11:59:59Z")]
    rejected = []

    def prepare(opened):
        operation = OPERATIONS["load_records"]
        arguments = {"resource": "interactions", "source": table(*wrong)}
        request = build(operation, project_id=opened._store.meta.project_id, **arguments)
        rejected.extend(opened.send(operation, request).read()["row"].to_pylist())

    project = new_project(prepare=prepare, nodes=table(node("ads")))
    assert rejected == [0, 1]
    assert search(project, isBot=None, filtered=None)["total"] == 0


def test_r160_an_interaction_has_every_property(service):
    assert set(one(service, 1)) == COMMON | SESSION_ONLY
    assert set(one(service, 3)) == COMMON


def test_r161_a_malformed_id_is_400(service):
    for id in ["1", "A" * 24, uuid(1)]:
        assert service.send("get_interaction", {"id": id}).status == 400, id


def test_r161_an_unknown_id_is_404(service):
    reply = service.send("get_interaction", {"id": hex_id(999)})
    assert (reply.status, hex_id(999) in reply.body["message"]) == (404, True)


def test_r162_bots_and_captured_traffic_are_read_by_id(service):
    assert one(service, 4)["isBot"] is True
    assert one(service, 5)["trafficFilterId"] == "office"
    assert {4, 5}.isdisjoint(found(service))


def test_r163_an_id_of_another_project_is_unknown(service, new_project):
    other = new_project(interactions=table(visit(777)))
    assert other.send("get_interaction", {"id": hex_id(777)}).status == 200
    foreign = service.send("get_interaction", {"id": hex_id(777)})
    unknown = service.send("get_interaction", {"id": hex_id(778)})
    assert foreign.status == unknown.status == 404
    for reply in (foreign, unknown):
        reply.body.pop("requestId")
    message = unknown.body["message"].replace(hex_id(778), hex_id(777))
    assert foreign.body == {**unknown.body, "message": message}
