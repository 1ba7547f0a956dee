"""Campaigns and outlays as an analyst uses them."""

from decimal import Decimal

import pandas as pd
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, NotSupported
from attrib_ds.records.frames import TEXT

WEEK = {"start_date": "2025-03-03T00:00:00Z", "end_date": "2025-03-10T00:00:00Z"}


@pytest.fixture
def ads():
    """A project with one integration, in Norwegian crowns."""
    with at.connect("my-shop", path=":memory:") as project:
        project.send("create_integration", vendor_id="my-ads", name="My ads", currency="NOK")
        yield project


@pytest.fixture
def spring(ads):
    return at.create_campaign(ads, "my-ads", "spring", name="Spring sale")


def outlays_of(ads, campaign, **arguments):
    return at.list_outlays(ads, "my-ads", campaign, **arguments)


# -- campaigns --------------------------------------------------------------------------------------


def test_a_campaign_is_made_and_got(ads):
    """R095, R119, R282, R283, R286."""
    id = at.create_campaign(ads, "my-ads", "spring", name="Spring sale")
    campaign = at.get_campaign(ads, "my-ads", id)
    assert isinstance(campaign, pd.Series)
    assert campaign.name == id
    assert campaign["id"] != campaign["campaignSlug"] == "spring"
    assert campaign["active"] is True
    assert campaign["explicit"] is True
    with pytest.raises(NotFound):
        at.get_campaign(ads, "my-ads", "spring")


def test_campaigns_are_listed_in_a_frame(ads, spring):
    """R278, R280, R281."""
    autumn = at.create_campaign(ads, "my-ads", "fall", name="autumn SALE", active=False)
    found = at.list_campaigns(ads, "my-ads", name_like="Sale", sort="-name", limit=1)
    assert found["id"].tolist() == [autumn]
    assert found.attrs["total"] == 2
    assert at.list_campaigns(ads, "my-ads", active=True)["id"].tolist() == [spring]
    assert at.list_campaigns(ads, "my-ads", campaign_id=autumn)["campaignSlug"].tolist() == ["fall"]
    assert at.list_campaigns(ads, "my-ads", campaign_slug="spring", explicit=True)["id"].tolist() == [spring]
    assert at.list_campaigns(ads, "my-ads", offset=1)["id"].tolist() == [autumn]


def test_columns_of_campaigns_do_not_depend_on_the_rows(ads):
    """G-162: an unknown integration has no campaigns."""
    nothing = at.list_campaigns(ads, "unknown")
    assert nothing.attrs["total"] == 0
    assert dtype_names(nothing) == {
        "id": "str",
        "integrationId": "str",
        "projectId": "str",
        "name": "str",
        "campaignSlug": "str",
        "active": "boolean",
        "explicit": "boolean",
        "createdAt": "datetime64[us, UTC]",
        "updatedAt": "datetime64[us, UTC]",
    }
    at.create_campaign(ads, "my-ads", "spring", name="Spring sale")
    assert at.list_campaigns(ads, "my-ads").dtypes.equals(nothing.dtypes)


def test_a_campaign_is_changed(ads, spring):
    """R118, R287, R288, G-163."""
    assert at.update_campaign(ads, "my-ads", spring, active=False) == 1
    assert at.get_campaign(ads, "my-ads", spring)["active"] is False
    assert at.update_campaign(ads, "my-ads", spring, active=False) == 0
    assert at.update_campaign(ads, "my-ads", spring, active=True, name="Easter") == 1
    assert at.update_campaign(ads, "my-ads", "unknown", name="Easter") == 0


def test_a_taken_slug_and_an_unknown_integration_are_told(ads, spring):
    """R284, G-162."""
    with pytest.raises(Conflict, match="campaign_slug: 'spring' is taken"):
        at.create_campaign(ads, "my-ads", "spring", name="x")
    with pytest.raises(InvalidRequest, match="vendor_id: 'my-add' is not allowed .did you mean 'my-ads'"):
        at.create_campaign(ads, "my-add", "spring", name="x")
    with pytest.raises(InvalidRequest, match="campaign_slug: ' ' is not allowed"):
        at.create_campaign(ads, "my-ads", " ", name="x")


def test_campaigns_are_nodes(ads, spring):
    """G-218."""
    nodes = at.list_nodes(ads).set_index("_id")
    assert nodes.loc[spring, "type"] == "campaign"
    assert nodes.loc[nodes.loc[spring, "parentId"], "vendorId"] == "my-ads"


# -- outlays ----------------------------------------------------------------------------------------


def test_an_outlay_is_made_and_got(ads, spring):
    """R098, R101, R293, R294."""
    id = at.create_outlay(ads, "my-ads", spring, amount=Decimal("70.25"), region="b", **WEEK)
    outlay = at.get_outlay(ads, "my-ads", spring, id)
    assert outlay.name == id
    assert (outlay["amount.amount"], outlay["amount.currency"]) == (70.25, "NOK")
    assert outlay["startDate"] == pd.Timestamp("2025-03-03", tz="UTC")
    assert outlay["region"] == "b"
    assert pd.isna(outlay["deletedAt"])
    with pytest.raises(NotFound):
        at.get_outlay(ads, "my-ads", spring, "unknown")


def test_outlays_are_listed_in_a_frame(ads, spring):
    """R290, G-167, G-168."""
    assert outlays_of(ads, "unknown").empty
    for amount, day in ((5, "01"), (3, "02"), (4, "03")):
        period = {"start_date": f"2025-03-{day}T00:00:00Z", "end_date": f"2025-03-{day}T12:00:00Z"}
        at.create_outlay(ads, "my-ads", spring, amount=amount, **period)
    assert outlays_of(ads, spring)["amount.amount"].tolist() == [5.0, 3.0, 4.0]
    dearest = outlays_of(ads, spring, sort="-amount", limit=2)
    assert dearest["amount.amount"].tolist() == [5.0, 4.0]
    assert dearest.attrs["total"] == 3
    bounds = {"since": "2025-03-01T13:00:00Z", "until": "2025-03-02T23:00:00Z"}
    assert outlays_of(ads, spring, **bounds)["amount.amount"].tolist() == [3.0]
    assert outlays_of(ads, spring, offset=3).dtypes.equals(outlays_of(ads, spring).dtypes)


def test_an_outlay_is_changed(ads, spring):
    """R295, R296, G-163, G-166."""
    id = at.create_outlay(ads, "my-ads", spring, amount=70, **WEEK)
    this = {"campaign_id": spring, "outlay_id": id}
    assert at.update_outlay(ads, "my-ads", **this, amount=80, country="NO") == 1
    assert at.update_outlay(ads, "my-ads", **this, amount=80, country="NO") == 0
    with pytest.raises(InvalidRequest, match="end_date: the outlay would go from 2025-03-03"):
        at.update_outlay(ads, "my-ads", **this, end_date="2025-03-01T00:00:00Z")
    autumn = at.create_campaign(ads, "my-ads", "autumn", name="Autumn")
    assert at.update_outlay(ads, "my-ads", **this, new_campaign_id=autumn) == 1
    assert outlays_of(ads, autumn)["amount.amount"].tolist() == [80.0]
    with pytest.raises(NotFound):
        at.update_outlay(ads, "my-ads", **this, amount=1)


def test_spend_of_a_campaign_meets_the_credit_of_its_interactions(ads, spring):
    """G-218: what a campaign costs is set against the orders that its node led to."""
    visits = pd.DataFrame({"userId": ["a" * 24], "nodeId": [spring], "startDate": ["2025-03-04T00:00:00Z"]})
    orders = pd.DataFrame(
        {"userId": ["a" * 24], "eventType": ["order"], "eventDate": ["2025-03-05T00:00:00Z"]}
    )
    at.load(ads, interactions=visits, events=orders)
    at.create_outlay(ads, "my-ads", spring, amount=70, **WEEK)
    paths = at.conversion_paths(ads, event_type="order")
    credits = at.attribute(paths, "linear").set_index("node_id")
    assert credits.loc[spring, "conversions"] == 1.0


# -- many outlays -----------------------------------------------------------------------------------


def test_g078_a_deleted_outlay_costs_nothing_and_may_be_made_again(ads, spring):
    frame = spend((spring, 70.0, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"))
    (first,) = at.create_outlays(ads, "my-ads", frame)["id"]
    place = {"campaign_id": spring, "outlay_id": first}
    assert at.admin.delete_outlay(ads, "my-ads", **place) == 1
    assert outlays_of(ads, spring).empty
    assert outlays_of(ads, spring, deleted=True)["_id"].tolist() == [first]
    with pytest.raises(NotFound):
        at.get_outlay(ads, "my-ads", **place)
    with pytest.raises(NotFound):
        at.admin.delete_outlay(ads, "my-ads", **place)
    assert at.create_outlays(ads, "my-ads", frame)["status"].tolist() == ["created"]


def spend(*rows, columns=("campaignId", "amount", "startDate", "endDate"), index=None):
    return pd.DataFrame(list(rows), columns=list(columns), index=index)


def test_each_row_of_a_frame_is_an_outlay(ads, spring):
    """R098, R291, R293: the result has the index of the frame and tells each row's fate."""
    rows = spend(
        (spring, 70.0, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"),
        (spring, -1.0, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"),
        ("unknown", 5.0, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"),
        (spring, 5.0, "2025-03-10T00:00:00Z", "2025-03-10T00:00:00Z"),
        (None, 5.0, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"),
        (spring, None, "2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z"),
        (spring, 8.0, "2025-03-10T00:00:00Z", "2025-03-11T00:00:00Z"),
        index=[7, 7, "c", "d", "e", "f", "g"],
    )
    before = rows.copy()
    result = at.create_outlays(ads, "my-ads", rows)
    pd.testing.assert_frame_equal(rows, before)
    assert result.index.tolist() == [7, 7, "c", "d", "e", "f", "g"]
    assert result["status"].tolist() == ["created", *["rejected"] * 5, "created"]
    assert [error.partition(":")[0] for error in result["error"].dropna()] == [
        "amount",
        "campaign_id",
        "start_date",
        "campaign_id",
        "amount",
    ]
    stored = outlays_of(ads, spring)
    assert stored["amount.amount"].tolist() == [70.0, 8.0]
    assert result["id"].dropna().tolist() == stored["_id"].tolist()


def test_a_second_run_stores_nothing_twice(ads, spring):
    autumn = at.create_campaign(ads, "my-ads", "autumn", name="Autumn")
    days = ("2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z")
    # The second row is a second outlay of the same amount, not a mistake.
    first = spend((spring, 70, *days), (spring, 70, *days), (autumn, 70, *days))
    made = at.create_outlays(ads, "my-ads", first)
    assert made["status"].tolist() == ["created"] * 3
    again = at.create_outlays(ads, "my-ads", first)
    assert again["status"].tolist() == ["present"] * 3
    assert sorted(again["id"]) == sorted(made["id"])
    # The same instants and amounts in other words, one outlay more, and one that differs in its country.
    local = spend(
        (spring, 70.0, "2025-03-03T01:00:00+01:00", "2025-03-10T00:00:00"), *[(spring, 70, *days)] * 2
    )
    assert at.create_outlays(ads, "my-ads", local)["status"].tolist() == ["present", "present", "created"]
    named = first.assign(country="NO")
    assert at.create_outlays(ads, "my-ads", named.head(1))["status"].tolist() == ["created"]
    assert (outlays_of(ads, spring).attrs["total"], outlays_of(ads, autumn).attrs["total"]) == (4, 1)


def test_dates_of_a_frame_may_be_instants(ads, spring):
    rows = spend((spring, 70, pd.Timestamp("2025-03-03"), pd.Timestamp("2025-03-10", tz="UTC")))
    rows["endDate"] = pd.to_datetime(rows["endDate"], utc=True)
    rows = rows.assign(country=None, region=pd.Series([None], dtype=TEXT))
    assert at.create_outlays(ads, "my-ads", rows)["status"].tolist() == ["created"]
    assert outlays_of(ads, spring)["startDate"].tolist() == [pd.Timestamp("2025-03-03", tz="UTC")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1], "frame: must be a DataFrame, got list"),
        (spend(columns=["campaignId", "amount", "startDate"]), "frame: has no column 'endDate'"),
        (
            spend(columns=["campaignId", "amount", "startDate", "endDate", "contry"]),
            r"has an unknown column 'contry' \(did you mean 'country'\?\); allowed: campaignId, amount",
        ),
        (
            spend(columns=["campaignId", "amount", "startDate", "endDate", "amount"]),
            "the column 'amount' twice",
        ),
    ],
)
def test_a_frame_of_another_form_is_refused_as_a_whole(ads, rows, message):
    with pytest.raises(InvalidRequest, match=message) as caught:
        at.create_outlays(ads, "my-ads", rows)
    assert caught.value.field == "frame"


def test_no_rows_give_a_result_without_rows(ads):
    result = at.create_outlays(ads, "my-ads", spend())
    assert result.shape == (0, 3)
    assert set(dtype_names(result).values()) == {"str"}


def test_what_can_be_done_for_no_row_is_raised(ads, tmp_path):
    path = tmp_path / "shop.duckdb"
    at.connect("my-shop", path=path).close()
    days = ("2025-03-03T00:00:00Z", "2025-03-10T00:00:00Z")
    with at.connect("my-shop", path=path, read_only=True) as reading, pytest.raises(NotSupported):
        at.create_outlays(reading, "my-ads", spend(("c", 1, *days)))


@pytest.mark.large
@pytest.mark.slow
def test_the_campaigns_of_the_sample_are_listed_with_their_spend():
    with at.sample_project() as shop:
        campaigns = at.list_campaigns(shop, "google-ads").set_index("campaignSlug")
        assert sorted(campaigns.index) == ["brand", "camping", "display", "hiking", "shopping"]
        assert campaigns["explicit"].all()
        outlays = at.list_outlays(shop, "google-ads", campaigns.loc["brand", "id"])
        # One outlay for each week of the half year.
        assert len(outlays) == 26
        with pytest.raises(Conflict, match="'brand' is taken"):
            at.create_campaign(shop, "google-ads", "brand", name="Again")
