"""Requests about campaigns, and currencies."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from attrib_ds.contract import OPERATIONS, Request, to_wire
from attrib_ds.contract.identifiers import CURRENCIES

Ask = Callable[..., Request]
Refusal = Callable[..., str]

OUTLAY = {"amount": 12.5, "startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"}


def test_campaigns_accepted(receive: Ask) -> None:  # R282
    request = receive("create_campaign", body={"campaignSlug": "spring", "name": "Spring"})
    assert request.active is True
    closed = receive("create_campaign", body={"campaignSlug": "spring", "name": "Spring", "active": False})
    assert closed.active is False


def test_campaigns_refused(bad_request):
    for body, label in [
        ({"name": "Spring"}, "/campaignSlug"),
        ({"campaignSlug": "spring"}, "/name"),
        ({"campaignSlug": "spring", "name": ""}, "/name"),
        ({"campaignSlug": "spring", "name": "x", "active": "true"}, "/active"),
        ({"campaignSlug": "spring", "name": "x", "active": 1}, "/active"),
    ]:
        assert bad_request("create_campaign", body=body).startswith(f"{label}: "), (body, label)


def test_an_update_may_change_nothing(receive: Ask) -> None:  # R287
    request = receive("update_campaign", body={})
    assert (request.name, request.active) == (None, None)
    assert receive("update_campaign", body={"active": False}).active is False


def test_a_slug_in_an_update_is_ignored(receive: Ask) -> None:  # R289
    assert receive("update_campaign", body={"campaignSlug": "other"}) == receive("update_campaign", body={})


def test_campaign_sorts(receive):
    for accepted in ["name", "campaignId", "active"]:
        assert receive("list_campaigns", query={"sort": accepted}).sort == accepted, accepted


def test_outlay_sorts(receive):
    for accepted in ["campaignId", "startDate", "endDate", "amount", "country", "region"]:
        assert receive("list_outlays", query={"sort": accepted}).sort == accepted, accepted


def test_other_sorts_are_refused(bad_request):
    for name in ["list_campaigns", "list_outlays"]:
        assert bad_request(name, query={"sort": "createdAt"}).startswith("sort: "), name


def test_campaigns_are_listed_by_true_or_false(bad_request: Refusal) -> None:
    assert bad_request("list_campaigns", query={"active": "yes"}).startswith("active: ")


def test_a_name_is_searched_literally(receive: Ask) -> None:  # R279
    assert receive("list_campaigns", query={"nameLike": "50%_*"}).nameLike == "50%_*"


def test_outlays_accepted(receive: Ask) -> None:
    request = receive("create_outlay", body=OUTLAY)
    assert request.amount == Decimal("12.5")
    assert (request.country, request.region) == (None, None)
    assert receive("create_outlay", body=OUTLAY | {"amount": 0}).amount == 0  # G-165


def test_outlays_need_three_parts(bad_request):
    for missing in OUTLAY:
        rest = {name: value for name, value in OUTLAY.items() if name != missing}
        assert bad_request("create_outlay", body=rest) == f"/{missing}: is required", missing


def test_a_period_ends_after_it_starts(bad_request):
    for name in ["create_outlay", "update_outlay"]:
        for changed in [
            {"endDate": "2025-01-01T00:00:00Z"},
            {"endDate": "2024-12-31T00:00:00Z"},
            {"endDate": "2025-01-01T01:00:00+01:00"},  # R292: the same instant
            {"endDate": "2025-01-01T02:00:00+03:00"},
        ]:
            message = bad_request(name, body=OUTLAY | changed)
            assert message.startswith("/startDate: 2025-01-01T00:00:00+00:00 is not before /endDate "), (
                changed,
                name,
            )


def test_offsets_do_not_make_a_period_empty(receive: Ask) -> None:  # R292
    period = {"startDate": "2025-01-01T02:00:00+03:00", "endDate": "2025-01-01T00:00:00Z"}
    assert receive("create_outlay", body=OUTLAY | period).startDate.hour == 23


def test_outlay_amounts_refused(bad_request):
    for refused in [-1, -0.01, "12", True, None, float("nan"), float("inf"), 0.0000001, {"amount": 1}]:
        assert bad_request("create_outlay", body=OUTLAY | {"amount": refused}).startswith("/amount: "), (
            refused
        )


def test_an_outlay_update_may_change_one_bound(receive: Ask) -> None:  # R295
    assert receive("update_outlay", body={"endDate": OUTLAY["endDate"]}).startDate is None


@pytest.mark.parametrize("given", ["c2", {"id": "c2"}, {"id": "c2", "name": "Spring"}])
def test_an_outlay_moves_by_id(receive: Ask, given: object) -> None:  # G-166
    request = receive("update_outlay", body={"campaignId": given})
    assert request.campaignId == "c2"
    assert to_wire(OPERATIONS["update_outlay"], request).body == {"campaignId": {"id": "c2"}}


def test_an_outlay_moves_to_nothing_else(bad_request):
    for refused in [5, "", {}, {"id": 5}, {"id": ""}, ["c2"]]:
        assert bad_request("update_outlay", body={"campaignId": refused}).startswith("/campaignId: "), refused


def test_codes_in_force_and_withdrawn_are_known():
    for code in ["EUR", "USD", "NOK", "XXX", "ZWG", "XCG", "DEM", "FRF", "HRK", "BGN", "ZRN"]:
        assert code in CURRENCIES, code


def test_other_codes_are_not():
    for code in ["ZZZ", "eur", "EURO", "BTC", "", "EU"]:
        assert code not in CURRENCIES, code


def test_there_are_as_many_as_in_the_lists():
    """178 currencies in list one, and 129 more in list three."""
    assert len(CURRENCIES) == 178 + 129
    assert all(len(code) == 3 and code.isupper() and code.isascii() for code in CURRENCIES)
