"""The form that builds a filter: nested groups of conditions on the fields of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import ipywidgets

from attrib_ds import display
from attrib_ds.api.interactions import interaction_insights
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.filters import Comparison, Condition, Predicate
from attrib_ds.filters.predicates import Combinator
from attrib_ds.filters.vocabulary import (
    OPERATORS,
    FieldType,
    Kind,
    applying_to,
    check_kind,
    is_open,
    resolve,
    vocabulary,
)
from attrib_ds.forms import controls, elements, form, form_fields
from attrib_ds.forms.controls import Choice, Control, InstantPicker, NumberInput, TextInput, TextLines
from attrib_ds.project import Project, takes_project

Suggest = Callable[[str], Sequence[str]]


class FilterForm(elements.Displayed):
    """Controls for one predicate, from :func:`filters`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    error : Exception or None
        Why the current predicate is invalid.
    """

    def __init__(self, project: Project | None, kind: Kind) -> None:
        suggest = None if project is None else partial(controls.values, project, kind)
        form_field = form_fields.FormField("filter", "predicate", label=f"{kind} filter")
        self._project, self._builder = project, Filter(form_field, kind, suggest=suggest)
        self.error: Exception | None = None
        self._diagram, self._code, self._status = (elements.html() for _ in range(3))
        can_count = project is not None and kind in ("interaction", "node")
        count = [elements.button("Count", self.run, problem=self._status, is_main=True)] if can_count else []
        self.widget = elements.page(
            elements.box(
                "columns",
                elements.box("inputs", self._builder.input, *count, self._status),
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
        return form.write_program([form.write_assignment("predicate", self.value)])

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
        self._status.value = elements.status(display.counted(number, "interactions"))
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
            self._status.value = elements.status(elements.error_message(error))


@takes_project
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


#: Labels of the ways to combine conditions, as the HTML form of a predicate writes them.
_COMBINATORS: Final[tuple[tuple[str, tuple[Combinator, bool]], ...]] = (
    ("all of these", ("AND", False)),
    ("any of these", ("OR", False)),
    ("not all of these", ("AND", True)),
    ("none of these", ("OR", True)),
)
#: Types that a field of undeclared type may be read as.
_OPEN_TYPES: Final = tuple(field_type.value for field_type in FieldType if field_type is not FieldType.OBJECT)
#: Field of a new condition by kind of record.
_FIRST_FIELDS: Final = {
    "interaction": "geo.countryCode",
    "node": "channel",
    "user": "interactionCount",
    "event": "eventType",
}


class Filter(Control):
    """The filter builder: controls for one predicate, which may be empty.

    Parameters
    ----------
    form_field : FormField
        The argument that the control edits.
    kind : {"interaction", "node", "user", "event"}
        Kind of record to filter.
    suggest : callable, optional
        Takes a field and returns values to suggest.
    """

    def __init__(
        self, form_field: form_fields.FormField, kind: Kind, *, suggest: Suggest | None = None
    ) -> None:
        self.kind = check_kind(kind)
        self._suggest = suggest or (lambda _: ())
        self.problem = elements.html()
        self._group = _Group(self, name=form_field.label)
        super().__init__(form_field, elements.box("filter", self._group.widget, self.problem), watched=())

    @property
    def value(self) -> Predicate | None:
        """The predicate; a single condition is returned without its group."""
        group = self._group.value
        is_single = len(group.rules) == 1 and not group.negated
        return (group.rules[0] if is_single else group) if group.rules else None

    @value.setter
    def value(self, predicate: Predicate | None) -> None:
        if predicate is None:
            predicate = Condition(self.kind, "AND")
        if not isinstance(predicate, Predicate) or predicate.kind != self.kind:
            got = predicate.kind if isinstance(predicate, Predicate) else type(predicate).__name__
            raise InvalidRequest(f"value: a predicate on {got} is not allowed; allowed: {self.kind}(…)")
        group = predicate if isinstance(predicate, Condition) else Condition(self.kind, "AND", (predicate,))
        self._group.value = group
        self.changed()

    def suggestions(self, field: str) -> Sequence[str]:
        """Return values to suggest for a field; none if the service fails or cannot be reached."""
        try:
            return self._suggest(field)
        except AttribError:
            return ()


class _Group:
    """A group of conditions combined by one logical operator."""

    def __init__(self, builder: Filter, *, name: str) -> None:
        self._builder, self._name = builder, name
        self._members: list[_Row | _Group] = []
        self._combination = ipywidgets.Dropdown(options=_COMBINATORS, description=name.capitalize())
        self._combination.observe(lambda _: builder.changed(), names="value")
        self._box = elements.box("members")
        buttons = [
            elements.button("Add condition", lambda: self._add(_Row(builder)), problem=builder.problem),
            elements.button(
                "Add group", lambda: self._add(_Group(builder, name="group")), problem=builder.problem
            ),
        ]
        self.widget = elements.box(
            "group", elements.box("field", self._combination), self._box, elements.row("actions", *buttons)
        )

    @property
    def value(self) -> Condition:
        combinator, is_negated = self._combination.value
        rules = tuple(member.value for member in self._members)
        return Condition(self._builder.kind, combinator, rules, negated=is_negated)

    @value.setter
    def value(self, condition: Condition) -> None:
        self._combination.value = (condition.combinator, condition.negated)
        members: list[_Row | _Group] = []
        for rule in condition.rules:
            if isinstance(rule, Condition):
                members.append(group := _Group(self._builder, name="group"))
                group.value = rule
            elif isinstance(rule, Comparison):
                members.append(row := _Row(self._builder))
                row.value = rule
        self._members = members
        self._show()

    def _add(self, member: _Row | _Group) -> None:
        self._members.append(member)
        self._show()
        self._builder.changed()

    def _remove(self, member: _Row | _Group) -> None:
        self._members.remove(member)
        self._show()
        self._builder.changed()

    def _remove_button(self, member: _Row | _Group) -> Any:
        return elements.button("Remove", partial(self._remove, member), problem=self._builder.problem)

    def _show(self) -> None:
        self._box.children = [
            elements.box("member", member.widget, elements.row("actions", self._remove_button(member)))
            for member in self._members
        ]


class _Row:
    """One condition: a field, an operator allowed for its type, and the operator's values."""

    def __init__(self, builder: Filter) -> None:
        self._builder = builder
        fields = list(vocabulary(builder.kind))
        self._field = ipywidgets.Combobox(
            value=_FIRST_FIELDS[builder.kind],
            options=fields,
            ensure_option=False,
            continuous_update=False,
            description="Field",
        )
        self._open_type = ipywidgets.Dropdown(options=_OPEN_TYPES, description="Read as")
        self._operator = ipywidgets.Dropdown(description="Operator")
        self._inputs: list[Control] = []
        self._input_key: tuple[str, FieldType] | None = None
        self._problem = elements.html()
        self._line = elements.box("field")
        self.widget = elements.box("condition", self._line, self._problem)
        self._field.observe(lambda _: self._update_operators(), names="value")
        self._open_type.observe(lambda _: self._update_operators(), names="value")
        self._operator.observe(lambda _: self._update_inputs(), names="value")
        self._update_operators()

    @property
    def value(self) -> Comparison:
        open_type = self._open_type.value if is_open(self._builder.kind, self._field.value) else None
        values = [control.value for control in self._inputs]
        shape = OPERATORS[self._operator.value].shape
        operand: Any = {"none": None, "pair": tuple(values)}.get(shape, values[0] if values else None)
        if shape != "none" and (operand in (None, "", []) or (shape == "pair" and None in operand)):
            raise InvalidRequest(
                f"{self._field.value}: the condition has no value; enter a value or remove the condition"
            )
        return Comparison(self._builder.kind, self._field.value, self._operator.value, operand, open_type)

    @value.setter
    def value(self, comparison: Comparison) -> None:
        self._field.value = comparison.field
        if is_open(comparison.kind, comparison.field):
            self._open_type.value = comparison.operator_type
        self._operator.value = comparison.operator
        shape = OPERATORS[comparison.operator].shape
        operand: Any = comparison.value
        values = operand if shape == "pair" else (operand,)
        for control, value in zip(self._inputs, values or (), strict=False):
            control.value = value

    def _type(self) -> FieldType:
        declared = resolve(self._builder.kind, self._field.value, argument="field")
        return FieldType(self._open_type.value) if declared is None else declared

    def _update_operators(self) -> None:
        """Offer the operators of the field's type, or show that the field does not exist."""
        try:
            allowed = applying_to(self._type())
        except InvalidRequest as error:
            self._problem.value = elements.alert(error.message)
            self._builder.changed()
            return
        self._problem.value = ""
        previous = self._operator.value
        self._operator.options = [(operator.words, operator.name) for operator in allowed]
        names = [operator.name for operator in allowed]
        self._operator.value = previous if previous in names else names[0]
        self._update_inputs()

    def _update_inputs(self) -> None:
        """Show the inputs for the operator's values."""
        if self._operator.value is None:
            return
        shape = OPERATORS[self._operator.value].shape
        labels = {"none": (), "pair": ("From", "To"), "values": ("Values",)}.get(shape, ("Value",))
        input_key = (shape, self._type())
        if input_key != self._input_key:
            self._inputs = [self._input(label, has_several=shape == "values") for label in labels]
            self._input_key = input_key
        open_type = [self._open_type] if is_open(self._builder.kind, self._field.value) else []
        line = [self._field, *open_type, self._operator, *(control.input for control in self._inputs)]
        # Unchanged widgets are not replaced: the user may be typing in one.
        if list(self._line.children) != line:
            self._line.children = line
        if any(isinstance(control, TextInput) for control in self._inputs):
            suggestions = self._builder.suggestions(self._field.value)
            for control in self._inputs:
                control.suggest(suggestions)
        self._builder.changed()

    def _input(self, label: str, *, has_several: bool) -> Control:
        field_type = self._type()
        form_field = form_fields.FormField(label.lower(), "text", is_required=True)
        control: Control
        if has_several:
            control = TextLines(form_field, has_numbers=field_type is FieldType.NUMBER)
        elif field_type is FieldType.FLAG:
            control = Choice(form_field, [("true", True), ("false", False)])
        elif field_type is FieldType.INSTANT:
            control = InstantPicker(form_field, days_allowed=False)
        elif field_type is FieldType.NUMBER:
            control = NumberInput(form_field)
        else:
            control = TextInput(form_field)
            # Each keystroke is sent: late suggestions redraw the box with the last text sent.
            control.input.continuous_update = True
        control.watch(self._builder.changed)
        return control
