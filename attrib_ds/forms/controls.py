"""The widgets of form fields: text boxes, menus, lists, date pickers and uploads, each with a label."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from html import escape
from typing import Any, Final, NamedTuple

import ipywidgets
import pandas as pd

from attrib_ds import errors, instants
from attrib_ds.api import events, interactions
from attrib_ds.filters import ibis_form
from attrib_ds.filters.vocabulary import Kind
from attrib_ds.forms import elements
from attrib_ds.forms.form_fields import FormField
from attrib_ds.project import Project


class Control:
    """An input and its value, as the function takes it.

    Parameters
    ----------
    form_field : FormField
        The argument that the control edits.
    *inputs : ipywidgets.Widget
        What the user fills in; usually one widget.
    watched : iterable of ipywidgets.Widget, optional
        Those whose value is the control's; by default the first input.

    Attributes
    ----------
    input : ipywidgets.Widget
        The first of them.
    widget : ipywidgets.Widget
        The widget to display: the inputs, and one line of help.
    value : object
        The value entered, or the field's default. May be set.
    """

    def __init__(self, form_field: FormField, *inputs: Any, watched: Iterable[Any] | None = None) -> None:
        self.form_field = form_field
        self.input = inputs[0]
        self._watchers: list[Callable[[], None]] = []
        for widget in inputs[:1] if watched is None else watched:
            widget.observe(lambda _: self.changed(), names="value")
        self._note = elements.html()
        self.widget = elements.box("field", *inputs, self._note)
        self.mark("")

    @property
    def value(self) -> Any:
        """The value entered, or the field's default."""
        return self.input.value

    @value.setter
    def value(self, value: Any) -> None:
        self.input.value = value

    @property
    def source(self) -> str:
        """The value as a Python expression."""
        return repr(self.value)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the value changes."""
        self._watchers.append(changed)

    def changed(self) -> None:
        """Notify the watchers."""
        for watcher in self._watchers:
            watcher()

    def suggest(self, values: Sequence[str]) -> None:
        """Suggest values, if the control can; other values stay allowed."""

    def explain(self, message: str) -> str:
        """Return an error message in the words of the control."""
        return message

    def mark(self, problem: str) -> None:
        """Show a problem of the value below the input; the help again if there is none."""
        help_text = self.form_field.summary
        help_line = f'<p class="attrib-help">{escape(help_text)}</p>' if help_text else ""
        elements.fill(self._note, elements.alert(problem) or help_line)
        (self.widget.add_class if problem else self.widget.remove_class)("attrib-invalid")


class Checkbox(Control):
    """A checkbox for a boolean."""

    def __init__(self, form_field: FormField) -> None:
        super().__init__(
            form_field,
            ipywidgets.Checkbox(bool(form_field.default), description=form_field.label, indent=False),
        )


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
        menu = ipywidgets.Dropdown(options=list(self._values), description=form_field.label)
        super().__init__(form_field, menu)
        if not form_field.is_required:
            self.value = form_field.default

    @property
    def value(self) -> Any:
        """The chosen value."""
        return self._values[self.input.value]

    @value.setter
    def value(self, value: Any) -> None:
        for label, option in self._values.items():
            if type(option) is type(value) and option == value:
                self.input.value = label
                return
        raise errors.InvalidRequest.choice(
            self.form_field.name, value, [str(option) for option in self._values.values()]
        )


class Option(NamedTuple):
    """A checkbox of a :class:`Checklist`.

    Parameters
    ----------
    value : str
        What the function takes.
    label : str
        Text beside the checkbox.
    meaning : str, default ""
        One line below it.
    link : str, default ""
        Address of a page that explains it.
    is_common : bool, default True
        Whether it is always visible; the others are behind a button.
    """

    value: str
    label: str
    meaning: str = ""
    link: str = ""
    is_common: bool = True


class Checklist(Control):
    """A checkbox for each allowed value; none is checked at first."""

    def __init__(self, form_field: FormField, options: Sequence[Option] = ()) -> None:
        options = options or [Option(value, value) for value in form_field.allowed]
        self._boxes = {
            option.value: ipywidgets.Checkbox(False, description=option.label, indent=False)
            for option in options
        }
        self._checked: dict[str, None] = {}
        for value, box in self._boxes.items():
            box.observe(partial(self._note_check, value), names="value")
        heading = elements.html(f'<div class="widget-label">{escape(form_field.label)}</div>')
        lines: dict[bool, list[Any]] = {True: [], False: []}
        for option in options:
            lines[option.is_common].append(
                elements.box("model", self._boxes[option.value], elements.html(_meaning(option)))
            )
        more = [elements.disclosure(f"More {form_field.name}", *lines[False])] if lines[False] else []
        boxes = self._boxes.values()
        super().__init__(form_field, elements.box("models", heading, *lines[True], *more), watched=boxes)

    @property
    def value(self) -> list[str] | None:
        """The checked values, in the order in which they were checked."""
        return list(self._checked) or self.form_field.default

    @value.setter
    def value(self, value: Sequence[str] | None) -> None:
        chosen = list(value or ())
        for name in chosen:
            errors.check_choice(self.form_field.name, name, self._boxes)
        for box in self._boxes.values():
            box.value = False
        for name in chosen:
            self._boxes[name].value = True

    def _note_check(self, value: str, change: Mapping[str, Any]) -> None:
        if change["new"]:
            self._checked[value] = None
        else:
            self._checked.pop(value, None)


class TextInput(Control):
    """A text box; an empty box means the default. Suggestions with labels are shown by these."""

    def __init__(
        self,
        form_field: FormField,
        *,
        parse: Callable[[str], Any] = str,
        placeholder: str = "",
        suggested: Sequence[str] | Mapping[str, str] = (),
    ) -> None:
        self._labels = dict(suggested) if isinstance(suggested, Mapping) else {}
        box = ipywidgets.Combobox(
            value=self._shown(form_field.default),
            placeholder=placeholder,
            options=tuple(self._labels.values() or suggested),
            ensure_option=False,
            continuous_update=False,
            description=form_field.label,
        )
        super().__init__(form_field, box)
        self._parse = parse

    @property
    def value(self) -> Any:
        """The text, parsed."""
        text = self.input.value.strip()
        if text:
            return self._parse(next((key for key, label in self._labels.items() if label == text), text))
        return None if self.form_field.is_required else self.form_field.default

    @value.setter
    def value(self, value: Any) -> None:
        self.input.value = self._shown(value)

    def _shown(self, value: Any) -> str:
        return "" if value is None else self._labels.get(value, str(value))

    def suggest(self, values: Sequence[str]) -> None:
        """Suggest values while the user types."""
        self.input.options = tuple(values)


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
        )
        super().__init__(form_field, box)
        self._parse = partial(_parse_number, form_field.name) if has_numbers else str

    @property
    def value(self) -> list[Any] | None:
        """The lines, parsed; empty lines are skipped."""
        lines = [line.strip() for line in self.input.value.splitlines()]
        values = [self._parse(line) for line in lines if line]
        return values or (None if self.form_field.is_required else self.form_field.default)

    @value.setter
    def value(self, value: Sequence[Any] | None) -> None:
        self.input.value = _join_lines(value)


class InstantPicker(Control):
    """A calendar for a day, and a box for a time of that day in UTC.

    Parameters
    ----------
    form_field : FormField
        The argument that the control edits.
    days_allowed : bool, default True
        Whether a day without a time is a value; otherwise it stands for its first instant in UTC.
    """

    def __init__(self, form_field: FormField, *, days_allowed: bool = True) -> None:
        self._day = ipywidgets.DatePicker(description=form_field.label)
        self._time = ipywidgets.Text(
            description="Time (UTC)",
            placeholder="whole day" if days_allowed else "00:00",
            continuous_update=False,
        )
        self._days_allowed = days_allowed
        pair = (self._day, self._time)
        super().__init__(form_field, elements.box("pair", *pair), watched=pair)

    @property
    def value(self) -> str | None:
        """The day as ISO 8601 text, or the instant as RFC 3339 text."""
        day, time = self._day.value, self._time.value.strip()
        if day is None:
            return None
        if not time and self._days_allowed:
            return str(day.isoformat())
        text = f"{day.isoformat()}T{time or '00:00'}"
        with suppress(ValueError):
            return f"{datetime.fromisoformat(text).replace(tzinfo=None).isoformat()}Z"
        raise errors.InvalidRequest(
            f"{self.form_field.name}: {time!r} is not a time of day; allowed: such as 08:30"
        )

    @value.setter
    def value(self, value: datetime | date | str | None) -> None:
        name = self.form_field.name
        day = None if value is None else instants.parse_day(value, argument=name)
        if value is None or day is not None:
            self._day.value, self._time.value = day, ""
            return
        instant = instants.parse(value, argument=name).astimezone(UTC).replace(tzinfo=None)
        self._day.value, self._time.value = instant.date(), instant.time().isoformat()


class SortOrder(Control):
    """Two menus: the property to sort by, and the direction."""

    def __init__(self, form_field: FormField) -> None:
        options = [("(unsorted)", None), *((name, name) for name in form_field.allowed)]
        self._by = Choice(replace(form_field, default=None), options)
        direction = FormField("direction", "choice", default="")
        self._direction = Choice(direction, [("ascending", ""), ("descending", "-")])
        menus = (self._by.input, self._direction.input)
        super().__init__(form_field, elements.box("pair", *menus), watched=menus)

    @property
    def value(self) -> str | None:
        """The property, with ``-`` in front for descending."""
        return None if self._by.value is None else f"{self._direction.value}{self._by.value}"

    @value.setter
    def value(self, value: str | None) -> None:
        self._by.value = None if value is None else value.removeprefix("-")
        self._direction.value = "-" if value is not None and value.startswith("-") else ""


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
    if form_field.kind == "three_state":
        return Choice(form_field, [("no", False), ("yes", True), ("both", None)])
    if form_field.kind == "choice":
        none = [] if form_field.is_required or form_field.default is not None else [("(none)", None)]
        return Choice(form_field, [*none, *((value, value) for value in form_field.allowed)])
    return _CONTROLS.get(form_field.kind, TextInput)(form_field)


_CONTROLS: Final[dict[str, Callable[[FormField], Control]]] = {
    "flag": Checkbox,
    "choices": Checklist,
    "instant": InstantPicker,
    "sort": SortOrder,
    "texts": TextLines,
    "whole": NumberInput,
    "number": NumberInput,
}


def _meaning(option: Option) -> str:
    label = f"More about {escape(option.label)}"
    more = f'<a href="{escape(option.link)}" target="_blank" rel="noopener" aria-label="{label}">More</a>'
    link = f" {more}" if option.link else ""
    return f'<p class="attrib-help">{escape(option.meaning)}{link}</p>' if option.meaning else ""


def _join_lines(values: Sequence[Any] | None) -> str:
    return "\n".join(map(str, values or ()))


def _parse_number(argument: str, text: str) -> int | float:
    for number_type in (int, float):
        with suppress(ValueError):
            return number_type(text)
    raise errors.InvalidRequest(f"{argument}: {text!r} is not a number")


#: Maximum number of suggestions.
_LIMIT: Final = 200


def event_types(project: Project) -> dict[str, str]:
    """Return the names of the project's event types by reference; one that is taken is the reference."""
    listed = events.list_event_types(project)
    names: dict[str, str] = {}
    for reference, name in zip(listed["reference"], listed["name"], strict=True):
        is_free = not pd.isna(name) and name not in names.values()
        names[str(reference)] = str(name if is_free else reference)
    return names


def statistics(project: Project) -> dict[str, str]:
    """Return the statistics that can be credited, in words: the event count and those of the events."""
    words = {"event-count": "Number of conversions"}
    try:
        metrics = project.tables().metrics
    except errors.NotSupported:
        # A remote service does not list its statistics; users can still type one.
        return words
    keys = metrics.filter(metrics.type == "statistic").select("key").distinct().order_by("key")
    for key in keys.to_pyarrow()["key"].to_pylist():
        text = re.sub("[-_]+", " ", key)
        words.setdefault(key, text[:1].upper() + text[1:])
    return words


def has_channels(project: Project) -> bool:
    """Return whether nodes of the project belong to channels; no if they cannot be listed."""
    try:
        return bool(interactions.list_nodes(project)["channel"].notna().any())
    except errors.AttribError:
        return False


def vendors(project: Project) -> list[str]:
    """Return the vendor ids of the project's integrations; none if the service does not list them."""
    try:
        return list(project.send("list_integrations").read()["vendorId"].to_pylist())
    except errors.AttribError:
        return []


def values(project: Project, kind: Kind, field: str) -> list[str]:
    """Return the values of a field in the project, most frequent first.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    kind : str
        Kind of record that the field belongs to.
    field : str
        Name of the field.

    Returns
    -------
    list of str
        At most 200; empty for fields whose values the service does not count.

    Raises
    ------
    AttribError
        If the service cannot be reached, or cannot group by the field (dates, numbers, objects).
    """
    if kind == "event":
        return list(event_types(project)) if field == "eventType" else []
    if kind == "node":
        return _node_values(project, field)
    if kind != "interaction":
        return []
    return _distinct(
        interactions.interaction_insights(project, group_by=field, sort="-sessionCount")["group"]
    )


def _node_values(project: Project, field: str) -> list[str]:
    nodes = interactions.list_nodes(project)
    level, column = ibis_form.LEVEL_COLUMNS.get(field, ("", ibis_form.NODE_COLUMNS.get(field, field)))
    nodes = nodes[nodes["type"] == level] if level else nodes
    return _distinct(nodes[column]) if column in nodes.columns else []


def _distinct(values: pd.Series[str]) -> list[str]:
    present = [value for value in values if isinstance(value, str) and value]
    return list(dict.fromkeys(present))[:_LIMIT]


def upload_button(label: str, accept: str, *, multiple: bool = False) -> Any:
    """Return a button that uploads one file, or several, with one of the extensions accepted."""
    button = ipywidgets.FileUpload(accept=accept, multiple=multiple, description=label)
    button.add_class("attrib-button")
    return button


def uploads(button: Any) -> list[tuple[str, bytes]]:
    """Return name and content of the files of an upload button, which ipywidgets 7 gives by name."""
    value = button.value
    files = value.items() if isinstance(value, dict) else [(file["name"], file) for file in value]
    return [(str(name), bytes(file["content"])) for name, file in files]


class Table(Control):
    """An upload button for a CSV file; its value is the file's rows or a DataFrame that was set."""

    def __init__(self, form_field: FormField) -> None:
        self._upload = upload_button(f"{form_field.label}: choose a CSV file", ".csv")
        super().__init__(form_field, self._upload, watched=())
        self._frame: pd.DataFrame | None = None
        self._upload.observe(lambda _: self._read(), names="value")
        self._name = self._problem = ""

    @property
    def value(self) -> pd.DataFrame | None:
        """The rows."""
        # Raised here and not on upload: ipywidgets only logs an exception of a callback.
        if self._problem:
            raise errors.InvalidRequest(self._problem, field=self.form_field.name)
        return self._frame

    @value.setter
    def value(self, frame: pd.DataFrame | None) -> None:
        self._frame, self._name, self._problem = frame, "", ""
        self.changed()

    @property
    def source(self) -> str:
        """The call that reads the file; a variable named as the argument for a frame that was set."""
        return f"pd.read_csv({self._name!r})" if self._name else self.form_field.name

    def _read(self) -> None:
        for name, content in uploads(self._upload):
            self._name, self._frame, self._problem = name, None, ""
            try:
                self._frame = pd.read_csv(io.BytesIO(content))
            except ValueError as error:
                self._problem = f"{self.form_field.name}: {name!r} is not a CSV file: {error}"
        self.changed()
