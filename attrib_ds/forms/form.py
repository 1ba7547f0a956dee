"""A form in a notebook: controls for the arguments of a call, its code, its result and downloads."""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import escape
from inspect import signature
from pathlib import Path
from typing import Any, Final

import anywidget
import pandas as pd
import traitlets

import attrib_ds
from attrib_ds import errors, models
from attrib_ds.forms import elements
from attrib_ds.forms.controls import Control, control_for
from attrib_ds.forms.form_fields import TEXTS, FormField, form_fields
from attrib_ds.project import Project
from attrib_ds.records.written_files import csv_text, write_excel

_WORKING: Final = "Working …"
_EMPTY: Final = '<div class="attrib-empty">{}</div>'
_INCOMPLETE: Final = "The result appears here as soon as the fields are filled in."


#: The controls of arguments, made from their form fields.
Inputs = Mapping[str, Callable[[FormField], Control]]
#: What shows a result in its form.
Show = Callable[[Any, "Form"], Sequence[Any]]


@dataclass(frozen=True)
class Step:
    """One call of a form; its result is the first argument of the next step.

    Parameters
    ----------
    function : callable
        A public function.
    result : str
        Variable that the code assigns the result to.
    first : tuple of str
        Arguments that are always visible; the others are under "More options".
    custom_controls : mapping of str to callable
        By argument: a function that takes the form field and returns its control.
    words : mapping of str to (str, str)
        By argument: label and help, if those of other forms do not fit.
    leave_out : tuple of str
        Arguments without a control.
    made_of : mapping of str to type
        By argument: a class of whose parameters it is made, each of which has a control.
    """

    function: Callable[..., Any]
    result: str
    first: tuple[str, ...] = ()
    custom_controls: Inputs = field(default_factory=dict)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    made_of: Mapping[str, type] = field(default_factory=dict)

    def controls(self) -> dict[str, Control]:
        """Make a control for each form field, the visible ones first."""
        fields = form_fields(self.function, also=self.custom_controls)
        for kind in self.made_of.values():
            fields |= form_fields(kind, also=self.custom_controls)
        for name, (label, line) in self.words.items():
            fields[name] = replace(fields[name], label=label, summary=line)
        order = dict.fromkeys((*self.first, *fields))
        return {
            name: self.custom_controls.get(name, control_for)(fields[name])
            for name in order
            if name not in self.leave_out
        }

    def composed(
        self, arguments: Mapping[str, Any], make: Callable[[type, dict[str, Any]], Any]
    ) -> dict[str, Any]:
        """Return arguments of which those that make up another one are made into it."""
        composed = dict(arguments)
        for name, kind in self.made_of.items():
            parts = {part: composed.pop(part) for part in signature(kind).parameters if part in composed}
            if parts:
                composed[name] = make(kind, parts)
        return composed


class Form(elements.Displayed):
    """Controls for the arguments of a call, from one of the functions of :mod:`attrib_ds.forms`.

    It displays itself in a notebook and can also be used from a script.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    result : object
        Result of the last run; None before the first.
    results : dict of str to object
        Result of each of its calls, by the variable of the code.
    error : Exception or None
        Error of the last run or change.
    has_run : bool
        Whether it was run, even if that failed.
    waits : str
        Why it waits for its button; empty if it runs as soon as it is shown and complete.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        subject: Project | None,
        show: Show,
        value: Mapping[str, Any] | None = None,
        *,
        waits: str = "",
    ) -> None:
        title, about, action = TEXTS["forms"][name]
        self.result: Any = None
        self.results: dict[str, Any] = {}
        self.error: Exception | None = None
        self._result_callbacks: list[Callable[[Any], None]] = []
        self._steps, self._subject, self._show = list(steps), subject, show
        self._controls = {step.function.__name__: step.controls() for step in self._steps}
        self.has_run = self._is_started = False
        self._ran: str | None = None
        self.waits, self._action = waits, action
        self._code, self._status = elements.html(), elements.html()
        self._messages = elements.output()
        empty = elements.html(_EMPTY.format(escape(waits or _INCOMPLETE)))
        self._before = [empty]
        self._output = elements.box("output", empty)
        self._run = elements.button(action, self.press, problem=self._status, is_main=True)
        code = elements.disclosure("Code", self._code)
        self.widget = elements.page(
            elements.html(f"<h2>{escape(title)}</h2><p>{escape(about)}</p>"),
            elements.box(
                "columns",
                elements.box("inputs", *self._inputs(), elements.box("action", self._status, self._run)),
                elements.box("results", self._output, self._messages, code),
            ),
        )
        for control in self._by_argument().values():
            control.watch(self._refresh)
        self.value = value or {}

    @property
    def value(self) -> dict[str, Any]:
        """The arguments that differ from their default; setting it changes the arguments given."""
        return {name: value for step in self._steps for name, value in self._arguments(step).items()}

    @value.setter
    def value(self, arguments: Mapping[str, Any]) -> None:
        controls = self._by_argument()
        for name, value in arguments.items():
            errors.check_choice("value", name, controls)
            controls[name].value = value
        self._refresh()

    @property
    def code(self) -> str:
        """Python code of the call."""
        lines = [] if self._subject is None else [write_opening(self._subject)]
        subject = "" if self._subject is None else "project"
        for step in self._steps:
            sources = {name: control.source for name, control in self._filled_in(step).items()}
            sources = step.composed(sources, _written)
            lines.append(write_call(step.function, subject, sources, result=step.result))
            subject = step.result
        return write_program(lines)

    @property
    def state(self) -> dict[str, str]:
        """The arguments that text can hold, as JSON by their names; setting it changes those given."""
        return {
            name: json.dumps(value)
            for name, value in self.value.items()
            if isinstance(value, str | int | float | list)
        }

    @state.setter
    def state(self, state: Mapping[str, str]) -> None:
        self.value = {name: json.loads(text) for name, text in state.items()}

    def start(self) -> None:
        """Run at once, or as soon as the fields are filled in, unless the form waits for its button."""
        self._is_started = True
        if not self.has_run:
            self._refresh()

    def on_result(self, callback: Callable[[Any], None]) -> None:
        """Call a function with the result of each run."""
        self._result_callbacks.append(callback)

    def control(self, argument: str) -> Control:
        """Return the control of an argument."""
        controls = self._by_argument()
        errors.check_choice("argument", argument, controls)
        return controls[argument]

    def show_before(self, *parts: Any) -> None:
        """Show parts where results appear, until there is one."""
        self._before = list(parts)
        if self.result is None:
            self._output.children = self._before

    def press(self) -> None:
        """Run, and show what fails instead of raising it."""
        with suppress(Exception):  # run() has shown it
            self.run()

    def run(self) -> Any:
        """Make the call, show its result and return it.

        Raises
        ------
        Exception
            Any exception of the call, after the form has shown it.
        """
        self.error = None
        self.has_run = True
        self._status.value = elements.status(_WORKING)
        if self.result is None:
            self._output.children = [elements.html(_EMPTY.format(_WORKING))]
        self._run.disabled = True
        failure: Exception | None = None
        # In a notebook, the Output widget shows what the call prints, such as progress. It would swallow an
        # exception, so none may leave the block.
        with self._messages, elements.heard() as messages:
            try:
                result: Any = self._subject
                for step in self._steps:
                    first = () if result is None else (result,)
                    arguments = step.composed(self._arguments(step), lambda kind, parts: kind(**parts))
                    result = self.results[step.result] = step.function(*first, **arguments)
                output = list(self._show(result, self))
            except Exception as error:  # noqa: BLE001  (shown in the form, and raised below)
                failure = error
        self._messages.outputs = ()
        self._run.disabled = False
        if failure is not None:
            self._output.children = self._before
            self._show_problem(failure, elements.alert)
            raise failure
        self.result = result
        self._ran = self.code
        self._output.remove_class("attrib-stale")
        self._status.value = elements.status("Done." if self.waits else "")
        self._output.children = [elements.notes(map(self._explained, messages)), *output]
        for callback in self._result_callbacks:
            callback(result)
        return result

    def __repr__(self) -> str:
        return f"<Form of {', '.join(step.function.__name__ for step in self._steps)}; .value, .code, .run()>"

    def _refresh(self) -> None:
        """Show the code of the current values, or why there is none.

        A field that is still empty is not a problem before the first press.
        """
        self.error = None
        for control in self._by_argument().values():
            control.mark("")
        self._code.value = elements.status("Fill in the form to see its code.")
        self._status.value = ""
        if self._ran is not None:
            self._output.add_class("attrib-stale")
        try:
            if not self.has_run and self._is_incomplete():
                return
            code = self.code
            self._code.value = elements.code_block(code)
        except Exception as error:  # noqa: BLE001  (shown in the form)
            self._show_problem(error, elements.status)
            return
        if self._ran in (None, code):
            self._output.remove_class("attrib-stale")
        else:
            self._status.value = elements.status(f"Changed since this result. Press {self._action}.")
        if self._is_started and not self.has_run and not self.waits:
            self.press()

    def _show_problem(self, error: Exception, show: Callable[[str], str]) -> None:
        """Show a problem beside the button and, if it is that of a field, below the field."""
        self.error = error
        message = self._explained(elements.error_message(error))
        argument = getattr(error, "field", None)
        control = self._by_argument().get(argument or "")
        if control is not None:
            message = re.sub(rf"^{argument}\b", control.form_field.label, message)
            control.mark(message)
        self._status.value = show(message)

    def _explained(self, message: str) -> str:
        """Return a message in the words of the page."""
        for each in self._by_argument().values():
            message = each.explain(message)
        return message

    def _is_incomplete(self) -> bool:
        """Return whether a required field is empty."""
        controls = self._by_argument().values()
        return any(control.form_field.is_required and control.value is None for control in controls)

    def _by_argument(self) -> dict[str, Control]:
        return {name: control for controls in self._controls.values() for name, control in controls.items()}

    def _arguments(self, step: Step) -> dict[str, Any]:
        return {name: control.value for name, control in self._filled_in(step).items()}

    def _filled_in(self, step: Step) -> dict[str, Control]:
        """Return the controls whose value differs from the default."""
        filled_in = {}
        for name, control in self._controls[step.function.__name__].items():
            value, form_field = control.value, control.form_field
            if value is None and form_field.is_required:
                raise errors.InvalidRequest(f"{name} is required", field=name)
            is_default = type(value) is type(form_field.default) and bool(value == form_field.default)
            if form_field.is_required or not is_default:
                filled_in[name] = control
        return filled_in

    def _inputs(self) -> list[Any]:
        fields = [
            (not step.first or name in step.first, control.widget)
            for step in self._steps
            for name, control in self._controls[step.function.__name__].items()
        ]
        optional = [widget for is_visible, widget in fields if not is_visible]
        more = [elements.disclosure("More options", *optional)] if optional else []
        return [*(widget for is_visible, widget in fields if is_visible), *more]


_MAX_WIDTH: Final = 88
_MODELS: Final = frozenset(dir(models))
_PUBLIC: Final = frozenset(dir(attrib_ds))
#: Classes that predicates without a shorter notation are written with.
_FILTERS: Final = frozenset({"Comparison", "Condition"})
#: A string literal, which stays as it is, or a name that is called or has an attribute.
_NAMES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|(?<![.\w])(?P<name>\w+)(?=[(.])')


def write_call(
    function: Callable[..., Any], subject: str, arguments: Mapping[str, str], *, result: str
) -> str:
    """Write the call of a public function, or of a method of a public class.

    Parameters
    ----------
    function : callable
        What is called; a method is called on the subject.
    subject : str
        First positional argument as Python; none if empty.
    arguments : mapping of str to str
        Python expressions of the keyword arguments. Public names get the prefix ``at.``.
    result : str
        Variable that the result is assigned to.

    Returns
    -------
    str
        One line, or one line per argument if that would be too long.

    Examples
    --------
    >>> import attrib_ds as at
    >>> write_call(at.list_nodes, "shop", {}, result="nodes")
    'nodes = at.list_nodes(shop)'
    >>> print(write_call(at.attribute, "paths", {"models": "[Markov(order=2)]"}, result="credits"))
    credits = at.attribute(paths, models=[at.models.Markov(order=2)])
    """
    is_method = "." in function.__qualname__
    parts = [subject] if subject and not is_method else []
    parts += [f"{name}={_NAMES.sub(_qualified, value)}" for name, value in arguments.items()]
    opening = f"{result} = {subject if is_method else 'at'}.{function.__name__}("
    line = f"{opening}{', '.join(parts)})"
    if len(line) <= _MAX_WIDTH:
        return line
    return "\n".join([opening, *(f"    {part}," for part in parts), ")"])


def _written(kind: type, parts: dict[str, str]) -> str:
    return f"{kind.__name__}({', '.join(f'{name}={source}' for name, source in parts.items())})"


def write_assignment(name: str, value: Any) -> str:
    """Write the assignment of a value, such as a predicate, whose ``repr`` is Python.

    Examples
    --------
    >>> from attrib_ds import interaction
    >>> write_assignment("predicate", interaction("duration") > 10)
    'predicate = at.interaction("duration") > 10'
    """
    return f"{name} = {_NAMES.sub(_qualified, repr(value))}"


def write_program(lines: list[str]) -> str:
    """Write lines of code below the imports that they need.

    Examples
    --------
    >>> print(write_program(["nodes = at.list_nodes(shop)"]))
    import attrib_ds as at
    <BLANKLINE>
    nodes = at.list_nodes(shop)
    """
    code = "\n".join(lines)
    used = {match["name"] for match in _NAMES.finditer(code)}
    imports = [
        *(["import pandas as pd", ""] if "pd" in used else []),
        *(["import attrib_ds as at"] if "at" in used else []),
        *([f"from attrib_ds.filters import {', '.join(sorted(used & _FILTERS))}"] if used & _FILTERS else []),
    ]
    return "\n".join([*imports, "", code] if imports else [code])


def write_opening(project: Project) -> str:
    """Write the line that opens a project again.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> write_opening(sample_project())
    'project = at.sample_project()'
    """
    address = project.transport.address
    if address == ":memory:" and project.project_id == "sample-shop":
        return "project = at.sample_project()"
    if address == ":memory:":
        note = "  # kept in memory: load its data here"
        return f'project = at.connect({project.project_id!r}, path=":memory:"){note}'
    arguments = project.opening or {"path": address}
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"project = at.connect({project.project_id!r}, {written})"


def _qualified(match: re.Match[str]) -> str:
    name = match["name"]
    if name in _MODELS:
        return f"at.models.{name}"
    return f"at.{name}" if name in _PUBLIC else match[0]


@dataclass(frozen=True)
class Download:
    """A file to save.

    Parameters
    ----------
    name : str
        Name that the browser saves the file under.
    media_type : str
        Its media type.
    content : callable
        Returns the bytes; called when the button is pressed.
    """

    name: str
    media_type: str
    content: Callable[[], bytes]


class Downloads(anywidget.AnyWidget):  # type: ignore[misc]
    """A row of buttons that save files.

    Parameters
    ----------
    files : mapping of str to Download
        By the text on the button.
    """

    _esm = (Path(__file__).parent / "downloads.js").read_text(encoding="utf-8")
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, files: Mapping[str, Download]) -> None:
        super().__init__(labels=list(files))
        self.files: Final = dict(files)
        self.on_msg(lambda _, message, __: self.save(message["label"]))

    def save(self, label: str) -> None:
        """Make the file of a button and send it to the page."""
        file = self.files[label]
        try:
            content = file.content()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            self.send({"problem": elements.error_message(error)})
            return
        self.send({"name": file.name, "type": file.media_type}, buffers=[content])


def show_frame(frame: pd.DataFrame, form: Form, *, caption: str, stem: str) -> list[Any]:
    """Return a frame as a table, above buttons that save it and the code that computes it."""
    return [elements.table(frame, caption), Downloads(frame_downloads(frame, stem, form.code))]


def frame_downloads(frame: pd.DataFrame, stem: str, code: str) -> dict[str, Download]:
    """Return the downloads of a frame as CSV and as a workbook, and of the code that computes it."""
    return {
        "CSV": Download(f"{stem}.csv", "text/csv", lambda: csv_text(frame).encode()),
        "Excel": Download(
            f"{stem}.xlsx",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            lambda: _workbook(frame),
        ),
        "Python": Download(f"{stem}.py", "text/x-python", code.encode),
    }


def _workbook(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    write_excel({"result": frame}, buffer)
    return buffer.getvalue()
