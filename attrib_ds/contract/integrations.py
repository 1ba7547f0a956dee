"""Requests about integrations, which only the embedded service accepts (G-047)."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import Name, VendorId
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import pattern

Currency: TypeAlias = Annotated[
    str, pattern("[A-Z]{3}", shortest=3, longest=3, expected="three capital letters, as in ISO 4217")
]


class CreateIntegration(ProjectRequest):
    """Create a custom-ads integration, by default in the currency of the project.

    ``channel`` is the channel of its node (G-046).
    """

    vendorId: VendorId
    name: Name
    currency: Currency | None = None
    channel: Name | None = None


class ListIntegrations(ProjectRequest):
    """List the integrations of a project."""
