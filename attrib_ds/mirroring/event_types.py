"""Copies event types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrib_ds.mirroring.copying import Copying


def copy_event_types(copying: Copying) -> None:
    """Copy event types, archived ones too."""
    for archived in (False, True):
        types = copying.listed("list_event_types", archived=archived)
        if types.num_rows:
            copying.mirror.send("mirror_records", resource="event-types", records=types)
