"""The form that builds a filter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrib_ds.api.insights import interaction_insights
from attrib_ds.forms import elements, messages, suggestions
from attrib_ds.forms.displayed import Displayed
from attrib_ds.forms.filter_builder import FilterBuilder
from attrib_ds.forms.generated_code import write_assignment, write_program

if TYPE_CHECKING:
    from attrib_ds.filters import Predicate
    from attrib_ds.filters.vocabulary import Kind
    from attrib_ds.project import Project


class FilterForm(Displayed):
    """Controls for one predicate, from :func:`filters`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    error : Exception or None
        Why the current predicate is invalid.
    """

    def __init__(self, project: Project | None, kind: Kind) -> None:
        suggest = None if project is None else partial(suggestions.values, project, kind)
        self._project, self._builder = project, FilterBuilder(kind, suggest=suggest)
        self.error: Exception | None = None
        self._diagram, self._code, self._status = (elements.html() for _ in range(3))
        can_count = project is not None and kind in ("interaction", "node")
        count = [elements.button("Count", self.run, problem=self._status, is_main=True)] if can_count else []
        self.widget = elements.page(
            elements.box(
                "columns",
                elements.box("inputs", self._builder.widget, *count, self._status),
                elements.box("results", self._diagram, self._code),
            )
        )
        self._builder.watch(self._refresh)
        self._refresh()

    @property
    def value(self) -> Predicate | None:
        """The predicate; None without conditions. May be set."""
        return self._builder.value

    @value.setter
    def value(self, predicate: Predicate | None) -> None:
        self._builder.value = predicate

    @property
    def code(self) -> str:
        """Python that builds the same predicate."""
        return write_program([write_assignment("predicate", self.value)])

    def run(self) -> int | None:
        """Count the interactions that satisfy the predicate, and return their number.

        Returns
        -------
        int or None
            None without a project, or if the predicate is on users or events.
        """
        if self._project is None or self._builder.kind not in ("interaction", "node"):
            return None
        filters: dict[str, Any] = {"where" if self._builder.kind == "interaction" else "nodes": self.value}
        counts = interaction_insights(self._project, **filters)
        number = int(counts["sessionCount"].sum())
        self._status.value = messages.status(f"{number:,} interactions")
        return number

    def __repr__(self) -> str:
        return f"<Filter of {self._builder.kind}s; .value, .code, .run()>"

    def _refresh(self) -> None:
        self.error = None
        self._status.value = ""
        try:
            predicate = self.value
            self._diagram.value = "" if predicate is None else predicate._repr_html_()
            self._code.value = elements.code_block(self.code)
        except Exception as error:  # noqa: BLE001  (shown in the form)
            self.error = error
            self._diagram.value = self._code.value = ""
            self._status.value = messages.status(messages.error_message(error))


def filters(project: Project | None = None, kind: Kind = "interaction") -> FilterForm:
    """Make a form that builds a filter.

    Parameters
    ----------
    project : Project, optional
        Project for suggested values and counts.
    kind : {"interaction", "node", "user", "event"}, default "interaction"
        Kind of record to filter.

    Returns
    -------
    FilterForm
        ``.value`` (a predicate), ``.code``, ``.run()``, which counts the matching interactions.

    Examples
    --------
    >>> from attrib_ds import forms, interaction
    >>> form = forms.filters()
    >>> form.value = (interaction("geo.countryCode") == "FR") & (interaction("duration") > 10)
    >>> print(form.code)
    import attrib_ds as at
    <BLANKLINE>
    predicate = (at.interaction("geo.countryCode") == "FR") & (at.interaction("duration") > 10)
    """
    return FilterForm(project, kind)
