"""A control for each kind of answer, with a label that people and screen readers find."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms.questions import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_STYLE: Final = {"description_width": "11em"}
_WIDE: Final = {"width": "32em", "max_width": "98%"}
_NOTHING: Final = ""
#: Rows that a list shows at once.
_MOST_ROWS: Final = 8


class Control:
    """Base of the controls: a widget, and the answer it holds as the function takes it.

    Parameters
    ----------
    question : Question
        What is asked.
    widget : ipywidgets.Widget
        What is shown.

    Attributes
    ----------
    value : object
        The answer; the question's default without one. May be set.
    """

    def __init__(self, question: Question, widget: Any) -> None:
        self.question = question
        self.widget = widget

    @property
    def value(self) -> Any:
        """The answer."""
        return self.widget.value

    @value.setter
    def value(self, answer: Any) -> None:
        self.widget.value = answer

    @property
    def source(self) -> str:
        """The answer as Python."""
        return repr(self.value)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the answer changes."""
        self.widget.observe(lambda _: changed(), names="value")

    def suggest(self, answers: Sequence[str]) -> None:
        """Offer answers, where the control has room for it; any other is as good."""


class Flag(Control):
    """Yes or no."""

    def __init__(self, question: Question) -> None:
        box = ipywidgets.Checkbox(
            bool(question.default), description=question.label, indent=False, tooltip=question.help
        )
        super().__init__(question, box)


class Chosen(Control):
    """One of a closed list.

    Parameters
    ----------
    question : Question
        What is asked.
    options : sequence of (str, object)
        Words and answer of each.
    """

    def __init__(self, question: Question, options: Sequence[tuple[str, Any]]) -> None:
        # A menu takes the value None for "nothing is chosen", so it holds words and not answers.
        self._answers = dict(options)
        menu = ipywidgets.Dropdown(
            options=list(self._answers),
            description=question.label,
            tooltip=question.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(question, menu)
        if not question.is_required:
            self.value = question.default

    @property
    def value(self) -> Any:
        """The chosen answer."""
        return self._answers[self.widget.value]

    @value.setter
    def value(self, answer: Any) -> None:
        for words, known in self._answers.items():
            if type(known) is type(answer) and known == answer:
                self.widget.value = words
                return
        allowed = [str(each) for each in self._answers.values()]
        raise InvalidRequest.choice(self.question.name, answer, allowed)


class Several(Control):
    """Some of a list, none of them by default."""

    def __init__(self, question: Question) -> None:
        options = question.allowed
        box = ipywidgets.SelectMultiple(
            options=options,
            rows=min(len(options), _MOST_ROWS) or 1,
            description=question.label,
            tooltip=question.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(question, box)

    @property
    def value(self) -> list[str] | None:
        """The chosen ones, in the order of the list."""
        return list(self.widget.value) or self.question.default

    @value.setter
    def value(self, answer: Sequence[str] | None) -> None:
        self.widget.value = tuple(answer or ())


class Written(Control):
    """A text, a number or a list of texts, as it is typed; empty is the default."""

    def __init__(
        self,
        question: Question,
        *,
        read: Callable[[str], Any] = str,
        write: Callable[[Any], str] = str,
        placeholder: str = "",
        offered: Sequence[str] = (),
    ) -> None:
        box = ipywidgets.Combobox(
            value=_NOTHING if question.default is None else write(question.default),
            placeholder=placeholder,
            options=tuple(offered),
            ensure_option=False,
            continuous_update=False,
            description=question.label,
            tooltip=question.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(question, box)
        self._read, self._write = read, write

    @property
    def value(self) -> Any:
        """What was typed, read."""
        typed = self.widget.value.strip()
        if typed:
            return self._read(typed)
        return None if self.question.is_required else self.question.default

    @value.setter
    def value(self, answer: Any) -> None:
        self.widget.value = _NOTHING if answer is None else self._write(answer)

    def suggest(self, answers: Sequence[str]) -> None:
        """Offer answers while somebody types."""
        self.widget.options = tuple(answers)


class Number(Written):
    """A number; whole ones stay whole."""

    def __init__(self, question: Question, *, placeholder: str = "a number") -> None:
        super().__init__(question, read=partial(_number, question.name), placeholder=placeholder)


class Lines(Control):
    """Texts, or numbers, one a line; without one the default."""

    def __init__(
        self, question: Question, *, has_numbers: bool = False, placeholder: str = "one a line"
    ) -> None:
        box = ipywidgets.Textarea(
            value=_lines(question.default),
            placeholder=placeholder,
            rows=3,
            continuous_update=False,
            description=question.label,
            tooltip=question.help,
            style=_STYLE,
            layout=_WIDE,
        )
        super().__init__(question, box)
        self._read = partial(_number, question.name) if has_numbers else str

    @property
    def value(self) -> list[Any] | None:
        """What stands on each line."""
        typed = [line.strip() for line in self.widget.value.splitlines()]
        found = [self._read(line) for line in typed if line]
        return found or (None if self.question.is_required else self.question.default)

    @value.setter
    def value(self, answer: Sequence[Any] | None) -> None:
        self.widget.value = _lines(answer)


class Moment(Control):
    """An instant in UTC."""

    def __init__(self, question: Question) -> None:
        picker = ipywidgets.NaiveDatetimePicker(
            description=f"{question.label} (UTC)", tooltip=question.help, style=_STYLE, layout=_WIDE
        )
        super().__init__(question, picker)

    @property
    def value(self) -> str | None:
        """The instant as RFC 3339 text."""
        picked = self.widget.value
        return None if picked is None else f"{picked.isoformat()}Z"

    @value.setter
    def value(self, answer: datetime | str | None) -> None:
        if answer is None:
            self.widget.value = None
        else:
            moment = instants.parse(answer, argument=self.question.name)
            self.widget.value = moment.astimezone(UTC).replace(tzinfo=None)


class Order(Control):
    """A property to order by, and whether from the lowest or the highest."""

    def __init__(self, question: Question) -> None:
        words = [("as it comes", None), *((each, each) for each in question.allowed)]
        self._by = Chosen(replace(question, default=None), words)
        direction = Question("direction", "choice", default=1)
        self._direction = Chosen(direction, [("ascending", 1), ("descending", -1)])
        super().__init__(question, ipywidgets.VBox([self._by.widget, self._direction.widget]))

    @property
    def value(self) -> dict[str, int] | None:
        """The property with 1 or -1."""
        return None if self._by.value is None else {self._by.value: self._direction.value}

    @value.setter
    def value(self, answer: dict[str, int] | None) -> None:
        self._by.value, self._direction.value = next(iter((answer or {}).items()), (None, 1))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever either changes."""
        for part in (self._by, self._direction):
            part.watch(changed)


def control_of(question: Question) -> Control:
    """Make the control that a question asks for.

    Parameters
    ----------
    question : Question
        Of any kind but predicates and frames, which need to know the project.

    Returns
    -------
    Control
        With the question's default in it.
    """
    if question.kind == "flag":
        return Flag(question)
    if question.kind == "three_state":
        return Chosen(question, [("no", False), ("yes", True), ("both", None)])
    if question.kind == "choice":
        listed: list[tuple[str, Any]] = [(each, each) for each in question.allowed]
        if not question.is_required and question.default is None:
            listed.insert(0, ("(none)", None))
        return Chosen(question, listed)
    if question.kind == "choices":
        return Several(question)
    if question.kind == "instant":
        return Moment(question)
    if question.kind == "sort":
        return Order(question)
    if question.kind == "texts":
        return Lines(question)
    if question.kind in ("whole", "number"):
        return Number(question)
    return Written(question)


def _lines(values: Sequence[Any] | None) -> str:
    return "\n".join(map(str, values or ()))


def _number(argument: str, typed: str) -> int | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(typed)
    raise InvalidRequest(f"{argument}: {typed!r} is not a number", field=argument)
