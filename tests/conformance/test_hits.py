"""Hits and how they are listed (R040 to R044, R164 to R169)."""

from uuid import UUID

import pytest
from conformance.shop import hex_id, hit, new, node, search, table, uuid, visit
from conformance.transports import load

PAGE = ("protocol", "hostname", "port", "origin", "pathname", "search", "hash")
PLACE = {"countryCode", "state", "city", "zipcode", "latitude", "longitude"}


@pytest.fixture(scope="module")
def records():
    page = {f"pageUrl__{name}": name for name in PAGE}
    known = {"geo__city": "Oslo", "geo__latitude": 59.91, "asn__asnId": "AS64500", "timezoneOffset": -60.0}
    visits = [
        visit(1, "2025-01-01T10:00:00Z", firstHitId=uuid(11), hitCount=3, geo__city="Oslo", asn__asnId="A"),
        visit(2, "2025-01-02T10:00:00Z", firstHitId=uuid(21), hitCount=1),
        visit(3, "2025-01-03T10:00:00Z", type="offline"),
    ]
    # Their ids are in the order of neither their arrival nor their dates.
    hits = [
        hit(11, 1, "2025-01-01T10:00:00Z", **page, **known),
        hit(13, 1, "2025-01-01T10:01:00Z"),
        hit(12, 1, "2025-01-01T10:02:00Z"),
        hit(21, 2, "2025-01-02T10:00:00Z"),
    ]
    return {"nodes": table(node("ads")), "interactions": table(*visits), "hits": table(*hits)}


LATE = (
    hit(31, 6, "2025-01-31T12:05:00Z"),
    hit(33, 6, "2025-01-31T12:00:00Z"),
    hit(32, 6, "2025-01-31T12:07:00Z"),
    hit(30, 6, "2025-01-31T12:06:00Z"),
)


def listed(project, first):
    return project.send("list_hits", {"firstHitId": first}).ok()


@pytest.mark.slow
def test_r040_a_hit_has_an_id_that_is_a_uuid(service):
    for record in listed(service, uuid(11)):
        assert "_id" not in record
        assert str(UUID(record["id"])) == record["id"]


def test_r041_the_session_of_a_hit_is_its_interaction(service):
    assert {record["sessionId"] for record in listed(service, uuid(11))} == {hex_id(1)}
    assert service.send("get_interaction", {"id": hex_id(1)}).status == 200


def test_r042_a_page_view_is_a_pageview(service):
    assert {record["hitType"] for record in listed(service, uuid(11))} == {"pageview"}


def test_r043_page_network_and_location_are_those_of_an_interaction(service):
    (first, *_) = listed(service, uuid(11))
    assert first["pageUrl"] == {name: name for name in PAGE}
    (interaction,) = [record for record in search(service)["data"] if record["_id"] == hex_id(1)]
    assert set(first["geo"]) == set(interaction["geo"]) == PLACE
    assert set(first["asn"]) == set(interaction["asn"]) == {"asnId", "asnName"}
    assert (first["geo"]["city"], first["geo"]["latitude"], first["asn"]["asnId"]) == (
        "Oslo",
        59.91,
        "AS64500",
    )


def test_r044_a_hit_has_a_date_and_an_offset(service):
    (first, *_) = listed(service, uuid(11))
    assert first["serverDate"] == "2025-01-01T10:00:00.000Z"
    assert first["timezoneOffset"] == -60


def test_r164_hits_are_found_by_the_first_of_them(service):
    assert len(listed(service, uuid(11))) == 3
    assert listed(service, hex_id(1)) == []


def test_r165_hits_are_a_bare_array(service):
    assert isinstance(listed(service, uuid(21)), list)


def test_r166_hits_are_in_the_order_of_arrival(service, new_project):
    """G-242: those of one request in the order of their dates."""
    assert [record["id"] for record in listed(service, uuid(11))] == [uuid(11), uuid(13), uuid(12)]

    project_id = new("late")

    def arrive(late):
        for own in (LATE[:1], LATE[1:3], LATE[3:]):
            load(late, project_id, hits=table(*own))

    session = table(visit(6, firstHitId=uuid(31)))
    late = new_project(project_id, interactions=session, prepare=arrive)
    assert [record["id"] for record in listed(late, uuid(31))] == [record["id"] for record in LATE]


def test_r167_an_unknown_first_hit_has_no_hits(service):
    for first in [uuid(99), "nonsense", "%20", hex_id(3)]:
        reply = service.send("list_hits", {"firstHitId": first})
        assert (reply.status, reply.body) == (200, []), first


def test_r168_another_hit_of_a_session_has_no_hits(service):
    assert listed(service, uuid(12)) == listed(service, uuid(13)) == []


def test_r169_a_first_hit_of_another_project_has_no_hits(service, new_project):
    visits = table(visit(5, firstHitId=uuid(55), hitCount=1))
    other = new_project(interactions=visits, hits=table(hit(55, 5, "2025-01-31T12:00:00Z")))
    assert len(listed(other, uuid(55))) == 1
    assert listed(service, uuid(55)) == []
