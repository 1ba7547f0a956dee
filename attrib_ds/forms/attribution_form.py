"""The forms that credit conversions to nodes, of a project or of the user's own files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import ipywidgets

from attrib_ds import errors, plots, schema
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.display import counted, half_up, number
from attrib_ds.forms import controls, elements, filter_builder, form_fields, record_forms
from attrib_ds.forms.controls import (
    Checklist,
    Choice,
    Control,
    NumberInput,
    Option,
    TextInput,
    control_for,
    uploads,
)
from attrib_ds.forms.form import Download, Downloads, Form, Inputs, Step, frame_downloads
from attrib_ds.importers.columns import Named, names_of
from attrib_ds.importers.journeys import Journeys
from attrib_ds.importers.own_journeys import Found, find_columns, read_journeys, with_sheets
from attrib_ds.importers.preview import preview_files
from attrib_ds.importers.reading import File, Reading
from attrib_ds.plots.labels import name_of_rest
from attrib_ds.plots.overview import MODELS, Overview, in_words
from attrib_ds.plots.report import page
from attrib_ds.project import Project, takes_project


@takes_project
def attribution(project: Project) -> Form:
    """Make a form that credits the conversions of an event type to nodes.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.conversion_paths` and of :func:`attrib_ds.attribute`),
        ``.code``, ``.run()``. At first: orders and their turnover, if the project has them, credited to
        channels by the models "last touch" and "linear".

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.attribution(sample_project())
    >>> form.value = {"models": ["linear"]}
    >>> round(float(form.run()["share"].sum()), 6)
    1.0
    """
    event_types, statistics = controls.event_types(project), controls.statistics(project)
    inputs: Inputs = {
        **record_forms.filter_controls(project),
        "audience": partial(filter_builder.Filter, kind="user"),
        "event_type": partial(TextInput, suggested=event_types),
        "statistic": partial(TextInput, suggested=statistics),
        "lookback": TextInput,
        "level": lambda form_field: control_for(
            replace(form_field, kind="choice", allowed=schema.NODE_TYPES)
        ),
    }
    paths = Step(conversion_paths, "paths", ("event_type", "statistic", "level", "since", "until"), inputs)
    value = {"event_type": "order" if "order" in event_types else next(iter(event_types), None)}
    if "turnover" in statistics:
        value["statistic"] = "turnover"
    if controls.has_channels(project):
        value["level"] = "channel"
    return Form("attribution", [paths, _CREDITS], project, show_credits, {**value, "models": _FIRST_MODELS})


def show_credits(credits: Any, form: Form) -> Sequence[Any]:
    """Show credits: their sums, a plot, a table and the files to save."""
    paths = form.results["paths"]
    answers = Overview.of(credits)
    by = "value" if answers.has_value else "conversions"
    currency = answers.currency or None if by == "value" else None
    names = credits["node_id"].fillna("").map(answers.names)
    in_plot = credits.assign(model=credits["model"].map(in_words), node_name=names)
    draw = plots.model_comparison if len(answers.models) > 1 else plots.credits
    report = Download(
        "report.html",
        "text/html",
        lambda: page(Overview.of(credits, paths), title="Credited conversions").encode(),
    )
    files = frame_downloads(credits, "credits", form.code)
    unit = f" in {currency}" if currency else ""
    decimals = {each.title: each.decimals for each in answers.measures}
    money = answers.decimals(f"Value, {answers.currency}" if answers.currency else "Value")
    of_bounds = {name: money if name.startswith("value") else 2 for name in credits.columns}
    of_bounds |= dict.fromkeys(("conversions", "low", "high"), 1)
    bounds = in_plot.drop(columns="node_id") if "low" in credits.columns else None
    return [
        elements.html(elements.figures(_sums(credits, paths, answers))),
        elements.image(draw(in_plot, by=by, currency=currency), f"Credited {by}{unit} by node and model"),
        elements.table(_in_words(answers), "Credits", decimals),
        *([] if bounds is None else [elements.table(bounds, "Intervals", of_bounds)]),
        Downloads({"Report": report, **files}),
    ]


def _in_words(answers: Overview) -> Any:
    """Return the numbers of all models as a table whose titles are words with units."""
    rounded = {
        each.title: answers.numbers[each.title].map(
            lambda number, decimals=each.decimals: float(half_up(number, decimals)), na_action="ignore"
        )
        for each in answers.measures
    }
    numbers = answers.numbers.assign(**rounded).reset_index()
    numbers = numbers.assign(model=numbers["model"].map(in_words), key=numbers["key"].map(answers.names))
    # Returns are in view beside what was earned; the rest can be scrolled to.
    first = [title for name in ("Conversions", "Value", "CPA", "ROAS") for title in answers.titles(name)[:1]]
    numbers = numbers.rename(columns={"model": "Model", "key": "Channel or campaign"})
    return numbers[list(dict.fromkeys(["Model", "Channel or campaign", *first, *numbers.columns]))]


def _sums(credits: Any, paths: Any, answers: Overview) -> dict[str, str]:
    """Return the sums that stand above the plot, as text."""
    conversions = paths.lengths()["conversions"].sum()
    of_one_model = credits[credits["model"] == answers.models[0]] if answers.models else credits
    unattributed = of_one_model.loc[of_one_model["node_id"].isna(), "conversions"].sum()
    amounts = of_one_model[of_one_model["currency"].notna()].groupby("currency")["value"].sum()
    amounts = amounts.sort_index(key=lambda names: names != answers.currency, kind="stable")
    return {
        "Conversions": number(conversions),
        **{
            f"Value in {currency}": number(amount, answers.decimals(f"Value, {currency}"))
            for currency, amount in amounts.items()
        },
        name_of_rest(answers.models): number(unattributed),
    }


#: Every model of the reports; the first seven are offered at once.
MODEL_OPTIONS: Final = tuple(
    Option(name, words["label"], words["meaning"], words["link"], place < 7)
    for place, (name, words) in enumerate(MODELS.items())
)


#: The step that credits the conversions of paths.
_CREDITS: Final = Step(
    attribute,
    "credits",
    first=("models",),
    custom_controls={
        "models": partial(Checklist, options=MODEL_OPTIONS),
        "confidence": partial(NumberInput, placeholder="for example 0.95"),
    },
    leave_out=("spend",),
)
_FIRST_MODELS: Final = ("last_touch", "linear")

#: What a column of each file can be, in words, by role.
_ROLES: Final[dict[File, dict[str, str]]] = form_fields.TEXTS["roles"]
_FOUND: Final = "(as found)"
#: Choice of no column.
_NONE: Final = "(none)"
#: Rejected rows that are shown.
_SHOWN: Final = 20
#: What to choose from where a file does not say how it is written, with the value of the argument.
_DOUBTS: Final[dict[str, list[tuple[str, Any]]]] = {
    "dayfirst": [("as other dates show", None), ("day first", True), ("month first", False)],
    "decimal": [("as other numbers show", None), ("decimal point", "."), ("decimal comma", ",")],
}


def own_files() -> Form:
    """Make a form that credits the conversions of one file to the touchpoints of another.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.read_journeys`, of its method ``paths`` and of
        :func:`attrib_ds.attribute`), ``.code``, ``.run()``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from attrib_ds import forms
    >>> folder = Path(tempfile.mkdtemp())
    >>> clicks = pd.DataFrame({"user": ["u", "u"], "channel": ["search", "email"],
    ...                        "date": ["2025-01-01", "2025-01-02"]})
    >>> clicks.to_csv(folder / "clicks.csv", index=False)
    >>> pd.DataFrame({"user": ["u"], "date": ["2025-01-03"]}).to_csv(folder / "orders.csv", index=False)
    >>> form = forms.own_files()
    >>> form.value = {"touchpoints": folder / "clicks.csv", "conversions": folder / "orders.csv"}
    >>> form.value = {"models": ["linear"]}
    >>> form.run()["conversions"].tolist()
    [0.5, 0.5]
    """
    files: dict[str, FileInput] = {}

    def file(form_field: form_fields.FormField) -> Control:
        files[form_field.name] = FileInput(form_field)
        return files[form_field.name]

    words = form_fields.words_of("own_files")
    inputs: Inputs = {
        **dict.fromkeys(_ROLES, file),
        **{name: partial(Choice, options=options) for name, options in _DOUBTS.items()},
        "columns": partial(ColumnChoice, files),
        "statuses": StatusChoice,
    }
    journeys = Step(
        read_journeys, "journeys", tuple(words), inputs, words, ("event_type",), {"reading": Reading}
    )
    left_out = ("event_type", "level", "adjustments", "in_currency", "rates", "later_rate")
    paths = Step(Journeys.paths, "paths", first=("lookback",), leave_out=left_out)
    waits = "Choose a file of visits and one of conversions. Their first rows appear here, then the credits."
    steps = [journeys, paths, _CREDITS]
    form = Form("own_files", steps, None, _show_own, {"models": _FIRST_MODELS}, waits=waits)
    choice: Any = form.control("columns")
    statuses: Any = form.control("statuses")
    sources = form.control("order_sources").widget.layout
    sources.display = "none"

    def offer(found: Found | None) -> None:
        statuses.offer({} if found is None else found.statuses)
        sources.display = "" if found is not None and found.has_sources else "none"

    choice.on_conversions = offer

    def credit() -> None:
        chosen = [files[name].value is not None for name in ("touchpoints", "conversions")]
        form.show_before(*choice.previews.values())
        if form.result is None and all(chosen):
            form.press()
            if form.result is None:
                form.show_before(reading_of(form), *choice.previews.values())

    for control in files.values():
        control.watch_upload(credit)
    # Returns of spend that is chosen last are shown at once, too.
    files["spend"].watch_upload(lambda: form.press() if form.result is not None else None)
    # A run that failed for want of a choice is made again with it.
    for name in ("columns", "statuses", "order_sources", *_DOUBTS):
        form.control(name).watch(lambda: credit() if form.has_run else None)
    return form


def reading_of(form: Form) -> Any:
    """Return a table of how the files of a form are read; empty if one of them cannot be opened."""
    shown = elements.html()
    value = form.value
    reading = {name: value[name] for name in ("columns", "order_sources", *_DOUBTS) if name in value}
    with suppress(errors.AttribError), elements.heard():
        files: Any = [value.get(name) for name in ("touchpoints", "conversions")]
        preview = preview_files(*files, spend=value.get("spend"), reading=Reading(**reading))
        choice: Any = form.control("columns")
        choice.show(preview.attrs["reading"], is_whole=form.error is None)
        # The form shows each question beside the choice that answers it.
        preview["evidence"] = preview["evidence"].mask(preview["read_as"] == "not clear", "")
        titles = form_fields.TEXTS["titles"]["reading"]
        used = preview.loc[preview["role"] != "", list(titles)]
        shown.value = elements.preview(used.rename(columns=titles), "How the files are read")
    return shown


class FileInput(Control):
    """An upload button for files; its value is the path of a copy, or paths of several, or what was set."""

    def __init__(self, form_field: form_fields.FormField) -> None:
        accepted = ".csv,.tsv,.parquet,.ndjson,.json,.xlsx"
        label = f"Choose the file of {form_field.label.lower()}"
        self._upload = controls.upload_button(label, accepted, multiple=not form_field.is_required)
        self._folder = tempfile.TemporaryDirectory(prefix="attrib-ds-")
        self._chosen = elements.html()
        heading = elements.html(f'<div class="widget-label">{form_field.label}</div>')
        super().__init__(form_field, heading, self._upload, self._chosen, watched=())
        self._paths: list[Path] = []
        self._on_upload: list[Callable[[], None]] = []
        self._upload.observe(lambda _: self._keep(), names="value")

    @property
    def value(self) -> Path | list[Path] | None:
        """Path of the file, or of each of several."""
        return self._paths if len(self._paths) > 1 else next(iter(self._paths), None)

    @value.setter
    def value(self, paths: Path | Sequence[Path] | None) -> None:
        given = [paths] if isinstance(paths, str | Path) else paths or []
        self._paths = [Path(path) for path in given]
        self._chosen.value = elements.status(", ".join(path.name for path in self._paths)) if given else ""
        self.changed()

    @property
    def source(self) -> str:
        """The files' names, for code that runs beside them; the paths if those were set."""
        names = [path.name if path.parent == Path(self._folder.name) else str(path) for path in self._paths]
        return repr(names if len(names) > 1 else names[0])

    def _keep(self) -> None:
        paths = []
        for name, content in uploads(self._upload):
            paths.append(Path(self._folder.name) / Path(name).name)
            paths[-1].write_bytes(content)
        self.value = paths
        for callback in self._on_upload:
            callback()

    def watch_upload(self, callback: Callable[[], None]) -> None:
        """Call a function when a file has been uploaded, after the watchers of the value."""
        self._on_upload.append(callback)


class ColumnChoice(Control):
    """A menu for the column of each role, by file; its value has the roles with another column than found."""

    def __init__(self, files: Mapping[str, FileInput], form_field: form_fields.FormField) -> None:
        self._files = files
        self._found: dict[str, list[str]] = {}
        self._is_finding = False
        #: The first rows of each file, and what it is.
        self.previews: dict[str, Any] = {name: elements.html() for name in _ROLES}
        self._menus: dict[str, Any] = {}
        self._groups, self._problem = {}, elements.html()
        for name, roles in _ROLES.items():
            menus = {
                role: ipywidgets.Dropdown(options=[_FOUND], description=label)
                for role, label in roles.items()
            }
            self._menus |= menus
            heading = elements.html(f"<h3>Columns of {files[name].form_field.label.lower()}</h3>")
            self._groups[name] = elements.box("columns-found", heading, *menus.values())
            self._groups[name].layout.display = "none"
        #: Takes what is found in a file of conversions, or None without one.
        self.on_conversions: Callable[[Found | None], None] = lambda _: None
        super().__init__(form_field, *self._groups.values(), self._problem, watched=self._menus.values())
        self.widget.layout.display = "none"
        for name in _ROLES:
            files[name].watch(partial(self._find, name))

    @property
    def value(self) -> dict[str, Named] | None:
        """The chosen columns, by role."""
        chosen = {role: menu.value for role, menu in self._menus.items() if self._is_chosen(role)}
        if chosen.get("refund") == _NONE:
            chosen["refund"] = []
        # A column that is named for visits counts for conversions too, unless they have one of their own.
        for role in ("user", "date"):
            found = self._found.get(f"conversion_{role}", [])
            if role in chosen and len(found) == 1:
                chosen.setdefault(f"conversion_{role}", found[0])
        return chosen or None

    @value.setter
    def value(self, columns: Mapping[str, Named] | None) -> None:
        for role in columns or {}:
            errors.check_choice("columns", role, self._menus)
        for role, menu in self._menus.items():
            column = (columns or {}).get(role)
            column = _NONE if column == [] else column
            if column is not None and column not in menu.options:
                menu.options = [*menu.options, column]
            menu.value = column or menu.options[0]

    def changed(self) -> None:
        """Notify the watchers of a choice; those of the file hear of columns that are found."""
        if not self._is_finding:
            super().changed()

    def explain(self, message: str) -> str:
        """Return an error message with the names that the menus and the files have on the page."""
        for name, file in self._files.items():
            message = re.sub(rf"^{name}(?=:)", file.form_field.label, message)
        labels = {role: menu.description for role, menu in self._menus.items()}
        for role, label in labels.items():
            message = message.replace(f"looks like the {role}", f"looks like {label!r}")
        words = form_fields.words_of("own_files")
        labels |= {name: words[name][0] for name in ("order_sources", *_DOUBTS)}
        for name, options in _DOUBTS.items():
            for label, value in options:
                message = message.replace(f"with {name}={value!r}", f"with the {label}")
        for name in _DOUBTS:
            either = rf"pass reading=Reading\({name}=[^)]*\) or reading=Reading\({name}=[^)]*\)"
            message = re.sub(either, f"choose at {labels[name]!r}", message)
        message = re.sub(
            r"(?:choose other columns|name it|say which|name the \w+) with "
            r"reading=Reading\(columns=\{([^}]*)\}\)",
            lambda match: (
                "choose at "
                + " and ".join(repr(labels.get(role, role)) for role in re.findall(r"'(\w+)': ", match[1]))
            ),
            message,
        )
        # What is for Python has no place on the page.
        message = re.sub(r"; at\.\w+ [^.;]*| in files, \S+ in frames", "", message)
        message = re.sub(r"\b(?:touchpoints|conversions)\[('[^']*')\]", r"\1", message)
        message = message.replace("the attribute rejected lists", "'How the files were read' lists")
        return re.sub(
            r"reading=Reading\((\w+)=\w+\)",
            lambda match: f"{labels[match[1]]!r}" if match[1] in labels else f"{match[1]} under More options",
            message,
        )

    def show(self, reading: Reading, *, is_whole: bool) -> None:
        """Show the columns that the files were read with; a reading with questions lacks some of them."""
        for name, roles in _ROLES.items():
            columns = next(self._menus[role].options[1:] for role in roles)
            found = {role: names_of(reading.columns.get(role, ())) for role in roles}
            kept = {role for role in roles if self._is_chosen(role) or not (found[role] or is_whole)}
            self._offer(name, {role: found[role] for role in roles if role not in kept}, columns)

    def _is_chosen(self, role: str) -> bool:
        return not self._menus[role].value.endswith(_FOUND)

    def _offer(self, name: File, found: Mapping[str, list[str]], columns: Sequence[str]) -> None:
        """Offer the columns of a file for the roles that are given, and say which of them are found."""
        self._is_finding = True
        for role, of_role in found.items():
            self._found[role] = of_role
            none = "by its values" if role == "spend_node" else "none"
            start = f"{' and '.join(of_role or [none])} {_FOUND}"
            self._menus[role].options = [start, *[_NONE][: role == "refund"], *columns]
            self._menus[role].value = start
        self._is_finding = False
        self._groups[name].layout.display = "" if columns else "none"
        self.widget.layout.display = "" if any(self._found.values()) or self._problem.value else "none"

    def _find(self, name: File) -> None:
        """Show the columns found in a file, its first rows and what it is."""
        file, roles = self._files[name], list(_ROLES[name])
        self._problem.value = self.previews[name].value = ""
        opened, sheets = None, Reading()
        found: dict[str, list[str]] = {}
        if file.value is not None:
            shown = file.value[0] if isinstance(file.value, list) else file.value
            try:
                searched = [role.removeprefix("conversion_") for role in roles]
                sheets = self._sheets()
                opened = find_columns(shown, name, searched, sheets)
            except Exception as error:  # noqa: BLE001  (shown in the form)
                self._problem.value = elements.alert(self.explain(elements.error_message(error)))
            else:
                found = {
                    role: opened.by_role.get(each, []) for role, each in zip(roles, searched, strict=True)
                }
                label = f"{file.form_field.label}, first rows of {shown.name}"
                label = f"{label} ({opened.note})" if opened.note else label
                self.previews[name].value = elements.preview(opened.first, label)
        self._offer(name, {role: found.get(role, []) for role in roles}, opened.columns if opened else ())
        if name == "conversions":
            self.on_conversions(opened)
            if sheets.sheet is not None:
                self._find("touchpoints")

    def _sheets(self) -> Reading:
        """Return the sheets of a workbook that was chosen for both tables."""
        reading, files = Reading(), self._files
        with suppress(errors.AttribError), elements.heard():
            reading = with_sheets(files["touchpoints"].value, files["conversions"].value, reading)
        return reading


class StatusChoice(Control):
    """A checkbox for each status of conversions; its value has those that were changed."""

    def __init__(self, form_field: form_fields.FormField) -> None:
        self._boxes: dict[str, Any] = {}
        self._counts: dict[str, bool] = {}
        self._chosen: dict[str, bool] = {}
        heading = elements.html(f'<div class="widget-label">{form_field.label}</div>')
        self._list = elements.box("statuses")
        super().__init__(form_field, elements.box("models", heading, self._list), watched=())
        self.widget.layout.display = "none"

    @property
    def value(self) -> dict[str, bool] | None:
        """Whether statuses count, where that differs from what their words say."""
        return self._chosen or None

    @value.setter
    def value(self, statuses: Mapping[str, bool] | None) -> None:
        self._chosen = dict(statuses or {})
        for status, box in self._boxes.items():
            box.value = self._chosen.get(status, self._counts[status])

    def offer(self, statuses: Mapping[str, tuple[int, bool]]) -> None:
        """Show the statuses of a file with the number of their rows."""
        self._counts = {status: keep for status, (_, keep) in statuses.items()}
        self._boxes = {
            status: ipywidgets.Checkbox(
                self._chosen.get(status, keep),
                description=f"{status} ({counted(rows, 'rows')})",
                indent=False,
            )
            for status, (rows, keep) in statuses.items()
        }
        for status, box in self._boxes.items():
            box.observe(partial(self._choose, status), names="value")
        self._list.children = tuple(self._boxes.values())
        self.widget.layout.display = "" if statuses else "none"

    def _choose(self, status: str, change: Mapping[str, Any]) -> None:
        self._chosen.pop(status, None)
        if change["new"] != self._counts[status]:
            self._chosen[status] = change["new"]
        self.changed()


def _show_own(credits: Any, form: Form) -> Sequence[Any]:
    """Show what was read from the files, and the credits."""
    counts = form.results["journeys"].counts
    read = counted(counts.get("interactions", 0), "visits"), counted(counts.get("events", 0), "conversions")
    choice: Any = form.control("columns")
    parts = [reading_of(form), *choice.previews.values()]
    rejected = form.results["journeys"].rejected
    if len(rejected):
        parts.insert(
            1, elements.html(elements.preview(rejected.head(_SHOWN), f"Rejected rows: {len(rejected):,}"))
        )
    rows = elements.disclosure("How the files were read", *parts)
    return [elements.notes([f"Read {' and '.join(read)}."]), *show_credits(credits, form), rows]
