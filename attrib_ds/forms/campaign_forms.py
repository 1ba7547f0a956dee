"""The forms for custom campaigns and what they cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrib_ds.api.campaigns import create_campaign as create
from attrib_ds.api.campaigns import create_outlays, list_campaigns
from attrib_ds.forms import elements, messages, suggestions
from attrib_ds.forms.controls import TextInput
from attrib_ds.forms.downloads import show_frame
from attrib_ds.forms.event_forms import show_sent
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.table_upload import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.forms.controls import Control
    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project


def campaigns(project: Project) -> Form:
    """Make a form that lists the custom campaigns of an integration.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.list_campaigns`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.campaigns(sample_project())
    >>> form.value = {"vendor_id": "newsletter"}
    >>> len(form.run()) > 0
    True
    """
    step = Step(
        list_campaigns,
        "campaigns",
        first=("vendor_id", "name_like"),
        custom_controls=_vendor(project),
        words={"name_like": ("Name contains", "Part of the name; all campaigns by default.")},
    )
    return Form(
        "List campaigns",
        [step],
        subject=project,
        about="The campaigns of an integration, with the ids that costs refer to.",
        show=lambda campaigns, form: show_frame(campaigns, "Campaigns", "campaigns", form),
        action="List",
    )


def create_campaign(project: Project) -> Form:
    """Make a form that creates a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.create_campaign`), ``.code``, ``.run()``, which returns
        the campaign's id.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.create_campaign(sample_project())
    >>> form.value = {"vendor_id": "newsletter", "campaign_slug": "spring", "name": "Spring sale"}
    >>> len(form.run())
    24
    """
    step = Step(
        create,
        "campaign_id",
        custom_controls=_vendor(project),
        words={"name": ("Name", "As it appears in tables and plots.")},
    )
    return Form(
        "Create a campaign",
        [step],
        subject=project,
        about="A campaign that no advertising service reports: a newsletter, a fair, a leaflet.",
        show=lambda identifier, _: [elements.html(messages.status(f"Created the campaign {identifier}"))],
        action="Create",
    )


def outlays(project: Project) -> Form:
    """Make a form that records the costs of custom campaigns from a CSV file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.create_outlays`), ``.code``, ``.run()``. Setting
        ``frame`` to a DataFrame replaces the file; the code then uses a variable ``frame``.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import create_campaign, forms, sample_project
    >>> shop = sample_project()
    >>> campaign = create_campaign(shop, "newsletter", "spring", name="Spring sale")
    >>> form = forms.outlays(shop)
    >>> form.value = {
    ...     "vendor_id": "newsletter",
    ...     "frame": pd.DataFrame({"campaignId": [campaign], "amount": [120.0],
    ...                            "startDate": ["2025-03-01T00:00:00Z"],
    ...                            "endDate": ["2025-03-31T00:00:00Z"]}),
    ... }
    >>> form.run()["status"].tolist()
    ['created']
    """
    step = Step(
        create_outlays,
        "recorded",
        leave_out=("journal",),
        first=("vendor_id", "frame", "dry_run"),
        custom_controls={**_vendor(project), "frame": Table},
        words={
            "frame": (
                "Costs",
                "Columns: campaignId, amount, startDate, endDate and, if known, country and region.",
            )
        },
    )
    return Form(
        "Record costs",
        [step],
        subject=project,
        about="What campaigns cost, for returns on spend. One row per campaign and period, from a CSV file.",
        show=partial(show_sent, caption="Costs"),
        action="Record",
    )


def _vendor(project: Project) -> dict[str, Callable[[FormField], Control]]:
    return {"vendor_id": partial(TextInput, suggested=suggestions.vendors(project))}
