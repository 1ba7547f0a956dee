"""Outlays of custom campaigns in the embedded service."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from support.service_records import send, table, utc

from attrib_ds import schema
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.service import Service

WEEK = {"startDate": "2025-03-03T00:00:00Z", "endDate": "2025-03-10T00:00:00Z"}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def service():
    """One project for all tests, each with campaigns of its own."""
    opened = Service.open("shop", ":memory:")
    send(opened, "create_integration", vendorId="my-ads", name="My ads")
    send(opened, "create_integration", vendorId="posters", name="Posters", currency="NOK")
    yield opened
    opened.close()


def campaign(service, slug, *, vendor="my-ads"):
    own = f"{slug}-{next(NUMBERS)}"
    return send(service, "create_campaign", vendorId=vendor, campaignSlug=own, name=slug).value


@pytest.fixture
def spring(service):
    return campaign(service, "spring")


def create(service, campaign_id, *, vendor="my-ads", **properties):
    usual = {"amount": 70, **WEEK}
    arguments = {"vendorId": vendor, "parentCampaignId": campaign_id} | usual | properties
    return send(service, "create_outlay", **arguments).value


def get(service, campaign_id, id, *, vendor="my-ads"):
    arguments = {"vendorId": vendor, "parentCampaignId": campaign_id, "outlayId": id}
    (record,) = send(service, "get_outlay", **arguments).read().to_pylist()
    return record


def update(service, campaign_id, id, *, vendor="my-ads", **changes):
    arguments = {"vendorId": vendor, "parentCampaignId": campaign_id, "outlayId": id}
    return send(service, "update_outlay", **arguments, **changes).value


def listed(service, campaign_id, *, vendor="my-ads", **arguments):
    return send(service, "list_outlays", vendorId=vendor, parentCampaignId=campaign_id, **arguments)


def ids(answer):
    return answer.read()["_id"].to_pylist()


def delete(service, campaign_id, id, *, vendor="my-ads"):
    arguments = {"vendorId": vendor, "parentCampaignId": campaign_id, "outlayId": id}
    return send(service, "delete_outlay", **arguments).value


# -- create and get ---------------------------------------------------------------------------------


def test_an_outlay_is_stored_in_the_currency_of_the_integration(service):
    """R098, R100, R101, R293, R294: a plain number comes back with the integration's currency."""
    id = campaign(service, "spring", vendor="posters")
    outlay = create(service, id, vendor="posters", amount=12.5, country="NO")
    outlay_record = get(service, id, outlay, vendor="posters")
    assert outlay_record["createdAt"] == outlay_record["updatedAt"]
    del outlay_record["createdAt"], outlay_record["updatedAt"]
    (root,) = [
        record
        for record in send(service, "list_integrations").read().to_pylist()
        if record["vendorId"] == "posters"
    ]
    assert outlay_record == {
        "_id": outlay,
        "projectId": "shop",
        "integrationId": root["_id"],
        "campaignId": id,
        "amount.amount": Decimal("12.5"),
        "amount.currency": "NOK",
        "startDate": utc(2025, 3, 3),
        "endDate": utc(2025, 3, 10),
        "country": "NO",
        "region": None,
        "deletedAt": None,
    }


@pytest.mark.parametrize("amount", [0, Decimal("999999999999999999.999999"), Decimal("0.000001"), 0.1])
def test_amounts_are_exact(service, spring, amount):
    """G-042, G-165: decimals, 0 included."""
    outlay_record = get(service, spring, create(service, spring, amount=amount))
    assert outlay_record["amount.amount"] == Decimal(str(amount))


@pytest.mark.slow
def test_outlays_of_an_unknown_campaign(service, spring):
    """G-168, R297: list is empty, create is refused, get and update are not found."""
    id = create(service, spring)
    for vendor, parent in (("my-ads", "unknown"), ("my-ads", "spring"), ("nobody", spring)):
        answer = listed(service, parent, vendor=vendor)
        assert (answer.total, answer.read().num_rows, answer.read().schema) == (0, 0, schema.OUTLAY)
        with pytest.raises(InvalidRequest, match="vendor_id: " if vendor == "nobody" else "campaign_id: "):
            create(service, parent, vendor=vendor)
        with pytest.raises(NotFound):
            get(service, parent, id, vendor=vendor)
        with pytest.raises(NotFound):
            update(service, parent, id, vendor=vendor, amount=1)
    assert get(service, spring, id)["amount.amount"] == 70


def test_outlays_made_at_the_same_time_are_all_kept(tmp_path):
    """Overlapping outlays are allowed, and summed (G-165)."""
    service = Service.open("shop", tmp_path / "shop.duckdb")
    send(service, "create_integration", vendorId="my-ads", name="My ads")
    id = campaign(service, "spring")
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda number: create(service, id, amount=number), range(24)))
    assert sorted(ids(listed(service, id))) == sorted(created)
    assert sum(listed(service, id).read()["amount.amount"].to_pylist()) == 276
    service.close()


# -- update -----------------------------------------------------------------------------------------


def test_each_property_can_be_changed_alone(service, spring):
    """R295, G-163."""
    id = create(service, spring)
    for change, column, value in (
        ({"amount": 71}, "amount.amount", Decimal(71)),
        ({"startDate": "2025-03-04T01:00:00+01:00"}, "startDate", utc(2025, 3, 4)),
        ({"endDate": "2025-03-09T00:00:00"}, "endDate", utc(2025, 3, 9)),
        ({"country": "NO"}, "country", "NO"),
        ({"region": "Vestland"}, "region", "Vestland"),
    ):
        before = get(service, spring, id)
        assert update(service, spring, id, **change) == 1, change
        after = get(service, spring, id)
        assert after["updatedAt"] > before["updatedAt"]
        assert after == before | {column: value, "updatedAt": after["updatedAt"]}
        assert update(service, spring, id, **change) == 0, change
        assert get(service, spring, id) == after


def test_both_halves_of_a_period_may_move_past_the_old_one(service, spring):
    """R296: only what would be stored counts."""
    id = create(service, spring)
    assert update(service, spring, id, startDate="2025-04-01T00:00:00Z", endDate="2025-04-02T00:00:00Z") == 1
    assert get(service, spring, id)["startDate"] == utc(2025, 4, 1)


@pytest.mark.parametrize("form", [lambda id: id, lambda id: {"id": id}], ids=["text", "object"])
def test_an_outlay_moves_to_another_campaign_of_the_integration(service, spring, form):
    """G-166."""
    summer, outlay = campaign(service, "summer"), create(service, spring)
    assert update(service, spring, outlay, campaignId=form(spring)) == 0
    assert update(service, spring, outlay, campaignId=form(summer)) == 1
    assert get(service, summer, outlay)["campaignId"] == summer
    with pytest.raises(NotFound):
        get(service, spring, outlay)


def test_an_outlay_moves_nowhere_else(service, spring):
    """G-166: an unknown target, or one of another integration, is refused and nothing changes."""
    foreign, outlay = campaign(service, "summer", vendor="posters"), create(service, spring)
    for target in (foreign, "unknown"):
        with pytest.raises(InvalidRequest, match=f"campaign_id: 'my-ads' has no campaign '{target}'"):
            update(service, spring, outlay, campaignId=target, amount=1)
    assert get(service, spring, outlay)["amount.amount"] == 70


# -- list -------------------------------------------------------------------------------------------


@pytest.fixture
def many(service, spring):
    """Four outlays: two in the same week, with a country or not, and one of another campaign."""
    rows = [
        ("2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z", 30, "NO", "b"),
        ("2025-03-03T00:00:00Z", "2025-03-17T00:00:00Z", 10, None, None),
        ("2025-03-10T00:00:00Z", "2025-03-11T00:00:00Z", 9, "DK", "a"),
        ("2025-02-01T00:00:00Z", "2025-02-02T00:00:00Z", 100, None, "a"),
    ]
    create(service, campaign(service, "summer"))
    names = ("startDate", "endDate", "amount", "country", "region")
    return [create(service, spring, **dict(zip(names, row, strict=True))) for row in rows]


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [3, 0, 1, 2]),
        ({"order": "DESC"}, [2, 0, 1, 3]),
        ({"sort": "startDate", "order": "ASC"}, [3, 0, 1, 2]),
        ({"sort": "endDate"}, [3, 0, 2, 1]),
        # As numbers, not as text.
        ({"sort": "amount"}, [2, 1, 0, 3]),
        ({"sort": "amount", "order": "DESC"}, [3, 0, 1, 2]),
        # Nulls last in both directions, ties by the id.
        ({"sort": "country"}, [2, 0, 1, 3]),
        ({"sort": "country", "order": "DESC"}, [0, 2, 1, 3]),
        ({"sort": "region"}, [2, 3, 0, 1]),
        ({"sort": "region", "order": "DESC"}, [0, 2, 3, 1]),
        ({"sort": "campaignId", "order": "DESC"}, [0, 1, 2, 3]),
    ],
)
def test_outlays_can_be_sorted(service, spring, many, arguments, expected):
    """R290, G-099, G-100."""
    answer = listed(service, spring, **arguments)
    assert [many.index(id) for id in ids(answer)] == expected
    assert (answer.total, answer.offset, answer.limit) == (4, 0, None)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, {0, 1, 2, 3}),
        ("2025-03-05T00:00:00Z", "2025-03-06T00:00:00Z", {0, 1}),
        # The last instant that counts is the one before endDate; startDate counts.
        ("2025-03-10T00:00:00Z", None, {1, 2}),
        ("2025-03-09T23:59:59.999999Z", None, {0, 1, 2}),
        (None, "2025-03-03T00:00:00Z", {0, 1, 3}),
        (None, "2025-03-02T23:59:59.999999Z", {3}),
        ("2025-03-03T01:00:00+01:00", "2025-03-03T01:00:00+01:00", {0, 1}),
        ("2025-01-01T00:00:00Z", "2025-12-31T00:00:00Z", {0, 1, 2, 3}),
        ("2025-04-01T00:00:00Z", None, set()),
        # The wrong way round, inside a period.
        ("2025-03-06T00:00:00Z", "2025-03-05T00:00:00Z", set()),
    ],
)
def test_outlays_of_a_period_are_those_that_meet_it(service, spring, many, since, until, expected):
    """G-167, G-037."""
    answer = listed(service, spring, since=since, until=until)
    assert {many.index(id) for id in ids(answer)} == expected
    assert answer.total == len(expected)


@pytest.mark.slow
def test_deleted_outlays_are_hidden(service, spring, many):
    """G-078, R100."""
    before = get(service, spring, many[0])
    assert delete(service, spring, many[0]) == 1
    answer = listed(service, spring)
    assert (set(ids(answer)), answer.total) == (set(many[1:]), 3)
    assert set(ids(listed(service, spring, deleted=False))) == set(many[1:])
    (deleted,) = listed(service, spring, deleted=True).read().to_pylist()
    assert deleted["deletedAt"] == deleted["updatedAt"] > before["updatedAt"]
    assert {**deleted, "deletedAt": None, "updatedAt": before["updatedAt"]} == before
    with pytest.raises(NotFound):
        get(service, spring, many[0])
    with pytest.raises(NotFound):
        update(service, spring, many[0], amount=1)
    with pytest.raises(NotFound):
        delete(service, spring, many[0])


def test_g078_an_outlay_is_deleted_under_its_own_campaign_alone(service, spring, many):
    other = campaign(service, "autumn")
    for wrong in ((other, many[0]), (spring, "no-outlay")):
        with pytest.raises(NotFound, match="outlay_id: "):
            delete(service, *wrong)
    with pytest.raises(NotFound):
        delete(service, spring, many[0], vendor="posters")
    assert len(ids(listed(service, spring))) == 4


def test_loaded_outlays_of_a_campaign_are_there_too(service, spring):
    loaded = {"campaignId": spring, "amount.amount": 5.0, "amount.currency": "SEK", **WEEK, "_id": "own"}
    send(service, "load_records", resource="spend", source=table(loaded))
    assert ids(listed(service, spring)) == ["own"]
    # A new amount is in the currency of the integration.
    assert update(service, spring, "own", amount=6) == 1
    outlay_record = get(service, spring, "own")
    assert (outlay_record["amount.amount"], outlay_record["amount.currency"]) == (6, "EUR")
