"""Bulk loading: validation in SQL, then one transaction."""

from attrib_ds.service.loading.load import REJECTED, load_records

__all__ = ["REJECTED", "load_records"]
