"""Requests about who did what."""

# ruff: noqa: N815  (attributes carry the specification's names)

from attrib_ds.contract.identifiers import Text
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.values import Limit, Offset


class ListAudit(ProjectRequest):
    """What is written down of requests: those of an operation or of an account, if one is given (G-211)."""

    operationName: Text | None = None
    account: Text | None = None
    offset: Offset = 0
    limit: Limit | None = None
