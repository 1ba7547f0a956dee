"""Requests about integrations, which only the embedded service knows (G-047)."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import Name, VendorId
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import pattern

Currency: TypeAlias = Annotated[
    str, pattern("[A-Z]{3}", shortest=3, longest=3, allowed="three capital letters, as in ISO 4217")
]


class CreateIntegration(ProjectRequest):
    """A new custom-ads integration, in the currency of the project unless one is given.

    The channel is that of its node (G-046).
    """

    vendorId: VendorId
    name: Name
    currency: Currency | None = None
    channel: Name | None = None


class ListIntegrations(ProjectRequest):
    """The integrations of a project."""
