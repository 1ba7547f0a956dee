"""The embedded service: the whole of it in one process, on one DuckDB file per project."""

from attrib_ds.service.service import Service

__all__ = ["Service"]
