"""Outlays (R098 to R101, R290 to R298)."""

import pytest
from conformance.shop import VENDOR, hex_id, new
from conformance.transports import carry_out

JANUARY = {"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-02-01T00:00:00Z"}


@pytest.fixture(scope="module")
def service(new_project):
    """A project with a second integration, in another currency."""

    def prepare(opened):
        arguments = {"vendorId": "us-ads", "name": "US", "currency": "USD"}
        carry_out(opened, opened._store.meta.project_id, "create_integration", **arguments)

    return new_project(prepare=prepare)


def campaign(project, vendor=VENDOR):
    body = {"campaignSlug": new("slug"), "name": "Summer"}
    id = project.send("create_campaign", {"vendorId": vendor}, body=body).ok()["id"]
    return {"vendorId": vendor, "parentCampaignId": id}


@pytest.fixture(scope="module")
def place(service):
    return campaign(service)


def create(project, place, **parts):
    return project.send("create_outlay", place, body={"amount": 100, **JANUARY, **parts})


def get(project, place, id):
    return project.send("get_outlay", {**place, "outlayId": id})


def update(project, place, id, **parts):
    return project.send("update_outlay", {**place, "outlayId": id}, body=parts)


def made(project, place, **parts):
    return get(project, place, create(project, place, **parts).ok()["id"]).ok()


def test_r098_an_outlay_has_an_id_and_an_amount_of_money(service, place):
    record = made(service, place, amount=12.5)
    assert "id" not in record
    assert isinstance(record["_id"], str)
    assert record["amount"] == {"amount": 12.5, "currency": "EUR"}
    assert (record["projectId"], record["campaignId"]) == (service.id, place["parentCampaignId"])


def test_r099_it_ends_after_it_starts(service, place):
    record = made(service, place)
    assert (record["startDate"], record["endDate"]) == (
        "2025-01-01T00:00:00.000Z",
        "2025-02-01T00:00:00.000Z",
    )
    assert record["startDate"] < record["endDate"]


def test_r100_country_and_region_may_be_missing(service, place):
    record = made(service, place)
    assert (record["deletedAt"], record["country"], record["region"]) == (None, None, None)
    record = made(service, place, country="NO", region="Oslo")
    assert (record["country"], record["region"]) == ("NO", "Oslo")


def test_r101_r294_the_amount_is_in_the_currency_of_the_integration(service):
    american = campaign(service, "us-ads")
    assert made(service, american, amount=7)["amount"] == {"amount": 7, "currency": "USD"}
    assert made(service, american, amount=0.1)["amount"] == {"amount": 0.1, "currency": "USD"}


def test_r101_an_amount_is_sent_as_a_number(service, place):
    for amount in [{"amount": 7, "currency": "EUR"}, "7", None, True, -1, [7]]:
        assert create(service, place, amount=amount).status == 400, amount


def test_r290_outlays_are_sorted_and_paged(fresh):
    place = campaign(fresh)
    spans = [("2025-01-03", "2025-01-05", 5, "NO", "b"), ("2025-01-01", "2025-01-09", 20, "AT", "c"),
             ("2025-01-02", "2025-01-04", 10, "DE", "a")]  # fmt: skip
    for start, end, amount, country, region in spans:
        dates = {"startDate": f"{start}T00:00:00Z", "endDate": f"{end}T00:00:00Z"}
        create(fresh, place, amount=amount, country=country, region=region, **dates).ok()
    orders = {
        "startDate": [20, 10, 5],
        "endDate": [10, 5, 20],
        "amount": [5, 10, 20],
        "country": [20, 10, 5],
        "region": [10, 5, 20],
    }
    for sort, expected in orders.items():
        for order, wanted in (("ASC", expected), ("DESC", expected[::-1])):
            page = fresh.send("list_outlays", place, {"sort": sort, "order": order}).ok()
            assert [entry["amount"]["amount"] for entry in page["data"]] == wanted, (sort, order)
    page = fresh.send("list_outlays", place, {"sort": "campaignId", "offset": 2, "limit": 2}).ok()
    assert {name: page[name] for name in page if name != "data"} == {
        "count": 1,
        "total": 3,
        "offset": 2,
        "limit": 2,
    }
    assert fresh.send("list_outlays", place, {"sort": "createdAt"}).status == 400


def test_r291_three_members_are_required(service, place):
    for missing in ["amount", "startDate", "endDate"]:
        body = {"amount": 100, **JANUARY}
        del body[missing]
        assert service.send("create_outlay", place, body=body).status == 400, missing


def test_r291_r292_an_empty_period_is_refused(service, place):
    for end in ["2025-01-01T00:00:00Z", "2024-12-31T00:00:00Z", "2025-01-01T01:00:00+01:00"]:
        assert create(service, place, endDate=end).status == 400, end


def test_r292_bounds_are_compared_as_instants(service, place):
    """As text the start is later than the end."""
    dates = {"startDate": "2025-01-02T01:00:00+05:00", "endDate": "2025-01-01T23:00:00Z"}
    assert create(service, place, **dates).status == 200
    dates = {"startDate": "2025-01-01T23:00:00Z", "endDate": "2025-01-02T01:00:00+05:00"}
    assert create(service, place, **dates).status == 400


def test_r293_creating_answers_200_with_the_id_alone(service, place):
    reply = create(service, place)
    assert (reply.status, set(reply.body)) == (200, {"id"})
    assert get(service, place, reply.body["id"]).ok()["_id"] == reply.body["id"]


def test_r295_updating_answers_the_number_of_modified_records(service, place):
    id = create(service, place).ok()["id"]
    assert update(service, place, id, amount=7).ok() == {"modifiedCount": 1}
    assert update(service, place, id, amount=7).ok() == {"modifiedCount": 0}
    assert update(service, place, id).ok() == {"modifiedCount": 0}
    same = {"amount": 7.00, "startDate": "2025-01-01T01:00:00+01:00"}
    assert update(service, place, id, **same).ok() == {"modifiedCount": 0}
    assert get(service, place, id).ok()["amount"] == {"amount": 7, "currency": "EUR"}
    assert update(service, place, hex_id(1), amount=7).status == 404


def test_r296_a_new_bound_must_be_consistent_with_the_other(service, place):
    for changes in [
        {"startDate": "2025-02-01T00:00:00Z"},
        {"startDate": "2025-03-01T00:00:00Z"},
        {"endDate": "2025-01-01T00:00:00Z"},
        {"endDate": "2025-01-01T05:00:00+06:00", "amount": 7},
    ]:
        before = made(service, place)
        reply = update(service, place, before["_id"], **changes)
        assert reply.status == 400, changes
        assert "must end after it starts" in reply.body["message"], changes
        assert get(service, place, before["_id"]).ok() == before, changes


def test_r297_an_unknown_outlay_is_404(service, place):
    for id in (hex_id(1), "nonsense"):
        assert get(service, place, id).status == 404


def test_r298_an_outlay_is_not_reached_by_another_path(service, place, fresh):
    id = create(service, place).ok()["id"]
    others = [campaign(service), campaign(service, "us-ads"), {**place, "vendorId": "us-ads"}]
    for other in others:
        assert get(service, other, id).status == 404
        assert update(service, other, id, amount=7).status == 404
        assert id not in [entry["_id"] for entry in service.send("list_outlays", other).ok()["data"]]
    assert get(fresh, place, id).status == 404
    assert get(service, place, id).ok()["amount"]["amount"] == 100
