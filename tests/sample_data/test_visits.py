"""The shipped interactions and hits."""

import json

import pandas as pd

from attrib_ds import schema

HEX_ID = r"[0-9a-f]{24}"
UUID_7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_ids_are_well_formed_and_unique(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    assert interactions["_id"].is_unique
    assert interactions["_id"].str.fullmatch(HEX_ID).all()
    assert interactions["userId"].str.fullmatch(HEX_ID).all()
    assert hits["id"].is_unique
    assert hits["id"].str.fullmatch(UUID_7).all()


def test_ids_encode_the_time_and_are_sorted(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    # G-045: the first 4 bytes of an object id are seconds, the first 6 of a UUID of version 7 milliseconds.
    assert interactions["_id"].is_monotonic_increasing
    assert interactions["startDate"].is_monotonic_increasing
    seconds = interactions["_id"].str[:8].map(lambda text: int(text, 16))
    assert (pd.to_datetime(seconds.astype("int64"), unit="s", utc=True) == interactions["startDate"]).all()
    stamps = hits["id"].str.replace("-", "").str[:12].map(lambda text: int(text, 16))
    assert (pd.to_datetime(stamps.astype("int64"), unit="ms", utc=True) == hits["serverDate"]).all()


def test_dates_are_within_the_half_year(interactions: pd.DataFrame) -> None:
    assert interactions["startDate"].min() >= pd.Timestamp("2025-01-01", tz="UTC")
    assert interactions["startDate"].max() < pd.Timestamp("2025-07-01", tz="UTC")


def test_hit_count_is_the_number_of_shipped_hits(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    sessions = interactions[interactions["type"] == "session"].set_index("_id")
    counted = hits.groupby("sessionId").size()
    assert set(counted.index) == set(sessions.index)
    assert (counted.reindex(sessions.index) == sessions["hitCount"]).all()


def test_first_hit_opens_the_session(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    sessions = interactions[interactions["type"] == "session"].set_index("_id")
    opening = hits.sort_values(["serverDate", "id"]).groupby("sessionId").head(1).set_index("sessionId")
    opening = opening.loc[sessions.index]
    assert (opening["id"] == sessions["firstHitId"]).all()
    assert (opening["serverDate"] == sessions["startDate"]).all()
    assert (opening["referrerType"] == sessions["referrerType"]).all()
    for part in schema.URL_PARTS:
        assert (opening[f"pageUrl.{part}"] == sessions[f"firstPageUrl.{part}"]).all()
    for name in ("isBot", "geo.city", "asn.asnId"):
        assert (opening[name] == sessions[name]).all()
    assert (opening["userAgent"] == sessions["userAgent.ua"]).all()


def test_later_hits_are_internal_and_inside_the_timeout(
    interactions: pd.DataFrame, hits: pd.DataFrame
) -> None:
    later = hits[~hits["id"].isin(interactions["firstHitId"])]
    assert set(later["referrerType"]) == {"internal"}
    waits = hits.sort_values(["serverDate", "id"]).groupby("sessionId")["serverDate"].diff().dropna()
    assert waits.max() < pd.Timedelta(seconds=1_800)  # G-190
    assert waits.min() > pd.Timedelta(0)


def test_duration_is_the_time_between_start_and_end(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    elapsed = (interactions["endDate"] - interactions["startDate"]).dt.total_seconds()
    assert (elapsed == interactions["duration"]).all()
    sessions = interactions[interactions["type"] == "session"].set_index("_id")
    last = hits.groupby("sessionId")["serverDate"].max().loc[sessions.index]
    assert (last == sessions["endDate"]).all()
    assert (sessions.loc[sessions["hitCount"] == 1, "duration"] == 0).all()


def test_offline_interactions_have_no_session_properties(interactions: pd.DataFrame) -> None:
    offline = interactions[interactions["type"] == "offline"]
    assert len(offline) > 300
    for name in schema.SESSION_ONLY:
        assert offline[schema.leaves(schema.INTERACTION, name)].isna().all(axis=None)
    assert not offline["isBot"].any()
    assert (offline["duration"] == 0).all()
    assert offline["createdAt"].notna().all()
    assert offline["trafficFilterId"].isna().all()


def test_offline_interactions_keep_their_raw_data(interactions: pd.DataFrame) -> None:
    offline = interactions[interactions["type"] == "offline"]
    node_data = offline["rawNodeData"].map(json.loads)
    assert (node_data.map(lambda data: data["vendorId"]) == offline["integrationId"]).all()
    assert (node_data.map(lambda data: data["campaignId"]) == offline["nodeId"]).all()
    emails = offline["userData"].map(lambda text: json.loads(text)["email"])
    assert emails.str.endswith("@example.org").all()
    assert emails.groupby(offline["userId"]).nunique().max() == 1


def test_sessions_have_all_session_properties(interactions: pd.DataFrame) -> None:
    sessions = interactions[interactions["type"] == "session"]
    needed = [
        "firstHitId",
        "hitCount",
        "firstPage",
        "userAgent.ua",
        "asn.asnId",
        "geo.countryCode",
        "referrerType",
    ]
    needed += schema.leaves(schema.INTERACTION, "firstPageUrl")
    assert sessions[needed].notna().all(axis=None)
    parts = (
        sessions["firstPageUrl.origin"] + sessions["firstPageUrl.pathname"] + sessions["firstPageUrl.search"]
    )
    assert (parts + sessions["firstPageUrl.hash"] == sessions["firstPage"]).all()
    assert set(sessions["referrerType"]) == {"campaign", "search", "referral", "direct"}  # of G-194


def test_nodes_of_interactions_exist(interactions: pd.DataFrame, nodes: pd.DataFrame) -> None:
    integration = nodes.set_index("_id")["integrationId"]
    assert set(interactions["nodeId"]) <= set(nodes["_id"])
    assert (interactions["nodeId"].map(integration) == interactions["integrationId"]).all()


def test_bots_are_marked_by_their_agents(interactions: pd.DataFrame, hits: pd.DataFrame) -> None:
    bots = interactions[interactions["isBot"]]
    named = interactions["userAgent.ua"].str.contains("bot", case=False).fillna(value=False)
    assert (named == interactions["isBot"]).all()
    assert (bots["type"] == "session").all()
    assert 0.02 < len(bots) / len(interactions) < 0.04
    assert (hits["isBot"] == hits["sessionId"].isin(bots["_id"])).all()


def test_internal_traffic_is_filtered(interactions: pd.DataFrame) -> None:
    assert set(interactions["trafficFilterId"].dropna()) == {"internal-traffic"}
    assert 0.01 < interactions["trafficFilterId"].notna().mean() < 0.03


def test_people_return_on_several_devices(visits: pd.DataFrame) -> None:
    assert visits.groupby("userId")["userAgent.device.type"].nunique().ge(2).sum() > 200
    lengths = visits.groupby("userId").size()
    assert (lengths >= 15).sum() >= 5
    assert (lengths == 1).mean() > 0.3
    assert set(visits["userAgent.device.type"].dropna()) == {"mobile", "desktop", "tablet"}


def test_a_few_visits_start_in_the_same_second(visits: pd.DataFrame) -> None:
    tied = visits[visits.duplicated(["userId", "startDate"], keep=False)]
    assert 3 <= tied["userId"].nunique() <= 30
    assert tied.groupby("userId")["userAgent.ua"].nunique().min() > 1


def test_visits_of_one_person_do_not_overlap(visits: pd.DataFrame) -> None:
    ordered = visits[visits["type"] == "session"].sort_values(["userId", "startDate", "_id"])
    ordered = ordered[~ordered.duplicated(["userId", "startDate"], keep=False)]
    pause = ordered["startDate"] - ordered.groupby("userId")["endDate"].shift()
    assert pause.dropna().min() > pd.Timedelta(seconds=1_800)


def test_some_sessions_span_midnight(interactions: pd.DataFrame) -> None:
    assert (interactions["startDate"].dt.date != interactions["endDate"].dt.date).sum() >= 3


def test_demand_has_weekly_and_seasonal_patterns(visits: pd.DataFrame) -> None:
    monthly = visits.groupby(visits["startDate"].dt.month).size()
    assert monthly[5] > 1.5 * monthly[1]
    weekly = visits.groupby(visits["startDate"].dt.day_of_week).size()
    assert weekly[6] > 1.2 * weekly[4]
    mailed = visits[visits["channel"] == "Email"]
    assert (mailed["startDate"].dt.day_of_week == 1).mean() > 0.5


def test_no_channel_has_most_of_the_visits(visits: pd.DataFrame) -> None:
    shares = visits["channel"].value_counts(normalize=True)
    assert shares["Direct"] < 0.25
    assert shares.max() < 0.5
    assert shares.min() > 0.02
    countries = visits["geo.countryCode"].value_counts(normalize=True)
    assert countries[["FR", "DE", "BE", "CH", "GB", "ES"]].sum() > 0.95
