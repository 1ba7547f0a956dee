"""A form that credits conversions to nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attrib_ds import plots
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.models.named import named_models
from attrib_ds.forms import look, suggestions
from attrib_ds.forms.controls import Control, Number, Several, Written, control_of
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.interactions import filters_of
from attrib_ds.forms.reopening import reopening
from attrib_ds.schema import NODE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.forms.questions import Question
    from attrib_ds.project import Project


def attribution(project: Project) -> Form:
    """Make a form that credits the events of a type to the nodes that led to them.

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

    def event_type(question: Question) -> Control:
        known = suggestions.event_types(project)
        control = Written(question, offered=known)
        control.value = next(iter(known), None)
        return control

    def statistic(question: Question) -> Control:
        return Written(question, offered=suggestions.statistics(project))

    paths = Step(
        conversion_paths,
        "paths",
        first=("event_type", "statistic", "lookback", "level", "since", "until"),
        made={
            **filters_of(project),
            "event_type": event_type,
            "statistic": statistic,
            "lookback": Written,
            "level": _level,
        },
    )
    credits = Step(
        attribute,
        "credits",
        leave_out=("spend",),
        first=("models", "confidence"),
        made={"models": _models, "confidence": _confidence},
    )
    return Form(
        "Credit conversions to nodes",
        [paths, credits],
        subject=project,
        opening=reopening(project),
        show=_credited,
        action="Credit",
    )


def _level(question: Question) -> Control:
    return control_of(replace(question, kind="choice", allowed=NODE_TYPES))


def _models(question: Question) -> Control:
    control = Several(replace(question, allowed=tuple(named_models())))
    control.value = ["linear"]
    return control


def _confidence(question: Question) -> Control:
    return Number(question, placeholder="such as 0.95")


def _credited(credits: Any, form: Form) -> Sequence[str]:
    several = credits["model"].nunique() > 1
    plot = plots.model_comparison(credits) if several else plots.credits(credits)
    named = "Credits of several models" if several else "Credited conversions by node"
    return [
        look.picture(plot, named),
        look.table(credits, "Credits"),
        look.links(credits, "credits", form.code),
    ]
