"""The shipped tree of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import schema

if TYPE_CHECKING:
    import pandas as pd


def test_ids_are_readable_and_unique(nodes: pd.DataFrame) -> None:
    assert nodes["_id"].is_unique
    assert nodes["_id"].str.fullmatch(r"[a-z0-9]+(?:[-/][a-z0-9]+)*").all()
    assert nodes["_id"].str.len().max() <= 128  # G-217


def test_parents_exist_without_cycles(nodes: pd.DataFrame) -> None:
    parent_of = nodes.set_index("_id")["parentId"].dropna().to_dict()
    assert set(parent_of.values()) <= set(nodes["_id"])
    roots = set(nodes.loc[nodes["parentId"].isna(), "_id"])
    for node_id in nodes["_id"]:
        climbed = node_id
        for _ in range(len(nodes)):
            climbed = parent_of.get(climbed, climbed)
        assert climbed in roots


def test_levels_go_down_the_tree(nodes: pd.DataFrame) -> None:
    depth = {kind: level for level, kind in enumerate(schema.NODE_TYPES)}
    level = nodes.set_index("_id")["type"].map(depth)
    assert level.notna().all()
    below = nodes.dropna(subset="parentId")
    assert (level[below["_id"]].to_numpy() > level[below["parentId"]].to_numpy()).all()
    roots = nodes.loc[nodes["parentId"].isna(), "type"]
    assert set(roots) == {"integration", "channel"}


def test_all_channels_exist(nodes: pd.DataFrame) -> None:
    assert set(nodes["channel"]) == {
        "Paid Search",
        "Paid Social",
        "Display",
        "Email",
        "Affiliates",
        "Organic Search",
        "Referral",
        "Direct",
        "Offline",
    }


def test_only_campaigns_have_a_slug_unique_in_their_integration(nodes: pd.DataFrame) -> None:
    is_campaign = nodes["type"] == "campaign"
    assert (nodes["campaignSlug"].notna() == is_campaign).all()
    assert not nodes[is_campaign].duplicated(["integrationId", "campaignSlug"]).any()


def test_integration_is_the_root(nodes: pd.DataFrame) -> None:
    assert (nodes["integrationId"] == nodes["_id"].str.partition("/")[0]).all()
    assert nodes.loc[nodes["_id"] == nodes["integrationId"], "parentId"].isna().all()
