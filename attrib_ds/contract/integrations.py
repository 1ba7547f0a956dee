"""Requests about integrations, which only the embedded service accepts (G-047)."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, Any, TypeAlias

from attrib_ds.contract.currencies import CURRENCIES, EXPECTED
from attrib_ds.contract.identifiers import Name, VendorId
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import Refused, Rule


def _check_currency(value: Any) -> str:
    if not isinstance(value, str) or value not in CURRENCIES:
        raise Refused
    return str(value)


#: In force or withdrawn (G-226).
Currency: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_currency,
        expected=EXPECTED,
        json_schema={"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 3, "maxLength": 3},
    ),
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
