"""Forms that search and count interactions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrib_ds import plots
from attrib_ds.api.insights import interaction_insights
from attrib_ds.api.interactions import search_interactions
from attrib_ds.forms import look, suggestions
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.reopening import reopening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attrib_ds.filters.vocabulary import Kind
    from attrib_ds.forms.controls import Control
    from attrib_ds.forms.questions import Question
    from attrib_ds.project import Project


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
        made=filters_of(project),
    )
    return Form(
        "Search interactions",
        [step],
        subject=project,
        opening=reopening(project),
        show=lambda found, form: [
            look.table(found, "Interactions"),
            look.links(found, "interactions", form.code),
        ],
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
        first=("group", "interval", "where", "since", "until"),
        made=filters_of(project),
    )
    return Form(
        "Count interactions",
        [step],
        subject=project,
        opening=reopening(project),
        show=_counted,
        action="Count",
    )


def filters_of(project: Project) -> dict[str, Callable[[Question], Control]]:
    """Return the controls of predicates on interactions and nodes, with values of the project."""
    kinds: dict[str, Kind] = {"where": "interaction", "nodes": "node"}
    return {name: partial(_filter, project, kind) for name, kind in kinds.items()}


def _filter(project: Project, kind: Kind, question: Question) -> Control:
    return Filter(question, kind, suggest=partial(suggestions.values, project, kind))


def _counted(counts: Any, form: Form) -> Sequence[str]:
    shown = [look.table(counts, "Interactions"), look.links(counts, "insights", form.code)]
    if not len(counts) or counts["interval"].isna().all():
        return shown
    return [look.picture(plots.insights(counts), "Interactions in time"), *shown]
