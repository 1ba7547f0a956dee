"""A form: the questions of one call, the code of that call, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import look
from attrib_ds.forms.controls import Control, control_of
from attrib_ds.forms.questions import Question, questions_of
from attrib_ds.forms.writing import write_call, write_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WORKING: Final = "Working …"


@dataclass(frozen=True)
class Step:
    """One call of a form, whose result is the first argument of the next.

    Parameters
    ----------
    function : callable
        A public function.
    result : str
        The variable that takes the result in the code.
    leave_out : tuple of str
        Arguments that the form does not ask for.
    first : tuple of str
        Arguments to show at once; the others are behind "More options".
    made : mapping of str to callable
        Controls that need to know more than the question, by argument; each takes the question.
    """

    function: Callable[..., Any]
    result: str
    leave_out: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    made: Mapping[str, Callable[[Question], Control]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def controls(self) -> dict[str, Control]:
        """Make a control for each question, those to show at once in their order first."""
        asked = questions_of(self.function, also=self.made)
        asked = {name: question for name, question in asked.items() if name not in self.leave_out}
        order = [*self.first, *(name for name in asked if name not in self.first)]
        return {name: self.made.get(name, control_of)(asked[name]) for name in order}


class Form:
    """Controls for the arguments of a call, from one of the functions of :mod:`attrib_ds.forms`.

    It displays itself in a notebook. Everything works without one, too.

    Attributes
    ----------
    widget : ipywidgets.Widget
        What is shown.
    result : object
        What the last run answered; None before.
    error : Exception or None
        What the last run or change failed with.
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
        self._takers: list[Callable[[Any], None]] = []
        self._steps, self._subject, self._opening, self._show = list(steps), subject, opening, show
        self._controls = {step.name: step.controls() for step in self._steps}
        self._code = ipywidgets.HTML()
        self._status = ipywidgets.HTML()
        self._messages = ipywidgets.Output()
        self._shown = ipywidgets.VBox()
        self._run = look.button(action, self.run, problem=self._status, is_main=True)
        self.widget = ipywidgets.VBox([ipywidgets.HTML(f"<h3>{title}</h3>"), *self._laid_out()])
        for controls in self._controls.values():
            for control in controls.values():
                control.watch(self._rewrite)
        self._rewrite()

    @property
    def value(self) -> dict[str, Any]:
        """The arguments that were answered otherwise than by default; may be set, to some or all of them."""
        return {name: each for step in self._steps for name, each in self._answers(step).items()}

    @value.setter
    def value(self, arguments: Mapping[str, Any]) -> None:
        known = {name: control for each in self._controls.values() for name, control in each.items()}
        for name, answer in arguments.items():
            if name not in known:
                raise InvalidRequest.choice("value", name, known)
            known[name].value = answer
        self._rewrite()

    @property
    def code(self) -> str:
        """Python that makes the same call."""
        lines = [self._opening] if self._opening else []
        subject = "" if self._subject is None else "project"
        for step in self._steps:
            sources = {name: control.source for name, control in self._answered(step).items()}
            lines.append(write_call(step.name, subject, sources, result=step.result))
            subject = step.result
        code = "\n".join(lines)
        return f"{write_imports(code)}\n\n{code}"

    def on_result(self, take: Callable[[Any], None]) -> None:
        """Call a function with what each run answers."""
        self._takers.append(take)

    def control(self, argument: str) -> Control:
        """Return the control of an argument."""
        for controls in self._controls.values():
            if argument in controls:
                return controls[argument]
        known = [name for controls in self._controls.values() for name in controls]
        raise InvalidRequest.choice("argument", argument, known)

    def run(self) -> Any:
        """Make the call, show what it answers, and return that.

        Raises
        ------
        Exception
            What the call failed with, after the form has shown it.
        """
        self.error = None
        self._status.value = look.said(_WORKING)
        self._run.disabled = True
        failed: Exception | None = None
        # Where there is a notebook, what is printed on the way (progress, waits) appears in the form. Its
        # block would swallow an exception, so none leaves it.
        with self._messages:
            try:
                result = self._subject
                for step in self._steps:
                    before = () if result is None else (result,)
                    result = step.function(*before, **self._answers(step))
                shown = [ipywidgets.HTML(each) for each in self._show(result, self)]
            except Exception as error:  # noqa: BLE001  (shown in the form, and raised below)
                failed = error
        self._messages.outputs = ()
        self._run.disabled = False
        if failed is not None:
            self._fail(failed)
            raise failed
        self.result = result
        self._status.value = look.said("Done.")
        self._shown.children = shown
        for take in self._takers:
            take(result)
        return result

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return {**self.widget._repr_mimebundle_(**options), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Form of {', '.join(step.name for step in self._steps)}; .value, .code, .run()>"

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._shown.children = []
        self._status.value = look.warned(look.in_words(error))

    def _rewrite(self) -> None:
        """Write the code of what is answered now, or what it waits for."""
        self.error = None
        try:
            self._code.value = look.code_block(self.code)
            self._status.value = ""
        except Exception as error:  # noqa: BLE001  (shown in the form)
            self.error = error
            self._code.value = ""
            self._status.value = look.said(look.in_words(error))

    def _answers(self, step: Step) -> dict[str, Any]:
        return {name: control.value for name, control in self._answered(step).items()}

    def _answered(self, step: Step) -> dict[str, Control]:
        """Return the controls that hold another answer than the default."""
        answered = {}
        for name, control in self._controls[step.name].items():
            answer, question = control.value, control.question
            if answer is None and question.is_required:
                raise InvalidRequest(f"{name}: there is no answer yet; it is needed", field=name)
            if question.is_required or not _same(answer, question.default):
                answered[name] = control
        return answered

    def _laid_out(self) -> list[Any]:
        shown: list[Any] = []
        further: list[Any] = []
        for step in self._steps:
            for name, control in self._controls[step.name].items():
                (shown if name in step.first or not step.first else further).append(control.widget)
        more = ipywidgets.Accordion([ipywidgets.VBox(further)], titles=("More options",))
        code = ipywidgets.Accordion([self._code], titles=("Code",))
        return [
            *shown,
            *([more] if further else []),
            self._run,
            self._status,
            self._messages,
            self._shown,
            code,
        ]


def _same(answer: Any, default: Any) -> bool:
    return type(answer) is type(default) and bool(answer == default)
