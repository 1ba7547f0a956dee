from collections.abc import Callable
from uuid import UUID

import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.contract import Request
from attrib_ds.contract.identifiers import slug_of, with_lower_uuids

Ask = Callable[..., Request]
Refusal = Callable[..., str]


def test_project_ids_accepted(ask):
    for accepted in ["abc", "a" * 64, "my-shop", "a-1-b", "123"]:
        assert ask("list_nodes", projectId=accepted).projectId == accepted, accepted


def test_project_ids_refused(refusal):
    for refused in [
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
    ]:
        message = refusal("list_nodes", projectId=refused)
        assert message.startswith("project_id: "), refused
        assert message.endswith(
            "expected 3 to 64 lower-case letters and digits, with single hyphens between them"
        ), refused


def test_hexadecimal_ids_refused(refusal):
    for name in ["get_interaction", "get_user"]:
        for refused in [
            "0123456789ABCDEF01234567",
            "0123456789abcdef0123456",
            "0123456789abcdef012345678",
            "0123456789abcdef01234567\n",
            "0123456789abcdef0123456g",
            " " * 24,
            "00000000-0000-4000-8000-000000000001",
            "",
            12,
        ]:
            assert refusal(name, id=refused).startswith("id: "), (refused, name)


def test_malformed_user_ids_are_unknown_where_no_400_is_listed(ask):
    for name in ["list_user_events", "list_user_metrics"]:
        assert ask(name, id="NOT-AN-ID").id == "NOT-AN-ID", name


def test_malformed_event_ids_are_unknown(ask):
    for name in ["get_event", "get_raw_event", "update_event_state"]:
        assert (
            ask(name, id="nonsense", **({"value": 1} if name.startswith("update") else {})).id == "nonsense"
        ), name


def test_malformed_hit_ids_are_unknown(ask: Ask) -> None:  # R167, G-032
    assert ask("list_hits", firstHitId="0123456789abcdef01234567").firstHitId == "0123456789abcdef01234567"


def test_uuids_are_sent_as_they_came_and_take_one_form_in_our_service(ask):
    form = "0190163d-8694-739b-aea5-966c26f8ad91"
    for written in [form.upper(), form, UUID(form)]:
        request = ask("get_event", id=written)
        assert request.id == str(written), written
        assert with_lower_uuids(request).id == form, written
    # The reference of an event type is no UUID, whatever it looks like.
    of_type = ask("get_event_type", id=form.upper())
    assert with_lower_uuids(of_type) is of_type


def test_path_texts_that_name_another_path_are_refused(refusal):
    for refused in ["", ".", "..", None, 7]:
        assert refusal("get_event_type", id=refused).startswith("reference: "), refused


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("spring", "spring"),
        ("7", "7"),
        (" Spring__SALE-\u00a0- 20_", "spring-sale-20"),
        ("ＳＰＲＩＮＧ ①", "spring-1"),
        ("\u212aelvin", "kelvin"),
        ("Straße", "strasse"),
        ("a" * 128, "a" * 128),
        # The digits are those of sha256sum, of the text in small letters.
        ("Spring Sale 20%", "spring-sale-20-5e5eb91373"),
        ("Frühling", "fr-hling-e3fc1aa278"),
        ("Скидки 2025", "2025-0e17da4281"),
        ("Весна 2025", "2025-6eb793f603"),
        ("C++ course", "c-course-d751c790d0"),
        ("C# course", "c-course-b807d68b3d"),
        ("春", "campaign-b3c33b7aba"),
        ("-_ ", "campaign-e3b0c44298"),
        ("a" * 116 + "!b", "a" * 116 + "-acccfe220f"),
        ("a" * 200, "a" * 117 + "-c2a908d98f"),
    ],
)
def test_a_text_becomes_a_slug(text, slug):
    """G-159, G-246."""
    assert slug_of(text) == slug_of(slug) == slug


def test_the_text_of_a_campaign_is_sent_as_it_is(ask):
    assert ask("create_campaign", campaignSlug="Spring 20%", name="Spring").campaignSlug == "Spring 20%"


def test_slugs_refused(refusal):
    for refused in ["", " ", "a" * 256, "a\0b", 5]:
        assert refusal("create_campaign", campaignSlug=refused, name="x").startswith("campaign_slug: "), (
            refused
        )


def test_references_accepted(ask):
    for accepted in ["order", "order-paid_2", "a" * 64, "1"]:
        assert ask("create_event_type", reference=accepted, name="Order").reference == accepted, accepted


def test_references_of_other_services_are_sent_and_ours_follow_a_pattern(ask, refusal):
    """G-258."""
    assert refusal("create_event_type", reference="", name="Order").startswith("reference: ")
    with at.connect("my-shop", path=":memory:") as shop:
        for refused in ["a" * 65, "Order", "order-", "order--paid", "order\n", "or der"]:
            assert ask("create_event_type", reference=refused, name="Order").reference == refused
            with pytest.raises(
                errors.InvalidRequest, match="^reference: .* is not allowed; allowed: 1 to 64"
            ):
                at.create_event_type(shop, refused, name="Order")


def test_integrations_of_other_services_are_asked_for_and_ours_follow_the_pattern_of_projects(ask, refusal):
    """G-258."""
    for foreign in ["My-Ads", "ab", "my ads", "my-ads\n"]:
        assert ask("list_campaigns", vendorId=foreign).vendorId == foreign
        assert refusal("create_integration", vendorId=foreign, name="Ads").startswith("vendor_id: "), foreign


def test_what_no_engine_stores_is_no_text(refusal):
    for refused in ["\ud800", "a\0b"]:
        message = refusal("list_campaigns", nameLike=refused)
        assert (
            message
            == "name_like: contains a NUL character or an unpaired surrogate; expected text without them"
        ), refused
