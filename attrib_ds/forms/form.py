"""A form in a notebook: controls for the arguments of a call, its code and its result."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import elements, messages
from attrib_ds.forms.controls import Control, control_for
from attrib_ds.forms.displayed import Displayed
from attrib_ds.forms.form_fields import FormField, form_fields
from attrib_ds.forms.generated_code import write_call, write_opening, write_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from attrib_ds.project import Project

_WORKING: Final = "Working …"
_EMPTY: Final = '<div class="attrib-empty">Results appear here. Press {action} to get them.</div>'


@dataclass(frozen=True)
class Step:
    """One call of a form; its result is the first argument of the next step.

    Parameters
    ----------
    function : callable
        A public function.
    result : str
        Variable that the code assigns the result to.
    leave_out : tuple of str
        Arguments without a control.
    first : tuple of str
        Arguments that are always visible; the others are under "More options".
    custom_controls : mapping of str to callable
        By argument: a function that takes the form field and returns its control.
    words : mapping of str to (str, str)
        By argument: label and help, if those of other forms do not fit.
    """

    function: Callable[..., Any]
    result: str
    leave_out: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    custom_controls: Mapping[str, Callable[[FormField], Control]] = field(default_factory=dict)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def is_visible(self, argument: str) -> bool:
        """Return whether an argument is visible at once; the others are under "More options"."""
        return not self.first or argument in self.first

    def controls(self) -> dict[str, Control]:
        """Make a control for each form field, the visible ones first."""
        fields = form_fields(self.function, also=self.custom_controls)
        for name, (label, line) in self.words.items():
            fields[name] = replace(fields[name], label=label, summary=line)
        hidden = {*self.first, *self.leave_out}
        order = [*self.first, *(name for name in fields if name not in hidden)]
        return {name: self.custom_controls.get(name, control_for)(fields[name]) for name in order}


class Form(Displayed):
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
    """

    def __init__(
        self,
        title: str,
        steps: Sequence[Step],
        *,
        subject: Project | None,
        show: Callable[[Any, Form], Sequence[Any]],
        about: str = "",
        action: str = "Run",
    ) -> None:
        self.result: Any = None
        self.results: dict[str, Any] = {}
        self.error: Exception | None = None
        self._result_callbacks: list[Callable[[Any], None]] = []
        self._steps, self._subject, self._show = list(steps), subject, show
        self._controls = {step.name: step.controls() for step in self._steps}
        self._has_run = False
        self._code, self._status = elements.html(), elements.html()
        self._messages = elements.output()
        self._empty = elements.html(_EMPTY.format(action=escape(action)))
        self._output = elements.box("output", self._empty)
        self._run = elements.button(action, self._press, problem=self._status, is_main=True)
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
        self._refresh()

    @property
    def value(self) -> dict[str, Any]:
        """The arguments that differ from their default; setting it changes the arguments given."""
        return {name: value for step in self._steps for name, value in self._arguments(step).items()}

    @value.setter
    def value(self, arguments: Mapping[str, Any]) -> None:
        controls = self._by_argument()
        for name, value in arguments.items():
            if name not in controls:
                raise InvalidRequest.choice("value", name, controls)
            controls[name].value = value
        self._refresh()

    @property
    def code(self) -> str:
        """Python code of the call."""
        lines = [] if self._subject is None else [write_opening(self._subject)]
        subject = "" if self._subject is None else "project"
        for step in self._steps:
            sources = {name: control.source for name, control in self._filled_in(step).items()}
            lines.append(write_call(step.function, subject, sources, result=step.result))
            subject = step.result
        return write_program(lines)

    def on_result(self, callback: Callable[[Any], None]) -> None:
        """Call a function with the result of each run."""
        self._result_callbacks.append(callback)

    def control(self, argument: str) -> Control:
        """Return the control of an argument."""
        controls = self._by_argument()
        if argument not in controls:
            raise InvalidRequest.choice("argument", argument, controls)
        return controls[argument]

    def run(self) -> Any:
        """Make the call, show its result and return it.

        Raises
        ------
        Exception
            Any exception of the call, after the form has shown it.
        """
        self.error = None
        self._has_run = True
        self._status.value = messages.status(_WORKING)
        self._run.disabled = True
        failure: Exception | None = None
        # In a notebook, the Output widget shows what the call prints, such as progress. It would swallow an
        # exception, so none may leave the block.
        with self._messages:
            try:
                result: Any = self._subject
                for step in self._steps:
                    first = () if result is None else (result,)
                    result = self.results[step.result] = step.function(*first, **self._arguments(step))
                output = list(self._show(result, self))
            except Exception as error:  # noqa: BLE001  (shown in the form, and raised below)
                failure = error
        self._messages.outputs = ()
        self._run.disabled = False
        if failure is not None:
            self._output.children = [self._empty]
            self._show_problem(failure, messages.alert)
            raise failure
        self.result = result
        self._status.value = messages.status("Done.")
        self._output.children = output
        for callback in self._result_callbacks:
            callback(result)
        return result

    def __repr__(self) -> str:
        return f"<Form of {', '.join(step.name for step in self._steps)}; .value, .code, .run()>"

    def _press(self) -> None:
        with suppress(Exception):  # run() has shown it
            self.run()

    def _refresh(self) -> None:
        """Show the code of the current values, or why there is none.

        A field that is still empty is no problem before the first press.
        """
        self.error = None
        for control in self._by_argument().values():
            control.mark("")
        self._code.value = messages.status("Fill in the form to see its code.")
        self._status.value = ""
        try:
            if self._has_run or not self._is_incomplete():
                self._code.value = elements.code_block(self.code)
        except Exception as error:  # noqa: BLE001  (shown in the form)
            self._show_problem(error, messages.status)

    def _show_problem(self, error: Exception, show: Callable[[str], str]) -> None:
        """Show a problem beside the button and, if it is that of a field, below the field."""
        self.error = error
        message = messages.error_message(error)
        argument = getattr(error, "field", None)
        control = self._by_argument().get(argument or "")
        if control is not None:
            message = re.sub(rf"^{argument}\b", control.form_field.label, message)
            control.mark(message)
        self._status.value = show(message)

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
        for name, control in self._controls[step.name].items():
            value, form_field = control.value, control.form_field
            if value is None and form_field.is_required:
                raise InvalidRequest(f"{name} is required", field=name)
            if form_field.is_required or not _equal(value, form_field.default):
                filled_in[name] = control
        return filled_in

    def _inputs(self) -> list[Any]:
        fields = [
            (step.is_visible(name), control.widget)
            for step in self._steps
            for name, control in self._controls[step.name].items()
        ]
        optional = [widget for is_visible, widget in fields if not is_visible]
        more = [elements.disclosure("More options", *optional)] if optional else []
        return [*(widget for is_visible, widget in fields if is_visible), *more]


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
