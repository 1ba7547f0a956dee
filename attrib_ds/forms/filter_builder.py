"""Builds a predicate with controls: conditions inside conditions, fields from the contract."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.filters import Comparison, Condition, Predicate
from attrib_ds.filters.operators import OPERATORS, applying_to
from attrib_ds.filters.vocabulary import FieldType, check_kind, is_open, resolve, vocabulary
from attrib_ds.forms import look
from attrib_ds.forms.controls import Chosen, Control, Lines, Moment, Number, Written
from attrib_ds.forms.questions import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attrib_ds.filters.predicates import Combinator
    from attrib_ds.filters.vocabulary import Kind

    Suggest = Callable[[str], Sequence[str]]

#: How a group's members combine, in the words that drawings use.
_COMBINED: Final[tuple[tuple[str, tuple[Combinator, bool]], ...]] = (
    ("all of these", ("AND", False)),
    ("any of these", ("OR", False)),
    ("not all of these", ("AND", True)),
    ("none of these", ("OR", True)),
)
#: How open fields may be read; their own type is the first that fits.
_READINGS: Final = tuple(each.value for each in FieldType if each is not FieldType.OBJECT)
_NARROW: Final = {"width": "13em"}


class FilterBuilder:
    """Controls that make one predicate of a kind, or none.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        What is filtered.
    suggest : callable, optional
        Takes a field and returns values that it has.
    label : str, optional
        What the whole is called.

    Attributes
    ----------
    widget : ipywidgets.Widget
        What is shown.
    value : Predicate or None
        The predicate; None without a condition. May be set.
    """

    def __init__(self, kind: Kind, *, suggest: Suggest | None = None, label: str = "") -> None:
        self.kind = check_kind(kind)
        self._suggest = suggest or (lambda _: ())
        self._watchers: list[Callable[[], None]] = []
        self.problem = ipywidgets.HTML()
        self._group = _Group(self, name=label or f"{kind} filter")
        self.widget = ipywidgets.VBox([self._group.widget, self.problem])

    @property
    def value(self) -> Predicate | None:
        """The predicate; one condition alone stands for itself."""
        built = self._group.value
        is_bare = len(built.rules) == 1 and not built.negated
        return (built.rules[0] if is_bare else built) if built.rules else None

    @value.setter
    def value(self, predicate: Predicate | None) -> None:
        if predicate is None:
            predicate = Condition(self.kind, "AND")
        if not isinstance(predicate, Predicate) or predicate.kind != self.kind:
            found = predicate.kind if isinstance(predicate, Predicate) else type(predicate).__name__
            raise InvalidRequest(
                f"value: a predicate on {found} is not allowed; allowed: {self.kind}(…)", field="value"
            )
        whole = predicate if isinstance(predicate, Condition) else Condition(self.kind, "AND", (predicate,))
        self._group.value = whole
        self.changed()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the predicate may have changed."""
        self._watchers.append(changed)

    def changed(self) -> None:
        """Tell those who watch."""
        for each in self._watchers:
            each()

    def suggestions(self, field: str) -> Sequence[str]:
        """Return values that a field has; none where the service refuses or cannot be reached."""
        try:
            return self._suggest(field)
        except AttribError:
            return ()


class _Group:
    """Conditions that combine in one way."""

    def __init__(self, builder: FilterBuilder, *, name: str) -> None:
        self._builder, self._name = builder, name
        self._members: list[_Row | _Group] = []
        self._combined = ipywidgets.Dropdown(
            options=_COMBINED, description=name.capitalize(), style={"description_width": "auto"}
        )
        self._combined.observe(lambda _: builder.changed(), names="value")
        self._box = ipywidgets.VBox(layout={"padding": "0 0 0 1.5em", "border_left": "2px solid #DDDDDD"})
        buttons = [
            look.button("Add condition", lambda: self._add(_Row(builder)), problem=builder.problem),
            look.button(
                "Add group", lambda: self._add(_Group(builder, name="group")), problem=builder.problem
            ),
        ]
        self.widget = ipywidgets.VBox([self._combined, self._box, ipywidgets.HBox(buttons)])

    @property
    def value(self) -> Condition:
        combinator, is_negated = self._combined.value
        rules = tuple(each.value for each in self._members)
        return Condition(self._builder.kind, combinator, rules, negated=is_negated)

    @value.setter
    def value(self, condition: Condition) -> None:
        self._combined.value = (condition.combinator, condition.negated)
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

    def _removal(self, member: _Row | _Group) -> Any:
        return look.button("Remove", partial(self._remove, member), problem=self._builder.problem)

    def _show(self) -> None:
        self._box.children = [ipywidgets.HBox([each.widget, self._removal(each)]) for each in self._members]


class _Row:
    """One field, an operator that its type allows, and what the operator takes."""

    def __init__(self, builder: FilterBuilder) -> None:
        self._builder = builder
        known = list(vocabulary(builder.kind))
        self._field = ipywidgets.Combobox(
            value=known[0],
            options=known,
            ensure_option=False,
            continuous_update=False,
            description="Field",
            style={"description_width": "auto"},
            layout={"width": "20em"},
        )
        self._reading = ipywidgets.Dropdown(
            options=_READINGS, description="read as", style={"description_width": "auto"}, layout=_NARROW
        )
        self._operator = ipywidgets.Dropdown(
            description="Operator", style={"description_width": "auto"}, layout={"width": "18em"}
        )
        self._inputs: list[Control] = []
        self._taken: tuple[str, FieldType] | None = None
        self._problem = ipywidgets.HTML()
        self._line = ipywidgets.HBox(layout={"flex_flow": "row wrap"})
        self.widget = ipywidgets.VBox([self._line, self._problem])
        self._field.observe(lambda _: self._retype(), names="value")
        self._reading.observe(lambda _: self._retype(), names="value")
        self._operator.observe(lambda _: self._reshape(), names="value")
        self._retype()

    @property
    def value(self) -> Comparison:
        reading = self._reading.value if is_open(self._builder.kind, self._field.value) else None
        answers = [each.value for each in self._inputs]
        shape = OPERATORS[self._operator.value].shape
        given: Any = {"none": None, "pair": tuple(answers)}.get(shape, answers[0] if answers else None)
        if shape != "none" and (given in (None, "", []) or (shape == "pair" and None in given)):
            raise InvalidRequest(
                f"{self._field.value}: the condition has no value yet; give one, or remove the condition",
                field=self._field.value,
            )
        return Comparison(self._builder.kind, self._field.value, self._operator.value, given, reading)

    @value.setter
    def value(self, comparison: Comparison) -> None:
        self._field.value = comparison.field
        if is_open(comparison.kind, comparison.field):
            self._reading.value = comparison.operator_type
        self._operator.value = comparison.operator
        shape = OPERATORS[comparison.operator].shape
        given: Any = comparison.value
        several = given if shape == "pair" else (given,)
        for control, each in zip(self._inputs, several or (), strict=False):
            control.value = each

    def _type(self) -> FieldType:
        declared = resolve(self._builder.kind, self._field.value, argument="field")
        return FieldType(self._reading.value) if declared is None else declared

    def _retype(self) -> None:
        """Offer the operators of the field's type; where there is no such field, say so beside it."""
        try:
            allowed = applying_to(self._type())
        except InvalidRequest as error:
            self._problem.value = look.warned(error.message)
            self._builder.changed()
            return
        self._problem.value = ""
        kept = self._operator.value
        self._operator.options = [(each.words, each.name) for each in allowed]
        names = [each.name for each in allowed]
        self._operator.value = kept if kept in names else names[0]
        self._reshape()

    def _reshape(self) -> None:
        """Show what the operator takes."""
        if self._operator.value is None:
            return
        shape = OPERATORS[self._operator.value].shape
        labels = {"none": (), "pair": ("From", "To"), "values": ("Values",)}.get(shape, ("Value",))
        taken = (shape, self._type())
        if taken != self._taken:
            self._inputs = [self._input(label, has_several=shape == "values") for label in labels]
            self._taken = taken
        reading = [self._reading] if is_open(self._builder.kind, self._field.value) else []
        line = [self._field, *reading, self._operator, *(each.widget for each in self._inputs)]
        # What stays is left alone: somebody may be typing in it already.
        if list(self._line.children) != line:
            self._line.children = line
        if any(isinstance(each, Written) for each in self._inputs):
            offered = self._builder.suggestions(self._field.value)
            for control in self._inputs:
                control.suggest(offered)
        self._builder.changed()

    def _input(self, label: str, *, has_several: bool) -> Control:
        kind = self._type()
        question = Question(label.lower(), "text", is_required=True)
        control: Control
        if has_several:
            control = Lines(question, has_numbers=kind is FieldType.NUMBER)
        elif kind is FieldType.FLAG:
            control = Chosen(question, [("true", True), ("false", False)])
        elif kind is FieldType.INSTANT:
            control = Moment(question)
        elif kind is FieldType.NUMBER:
            control = Number(question)
        else:
            control = Written(question)
            # Told key by key: suggestions that come later redraw the box with what it has told.
            control.widget.continuous_update = True
        control.widget.style = {"description_width": "auto"}
        control.widget.layout = {"width": "18em"}
        control.watch(self._builder.changed)
        return control


class Filter(Control):
    """A predicate as the answer to a question."""

    def __init__(self, question: Question, kind: Kind, *, suggest: Suggest | None = None) -> None:
        self._builder = FilterBuilder(kind, suggest=suggest, label=question.label)
        super().__init__(question, self._builder.widget)

    @property
    def value(self) -> Predicate | None:
        """The predicate."""
        return self._builder.value

    @value.setter
    def value(self, predicate: Predicate | None) -> None:
        self._builder.value = predicate

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the predicate may have changed."""
        self._builder.watch(changed)
