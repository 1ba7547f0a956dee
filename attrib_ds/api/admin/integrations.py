"""Integrations: the advertising systems of one's own that campaigns belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrib_ds.project import Project


def create_integration(
    project: Project, vendor_id: str, *, name: str, currency: str | None = None, channel: str | None = None
) -> str:
    """Create an integration, which custom campaigns belong to.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`; an embedded one. A remote service makes integrations by itself.
    vendor_id : str
        What it is called in other arguments and in records: 3 to 64 lower-case letters and digits, with
        single hyphens between them; unique in the project and never changed.
    name : str
        What people call it.
    currency : str, optional
        Of its outlays: three capital letters, as in ISO 4217; by default that of the project. Never changed.
    channel : str, optional
        What its node, and the campaigns below that, are counted under, such as ``"Offline"``. A node that was
        loaded with a channel keeps it.

    Returns
    -------
    str
        The integration's id. Its node has the same one, unless a node of type ``integration`` with this
        ``vendorId`` was loaded before: that becomes its node.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotSupported
        If the project is remote.
    Conflict
        If there is an integration of that ``vendor_id``.

    Examples
    --------
    >>> from attrib_ds import admin, connect, create_campaign, list_nodes
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = admin.create_integration(shop, "post", name="Post", channel="Offline")
    ...     _ = create_campaign(shop, "post", campaign_slug="catalogue", name="Catalogue")
    ...     list_nodes(shop)[["type", "name", "channel"]]
              type       name  channel
    0  integration       Post  Offline
    1     campaign  Catalogue  Offline
    """
    answer = project.send(
        "create_integration", vendor_id=vendor_id, name=name, currency=currency, channel=channel
    )
    return str(answer.value)
