"""Integrations: the custom advertising systems that campaigns belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrib_ds.project import Project


def create_integration(
    project: Project, vendor_id: str, *, name: str, currency: str | None = None, channel: str | None = None
) -> str:
    """Create an integration for custom campaigns.

    Parameters
    ----------
    project : Project
        An embedded project. A remote service creates its integrations itself.
    vendor_id : str
        Its name in other arguments and in records: 3 to 64 lower-case letters and digits, with single hyphens
        between them; unique in the project and never changed.
    name : str
        Display name.
    currency : str, optional
        Currency of its outlays: an ISO 4217 code, in force or withdrawn; by default that of the project.
        Never changed.
    channel : str, optional
        Channel of its node and of the campaigns below, such as ``"Offline"``. A node that was loaded with a
        channel keeps it.

    Returns
    -------
    str
        The integration's id, which is also the id of its node. If a node of type ``integration`` with this
        ``vendorId`` was loaded before, that is its node; name and currency are those given here.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotSupported
        If the project is remote.
    Conflict
        If an integration with this ``vendor_id`` was created before.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "post", name="Post", channel="Offline")
    ...     _ = at.create_campaign(shop, "post", "catalogue", name="Catalogue")
    ...     at.list_nodes(shop)[["type", "name", "channel"]]
              type       name  channel
    0  integration       Post  Offline
    1     campaign  Catalogue  Offline
    """
    answer = project.send(
        "create_integration", vendor_id=vendor_id, name=name, currency=currency, channel=channel
    )
    return str(answer.value)
