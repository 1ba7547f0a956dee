"""Columns of users and devices in users' own files."""

import pandas as pd
import pytest
from support.own_files import read_files

from attrib_ds import Reading, attribute, errors, read_journeys


def credited(touchpoints, orders, **options):
    credits = attribute(read_files(touchpoints, orders, **options).paths(), "last_touch")
    return {row.node_id: row.value for row in credits.itertuples() if row.value}


PAGES = pd.DataFrame(
    {
        "anonymous_id": ["A", "A", "B"],
        "user_id": [None, "u1", None],
        "utm_source": ["google", None, "newsletter"],
        "utm_medium": ["cpc", None, "email"],
        "timestamp": ["2025-01-01T10:00:00Z", "2025-01-02T10:00:00Z", "2025-01-01T12:00:00Z"],
    }
)
ORDERS = pd.DataFrame(
    {
        "order_id": [1, 2],
        "anonymous_id": ["A", "B"],
        "user_id": ["u1", None],
        "revenue": [10.0, 20.0],
        "timestamp": ["2025-01-03T10:00:00Z", "2025-01-03T11:00:00Z"],
    }
)


def test_anonymous_rows_are_stitched_to_the_user_of_the_device():
    journeys = read_journeys(PAGES, ORDERS)
    assert journeys.rejected.empty
    assert journeys.columns["touchpoints"]["user"] == "user_id"
    assert journeys.columns["touchpoints"]["device"] == "anonymous_id"
    credits = attribute(journeys.paths(), "linear").set_index("node_id")["value"].to_dict()
    assert credits == {"google/cpc": 5.0, "direct": 5.0, "newsletter/email": 20.0}


def test_without_stitching_anonymous_rows_belong_to_the_device():
    credits = attribute(read_journeys(PAGES, ORDERS, reading=Reading(stitch=False)).paths(), "linear")
    assert credits.set_index("node_id")["value"].to_dict() == {"direct": 10.0, "newsletter/email": 20.0}


@pytest.mark.parametrize("lacking", ["touchpoints", "conversions"])
def test_a_table_may_have_the_device_alone(lacking):
    pages, orders = PAGES, ORDERS
    if lacking == "touchpoints":
        pages = PAGES.drop(columns="user_id")
    else:
        orders = ORDERS.drop(columns="user_id")
    assert credited(pages, orders) == {"direct": 10.0, "newsletter/email": 20.0}


def test_a_device_of_two_users_is_nobodys():
    orders = ORDERS.assign(anonymous_id="A", user_id=["u1", "u2"])
    # The page of u1 is theirs; the one without a user could be of either.
    credits = attribute(read_journeys(PAGES, orders).paths(), "linear")
    values = credits.groupby(credits["node_id"].fillna("unattributed"))["value"].sum()
    assert values[values > 0].to_dict() == {"direct": 10.0, "unattributed": 20.0}


def test_rows_without_user_and_device_are_rejected():
    pages = PAGES.assign(anonymous_id=["A", "A", None])
    expected = r"1 row of touchpoints could not be read; the first is row 2 of touchpoints \(user_id and anonymous_id are"
    with pytest.warns(errors.RejectedRows, match=expected) as caught:
        rejected = read_journeys(pages, ORDERS).rejected
    assert [warning.filename for warning in caught if warning.category is errors.RejectedRows] == [__file__]
    assert rejected["reason"].tolist() == ["user_id and anonymous_id are missing or placeholders"]


@pytest.mark.slow
def test_order_lines_keep_their_device():
    lines = pd.concat([ORDERS, ORDERS.tail(1)]).assign(sku=["a", "b", "c"])
    assert credited(PAGES, lines, aggregate=True) == {"direct": 10.0, "newsletter/email": 40.0}


@pytest.mark.large
@pytest.mark.slow
def test_a_column_that_both_tables_have_is_preferred():
    clicks = pd.DataFrame({"customer_id": ["c1"], "channel": ["tv"], "date": ["2025-01-01"]})
    orders = pd.DataFrame(
        {"user_id": ["77"], "customer_id": ["c1"], "date": ["2025-01-02"], "revenue": [10.0]}
    )
    assert credited(clicks, orders) == {"tv": 10.0}
    assert credited(clicks, orders, columns={"conversion_user": "customer_id"}) == {"tv": 10.0}
    assert credited(clicks, orders.rename(columns={"customer_id": "client_id"}).drop(columns="user_id")) == {
        "tv": 10.0
    }


@pytest.mark.slow
def test_columns_of_devices_can_be_named():
    columns = {"anonymous_id": "browser"}
    named = {"device": "browser", "user": "user_id"}
    assert credited(PAGES.rename(columns=columns), ORDERS.rename(columns=columns), columns=named) == {
        "direct": 10.0,
        "newsletter/email": 20.0,
    }
    with pytest.raises(errors.InvalidRequest, match="device: touchpoints has no column 'browsr'"):
        read_journeys(PAGES, ORDERS, reading=Reading(columns={"device": "browsr"}))


def test_conversions_of_strangers_warn():
    clicks = pd.DataFrame({"customer_id": ["c1"], "channel": ["tv"], "date": ["2025-01-01"]})
    orders = pd.DataFrame({"user_id": ["77"], "date": ["2025-01-02"], "revenue": [10.0]})
    with pytest.warns(
        errors.InputWarning,
        match=r"no user of a conversion, such as '77', .* in 'customer_id' and 'user_id', or",
    ):
        read_journeys(clicks, orders)


def test_users_who_differ_by_case_or_leading_zeros_warn():
    clicks = pd.DataFrame(
        {"customer_id": ["anna@x.org", "12", "ben"], "channel": "tv", "date": ["2025-01-01"] * 3}
    )
    orders = pd.DataFrame({"customer_id": ["Anna@x.org", "0012", "ben"], "date": ["2025-01-02"] * 3})
    said = "2 users of conversions differ .* such as '0012' from '12': write users alike"
    with pytest.warns(errors.InputWarning, match=said):
        read_journeys(clicks, orders)


def test_people_of_an_account_share_a_path_if_it_is_the_user():
    clicks = pd.DataFrame(
        {"person_id": ["ann", "ben"], "company": "acme", "channel": ["fair", "search"], "date": "2025-01-01"}
    )
    deals = pd.DataFrame({"deal_id": ["d"], "company": ["acme"], "date": ["2025-01-02"], "value": [10.0]})
    with pytest.raises(errors.InvalidRequest, match="its column as the user: columns={'user': 'company'}"):
        read_journeys(clicks, deals, reading=Reading(columns={"account": "company"}))
    paths = read_journeys(clicks, deals, reading=Reading(columns={"user": "company"})).paths()
    assert sorted(paths.to_pandas()["node_id"]) == ["fair", "search"]


def test_columns_of_one_table_are_no_people_because_they_meet_themselves():
    views = pd.DataFrame({
        "request": ["r-00001", "r-00002", "r-00003", "r-00004"], "bytes": [2000, 2001, 2000, 2004],
        "page": ["/?utm_source=a", "/thanks", "/b", "/thanks"],
        "time": ["2025-03-01 10:00", "2025-03-01 10:01", "2025-03-02 10:00", "2025-03-02 10:02"],
    })  # fmt: skip
    with pytest.raises(errors.InvalidRequest, match="no column that looks like the user; columns: "):
        read_journeys(views, conversion_page="/thanks")


def test_sums_without_people_are_named_beside_touchpoints_with_them(tmp_path):
    (tmp_path / "touches.csv").write_text("member_no,channel,at\nM700,Web,2025-03-01\nM701,App,2025-03-02\n")
    (tmp_path / "stores.csv").write_text(
        "Store,Month,Net sales\nAirport,2025-03-31,15241.50\nCity,2025-03-31,980.25\n"
    )
    with pytest.raises(
        errors.InvalidRequest, match="No column of stores.csv has the people .* sums without people"
    ):
        read_journeys(tmp_path / "touches.csv", tmp_path / "stores.csv")
