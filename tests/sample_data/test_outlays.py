"""The shipped spend."""

from decimal import Decimal

import pandas as pd


def test_outlays_are_well_formed(spend: pd.DataFrame) -> None:
    assert spend["_id"].is_unique
    assert spend["_id"].str.fullmatch(r"[0-9a-f]{24}").all()
    assert not spend.duplicated(["campaignId", "startDate"]).any()
    assert set(spend["amount.currency"]) == {"EUR"}
    assert all(amount >= 0 and amount == round(amount, 2) for amount in spend["amount.amount"])


def test_weeks_cover_the_half_year_without_a_gap(spend: pd.DataFrame) -> None:
    brand = spend[spend["campaignId"] == "google-ads/brand"].sort_values("startDate")
    assert brand["startDate"].iloc[0] == pd.Timestamp("2025-01-01", tz="UTC")
    assert brand["endDate"].iloc[-1] == pd.Timestamp("2025-07-01", tz="UTC")
    assert brand["startDate"].tolist()[1:] == brand["endDate"].tolist()[:-1]
    assert len(brand) == 26  # 181 days are 25 weeks and 6 days
    assert ((spend["endDate"] - spend["startDate"]) <= pd.Timedelta(days=7)).all()


def test_spend_belongs_to_campaigns(spend: pd.DataFrame, nodes: pd.DataFrame) -> None:
    campaigns = nodes[nodes["type"] == "campaign"].set_index("_id")
    assert set(spend["campaignId"]) <= set(campaigns.index)
    assert (spend["campaignId"].map(campaigns["integrationId"]) == spend["integrationId"]).all()
    paid = campaigns.index[campaigns["channel"].isin(["Paid Search", "Paid Social", "Display", "Email"])]
    assert set(paid) <= set(spend["campaignId"])


def test_one_campaign_has_spend_and_no_visits(spend: pd.DataFrame, interactions: pd.DataFrame) -> None:
    visited = set(interactions["nodeId"].str.split("/").str[:2].str.join("/"))
    silent = spend[~spend["campaignId"].isin(visited)]
    assert set(silent["campaignId"]) == {"meta-ads/reels-test"}
    assert silent["amount.amount"].sum() > Decimal(100)


def test_newsletters_cost_little(spend: pd.DataFrame) -> None:
    by_root = spend.groupby("integrationId")["amount.amount"].sum()
    assert 0 < by_root["newsletter"] < by_root.drop("newsletter").min()
