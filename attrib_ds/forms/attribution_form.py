"""The form that credits conversions to nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attrib_ds import plots
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.forms import elements, suggestions
from attrib_ds.forms.controls import Checklist, Control, NumberInput, TextInput, control_for
from attrib_ds.forms.downloads import Download, Downloads, frame_downloads
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.interaction_forms import filter_controls
from attrib_ds.forms.model_options import MODEL_OPTIONS
from attrib_ds.plots.report import report_page
from attrib_ds.schema import NODE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project


def attribution(project: Project) -> Form:
    """Make a form that credits the conversions of an event type to nodes.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.conversion_paths` and of :func:`attrib_ds.attribute`),
        ``.code``, ``.run()``. At first: orders and their turnover, if the project has them, credited to
        channels by the models "last touch" and "linear".

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.attribution(sample_project())
    >>> form.value = {"models": ["linear"]}
    >>> round(float(form.run()["share"].sum()), 6)
    1.0
    """
    paths = Step(
        conversion_paths,
        "paths",
        first=("event_type", "statistic", "level", "since", "until"),
        custom_controls={
            **filter_controls(project),
            "audience": _users,
            "event_type": partial(_suggested, suggestions.event_types(project), preferred="order"),
            "statistic": partial(_suggested, suggestions.statistics(project), preferred="turnover"),
            "lookback": TextInput,
            "level": partial(_level, project),
        },
    )
    return Form(
        "Which channels earned the conversions?",
        [paths, credits_step()],
        subject=project,
        about="Credits conversions and their value to the channels or campaigns that led to them.",
        show=show_credits,
        action="Credit",
    )


def _users(form_field: FormField) -> Control:
    return Filter(form_field, "user")


def credits_step() -> Step:
    """Return the step that credits the conversions of paths."""
    return Step(
        attribute,
        "credits",
        leave_out=("spend",),
        first=("models",),
        custom_controls={"models": _models, "confidence": _confidence},
    )


def _suggested(values: Sequence[str], form_field: FormField, *, preferred: str) -> Control:
    """Return a text box that suggests values, filled in with the preferred one if it is among them."""
    control = TextInput(form_field, suggested=values)
    if preferred in values:
        control.value = preferred
    elif form_field.is_required:
        control.value = next(iter(values), None)
    return control


def _level(project: Project, form_field: FormField) -> Control:
    control = control_for(replace(form_field, kind="choice", allowed=NODE_TYPES))
    if suggestions.has_channels(project):
        control.value = "channel"
    return control


def _models(form_field: FormField) -> Control:
    control = Checklist(form_field, MODEL_OPTIONS)
    control.value = ["last_touch", "linear"]
    return control


def _confidence(form_field: FormField) -> Control:
    return NumberInput(form_field, placeholder="for example 0.95")


def show_credits(credits: Any, form: Form) -> Sequence[Any]:
    """Show credits: their sums, a plot, a table and the files to save."""
    paths = form.results["paths"]
    has_several = credits["model"].nunique() > 1
    plot = plots.model_comparison(credits) if has_several else plots.credits(credits)
    description = "Credits of several models" if has_several else "Credited conversions by node"
    report = Download(
        "report.html", "text/html", lambda: report_page(credits, paths, title="Credited conversions").encode()
    )
    files = frame_downloads(credits, "credits", form.code)
    return [
        elements.html(elements.figures(_sums(credits, paths))),
        elements.image(plot, description),
        elements.table(credits, "Credits"),
        Downloads({"Report": report, **files}),
    ]


def _sums(credits: Any, paths: Any) -> dict[str, str]:
    """Return the sums that stand above the plot, as text."""
    conversions = paths.lengths()["conversions"].sum()
    of_one_model = credits[credits["model"] == credits["model"].iloc[0]]
    unattributed = of_one_model.loc[of_one_model["node_id"].isna(), "conversions"].sum()
    amounts = of_one_model[of_one_model["currency"].notna()].groupby("currency")["value"].sum()
    return {
        "Conversions": f"{conversions:,.0f}",
        **{f"Value in {currency}": f"{amount:,.0f}" for currency, amount in amounts.items()},
        "Without a visit before": f"{unattributed:,.0f}",
    }
