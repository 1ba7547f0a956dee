"""Copies nodes, with campaigns and their outlays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.mirroring.copying import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.mirroring.copying import Copying


def copy_nodes(copying: Copying) -> None:
    """Copy the tree of nodes, and of integrations that have campaigns these and their outlays."""
    nodes = copying.listed("list_nodes")
    copying.load("nodes", nodes)
    vendors = sorted({each for each in nodes["vendorId"].to_pylist() if each})
    found = copying.pool.map(lambda vendor: copying.listed("list_campaigns", vendor_id=vendor), vendors)
    for vendor, campaigns in zip(vendors, found, strict=True):
        if campaigns.num_rows:
            copying.mirror.send("mirror_records", resource="campaigns", records=campaigns)
            _copy_outlays(copying, vendor, campaigns["id"].to_pylist())


def _copy_outlays(copying: Copying, vendor: str, campaigns: Sequence[str]) -> None:
    """Copy all outlays of an integration; those that the source has no longer are deleted here too."""

    def listed(campaign: str) -> tuple[pa.Table, pa.Table]:
        of_campaign = {"vendor_id": vendor, "parent_campaign_id": campaign}
        present = copying.listed("list_outlays", **of_campaign)
        deleted = copying.listed("list_outlays", deleted=True, **of_campaign)
        return present, deleted.filter(pc.is_valid(deleted["deletedAt"]))

    found = list(copying.pool.map(listed, campaigns))
    everything = pa.concat_tables([table for pair in found for table in pair])
    copying.load("spend", everything)
    listed_ids = set(everything["_id"].to_pylist())
    for campaign in campaigns:
        of_campaign = {"vendor_id": vendor, "parent_campaign_id": campaign}
        held = whole(copying.mirror, "list_outlays", **of_campaign)
        for gone in sorted(set(held["_id"].to_pylist()) - listed_ids):
            copying.mirror.send("delete_outlay", outlay_id=gone, **of_campaign)
