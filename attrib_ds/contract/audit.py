"""Requests about the audit log."""

# ruff: noqa: N815  (attributes carry the specification's names)

from attrib_ds.contract.identifiers import Text
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.values import Limit, Offset


class ListAudit(ProjectRequest):
    """List the audit log, optionally of one operation or account (G-211)."""

    operationName: Text | None = None
    account: Text | None = None
    offset: Offset = 0
    limit: Limit | None = None
