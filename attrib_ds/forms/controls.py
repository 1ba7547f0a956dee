"""The widgets of form fields: text boxes, menus, lists and date pickers, each with a label."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms.form_fields import FormField

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_STYLE: Final = {"description_width": "11em"}
_WIDE: Final = {"width": "32em", "max_width": "98%"}
#: Rows of a list that are visible without scrolling.
_MAX_ROWS: Final = 8


class Control:
    """A widget and its value, as the function takes it.

    Parameters
    ----------
    form_field : FormField
        The argument that the control edits.
    widget : ipywidgets.Widget
        The widget to display.

    Attributes
    ----------
    value : object
        The value entered, or the field's default. May be set.
    """

    def __init__(self, form_field: FormField, widget: Any) -> None:
        self.form_field = form_field
        self.widget = widget

    @property
    def value(self) -> Any:
        """The value entered, or the field's default."""
        return self.widget.value

    @value.setter
    def value(self, value: Any) -> None:
        self.widget.value = value

    @property
    def source(self) -> str:
        """The value as a Python expression."""
        return repr(self.value)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the value changes."""
        self.widget.observe(lambda _: changed(), names="value")

    def suggest(self, values: Sequence[str]) -> None:
        """Suggest values, if the control can; other values stay allowed."""


class Checkbox(Control):
    """A checkbox for a boolean."""

    def __init__(self, form_field: FormField) -> None:
        box = ipywidgets.Checkbox(
            bool(form_field.default), description=form_field.label, indent=False, tooltip=form_field.help
        )
        super().__init__(form_field, box)


class Choice(Control):
    """A menu with one choice.

    Parameters
    ----------
    form_field : FormField
        The argument that the control edits.
    options : sequence of (str, object)
        Label and value of each choice.
    """

    def __init__(self, form_field: FormField, options: Sequence[tuple[str, Any]]) -> None:
        # A Dropdown reads the value None as "nothing selected", so its options are the labels alone.
        self._values = dict(options)
        menu = ipywidgets.Dropdown(
            options=list(self._values),
            description=form_field.label,
            tooltip=form_field.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(form_field, menu)
        if not form_field.is_required:
            self.value = form_field.default

    @property
    def value(self) -> Any:
        """The chosen value."""
        return self._values[self.widget.value]

    @value.setter
    def value(self, value: Any) -> None:
        for label, option in self._values.items():
            if type(option) is type(value) and option == value:
                self.widget.value = label
                return
        raise InvalidRequest.choice(
            self.form_field.name, value, [str(option) for option in self._values.values()]
        )


class MultipleChoice(Control):
    """A list in which several values can be selected; none is selected at first."""

    def __init__(self, form_field: FormField) -> None:
        options = form_field.allowed
        box = ipywidgets.SelectMultiple(
            options=options,
            rows=min(len(options), _MAX_ROWS) or 1,
            description=form_field.label,
            tooltip=form_field.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(form_field, box)

    @property
    def value(self) -> list[str] | None:
        """The selected values, in the order of the list."""
        return list(self.widget.value) or self.form_field.default

    @value.setter
    def value(self, value: Sequence[str] | None) -> None:
        self.widget.value = tuple(value or ())


class TextInput(Control):
    """A text box; an empty box means the default."""

    def __init__(
        self,
        form_field: FormField,
        *,
        parse: Callable[[str], Any] = str,
        placeholder: str = "",
        suggested: Sequence[str] = (),
    ) -> None:
        box = ipywidgets.Combobox(
            value="" if form_field.default is None else str(form_field.default),
            placeholder=placeholder,
            options=tuple(suggested),
            ensure_option=False,
            continuous_update=False,
            description=form_field.label,
            tooltip=form_field.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(form_field, box)
        self._parse = parse

    @property
    def value(self) -> Any:
        """The text, parsed."""
        text = self.widget.value.strip()
        if text:
            return self._parse(text)
        return None if self.form_field.is_required else self.form_field.default

    @value.setter
    def value(self, value: Any) -> None:
        self.widget.value = "" if value is None else str(value)

    def suggest(self, values: Sequence[str]) -> None:
        """Suggest values while the user types."""
        self.widget.options = tuple(values)


class NumberInput(TextInput):
    """A text box for a number: int if it is whole, otherwise float."""

    def __init__(self, form_field: FormField, *, placeholder: str = "a number") -> None:
        super().__init__(form_field, parse=partial(_parse_number, form_field.name), placeholder=placeholder)


class TextLines(Control):
    """A text area with one text or number per line; an empty area means the default."""

    def __init__(
        self, form_field: FormField, *, has_numbers: bool = False, placeholder: str = "one per line"
    ) -> None:
        box = ipywidgets.Textarea(
            value=_join_lines(form_field.default),
            placeholder=placeholder,
            rows=3,
            continuous_update=False,
            description=form_field.label,
            tooltip=form_field.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(form_field, box)
        self._parse = partial(_parse_number, form_field.name) if has_numbers else str

    @property
    def value(self) -> list[Any] | None:
        """The lines, parsed; empty lines are skipped."""
        lines = [line.strip() for line in self.widget.value.splitlines()]
        values = [self._parse(line) for line in lines if line]
        return values or (None if self.form_field.is_required else self.form_field.default)

    @value.setter
    def value(self, value: Sequence[Any] | None) -> None:
        self.widget.value = _join_lines(value)


class InstantPicker(Control):
    """A date and time picker for an instant in UTC."""

    def __init__(self, form_field: FormField) -> None:
        picker = ipywidgets.NaiveDatetimePicker(
            description=f"{form_field.label} (UTC)", tooltip=form_field.help, style=_STYLE, layout=_WIDE
        )
        super().__init__(form_field, picker)

    @property
    def value(self) -> str | None:
        """The instant as RFC 3339 text."""
        picked = self.widget.value
        return None if picked is None else f"{picked.isoformat()}Z"

    @value.setter
    def value(self, value: datetime | str | None) -> None:
        if value is None:
            self.widget.value = None
        else:
            instant = instants.parse(value, argument=self.form_field.name)
            self.widget.value = instant.astimezone(UTC).replace(tzinfo=None)


class SortOrder(Control):
    """Two menus: the property to sort by, and the direction."""

    def __init__(self, form_field: FormField) -> None:
        options = [("(unsorted)", None), *((name, name) for name in form_field.allowed)]
        self._by = Choice(replace(form_field, default=None), options)
        direction = FormField("direction", "choice", default="")
        self._direction = Choice(direction, [("ascending", ""), ("descending", "-")])
        super().__init__(form_field, ipywidgets.VBox([self._by.widget, self._direction.widget]))

    @property
    def value(self) -> str | None:
        """The property, with ``-`` in front for descending."""
        return None if self._by.value is None else f"{self._direction.value}{self._by.value}"

    @value.setter
    def value(self, value: str | None) -> None:
        self._by.value = None if value is None else value.removeprefix("-")
        self._direction.value = "-" if value is not None and value.startswith("-") else ""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the property or the direction changes."""
        for menu in (self._by, self._direction):
            menu.watch(changed)


def control_for(form_field: FormField) -> Control:
    """Make the control for a form field.

    Parameters
    ----------
    form_field : FormField
        Of any kind except predicates and frames.

    Returns
    -------
    Control
        Showing the field's default.
    """
    if form_field.kind == "flag":
        return Checkbox(form_field)
    if form_field.kind == "three_state":
        return Choice(form_field, [("no", False), ("yes", True), ("both", None)])
    if form_field.kind == "choice":
        options: list[tuple[str, Any]] = [(value, value) for value in form_field.allowed]
        if not form_field.is_required and form_field.default is None:
            options.insert(0, ("(none)", None))
        return Choice(form_field, options)
    if form_field.kind == "choices":
        return MultipleChoice(form_field)
    if form_field.kind == "instant":
        return InstantPicker(form_field)
    if form_field.kind == "sort":
        return SortOrder(form_field)
    if form_field.kind == "texts":
        return TextLines(form_field)
    if form_field.kind in ("whole", "number"):
        return NumberInput(form_field)
    return TextInput(form_field)


def _join_lines(values: Sequence[Any] | None) -> str:
    return "\n".join(map(str, values or ()))


def _parse_number(argument: str, text: str) -> int | float:
    for number_type in (int, float):
        with suppress(ValueError):
            return number_type(text)
    raise InvalidRequest(f"{argument}: {text!r} is not a number", field=argument)
