"""Mirrors a project of a remote service into an embedded one."""

from attrib_ds.mirroring.mirror import sync

__all__ = ["sync"]
