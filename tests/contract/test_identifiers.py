from collections.abc import Callable
from uuid import UUID

import pytest

from attrib_ds.contract import Request

Ask = Callable[..., Request]
Refusal = Callable[..., str]


@pytest.mark.parametrize("accepted", ["abc", "a" * 64, "my-shop", "a-1-b", "123"])
def test_project_ids_accepted(ask: Ask, accepted: str) -> None:  # R015, R016
    assert ask("list_nodes", projectId=accepted).projectId == accepted


@pytest.mark.parametrize(
    "refused",
    [
        "ab",
        "a" * 65,
        "-shop",
        "shop-",
        "my--shop",
        "my_shop",
        "my shop",
        "my.shop",
        "Shop",
        "shop\n",
        "",
        "caf\u00e9",
        5,
        b"shop",
        ["shop"],
    ],
)
def test_project_ids_refused(refusal: Refusal, refused: object) -> None:  # R016, R017, R018
    message = refusal("list_nodes", projectId=refused)
    assert message.startswith("project_id: ")
    assert message.endswith(
        "expected 3 to 64 lower-case letters and digits, with single hyphens between them"
    )


@pytest.mark.parametrize(
    "refused",
    [
        "0123456789ABCDEF01234567",
        "0123456789abcdef0123456",
        "0123456789abcdef012345678",
        "0123456789abcdef01234567\n",
        "0123456789abcdef0123456g",
        " " * 24,
        "00000000-0000-4000-8000-000000000001",
        "",
        12,
    ],
)
@pytest.mark.parametrize("name", ["get_interaction", "get_user"])
def test_hexadecimal_ids_refused(refusal: Refusal, name: str, refused: object) -> None:  # R019, R161, R255
    assert refusal(name, id=refused).startswith("id: ")


@pytest.mark.parametrize("name", ["list_user_events", "list_user_metrics"])
def test_malformed_user_ids_are_unknown_where_no_400_is_listed(ask: Ask, name: str) -> None:
    assert ask(name, id="NOT-AN-ID").id == "NOT-AN-ID"


@pytest.mark.parametrize("name", ["get_event", "get_raw_event", "update_event_state"])
def test_malformed_event_ids_are_unknown(ask: Ask, name: str) -> None:  # R205, G-154
    assert ask(name, id="nonsense", **({"value": 1} if name.startswith("update") else {})).id == "nonsense"


def test_malformed_hit_ids_are_unknown(ask: Ask) -> None:  # R167, G-032
    assert ask("list_hits", firstHitId="0123456789abcdef01234567").firstHitId == "0123456789abcdef01234567"


@pytest.mark.parametrize(
    "written",
    [
        "0190163D-8694-739B-AEA5-966C26F8AD91",
        "0190163d-8694-739b-aea5-966c26f8ad91",
        UUID("0190163d-8694-739b-aea5-966c26f8ad91"),
    ],
)
def test_uuids_take_one_form(ask: Ask, written: object) -> None:  # R020
    assert ask("get_event", id=written).id == "0190163d-8694-739b-aea5-966c26f8ad91"


@pytest.mark.parametrize("refused", ["", ".", "..", None, 7])
def test_path_texts_that_name_another_path_are_refused(refusal: Refusal, refused: object) -> None:
    assert refusal("get_event_type", id=refused).startswith("reference: ")


@pytest.mark.parametrize("accepted", ["spring", "Spring.Sale_2~b-1", "7", "a" * 128])
def test_slugs_accepted(ask: Ask, accepted: str) -> None:  # G-159
    assert ask("create_campaign", campaignSlug=accepted, name="Spring").campaignSlug == accepted


@pytest.mark.parametrize("refused", ["", "a" * 129, "-spring", "spring sale", "a/b", "spring\n", 5])
def test_slugs_refused(refusal: Refusal, refused: object) -> None:
    assert refusal("create_campaign", campaignSlug=refused, name="x").startswith("campaign_slug: ")


@pytest.mark.parametrize("accepted", ["order", "order-paid_2", "a" * 64, "1"])
def test_references_accepted(ask: Ask, accepted: str) -> None:  # G-155
    assert ask("create_event_type", reference=accepted, name="Order").reference == accepted


@pytest.mark.parametrize("refused", ["", "a" * 65, "Order", "order-", "order--paid", "order\n", "or der"])
def test_references_refused(refusal: Refusal, refused: str) -> None:
    assert refusal("create_event_type", reference=refused, name="Order").startswith("reference: ")


@pytest.mark.parametrize("refused", ["My-Ads", "ab", "my ads", "my-ads\n"])
def test_vendor_ids_follow_the_pattern_of_projects(refusal: Refusal, refused: str) -> None:  # G-047
    assert refusal("list_campaigns", vendorId=refused).startswith("vendor_id: ")


@pytest.mark.parametrize("refused", ["\ud800", "a\0b"])
def test_what_no_engine_stores_is_no_text(refusal: Refusal, refused: str) -> None:  # R204
    message = refusal("list_campaigns", nameLike=refused)
    assert (
        message == "name_like: contains a NUL character or an unpaired surrogate; expected text without them"
    )
