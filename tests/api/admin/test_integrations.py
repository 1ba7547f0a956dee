"""Integrations of one's own, from Python."""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.errors import Conflict, InvalidRequest


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:") as project:
        yield project


def test_an_integration_is_a_node_whose_campaigns_have_its_channel(shop):
    post = at.admin.create_integration(shop, "post", name="Post", currency="NOK", channel="Offline")
    catalogue = at.create_campaign(shop, "post", "catalogue", name="Catalogue")
    nodes = at.list_nodes(shop).set_index("_id")
    assert nodes.loc[post, ["type", "name", "vendorId", "channel"]].tolist() == [
        *("integration", "Post", "post", "Offline")
    ]
    assert nodes.loc[catalogue, ["parentId", "channel"]].tolist() == [post, "Offline"]
    at.create_outlay(shop, "post", catalogue, amount=5,
                              start_date="2025-01-01T00:00:00Z", end_date="2025-01-02T00:00:00Z")  # fmt: skip
    outlays = at.list_outlays(shop, "post", catalogue)
    assert outlays["amount.currency"].tolist() == ["NOK"]


def test_without_a_choice_there_is_no_channel_and_the_currency_of_the_project(shop):
    post = at.admin.create_integration(shop, "post", name="Post")
    node = at.list_nodes(shop).set_index("_id").loc[post]
    assert node.isna()["channel"]
    listed = shop.send("list_integrations").read().to_pylist()
    assert [(each["vendorId"], each["currency"]) for each in listed] == [("post", "EUR")]


def test_a_loaded_node_becomes_its_root_and_keeps_its_channel(shop):
    rows = [
        {"_id": "n1", "type": "integration", "name": "TV", "vendorId": "tv-ads", "channel": "Broadcast"},
        {"_id": "n2", "type": "campaign", "name": "Spring", "parentId": "n1"},
    ]
    at.load(shop, nodes=pd.DataFrame(rows))
    at.admin.create_integration(shop, "tv-ads", name="Television", channel="Offline")
    nodes = at.list_nodes(shop).set_index("_id")["channel"]
    # What had none gets the one given.
    assert nodes.to_dict() == {"n1": "Broadcast", "n2": "Offline"}


def test_a_vendor_id_is_taken_once(shop):
    at.admin.create_integration(shop, "post", name="Post")
    with pytest.raises(Conflict, match="vendor_id: an integration 'post' exists already"):
        at.admin.create_integration(shop, "post", name="Again")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vendor_id": "no spaces", "name": "Post"}, "vendor_id"),
        ({"vendor_id": "post", "name": ""}, "name"),
        ({"vendor_id": "post", "name": "Post", "currency": "euro"}, "currency.*ISO 4217"),
        ({"vendor_id": "post", "name": "Post", "channel": ""}, "channel"),
    ],
)
def test_what_is_not_allowed_is_refused(shop, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        at.admin.create_integration(shop, **arguments)


def test_a_campaign_of_an_unknown_integration_names_the_way_out(shop):
    with pytest.raises(InvalidRequest, match="create one with create_integration"):
        at.create_campaign(shop, "post", "a", name="A")
