"""Copies what changes rarely: nodes, campaigns with outlays, event types and currency rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.mirroring.copier import list_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.mirroring.copier import Copier


def copy_nodes(copier: Copier) -> None:
    """Copy the tree of nodes, and campaigns and outlays of integrations that have any."""
    nodes = copier.list_source("list_nodes")
    copier.load("nodes", nodes)
    vendors = sorted({vendor for vendor in nodes["vendorId"].to_pylist() if vendor})
    tables = copier.pool.map(lambda vendor: copier.list_source("list_campaigns", vendor_id=vendor), vendors)
    for vendor, campaigns in zip(vendors, tables, strict=True):
        if campaigns.num_rows:
            copier.mirror.send("mirror_records", resource="campaigns", records=campaigns)
            _copy_outlays(copier, vendor, campaigns["id"].to_pylist())


def _copy_outlays(copier: Copier, vendor: str, campaigns: Sequence[str]) -> None:
    """Copy all outlays of an integration; delete those that no longer exist in the source."""

    def list_outlays(campaign: str) -> tuple[pa.Table, pa.Table]:
        of_campaign = {"vendor_id": vendor, "campaign_id": campaign}
        present = copier.list_source("list_outlays", **of_campaign)
        deleted = copier.list_source("list_outlays", deleted=True, **of_campaign)
        return present, deleted.filter(pc.is_valid(deleted["deletedAt"]))

    pairs = list(copier.pool.map(list_outlays, campaigns))
    outlays = pa.concat_tables([table for pair in pairs for table in pair])
    copier.load("spend", outlays)
    source_ids = set(outlays["_id"].to_pylist())
    for campaign in campaigns:
        of_campaign = {"vendor_id": vendor, "campaign_id": campaign}
        mirrored = list_all(copier.mirror, "list_outlays", **of_campaign)
        for outlay_id in sorted(set(mirrored["_id"].to_pylist()) - source_ids):
            copier.mirror.send("delete_outlay", outlay_id=outlay_id, **of_campaign)


def copy_event_types(copier: Copier) -> None:
    """Copy event types, including archived ones."""
    for archived in (False, True):
        event_types = copier.list_source("list_event_types", archived=archived)
        if event_types.num_rows:
            copier.mirror.send("mirror_records", resource="event-types", records=event_types)


def copy_rates(copier: Copier) -> None:
    """Copy currency rates; remove those that no longer exist in the source."""
    rates = copier.list_source("list_rates").to_pylist()
    mirrored = list_all(copier.mirror, "list_rates").to_pylist()
    keys = {(rate["currency"], rate["date"]) for rate in rates}
    removed = [{**rate, "rate": None} for rate in mirrored if (rate["currency"], rate["date"]) not in keys]
    if rates or removed:
        copier.mirror.send("set_rates", rates=[*rates, *removed])
