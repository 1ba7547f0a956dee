"""The form that credits conversions to nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attrib_ds import plots
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.models.named import named_models
from attrib_ds.forms import elements, suggestions
from attrib_ds.forms.controls import Control, MultipleChoice, NumberInput, TextInput, control_for
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.generated_code import write_connect
from attrib_ds.forms.interaction_forms import filter_controls
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
        ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.attribution(sample_project())
    >>> form.value = {"event_type": "order", "models": ["linear"], "level": "channel"}
    >>> round(float(form.run()["share"].sum()), 6)
    1.0
    """

    def event_type(form_field: FormField) -> Control:
        event_types = suggestions.event_types(project)
        control = TextInput(form_field, suggested=event_types)
        control.value = next(iter(event_types), None)
        return control

    def statistic(form_field: FormField) -> Control:
        return TextInput(form_field, suggested=suggestions.statistics(project))

    paths = Step(
        conversion_paths,
        "paths",
        first=("event_type", "statistic", "lookback", "level", "since", "until"),
        custom_controls={
            **filter_controls(project),
            "audience": _users,
            "event_type": event_type,
            "statistic": statistic,
            "lookback": TextInput,
            "level": _level,
        },
    )
    credits = Step(
        attribute,
        "credits",
        leave_out=("spend",),
        first=("models", "confidence"),
        custom_controls={"models": _models, "confidence": _confidence},
    )
    return Form(
        "Credit conversions to nodes",
        [paths, credits],
        subject=project,
        opening=write_connect(project),
        show=_show_credits,
        action="Credit",
    )


def _users(form_field: FormField) -> Control:
    return Filter(form_field, "user")


def _level(form_field: FormField) -> Control:
    return control_for(replace(form_field, kind="choice", allowed=NODE_TYPES))


def _models(form_field: FormField) -> Control:
    control = MultipleChoice(replace(form_field, allowed=tuple(named_models())))
    control.value = ["linear"]
    return control


def _confidence(form_field: FormField) -> Control:
    return NumberInput(form_field, placeholder="for example 0.95")


def _show_credits(credits: Any, form: Form) -> Sequence[str]:
    has_several = credits["model"].nunique() > 1
    plot = plots.model_comparison(credits) if has_several else plots.credits(credits)
    description = "Credits of several models" if has_several else "Credited conversions by node"
    return [
        elements.image(plot, description),
        elements.table(credits, "Credits"),
        elements.download_links(credits, "credits", form.code),
    ]
