"""Custom campaigns of the embedded service: rules of the specification, and many writers at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.service_records import hex_id, send, table, visit

from attrib_ds import schema
from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.filters import node as on_node
from attrib_ds.service import Service


@pytest.fixture
def service():
    """A project with two integrations and no campaign."""
    opened = Service.open("shop", ":memory:")
    send(opened, "create_integration", vendorId="my-ads", name="My ads")
    send(opened, "create_integration", vendorId="posters", name="Posters", currency="NOK")
    yield opened
    opened.close()


def create(service, slug, *, vendor="my-ads", name="Spring", **properties):
    return send(service, "create_campaign", vendorId=vendor, campaignSlug=slug, name=name, **properties).value


def get(service, id, *, vendor="my-ads"):
    (record,) = send(service, "get_campaign", vendorId=vendor, id=id).read().to_pylist()
    return record


def listed(service, *, vendor="my-ads", **arguments):
    return send(service, "list_campaigns", vendorId=vendor, **arguments)


def slugs(answer):
    return answer.read()["campaignSlug"].to_pylist()


def node(service, id):
    (record,) = send(service, "get_node", id=id).read().to_pylist()
    return record


def integrations(service):
    stored = send(service, "list_integrations").read().to_pylist()
    return {record["vendorId"]: record for record in stored}


# -- integrations -----------------------------------------------------------------------------------


def test_integrations_are_listed_by_vendor_id_with_their_fixed_currency(service):
    """G-047: the currency of the project unless another one is given."""
    answer = send(service, "list_integrations")
    assert answer.read().schema == schema.INTEGRATION
    assert answer.read()["vendorId"].to_pylist() == ["my-ads", "posters"]
    assert answer.read()["currency"].to_pylist() == ["EUR", "NOK"]
    assert answer.read()["type"].to_pylist() == ["custom-ads"] * 2
    assert answer.read()["name"].to_pylist() == ["My ads", "Posters"]


def test_the_currency_of_an_integration_is_that_of_the_project():
    service = Service.open("shop", ":memory:", currency="SEK")
    send(service, "create_integration", vendorId="my-ads", name="My ads")
    assert integrations(service)["my-ads"]["currency"] == "SEK"
    service.close()


@pytest.mark.parametrize("currency", ["eur", "EURO", "E1R", "", "ZZZ"])
def test_a_currency_is_three_capital_letters(service, currency):
    with pytest.raises(InvalidRequest, match="currency: .* ISO 4217"):
        send(service, "create_integration", vendorId="other", name="Other", currency=currency)


def test_a_vendor_id_is_unique_in_the_project(service):
    """G-047."""
    with pytest.raises(Conflict, match="vendor_id: an integration 'my-ads' exists already"):
        send(service, "create_integration", vendorId="my-ads", name="Again")
    assert send(service, "list_integrations").read().num_rows == 2


def test_an_integration_has_a_node_of_its_own(service):
    id = integrations(service)["my-ads"]["_id"]
    stored = node(service, id)
    assert (stored["type"], stored["name"], stored["vendorId"]) == ("integration", "My ads", "my-ads")
    assert (stored["integrationId"], stored["parentId"], stored["path"]) == (id, None, [])


def test_a_loaded_node_of_the_same_vendor_becomes_the_root(service):
    nodes = [
        {"_id": "root", "parentId": None, "type": "channel", "name": "Paid", "vendorId": None},
        {"_id": "tv", "parentId": "root", "type": "integration", "name": "TV", "vendorId": "tv-ads"},
        {"_id": "spot", "parentId": "tv", "type": "campaign", "name": "Spot", "vendorId": None},
    ]
    channels = [value | {"channel": "Television"} for value in nodes]
    send(service, "load_records", resource="nodes", source=table(*channels))
    id = send(service, "create_integration", vendorId="tv-ads", name="Television").value
    assert send(service, "list_nodes", type="integration").total == 3
    campaign = create(service, "derby", vendor="tv-ads")
    assert (node(service, "tv")["integrationId"], node(service, "spot")["vendorId"]) == (id, "tv-ads")
    assert node(service, "root")["integrationId"] is None
    created = node(service, campaign)
    assert (created["path"], created["parentId"], created["channel"]) == (["root", "tv"], "tv", "Television")


def test_the_integration_id_of_a_loaded_node_stays(service):
    loaded = {"_id": "tv", "type": "integration", "name": "TV", "vendorId": "tv-ads", "integrationId": "i-7"}
    below = {"_id": "spot", "parentId": "tv", "type": "campaign", "name": "Spot", "integrationId": "i-8"}
    send(service, "load_records", resource="nodes", source=table(loaded, below))
    assert send(service, "create_integration", vendorId="tv-ads", name="Television").value == "i-7"
    assert (node(service, "tv")["integrationId"], node(service, "spot")["integrationId"]) == ("i-7", "i-8")


def test_a_campaign_loaded_twice_with_one_slug_is_rejected(service):
    """G-223: below one integration the slug is taken; another integration is free to use it."""
    trees = [
        {"_id": root, "parentId": None, "type": "integration", "name": root, "vendorId": root}
        for root in ("tv-ads", "radio-ads")
    ]
    campaigns = [
        {"_id": id, "parentId": parent, "type": "campaign", "name": id, "campaignSlug": "derby"}
        for id, parent in [("c1", "tv-ads"), ("c2", "tv-ads"), ("c3", "radio-ads")]
    ]
    rejected = send(service, "load_records", resource="nodes", source=table(*trees, *campaigns)).tables
    assert [row for batch in rejected for row in batch.to_pylist()] == [
        {
            "row": 3,
            "id": "c2",
            "reason": "campaignSlug: 'derby' is the slug of another campaign of its integration",
        }
    ]
    later = {"_id": "c4", "parentId": "tv-ads", "type": "campaign", "name": "c4", "campaignSlug": "derby"}
    assert send(service, "load_records", resource="nodes", source=table(later)).value == {"nodes": 0}


def test_a_loaded_integration_gets_the_currency_of_its_creation(service):
    root = {"_id": "tv", "parentId": None, "type": "integration", "name": "TV", "vendorId": "tv-ads"}
    send(service, "load_records", resource="nodes", source=table(root))
    assert (integrations(service)["tv-ads"]["currency"], integrations(service)["tv-ads"]["name"]) == (
        "EUR",
        "TV",
    )
    id = send(service, "create_integration", vendorId="tv-ads", name="Television", currency="NOK").value
    created = integrations(service)["tv-ads"]
    assert (created["_id"], created["currency"], created["name"]) == (id, "NOK", "Television")
    with pytest.raises(Conflict, match="exists already"):
        send(service, "create_integration", vendorId="tv-ads", name="Again")


def test_a_campaign_follows_its_node_when_the_tree_is_loaded_again(service):
    dated = {"updatedAt": "2025-01-31T12:00:00Z"}
    root = {"_id": "tv", "parentId": None, "type": "integration", "name": "TV", "vendorId": "tv-ads", **dated}
    spot = {
        "_id": "spot",
        "parentId": "tv",
        "type": "campaign",
        "name": "Spot",
        "campaignSlug": "spot",
        **dated,
    }
    tree = {"resource": "nodes", "replace": True}
    send(service, "load_records", source=table(root, spot), **tree)
    assert send(service, "load_records", source=table(root, spot), **tree).value == {"nodes": 0}
    send(service, "load_records", source=table({**spot, "name": "Derby"}), **tree)
    assert get(service, "spot", vendor="tv-ads")["name"] == "Derby"


# -- create and get ---------------------------------------------------------------------------------


def test_a_campaign_is_stored_with_an_id_of_its_own(service):
    """R095, R119, R282, R283: the id differs from the slug; active and explicit by default."""
    id = create(service, "spring", name="Spring sale")
    stored = get(service, id)
    assert id != "spring"
    assert len(id) == 24
    assert stored["createdAt"] == stored["updatedAt"]
    del stored["createdAt"], stored["updatedAt"]
    assert stored == {
        "id": id,
        "integrationId": integrations(service)["my-ads"]["_id"],
        "projectId": "shop",
        "name": "Spring sale",
        "campaignSlug": "spring",
        "active": True,
        "explicit": True,
    }


def test_every_campaign_has_a_node_with_its_id_under_the_integration(service):
    """G-218."""
    root = integrations(service)["posters"]["_id"]
    id = create(service, "spring", vendor="posters", name="Spring sale", active=False)
    stored = node(service, id)
    expected = {
        "type": "campaign",
        "name": "Spring sale",
        "parentId": root,
        "path": [root],
        "integrationId": root,
        "vendorId": "posters",
        "campaignSlug": "spring",
        "active": False,
    }
    assert {name: stored[name] for name in expected} == expected


def test_of_many_integrations_at_once_one_succeeds(tmp_path):
    """G-047."""
    service = Service.open("shop", tmp_path / "shop.duckdb")

    def attempt(number):
        try:
            return send(service, "create_integration", vendorId="my-ads", name=f"Number {number}").value
        except Conflict:
            return None

    with ThreadPoolExecutor(8) as pool:
        created = [id for id in pool.map(attempt, range(8)) if id]
    assert len(created) == 1
    assert send(service, "list_nodes").total == 1
    service.close()


def test_an_unknown_integration_lists_and_accepts_no_campaigns(service):
    """G-162: list is empty, create is refused, get is not found, update changes nothing."""
    id = create(service, "spring")
    unknown = {"vendorId": "my-adz"}
    answer = listed(service, vendor="my-adz", limit=5)
    assert (answer.read().num_rows, answer.total, answer.limit) == (0, 0, 5)
    assert answer.read().schema == schema.CAMPAIGN
    with pytest.raises(InvalidRequest, match=r"vendor_id: 'my-adz' .* \(did you mean 'my-ads'\?\)"):
        create(service, "summer", vendor="my-adz")
    with pytest.raises(NotFound):
        get(service, id, vendor="my-adz")
    assert send(service, "update_campaign", id=id, name="x", **unknown).value == 0
    assert get(service, id)["name"] == "Spring"


def test_a_project_without_integrations_says_how_to_make_one():
    service = Service.open("shop", ":memory:")
    with pytest.raises(InvalidRequest, match="create one with create_integration"):
        create(service, "spring")
    service.close()


def test_a_campaign_is_got_by_its_id_in_its_integration_only(service):
    """R286."""
    id = create(service, "spring")
    for wrong, vendor in (("spring", "my-ads"), (id, "posters"), (hex_id(1), "my-ads")):
        with pytest.raises(NotFound, match=f"id: '{vendor}' has no campaign '{wrong}'"):
            get(service, wrong, vendor=vendor)


# -- update -----------------------------------------------------------------------------------------


def test_activity_goes_both_ways(service):
    """R118, R287."""
    id = create(service, "spring")
    for active in (False, True):
        assert send(service, "update_campaign", vendorId="my-ads", id=id, active=active).value == 1
        assert get(service, id)["active"] is active
        assert node(service, id)["active"] is active


def test_only_a_changed_value_counts_as_modified(service):
    """G-163: nothing asked for, or what is stored already, modifies nothing and leaves updatedAt."""
    id = create(service, "spring", name="Spring")
    before = get(service, id)
    for same in ({}, {"name": "Spring"}, {"active": True}, {"name": "Spring", "active": True}):
        assert send(service, "update_campaign", vendorId="my-ads", id=id, **same).value == 0
    assert get(service, id) == before
    answer = send(service, "update_campaign", vendorId="my-ads", id=id, name="Autumn", active=True)
    after = get(service, id)
    assert (answer.value, after["name"], node(service, id)["name"]) == (1, "Autumn", "Autumn")
    assert after["updatedAt"] > before["updatedAt"]
    assert (after["createdAt"], after["campaignSlug"]) == (before["createdAt"], "spring")


def test_an_unknown_campaign_is_not_modified(service):
    """R288: neither an unknown id nor that of another integration is an error."""
    id = create(service, "spring")
    assert send(service, "update_campaign", vendorId="my-ads", id=hex_id(1), name="x").value == 0
    assert send(service, "update_campaign", vendorId="my-ads", id="spring", name="x").value == 0
    assert send(service, "update_campaign", vendorId="posters", id=id, name="x").value == 0
    assert get(service, id)["name"] == "Spring"


# -- list -------------------------------------------------------------------------------------------


@pytest.fixture
def four(service):
    """Slug to id of four campaigns in the order they were made."""
    names = {"d": "Spring 50%", "c": "spring_sale", "b": "Autumn (a.*)", "a": "autumn"}
    created = {slug: create(service, slug, name=name, active=slug in "dc") for slug, name in names.items()}
    create(service, "elsewhere", vendor="posters", name="Spring elsewhere")
    return created


def test_campaigns_come_by_name_and_only_of_the_integration(service, four):
    """R281, G-100: by name, in the order of code points."""
    answer = listed(service)
    assert slugs(answer) == ["b", "d", "a", "c"]
    assert (answer.total, answer.offset, answer.limit) == (4, 0, None)
    assert answer.read().schema == schema.CAMPAIGN


def test_names_are_searched_in_any_case_beyond_ascii(service):
    """R278."""
    create(service, "winter", name="ÅRETS ØL")
    assert slugs(listed(service, nameLike="årets ø")) == ["winter"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"active": True}, {"d", "c"}),
        ({"active": False}, {"b", "a"}),
        ({"explicit": True}, {"a", "b", "c", "d"}),
        ({"explicit": False}, set()),
        ({"campaignSlug": "b"}, {"b"}),
        ({"campaignSlug": "B"}, {"b"}),
        ({"campaignSlug": "elsewhere"}, set()),
        ({"active": True, "nameLike": "sale"}, {"c"}),
    ],
)
def test_campaigns_can_be_filtered(service, four, arguments, expected):
    """R280."""
    assert set(slugs(listed(service, **arguments))) == expected


def test_a_filter_named_campaign_id_is_the_id(service, four):
    """R280, G-161."""
    assert slugs(listed(service, campaignId=four["c"])) == ["c"]
    assert slugs(listed(service, campaignId="c")) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sort": "name"}, ["b", "d", "a", "c"]),
        ({"sort": "name", "order": "DESC"}, ["c", "a", "d", "b"]),
        ({"order": "DESC"}, ["c", "a", "d", "b"]),
        # Ids grow with creation.
        ({"sort": "campaignId"}, ["d", "c", "b", "a"]),
        ({"sort": "campaignId", "order": "DESC"}, ["a", "b", "c", "d"]),
        # False before true; ties by the id, ascending in both directions.
        ({"sort": "active", "order": "ASC"}, ["b", "a", "d", "c"]),
        ({"sort": "active", "order": "DESC"}, ["d", "c", "b", "a"]),
    ],
)
@pytest.mark.slow
def test_campaigns_can_be_sorted(service, four, arguments, expected):
    """R280, G-099."""
    assert slugs(listed(service, **arguments)) == expected


# -- implicit campaigns -----------------------------------------------------------------------------


def test_traffic_without_a_slug_makes_an_implicit_campaign_that_holds_its_slug(service):
    """R097, R286, G-160."""
    call = {"date": "2025-01-31T12:00:00Z", "userData": {"email": "anna@example.com"}}
    send(service, "create_offline_interaction", nodeData={"vendorId": "my-ads"}, **call)
    (stored,) = listed(service, explicit=False).read().to_pylist()
    assert (stored["campaignSlug"], stored["explicit"], stored["active"]) == ("default", False, True)
    assert get(service, stored["id"]) == stored
    with pytest.raises(Conflict, match="'default' is taken"):
        create(service, "default")
    renamed = send(service, "update_campaign", vendorId="my-ads", id=stored["id"], name="Rest")
    assert (renamed.value, get(service, stored["id"])["explicit"]) == (1, False)


def test_campaigns_outlive_the_process(tmp_path):
    path = tmp_path / "shop.duckdb"
    service = Service.open("shop", path)
    send(service, "create_integration", vendorId="my-ads", name="My ads")
    id = create(service, "spring")
    service.close()
    again = Service.open("shop", path, read_only=True)
    assert get(again, id)["campaignSlug"] == "spring"
    again.close()


def test_a_filter_on_a_campaign_finds_the_interactions_of_its_node(service):
    """G-218: credit and spend meet on the node."""
    id = create(service, "spring")
    send(service, "load_records", resource="interactions", source=table(visit(1, nodeId=id), visit(2)))
    for predicate in (on_node("campaignId") == id, on_node("vendorId") == "my-ads"):
        answer = send(service, "search_interactions", nodeFilter=predicate)
        assert answer.read()["_id"].to_pylist() == [hex_id(1)]
