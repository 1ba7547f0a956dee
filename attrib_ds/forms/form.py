"""A form in a notebook: controls for the arguments of a call, its code and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import elements
from attrib_ds.forms.controls import Control, control_for
from attrib_ds.forms.form_fields import FormField, form_fields
from attrib_ds.forms.generated_code import write_call, write_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WORKING: Final = "Working …"


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
    """

    function: Callable[..., Any]
    result: str
    leave_out: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    custom_controls: Mapping[str, Callable[[FormField], Control]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def controls(self) -> dict[str, Control]:
        """Make a control for each form field, the visible ones first."""
        fields = form_fields(self.function, also=self.custom_controls)
        hidden = {*self.first, *self.leave_out}
        order = [*self.first, *(name for name in fields if name not in hidden)]
        return {name: self.custom_controls.get(name, control_for)(fields[name]) for name in order}


class Form:
    """Controls for the arguments of a call, from one of the functions of :mod:`attrib_ds.forms`.

    It displays itself in a notebook and can also be used from a script.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    result : object
        Result of the last run; None before the first.
    error : Exception or None
        Error of the last run or change.
    """

    def __init__(
        self,
        title: str,
        steps: Sequence[Step],
        *,
        subject: Any,
        opening: str = "",
        show: Callable[[Any, Form], Sequence[str]],
        action: str = "Run",
    ) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        self._result_callbacks: list[Callable[[Any], None]] = []
        self._steps, self._subject, self._opening, self._show = list(steps), subject, opening, show
        self._controls = {step.name: step.controls() for step in self._steps}
        self._code = ipywidgets.HTML()
        self._status = ipywidgets.HTML()
        self._messages = ipywidgets.Output()
        self._output = ipywidgets.VBox()
        self._run = elements.button(action, self.run, problem=self._status, is_main=True)
        self.widget = ipywidgets.VBox([ipywidgets.HTML(f"<h3>{title}</h3>"), *self._layout()])
        for controls in self._controls.values():
            for control in controls.values():
                control.watch(self._refresh)
        self._refresh()

    @property
    def value(self) -> dict[str, Any]:
        """The arguments that differ from their default; setting it changes the arguments given."""
        return {name: value for step in self._steps for name, value in self._arguments(step).items()}

    @value.setter
    def value(self, arguments: Mapping[str, Any]) -> None:
        controls = self._controls_by_name()
        for name, value in arguments.items():
            if name not in controls:
                raise InvalidRequest.choice("value", name, controls)
            controls[name].value = value
        self._refresh()

    @property
    def code(self) -> str:
        """Python code of the call."""
        lines = [self._opening] if self._opening else []
        subject = "" if self._subject is None else "project"
        for step in self._steps:
            sources = {name: control.source for name, control in self._filled_in(step).items()}
            lines.append(write_call(step.name, subject, sources, result=step.result))
            subject = step.result
        code = "\n".join(lines)
        return f"{write_imports(code)}\n\n{code}"

    def on_result(self, callback: Callable[[Any], None]) -> None:
        """Call a function with the result of each run."""
        self._result_callbacks.append(callback)

    def control(self, argument: str) -> Control:
        """Return the control of an argument."""
        controls = self._controls_by_name()
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
        self._status.value = elements.status(_WORKING)
        self._run.disabled = True
        failure: Exception | None = None
        # In a notebook, the Output widget shows what the call prints, such as progress. It would swallow an
        # exception, so none may leave the block.
        with self._messages:
            try:
                result = self._subject
                for step in self._steps:
                    first = () if result is None else (result,)
                    result = step.function(*first, **self._arguments(step))
                output = [ipywidgets.HTML(html) for html in self._show(result, self)]
            except Exception as error:  # noqa: BLE001  (shown in the form, and raised below)
                failure = error
        self._messages.outputs = ()
        self._run.disabled = False
        if failure is not None:
            self._fail(failure)
            raise failure
        self.result = result
        self._status.value = elements.status("Done.")
        self._output.children = output
        for callback in self._result_callbacks:
            callback(result)
        return result

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return {**self.widget._repr_mimebundle_(**options), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Form of {', '.join(step.name for step in self._steps)}; .value, .code, .run()>"

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._output.children = []
        self._status.value = elements.alert(elements.error_message(error))

    def _refresh(self) -> None:
        """Show the code of the current values, or why they are incomplete."""
        self.error = None
        try:
            self._code.value = elements.code_block(self.code)
            self._status.value = ""
        except Exception as error:  # noqa: BLE001  (shown in the form)
            self.error = error
            self._code.value = ""
            self._status.value = elements.status(elements.error_message(error))

    def _controls_by_name(self) -> dict[str, Control]:
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

    def _layout(self) -> list[Any]:
        visible: list[Any] = []
        optional: list[Any] = []
        for step in self._steps:
            for name, control in self._controls[step.name].items():
                (visible if name in step.first or not step.first else optional).append(control.widget)
        more = ipywidgets.Accordion([ipywidgets.VBox(optional)], titles=("More options",))
        code = ipywidgets.Accordion([self._code], titles=("Code",))
        return [
            *visible,
            *([more] if optional else []),
            self._run,
            self._status,
            self._messages,
            self._output,
            code,
        ]


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
