"""Offline interactions of the embedded service: node, user, order, and nothing twice."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from support.service_records import hex_id, send, table, utc, visit

from attrib_ds import instants, schema
from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.interactions import _text

NOON = "2025-01-31T12:00:00Z"


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    send(opened, "create_integration", vendorId="my-ads", name="My ads")
    send(opened, "create_integration", vendorId="posters", name="Posters")
    yield opened
    opened.close()


def answer_to(service, *, node=None, vendor="my-ads", user=None, date=NOON, external=None):
    return send(
        service,
        "create_offline_interaction",
        date=date,
        userData=user or {"email": "anna@example.com"},
        nodeData={"vendorId": vendor} | (node or {}),
        externalId=external,
    )


def create(service, **arguments):
    (record,) = answer_to(service, **arguments).read().to_pylist()
    return record


def campaign(service, slug, *, vendor="my-ads"):
    return send(service, "create_campaign", vendorId=vendor, campaignSlug=slug, name=slug).value


def nodes(service):
    return {record["_id"]: record for record in send(service, "list_nodes").read().to_pylist()}


def root(service, vendor="my-ads"):
    integrations = send(service, "list_integrations").read().to_pylist()
    (id,) = [integration["_id"] for integration in integrations if integration["vendorId"] == vendor]
    return id


def declare_discriminant(service, key):
    """Declare an event type with a user field that identifies, beside one that does not."""
    fields = [
        {"type": "string", "entity": "user", "storageKey": key, "discriminant": True},
        {"type": "string", "entity": "user", "storageKey": "firstName", "discriminant": False},
        {"type": "string", "entity": "event", "storageKey": "shelf", "discriminant": False},
    ]
    insert = "INSERT INTO event_types (_id, reference, fields) VALUES ('t1', 'order', ?)"
    service._store.write(lambda connection: connection.execute(insert, [json.dumps(fields)]).fetchall())


# -- the record -------------------------------------------------------------------------------------


def test_the_answer_is_the_interaction_as_it_is_got(service):
    """G-141, R185, R187: readable at once; type, date and duration of an offline interaction."""
    before = instants.now()
    answer = answer_to(service, date="2025-01-31T13:00:00+01:00", external="call-1")
    assert answer.read().schema == schema.INTERACTION
    (record,) = answer.read().to_pylist()
    assert answer.read().equals(send(service, "get_interaction", id=record["_id"]).read())
    assert (record["type"], record["isBot"], record["duration"]) == ("offline", False, 0.0)
    assert (record["startDate"], record["endDate"]) == (utc(2025, 1, 31, 12), utc(2025, 1, 31, 12))
    assert (record["projectId"], record["externalId"]) == ("shop", "call-1")
    assert record["integrationId"] == root(service)
    assert record["trafficFilterId"] is None
    assert before <= record["createdAt"] <= datetime.now(UTC)
    assert record["ingestedAt"] == record["createdAt"]
    assert record["userLifetimeIndex"] == 1


def test_user_data_holds_the_identity(service):
    """R028: normalised, beside what came."""
    came = {"email": " Anna@Example.COM ", "phone": "+47 22 33 44 55", "vendorUserId": "V-1"}
    record = create(service, user=came)
    assert json.loads(record["userData"]) == {
        "email": "anna@example.com",
        "phone": "+4722334455",
        "vendorUserId": "V-1",
    }
    assert json.loads(record["rawUserData"]) == came


# -- what is refused --------------------------------------------------------------------------------


def counts(service):
    with service._store.cursor() as cursor:
        tables = ("interactions", "nodes", "campaigns", "identities")
        return {name: cursor.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def test_ids_of_nodes_are_texts_or_whole_numbers():
    assert [_text("adsetId", value) for value in ("a" * 255, " 7", 7, 0)] == ["a" * 255, " 7", "7", "0"]
    for value in ("a" * 256, " ", "", True, 1.5, [], {"id": "7"}):
        with pytest.raises(
            InvalidRequest, match="node_data/adsetId: .* is not allowed; expected text of 1 to 255"
        ):
            _text("adsetId", value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vendor": "nobody"}, "node_data/vendorId: 'nobody' is not allowed; allowed: my-ads, posters"),
        ({"vendor": "my-adz"}, r"did you mean 'my-ads'\?"),
        (
            {"user": {"firstName": "Anna", "email": "a@b.no"}},
            "user_data/firstName: 'firstName' is not allowed",
        ),
        (
            {"user": {"Email": "a@b.no"}},
            r"user_data/Email: .*did you mean 'email'\?.*; allowed: email, loyaltyCard, phone, vendorUserId",
        ),
        ({"user": {"shelf": None, "email": "a@b.no"}}, "user_data/shelf"),
        ({"user": {"email": "anna"}}, "user_data/email: 'anna' is not allowed"),
        ({"user": {"email": "@example.com"}}, "user_data/email"),
        ({"user": {"email": "a b@example.com"}}, "user_data/email"),
        ({"user": {"email": ["a@b.no"]}}, "user_data/email: .* allowed: a value of type 'email'"),
        (
            {"user": {"phone": 22334455}},
            "user_data/phone: 22334455 is not allowed; allowed: a value of type 'phone'",
        ),
        ({"user": {"email": " ", "phone": None}}, "user_data: identifies no user"),
        ({"node": {"campaignId": True}}, "node_data/campaignId: True"),
        ({"node": {"campaignSlug": "new", "campaignId": []}}, "node_data/campaignId"),
        ({"date": "2025-01-31"}, "date: "),
        ({"date": "1989-12-31T00:00:00Z"}, "date: "),
        ({"date": None}, "date: is required"),
    ],
)
def test_an_invalid_payload_stores_nothing(service, arguments, message):
    """R184, R185, R186, R188, G-142."""
    declare_discriminant(service, "loyaltyCard")
    before = counts(service)
    with pytest.raises(InvalidRequest, match=message):
        create(service, **arguments)
    assert counts(service) == before


def test_a_date_may_be_a_day_ahead(service):
    """G-142."""
    now = datetime.now(UTC)
    assert create(service, date=now + timedelta(hours=23, minutes=59))["type"] == "offline"
    with pytest.raises(InvalidRequest, match="date: .* is more than 24 hours ahead"):
        create(service, date=now + timedelta(hours=24, minutes=1))
    assert send(service, "search_interactions").total == 1


# -- the node ---------------------------------------------------------------------------------------


def test_a_campaign_is_found_by_its_id_and_by_its_slug(service):
    """G-144, G-219."""
    spring, other = campaign(service, "spring"), campaign(service, "spring", vendor="posters")
    assert create(service, node={"campaignId": spring})["nodeId"] == spring
    assert create(service, node={"campaignSlug": "spring"})["nodeId"] == spring
    assert create(service, node={"campaignSlug": "spring"}, vendor="posters")["nodeId"] == other
    both = create(service, node={"campaignId": spring, "campaignSlug": "spring"})
    assert (both["nodeId"], both["partialResolvedVendorId"]) == (spring, None)
    assert len(nodes(service)) == 4


def test_an_inactive_campaign_still_resolves(service):
    """G-164."""
    spring = campaign(service, "spring")
    send(service, "update_campaign", vendorId="my-ads", id=spring, active=False)
    assert create(service, node={"campaignSlug": "spring"})["nodeId"] == spring


def test_an_unknown_campaign_id_makes_one_node_under_the_integration(service):
    """G-144, G-246: a number and its text are the same, the id is the service's, the text is the slug."""
    first = create(service, node={"campaignId": 7})
    again = create(service, node={"campaignId": "7"})
    assert first["nodeId"] == again["nodeId"]
    created = nodes(service)[first["nodeId"]]
    expected = {
        "type": "campaign",
        "parentId": root(service),
        "path": [root(service)],
        "campaignSlug": "7",
        "externalId": None,
        "name": "7",
        "vendorId": "my-ads",
        "integrationId": root(service),
    }
    assert {name: created[name] for name in expected} == expected
    assert re.fullmatch("[0-9a-f]{24}", first["nodeId"])
    assert first["partialResolvedVendorId"] is None


def test_g243_a_text_of_a_campaign_meets_its_slug(service):
    """As its id, and as its slug; the first text is the name."""
    first = create(service, node={"campaignId": "Spring Sale"})
    assert nodes(service)[first["nodeId"]]["name"] == "Spring Sale"
    assert nodes(service)[first["nodeId"]]["campaignSlug"] == "spring-sale"
    for node in ({"campaignSlug": "SPRING  sale"}, {"campaignId": "spring-sale"}):
        assert create(service, node=node)["nodeId"] == first["nodeId"]


def test_the_same_unknown_id_in_two_integrations_makes_two_nodes(service):
    """G-144: the second cannot have the id of the first."""
    first = create(service, node={"campaignId": 7})
    second = create(service, node={"campaignId": 7}, vendor="posters")
    assert first["nodeId"] != second["nodeId"]
    assert create(service, node={"campaignId": 7}, vendor="posters")["nodeId"] == second["nodeId"]
    assert nodes(service)[second["nodeId"]]["path"] == [root(service, "posters")]


def test_a_campaign_of_another_integration_is_unknown_here(service):
    """G-144."""
    foreign = campaign(service, "spring", vendor="posters")
    record = create(service, node={"campaignId": foreign})
    assert record["nodeId"] != foreign
    assert nodes(service)[record["nodeId"]]["campaignSlug"] == foreign


def test_an_unknown_slug_and_no_slug_make_implicit_campaigns(service):
    """R097, G-160."""
    unknown, none = create(service, node={"campaignSlug": "new"}), create(service)
    assert create(service, node={"campaignSlug": "new"})["nodeId"] == unknown["nodeId"]
    assert create(service, node={"campaignId": None})["nodeId"] == none["nodeId"]
    found = send(service, "list_campaigns", vendorId="my-ads", explicit=False, sort="campaignId").read()
    assert found["campaignSlug"].to_pylist() == ["new", "default"]
    assert found["id"].to_pylist() == [unknown["nodeId"], none["nodeId"]]
    assert found["active"].to_pylist() == [True, True]


@pytest.fixture
def tree(service):
    """A loaded tree below a loaded integration."""
    rows = [
        ("search", None, "integration", "Search", None),
        ("brand", "search", "campaign", "Brand", "c-1"),
        ("shoes", "brand", "adset", "Shoes", "s-1"),
        ("red", "shoes", "ad", "Red shoes", "a-1"),
        ("word", "shoes", "keyword", "red shoes", None),
        ("hats", "search", "campaign", "Hats", "c-2"),
        ("caps", "hats", "adset", "Caps", "s-2"),
    ]
    records = [
        {"_id": i, "parentId": p, "type": t, "name": n, "externalId": e, "vendorId": "search-ads"}
        for i, p, t, n, e in rows
    ]
    send(service, "load_records", resource="nodes", source=table(*records))
    send(service, "create_integration", vendorId="search-ads", name="Search")


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "expected", "complete"),
    [
        ({"campaignId": "brand"}, "brand", True),
        ({"campaignId": "c-1"}, "brand", True),
        ({"adsetId": "s-1"}, "shoes", True),
        ({"campaignId": "c-1", "adsetId": "shoes", "adId": "a-1"}, "red", True),
        ({"adId": "red", "campaignId": "brand"}, "red", True),
        ({"adsetId": "shoes", "keyword": "red shoes"}, "word", True),
        ({"keyword": "red shoes"}, "word", True),
        # Only a part of these can be matched.
        ({"campaignId": "brand", "adsetId": "s-2"}, "brand", False),
        ({"campaignId": "brand", "adsetId": "new"}, "brand", False),
        ({"campaignId": "brand", "placement": "top"}, "brand", False),
        ({"campaignId": "brand", "campaignSlug": "new"}, "brand", False),
        ({"adsetId": "shoes", "adId": "new", "keyword": "red shoes"}, "word", False),
        ({"adId": "new"}, "search", False),
        ({"placement": "top"}, "search", False),
        ({"campaignId": "shoes", "adsetId": "shoes"}, None, False),
    ],
)
def test_properties_lead_down_the_tree_of_the_integration(service, tree, node, expected, complete):
    """G-144, G-219: the deepest node that can be matched; the rest is told by partialResolvedVendorId."""
    record = create(service, node=node, vendor="search-ads")
    assert record["partialResolvedVendorId"] == (None if complete else "search-ads")
    if expected is not None:
        assert record["nodeId"] == expected
        assert len(nodes(service)) == 9
    else:
        # An adset's id is no campaign's: a campaign is made for it, with an id that is free.
        created = nodes(service)[record["nodeId"]]
        assert (created["type"], created["campaignSlug"], created["parentId"]) == (
            "campaign",
            "shoes",
            "search",
        )


def test_an_own_id_goes_before_an_id_of_another_system(service):
    """G-144: the campaign that is called "zebra" here, not the one that somebody else calls so."""
    rows = [("ads", None, "integration", None), ("apple", "ads", "campaign", "zebra")]
    rows.append(("zebra", "ads", "campaign", "other"))
    records = [
        {"_id": id, "parentId": parent, "type": kind, "name": id, "externalId": external, "vendorId": "zoo"}
        for id, parent, kind, external in rows
    ]
    send(service, "load_records", resource="nodes", source=table(*records))
    send(service, "create_integration", vendorId="zoo", name="Zoo")
    assert create(service, node={"campaignId": "zebra"}, vendor="zoo")["nodeId"] == "zebra"
    assert create(service, node={"campaignId": "other"}, vendor="zoo")["nodeId"] == "zebra"


def test_an_implicit_node_gives_way_to_a_loaded_one(service):
    """G-217: an imported tree keeps the ids of its ad platform."""
    create(service, node={"campaignId": "c-9"})
    loaded = {"_id": "c-9", "type": "campaign", "name": "Nine", "parentId": root(service)}
    answer = send(service, "load_records", resource="nodes", source=table(loaded))
    assert answer.read().num_rows == 0
    assert create(service, node={"campaignId": "c-9"})["nodeId"] == "c-9"
    assert nodes(service)["c-9"]["name"] == "Nine"


# -- the user ---------------------------------------------------------------------------------------


def test_the_same_identity_is_the_same_user(service):
    """G-052, G-145: an email in any case, or the id of a vendor."""
    anna = create(service, user={"email": "anna@example.com", "vendorUserId": "v-1"})["userId"]
    assert len(anna) == 24
    same = [
        {"email": " ANNA@example.com"},
        {"vendorUserId": " v-1 "},
        {"vendorUserId": "v-1", "email": "a@b.no"},
    ]
    assert {create(service, user=value)["userId"] for value in same} == {anna}
    # What was new beside a known identity is hers from then on.
    assert create(service, user={"email": "a@b.no"})["userId"] == anna
    others = [{"email": "ben@example.com"}, {"vendorUserId": "V-1"}, {"vendorUserId": "anna@example.com"}]
    assert len({create(service, user=other)["userId"] for other in others} | {anna}) == 4


def test_the_email_counts_more_than_the_id_of_a_vendor(service):
    """G-145, G-147: two known users are not made one."""
    anna = create(service, user={"email": "anna@example.com"})["userId"]
    ben = create(service, user={"vendorUserId": "v-2"})["userId"]
    assert create(service, user={"vendorUserId": "v-2", "email": "anna@example.com"})["userId"] == anna
    assert create(service, user={"vendorUserId": "v-2"})["userId"] == ben


def test_a_phone_alone_does_not_identify_a_user(service):
    """Two people may share one, unless an event type says that it identifies."""
    first, second = (create(service, user={"phone": "+47 22 33 44 55"})["userId"] for _ in range(2))
    assert first != second


def test_a_national_phone_number_is_kept_as_it_is_written(service):
    record = create(service, user={"phone": " 22 33 44 55 "})
    assert json.loads(record["userData"]) == {"phone": "22 33 44 55"}


def test_a_phone_identifies_where_an_event_type_says_so(service):
    """G-052, G-216: national numbers are read in the countries of the event type."""
    phone = {"type": "phone", "entity": "user", "storageKey": "phone", "discriminant": True}
    config = [{"order": 2, "countryCode": "FR"}, {"order": 1, "countryCode": "NO"}]
    send(
        service, "create_event_type", reference="call", name="Call", fields=[phone], phoneParsingConfig=config
    )
    written = ["+47 22 33 44 55", "22334455", "0047 22334455"]
    assert len({create(service, user={"phone": value})["userId"] for value in written}) == 1
    with pytest.raises(InvalidRequest, match="user_data/phone: '12' is not allowed"):
        create(service, user={"phone": "12"})


def test_a_field_that_an_event_type_declares_may_identify(service):
    """R186, G-216."""
    declare_discriminant(service, "loyaltyCard")
    first = create(service, user={"loyaltyCard": "L1"})
    assert create(service, user={"loyaltyCard": " L1", "vendorUserId": "v"})["userId"] == first["userId"]
    assert create(service, user={"vendorUserId": "v"})["userId"] == first["userId"]
    assert json.loads(first["userData"]) == {"loyaltyCard": "L1"}


def test_discriminant_fields_precede_the_vendors_id(service):
    """G-145: whichever is written first."""
    declare_discriminant(service, "loyaltyCard")
    anna = create(service, user={"loyaltyCard": "L1"})["userId"]
    ben = create(service, user={"vendorUserId": "v"})["userId"]
    assert anna != ben
    assert create(service, user={"vendorUserId": "v", "loyaltyCard": "L1"})["userId"] == anna


def test_users_of_loaded_interactions_are_found(service):
    """The same email is the same user, however it came in."""
    loaded_visits = [
        visit(
            1, userId=hex_id(77), userData='{"email": "Anna@Example.com "}', startDate="2025-01-01T00:00:00Z"
        ),
        visit(2, userId=hex_id(88), userData='{"vendorUserId": "v-8"}'),
        visit(3, userId=hex_id(99), userData=None),
    ]
    send(service, "load_records", resource="interactions", source=table(*loaded_visits))
    anna = create(service, user={"email": "anna@example.com"})
    assert (anna["userId"], anna["userLifetimeIndex"]) == (hex_id(77), 2)
    assert create(service, user={"vendorUserId": "v-8"})["userId"] == hex_id(88)
    assert create(service, user={"email": "v-8@example.com"})["userId"] not in {hex_id(77), hex_id(88)}


def test_a_user_is_the_same_in_events_and_in_offline_interactions(service):
    """R005: whichever comes first."""
    email = {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True}
    send(service, "create_event_type", reference="lead", name="Lead", fields=[email])
    users = []
    for number, addresses in enumerate([("Anna@Example.com", "anna@example.com"), ("ben@example.com",) * 2]):
        data = {"eventType": "lead", "nonce": f"n{number}", "data": {"email": addresses[0]}}
        first = create(service, user={"email": addresses[1]})["userId"] if number else None
        event = send(service, "create_event_sync", **data).value
        record = send(service, "get_event", id=event).read().to_pylist()[0]
        users.append({first or create(service, user={"email": addresses[1]})["userId"], record["userId"]})
    assert [len(user) for user in users] == [1, 1]
    assert users[0] != users[1]


def test_interactions_of_a_user_are_numbered_by_date(service):
    """G-061: a late arrival moves those after it."""
    dates = ["2025-01-03T00:00:00Z", "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-01T00:00:00Z"]
    created = [create(service, date=date) for date in dates]
    create(service, user={"email": "ben@example.com"}, date="2024-01-01T00:00:00Z")
    assert [row["userLifetimeIndex"] for row in created] == [1, 1, 2, 2]
    now = [send(service, "get_interaction", id=value["_id"]).read().to_pylist()[0] for value in created]
    assert [record["userLifetimeIndex"] for record in now] == [4, 1, 3, 2]


# -- nothing twice ----------------------------------------------------------------------------------


def test_an_external_id_is_stored_once_in_its_integration(service):
    """G-143: a repeat answers with the first interaction, whatever else it says."""
    first = answer_to(service, external="call-1")
    repeat = answer_to(
        service,
        external="call-1",
        user={"email": "ben@example.com"},
        node={"campaignId": 7},
        date="2024-01-01T00:00:00Z",
    )
    assert (first.value, repeat.value) == (True, False)
    assert repeat.read().equals(first.read())
    assert send(service, "search_interactions").total == 1
    assert "7" not in nodes(service)
    other = answer_to(service, external="call-1", vendor="posters")
    assert other.value is True
    assert other.read()["_id"] != first.read()["_id"]
    with pytest.raises(InvalidRequest):
        answer_to(service, external="call-1", user={"firstName": "Anna"})


def test_without_an_external_id_every_call_stores_one(service):
    """G-143."""
    assert create(service)["_id"] != create(service)["_id"]
    assert send(service, "search_interactions").total == 2


@pytest.mark.slow
def test_many_at_once_make_one_user_one_campaign_and_one_of_each_call(tmp_path):
    """R006 for offline interactions; G-143, G-144: writes are one after the other."""
    service = Service.open("shop", tmp_path / "shop.duckdb")
    send(service, "create_integration", vendorId="my-ads", name="My ads")

    def call(number):
        return create(service, node={"campaignSlug": "new"}, external=f"call-{number % 8}")

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(call, range(24)))
    assert len({record["_id"] for record in created}) == 8
    assert len({row["userId"] for row in created}) == 1
    assert len({value["nodeId"] for value in created}) == 1
    found = send(service, "search_interactions").read()
    assert sorted(found["userLifetimeIndex"].to_pylist()) == list(range(1, 9))
    service.close()
