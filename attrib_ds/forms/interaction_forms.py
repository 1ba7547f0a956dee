"""The forms that search and count interactions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import plots
from attrib_ds.api.insights import interaction_insights
from attrib_ds.api.interactions import search_interactions
from attrib_ds.forms import elements, suggestions
from attrib_ds.forms.controls import control_for
from attrib_ds.forms.downloads import show_frame
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attrib_ds.filters.vocabulary import Kind
    from attrib_ds.forms.controls import Control
    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project

#: Columns of a search, to begin with.
_COLUMNS: Final = (
    "startDate",
    "type",
    "nodeId",
    "userId",
    "hitCount",
    "duration",
    "geo.countryCode",
    "geo.city",
)


def search(project: Project) -> Form:
    """Make a form that searches interactions.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.search_interactions`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, interaction, sample_project
    >>> form = forms.search(sample_project())
    >>> form.value = {"where": interaction("geo.countryCode") == "FR", "limit": 3}
    >>> len(form.run())
    3
    """
    step = Step(
        search_interactions,
        "interactions",
        leave_out=("chunks", "to"),
        first=("where", "since", "until", "limit"),
        custom_controls={**filter_controls(project), "columns": _columns},
    )
    return Form(
        "Search visits",
        [step],
        subject=project,
        about="Visits and other contacts, one row each.",
        show=lambda interactions, form: show_frame(interactions, "Visits", "interactions", form),
        action="Search",
    )


def insights(project: Project) -> Form:
    """Make a form that counts interactions by group and interval.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.interaction_insights`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.insights(sample_project())
    >>> form.value = {"interval": "quarter"}
    >>> form.run()["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    step = Step(
        interaction_insights,
        "counts",
        first=("group_by", "interval", "where", "since", "until"),
        custom_controls=filter_controls(project),
    )
    return Form(
        "Count visits",
        [step],
        subject=project,
        about="How many visits there were, by day, by country, by any property.",
        show=_show_counts,
        action="Count",
    )


def filter_controls(project: Project) -> dict[str, Callable[[FormField], Control]]:
    """Return the controls for the arguments ``where`` and ``nodes``, with suggestions from the project."""
    kinds: dict[str, Kind] = {"where": "interaction", "nodes": "node"}
    return {name: partial(_filter, project, kind) for name, kind in kinds.items()}


def _filter(project: Project, kind: Kind, form_field: FormField) -> Control:
    return Filter(form_field, kind, suggest=partial(suggestions.values, project, kind))


def _columns(form_field: FormField) -> Control:
    control = control_for(form_field)
    control.value = list(_COLUMNS)
    return control


def _show_counts(counts: Any, form: Form) -> Sequence[Any]:
    shown = show_frame(counts, "Visits", "insights", form)
    if not len(counts) or counts["interval"].isna().all():
        return shown
    return [elements.image(plots.insights(counts), "Interactions over time"), *shown]
