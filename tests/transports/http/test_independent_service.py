"""The client with the independent service of `support.vendor`, in the variations that its specification allows."""

from contextlib import contextmanager
from zlib import crc32

import pandas as pd
import pytest
from support.vendor.server import serving
from support.vendor.variations import VARIATIONS, WRITES, Variation

import attrib_ds as at
from attrib_ds import display, errors, forms, user

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")]

ADS = "Google Ads"
DAY = {"since": "2025-01-01", "until": "2025-12-31"}
YEAR = {"since": "2025-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z"}
PERIOD = {"startDate": ["2025-05-01T00:00:00Z"], "endDate": ["2025-06-01T00:00:00Z"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A running service of few users, whose variation a test chooses."""
    with serving(tmp_path_factory.mktemp("vendor"), users=12) as service:
        yield service


@contextmanager
def connected(served, variation="plain", **options):
    """Open a connection of its own, to the service in a variation."""
    served.vendor.variation = VARIATIONS[variation] if isinstance(variation, str) else variation
    addresses = {"url": served.url, "url_v2": served.url_v2, "auth_url": served.auth_url}
    with at.connect(served.project, **{"key": served.key} | addresses | options) as shop:
        try:
            yield shop
        finally:
            served.vendor.variation = VARIATIONS["plain"]


def asked(served, word):
    """Return how many requests have a word in their path."""
    return sum(word in call.path for call in served.vendor.requests)


def campaign_of(served):
    return next(iter(served.vendor.world.campaigns))


def event_of(served):
    return next(one["_id"] for one in served.vendor.world.events.values() if "paid" in one["~types"])


def writes(served, shop, mark):
    """Return a call of each writing function; `mark` tells its records from others."""
    event, campaign = event_of(served), campaign_of(served)
    # An outlay that is there already is not sent.
    amount = crc32(mark.encode()) % 9_000 + 1
    outlay = next(one["_id"] for one in served.vendor.world.outlays.values() if one["campaignId"] == campaign)
    lead = pd.DataFrame({"nonce": [mark], "data.mail": ["a@x.example"]})
    change = pd.DataFrame({"id": [event], "value": [1]})
    call = {"date": ["2025-02-01T12:00:00Z"], "userData.email": ["b@x.example"], "nodeData.vendorId": [ADS]}
    return {
        "create_event": lambda: at.send_events(shop, lead, event_type="lead", wait=False)["status"].item(),
        "create_event_sync": lambda: at.send_events(
            shop, lead.assign(nonce=f"{mark}-sync"), event_type="lead"
        )["status"].item(),
        "update_event_state": lambda: at.update_states(shop, change.assign(storageKey="paid"))["status"].item(),
        "update_event_statistic": lambda: at.update_statistics(
            shop, change.assign(storageKey="turnover")
        )["status"].item(),
        "create_offline_interaction": lambda: at.create_offline_interactions(shop, pd.DataFrame(call))[
            "status"
        ].item(),
        "create_event_type": lambda: at.create_event_type(shop, f"type {mark}", name="Type", fields=[])["reference"],
        "create_campaign": lambda: at.create_campaign(shop, ADS, f"slug-{mark}", name="Autumn"),
        "update_campaign": lambda: at.update_campaign(shop, ADS, campaign, name="Autumn"),
        "create_outlay": lambda: at.create_outlays(
            shop, ADS, pd.DataFrame({"campaignId": [campaign], "amount": [amount], **PERIOD})
        )["status"].item(),
        "update_outlay": lambda: at.update_outlay(shop, ADS, campaign, outlay, amount=7),
    }  # fmt: skip


#: What writing functions say of a write that was carried out, as far as the answer does not tell it.
DONE = {
    "create_event": "accepted",
    "create_event_sync": "processed",
    "update_event_state": "updated",
    "update_event_statistic": "updated",
    "create_offline_interaction": "created",
    "create_outlay": "created",
}
#: Each body once, and statuses of their own.
SUCCESSES = [
    *(name for name in VARIATIONS if name.startswith("every-write-200-")),
    *("every-write-201-id", "every-write-202-empty", "every-write-204-empty"),
]


# 1. Each write is carried out once, whatever its answer


@pytest.mark.few(6)
@pytest.mark.parametrize("variation", SUCCESSES)
def test_a_write_is_carried_out_once_whatever_its_answer(served, variation):
    with connected(served, variation) as shop:
        for operation, call in writes(served, shop, variation).items():
            before = served.vendor.carried_out(operation)
            told = call()
            assert served.vendor.carried_out(operation) == before + 1, operation
            if operation in DONE:
                assert told == DONE[operation], operation
            else:
                # What the answer does not tell is missing, and no text.
                assert not (isinstance(told, str) and told == "None"), operation


@pytest.mark.parametrize("operation", [name for name in WRITES if not name.startswith("create_event")])
def test_a_write_whose_answer_was_lost_is_not_sent_again(served, operation):
    with connected(served, f"lost-{operation}") as shop:
        served.vendor.calls.clear()
        call, before = (
            writes(served, shop, f"lost-{operation}")[operation],
            served.vendor.carried_out(operation),
        )
        if DONE.get(operation):
            assert call() == "unknown"
        else:
            with pytest.raises(errors.AttribError, match="may have been carried out"):
                call()
    assert served.vendor.carried_out(operation) == before + 1


# 2. The order that is promised


def test_the_newest_come_first_from_a_service_without_an_order(served):
    world = served.vendor.world
    visits = sorted(
        (one for one in world.interactions.values() if not one["isBot"] and not one["trafficFilterId"]),
        key=lambda one: one["startDate"],
        reverse=True,
    )
    busiest = max(world.complete_users().values(), key=lambda one: one["eventCount"])
    with connected(served, "unsorted") as shop:
        found = at.search_interactions(shop, limit=5)
        events = at.list_user_events(shop, busiest["_id"], limit=1)
    assert found["_id"].tolist() == [one["_id"] for one in visits[:5]]
    assert events["eventDate"].tolist() == [busiest["lastEventDate"]]


# 3. A mirror holds every record


@pytest.mark.few(2)
@pytest.mark.parametrize("variation", ["duration-off", "duration-absent", "no-node", "event-object-list"])
def test_a_mirror_holds_every_record(served, variation):
    world = served.vendor.world
    with connected(served, variation) as shop, at.sync(shop, ":memory:", integrations=[]) as mirror:
        visits = at.search_interactions(mirror, filtered=None, bots=None)
        events = at.search_events(mirror)
        check = at.admin.check(mirror)
    assert set(visits["_id"]) == set(world.interactions)
    assert set(events["_id"]) == set(world.events)
    assert "Order Completed" in set(events["eventType"])
    assert check.empty


def test_what_a_mirror_lacks_is_counted(served):
    visits = served.vendor.world.interactions
    with connected(served, "no-user") as shop, at.sync(shop, ":memory:", integrations=[]) as mirror:
        kept = at.search_interactions(mirror, filtered=None, bots=None)
        check = at.admin.check(mirror)
    assert 0 < len(kept) < len(visits)
    assert check["records"].tolist() == [len(visits) - len(kept)]
    assert "userId" in check["problem"].item()


def test_events_that_come_late_are_mirrored_though_their_users_keep_their_dates(served, tmp_path):
    world = served.vendor.world
    user = next(user for user in world.complete_users().values() if user["eventCount"])
    old = next(one for one in world.events.values() if one["userId"] == user["_id"])
    sent = {"nonce": "late", "eventType": old["eventType"], "eventDate": old["eventDate"]}
    sent["data"] = {"mail": user["fields"]["email"][0]["current"], "orderId": "late"}
    with connected(served) as shop:
        at.sync(shop, tmp_path / "mirror.duckdb", integrations=[]).close()
        world.add_event(sent, served.vendor.now())
        with at.sync(shop, tmp_path / "mirror.duckdb", integrations=[]) as mirror:
            assert set(at.search_events(mirror)["_id"]) == set(world.events)


# 4. Exports


@pytest.mark.parametrize("content", ["login", "json", "empty", "stale"])
def test_what_is_no_export_is_not_saved(served, tmp_path, content):
    with (
        connected(served, f"export-{content}") as shop,
        pytest.raises(errors.ServiceFailure, match="no file"),
    ):
        at.export_users(shop, tmp_path / "users.csv", columns=["_id", "fields.email"])
    assert list(tmp_path.iterdir()) == []


# 5. Flat keys and repeated events


@pytest.mark.parametrize("variation", ["flat-keys", "only-named-keys", "all-values"])
def test_users_are_the_same_in_every_form(served, variation):
    columns = ["fields.email", "eventTypesCount.Order Completed", "metrics.turnover.sum", "eventCount"]
    frames = []
    for one in ("plain", variation):
        with connected(served, one) as shop:
            frames.append(at.search_users(shop, columns=columns, where=user("eventCount") > 0))
    pd.testing.assert_frame_equal(*frames)


FORMS = ("json-type-", "nothing-", "dates-", "token-l", "token-t", "token-z", "byte-", "white-", "bare-")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "variation", [name for name in VARIATIONS if name.startswith(FORMS) and "redirect" not in name]
)
def test_records_are_the_same_in_every_form(served, variation):
    user = max(served.vendor.world.complete_users().values(), key=lambda one: one["eventCount"])["_id"]
    frames = []
    for one in ("plain", variation):
        with connected(served, one) as shop:
            lists = [at.list_user_events(shop, id) for id in (user, "0" * 24)]
            lists += [at.list_user_metrics(shop, user), at.list_hits(shop, "0" * 24)]
            frames.append(
                [frame.drop(columns=["user", "event", "metrics"], errors="ignore") for frame in lists]
            )
    assert [len(frame) > 0 for frame in frames[0]] == [True, False, True, False]
    for plain, other in zip(*frames, strict=True):
        pd.testing.assert_frame_equal(plain, other)


@pytest.mark.parametrize(
    ("variation", "status"), [("lost-then-409", "processed"), ("repeated-nonce-409", "rejected")]
)
def test_a_conflict_is_an_event_that_this_call_has_stored(served, variation, status):
    lead = pd.DataFrame({"nonce": [f"conflict-{variation}"], "data.mail": ["a@x.example"]})
    with connected(served, "plain") as shop:
        if status == "rejected":
            at.send_events(shop, lead, event_type="lead")
    served.vendor.calls.clear()
    before = served.vendor.carried_out("create_event_sync")
    with connected(served, variation) as shop:
        told = at.send_events(shop, lead.assign(**{"data.note": "new"}), event_type="lead")
    assert told["status"].tolist() == [status]
    assert served.vendor.carried_out("create_event_sync") == before + (status == "processed")


# 6. What a service lacks


@pytest.mark.large
@pytest.mark.parametrize("variation", ["absent-404", "absent-405", "absent-501", "absent-401", "gateway-403"])
def test_the_specification_alone_is_enough(served, variation):
    served.vendor.requests.clear()
    lead = pd.DataFrame({"nonce": [f"{variation}-{n}" for n in range(2)], "data.mail": ["a@x.example"] * 2})
    with connected(served, variation) as shop:
        paths = at.conversion_paths(shop, event_type="Order_Completed")
        credits = at.attribute(paths, "last_touch")
        told = [at.send_events(shop, lead[n : n + 1], event_type="lead")["status"].item() for n in range(2)]
    ordered = [one for one in served.vendor.world.events.values() if one["eventType"] == "Order_Completed"]
    assert credits["conversions"].sum() == len(ordered) > 0
    assert told == ["processed"] * 2
    # A refused token is renewed once before it is believed.
    most = 2 if variation.endswith("401") else 1
    assert asked(served, "/events/search") <= most
    assert asked(served, "/nodes") <= most
    assert asked(served, "/settings") <= most


def test_without_a_key_a_401_says_that_nothing_was_sent(served, monkeypatch):
    monkeypatch.delenv("ATTRIB_DS_KEY", raising=False)
    lead = pd.DataFrame({"nonce": ["keyless"], "data.mail": ["a@x.example"]})
    with connected(served, "token-where-listed", key=None) as shop:
        assert at.send_events(shop, lead, event_type="lead")["status"].tolist() == ["processed"]
    asks = "requires a service-account key; pass key="
    with connected(served, key=None) as shop, pytest.raises(errors.Unauthorized, match=asks) as caught:
        at.send_events(shop, lead.assign(nonce="keyless-2"), event_type="lead")
    assert caught.value.partial["status"].tolist() == ["failed"]
    assert "keyless-2" not in served.vendor.world.nonces


# 7. Unknown and missing members


@pytest.mark.large
@pytest.mark.parametrize("variation", ["extra-fields", "optional-absent", "optional-null", "no-created-at"])
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.UnknownFields")
def test_unknown_and_missing_members_are_no_failure(served, variation):
    world = served.vendor.world
    with connected(served, variation) as shop:
        assert set(at.list_event_types(shop)["reference"]) == world.event_types.keys() - {"old-form"}
        assert len(at.get_event(shop, event_of(served))) > 0
        with at.sync(shop, ":memory:", integrations=[ADS, "meta-ads"], hits=True) as mirror:
            assert set(at.search_interactions(mirror, filtered=None, bots=None)["_id"]) == set(
                world.interactions
            )
            assert set(at.search_events(mirror)["_id"]) == set(world.events)


@pytest.mark.parametrize("variation", ["zeros-none", "zeros-sparse"])
def test_zeros_may_be_left_out_of_insights(served, variation):
    asked_for = {"metrics": ["event-count", "turnover"], "interval": "month", **YEAR}
    frames = []
    for one in ("plain", variation):
        with connected(served, one) as shop:
            frames.append(at.event_insights(shop, **asked_for).query("`values.event-count` > 0"))
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in frames))


INTERVALS = ["day", "week", "month", "quarter", "semester", "year", "dayOfWeek", "hourOfDay", "monthOfYear"]


@pytest.mark.large
@pytest.mark.parametrize("labels", ["iso", "start", "number", "native"])
def test_intervals_have_the_labels_and_the_order_of_an_embedded_project(served, labels):
    with connected(served) as shop, at.sync(shop, ":memory:", integrations=[]) as mirror:
        for interval in INTERVALS:
            expected = at.interaction_insights(mirror, group_by="isBot", interval=interval, bots=None)
            with connected(served, Variation(labels=labels)) as other:
                found = at.interaction_insights(other, group_by="isBot", interval=interval, bots=None)
            pd.testing.assert_frame_equal(found, expected)
        parts = {"interval": "custom", "segments": 3, **YEAR}
        expected = at.interaction_insights(mirror, **parts)
        with connected(served, Variation(labels=labels)) as other:
            pd.testing.assert_frame_equal(at.interaction_insights(other, **parts), expected)
            found = at.event_insights(
                other, metrics=["event-count"], group_by="event-type", interval="quarter", **YEAR
            )
        expected = at.event_insights(
            mirror, metrics=["event-count"], group_by="event-type", interval="quarter", **YEAR
        )
        # The specification does not say whether an archived type without events has rows of zeros.
        archived = found["identifier"] == "old-form"
        assert set(found.loc[archived, "values.event-count"]) == {0}
        pd.testing.assert_frame_equal(found[~archived].reset_index(drop=True), expected)


# 8. Sizes of pages


@pytest.mark.parametrize(
    "variation", [f"limit-{most}-is-{status}" for most in (100, 1000) for status in (400, 413, 422, 504)]
)
def test_pages_become_smaller_until_the_service_takes_them(served, variation):
    with connected(served, variation) as shop:
        found = at.search_interactions(shop, filtered=None, bots=None)
        assert set(found["_id"]) == set(served.vendor.world.interactions)
        served.vendor.requests.clear()
        at.search_interactions(shop, filtered=None, bots=None)
    # The size is remembered.
    assert {call.status for call in served.vendor.requests} == {200}


@pytest.mark.few(2)
@pytest.mark.parametrize("variation", ["page-cap-7", "page-cap-100", "unsorted-pages-of-7"])
def test_pages_that_are_shorter_than_asked_for_are_walked(tmp_path, variation):
    with serving(tmp_path, variation, users=20) as service, connected(service, variation) as shop:
        interactions = service.vendor.world.interactions
        # Those of one instant come in another order in each response of a service without an order of ties.
        for number, visit in enumerate(list(interactions.values())[:30]):
            keys = [f"{number:020x}{tie:04x}" for tie in range(5)]
            interactions.update({key: visit | {"_id": key} for key in keys})
        found = at.search_interactions(shop, filtered=None, bots=None)
        types = at.list_event_types(shop)
    assert set(found["_id"]) == set(interactions)
    assert len(found) == len(interactions)
    assert types["reference"].is_monotonic_increasing


# 9. Identifiers


@pytest.mark.large
@pytest.mark.parametrize("ids", ["numeric", "strange"])
def test_identifiers_are_those_of_the_service(tmp_path, ids):
    with serving(tmp_path, f"ids-{ids}", users=6) as service, connected(service, f"ids-{ids}") as shop:
        world = service.vendor.world
        campaigns = at.list_campaigns(shop, ADS)
        campaign = campaigns["id"].iloc[0]
        assert set(campaigns["id"]) <= world.campaigns.keys()
        assert at.get_campaign(shop, ADS, campaign)["id"] == campaign
        outlay = at.list_outlays(shop, ADS, campaign)["_id"].iloc[0]
        assert at.get_outlay(shop, ADS, campaign, outlay)["_id"] == outlay
        assert at.get_event_type(shop, "Order Completed")["reference"] == "Order Completed"
        with at.sync(shop, ":memory:", integrations=[ADS, "meta-ads"]) as mirror:
            assert set(at.search_interactions(mirror, filtered=None, bots=None)["nodeId"]) == {
                one["nodeId"] for one in world.interactions.values()
            }
            assert set(at.list_outlays(mirror, ADS, campaign)["_id"]) == set(
                at.list_outlays(shop, ADS, campaign)["_id"]
            )


def test_nothing_is_sent_that_the_specification_does_not_list(served):
    # The service refuses members of event types that are not in the specification.
    with connected(served) as shop:
        made = at.create_event_type(shop, "Sign-up & more", name="Sign-up", fields=[])
        assert made["reference"] == "Sign-up & more"
        lead = pd.DataFrame({"nonce": ["sign-up"], "eventDate": ["2025-02-01T00:00:00Z"]})
        at.send_events(shop, lead, event_type="Sign-up & more")
        found = at.search_users(shop, columns=["eventTypesCount.Sign-up & more"], limit=3)
    assert found.columns.tolist() == ["_id", "eventTypesCount.Sign-up & more"]


# 10. Requests


def test_settings_and_event_types_are_asked_for_once_per_connection(served):
    with connected(served) as shop:
        served.vendor.requests.clear()
        for _ in range(3):
            at.search_interactions(shop, **DAY, limit=3)
        assert asked(served, "/settings") == 1
        served.vendor.requests.clear()
        for _ in range(2):
            at.list_user_events(shop, next(iter(served.vendor.world.users)))
        # Those in use, and archived ones.
        assert asked(served, "/event-types") <= 2


def test_progress_is_shown_while_pages_arrive(served, monkeypatch):
    arrived = []

    @contextmanager
    def progress(*_, **__):
        yield arrived.append

    monkeypatch.setattr(display, "progress", progress)
    with connected(served, "page-cap-7") as shop:
        found = at.search_interactions(shop, filtered=None, bots=None)
    assert sum(arrived) == len(found)
    assert len(arrived) > 2


# 11. Messages


@pytest.mark.parametrize("form", ["json", "sentences", "nested", "list", "problem", "text"])
def test_messages_have_the_words_of_the_service(served, form):
    with (
        connected(served, Variation(error_body=form)) as shop,
        pytest.raises(errors.InvalidRequest) as caught,
    ):
        at.list_campaigns(shop, "unknown")
    assert "vendorId identifies nothing" in str(caught.value)


def test_a_redirect_of_the_token_route_names_the_new_address(served):
    with (
        connected(served, "token-redirect-307") as shop,
        pytest.raises(errors.AttribError, match="/login/oidc/token"),
    ):
        at.list_event_types(shop)


@pytest.mark.parametrize("variation", ["clock-ahead", "clock-behind"])
def test_a_clock_that_is_off_is_allowed_for(served, variation):
    with connected(served, variation) as shop:
        assert not at.list_event_types(shop).empty


def test_a_proxy_that_wants_a_password_is_named(served):
    with connected(served, "token-407") as shop, pytest.raises(errors.AttribError, match="password"):
        at.list_event_types(shop)


def test_a_function_that_needs_an_addition_says_which_service_lacks_it(served):
    with connected(served) as shop, pytest.raises(errors.NotSupported) as caught:
        at.list_nodes(shop)
    assert served.url in str(caught.value)


def test_a_missing_file_of_certificates_is_named(served, monkeypatch, tmp_path):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    secure = {
        name: getattr(served, name).replace("http:", "https:") for name in ("url", "url_v2", "auth_url")
    }
    with (
        connected(served, **secure) as shop,
        pytest.raises(errors.Unavailable, match="check REQUESTS_CA_BUNDLE"),
    ):
        at.list_event_types(shop)


# 12. Campaigns and forms


@pytest.mark.large
def test_campaigns_and_outlays_of_named_integrations_are_mirrored(served):
    world = served.vendor.world
    with connected(served) as shop, at.sync(shop, ":memory:", integrations=[ADS, "meta-ads"]) as mirror:
        found = [id for vendor in (ADS, "meta-ads") for id in at.list_campaigns(mirror, vendor)["id"]]
        mine = [one["_id"] for one in world.outlays.values() if one["campaignId"] == campaign_of(served)]
        outlays = at.list_outlays(mirror, ADS, campaign_of(served))["_id"]
        assert at.admin.check(mirror).empty
    assert sorted(found) == sorted(world.campaigns)
    assert sorted(outlays) == sorted(mine)


def test_campaigns_that_cannot_be_found_are_named(served):
    # Without ids of integrations in interactions, none is mentioned.
    variation = Variation(missing=["interactions.integrationId"])
    with connected(served, variation) as shop, at.sync(shop, ":memory:") as mirror:
        check = at.admin.check(mirror)
    assert "integrations=" in check["problem"].item()


def test_the_code_of_a_form_connects_as_the_form_did(served):
    with connected(served) as shop:
        code = forms.insights(shop).code
        names = {}
        exec(code, names)
        names["project"].close()
        pd.testing.assert_frame_equal(names["counts"], at.interaction_insights(shop))
    assert str(served.key) in code
    assert "PRIVATE KEY" not in code
