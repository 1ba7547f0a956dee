"""The first page of a project: what brought the conversions of a period, against the period before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from html import escape
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from attrib_ds import errors, instants
from attrib_ds.api import interactions
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.filters import interaction, node
from attrib_ds.forms import controls, elements, form
from attrib_ds.plots import report
from attrib_ds.plots.overview import MODELS, Overview, day_in_words, in_words, listed, period_of
from attrib_ds.project import Project, takes_project

#: Lengths of periods by their names, in days.
_PERIODS: Final = {"7 days": 7, "4 weeks": 28, "12 weeks": 84, "26 weeks": 182, "52 weeks": 364}
_OWN: Final = "From … to …"
_ALL: Final = "Everyone"
#: Properties of the last visit of a person by their names; a channel is that of any visit on the way.
_OF_VISITS: Final = {"Country": "geo.countryCode", "Device": "userAgent.device.type"}
_CHANNEL: Final = "Channel"
_MODELS: Final = {words["label"]: name for name, words in MODELS.items() if name != "participation"}
#: The form that a part opens, by the beginning of the part's heading, and what the form then has.
_FORMS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Conversions per", {"statistic": "event-count"}),
    ("Who opens", {"models": ["first_touch", "last_touch"]}),
    ("What the spend", {"level": "campaign"}),
    ("", {}),
)


class OverviewPage(elements.Displayed):
    """What brought the conversions of a period, from :func:`attrib_ds.forms.overview`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    results : dict of str to object
        ``paths`` and ``credits`` of the period; empty before the first run.
    error : Exception or None
        Error of the last run.
    """

    instead = "call <code>page.run()</code>, which returns the credits, and read <code>page.code</code>"

    def __init__(self, project: Project) -> None:
        self.results: dict[str, Any] = {}
        self.error: Exception | None = None
        self._project = project
        self._result_callbacks: list[Callable[[Any], None]] = []
        self._open_form: Callable[[dict[str, Any], str], None] | None = None
        self._people: dict[str, pd.DataFrame] = {}
        self._is_setting = False
        self._events = {name: reference for reference, name in controls.event_types(project).items()}
        statistics = controls.statistics(project)
        self._statistic = next((key for key in ("turnover", "revenue") if key in statistics), "event-count")
        self._level = "channel" if controls.has_channels(project) else None
        first = next((name for name, key in self._events.items() if key == "order"), None)
        self._inputs = {
            "conversions": _menu("Conversions", list(self._events), first),
            "period": _menu("Period", [*_PERIODS, _OWN], "12 weeks"),
            "since": ipywidgets.DatePicker(description="From"),
            "until": ipywidgets.DatePicker(description="To"),
            "only": _menu("Only", [_ALL, *_OF_VISITS, *([_CHANNEL] if self._level else [])], _ALL),
            "value": _menu("Which", [""], ""),
            "model": _menu("Model", list(_MODELS), "Last touch"),
            "beside": _menu("Beside it", list(_MODELS), "Linear"),
        }
        self._inputs["funnel"] = ipywidgets.Text(
            description="Funnel", placeholder="/ > /basket > order", continuous_update=False
        )
        self._note, self._code = elements.html(), elements.html()
        self._answers = Answers(self._open_part)
        for name, widget in self._inputs.items():
            widget.observe(lambda _, name=name: self._changed(name), names="value")
        fields = [elements.box("field", widget) for widget in self._inputs.values()]
        self._fields = dict(zip(self._inputs, fields, strict=True))
        self._show_fields()
        self.widget = elements.page(
            elements.row("asked", *fields), self._note, self._answers, elements.disclosure("Code", self._code)
        )

    @property
    def state(self) -> dict[str, str]:
        """What is asked, in the words of the page; setting it changes what is given and runs nothing."""
        shown = {name: widget.value for name, widget in self._inputs.items() if self._is_shown(name)}
        return {name: str(value) for name, value in shown.items() if value}

    @state.setter
    def state(self, state: Mapping[str, str]) -> None:
        self._is_setting = True
        try:
            for name, text in state.items():
                if name not in self._inputs:
                    raise errors.InvalidRequest.choice("state", name, self._inputs)
                widget = self._inputs[name]
                if name in ("since", "until", "funnel"):
                    widget.value = text if name == "funnel" else date.fromisoformat(text)
                    continue
                if name == "value":
                    self._list_values()
                if text not in widget.options:
                    raise errors.InvalidRequest.choice(name, text, widget.options)
                widget.value = text
        finally:
            self._is_setting = False
        self._show_fields()

    @property
    def code(self) -> str:
        """Python code of the calls of the last run, or of the first."""
        if not self.results:
            self.run()
        lines = [form.write_opening(self._project)]
        arguments = {name: repr(value) for name, value in self.results["arguments"].items()}
        lines.append(form.write_call(conversion_paths, "project", arguments, result="paths"))
        lines += self.results["filter"]
        models = {"models": repr(self._models())}
        lines.append(form.write_call(attribute, "paths", models, result="credits"))
        lines += ["at.report(credits, 'report.html', paths=paths)", *self.results["pages"]]
        return form.write_program(lines)

    def start(self) -> None:
        """Run, unless it has run before."""
        if not self.results and self.error is None:
            self.refresh()

    def on_result(self, callback: Callable[[Any], None]) -> None:
        """Call a function with the result of each run."""
        self._result_callbacks.append(callback)

    def on_open(self, callback: Callable[[dict[str, Any], str], None]) -> None:
        """Call a function when a part is opened, with the arguments of its form and what they leave out."""
        self._open_form = callback
        self._answers.can_open = True

    def run(self) -> pd.DataFrame:
        """Read the period and the one before it, show them and return the credits of the period.

        Raises
        ------
        Exception
            Any exception of the calls, after the page has shown it.
        """
        self.error = None
        self._answers.is_stale = True
        try:
            with elements.heard() as messages:
                shown, notes = self._read()
        except Exception as error:
            self.error = error
            elements.fill(self._note, elements.alert(elements.error_message(error)))
            raise
        elements.fill(
            self._note, "".join(f'<p class="attrib-help">{escape(note)}</p>' for note in [*notes, *messages])
        )
        self._answers.html = report.first_page(shown)
        self._answers.is_stale = False
        elements.fill(self._code, elements.code_block(self.code))
        credits: pd.DataFrame = self.results["credits"]
        for callback in self._result_callbacks:
            callback(credits)
        return credits

    def __repr__(self) -> str:
        return f"<Overview of {self._project.project_id}; .state, .code, .run()>"

    def _read(self) -> tuple[Overview, list[str]]:
        if not self._events:
            raise errors.NotFound(
                "there are no conversions yet; send those of a shop or a CRM on the page Send conversions"
            )
        asked: dict[str, Any] = {
            "event_type": self._events[self._inputs["conversions"].value],
            "statistic": self._statistic,
            "level": self._level,
        }
        asked = {name: value for name, value in asked.items() if value not in (None, "event-count")}
        whole = conversion_paths(self._project, **asked)
        first, since, until = self._bounds(whole)
        days = (until - since).days + 1
        arguments = {**asked, "since": str(since), "until": str(until)}
        paths, notes, code = self._filtered(conversion_paths(self._project, **arguments))
        # A period before the first conversions is not one without any.
        before = since - timedelta(days=days)
        earlier = {**arguments, "since": str(before if before >= first else since)}
        both, _, _ = self._filtered(conversion_paths(self._project, **earlier))
        models = self._models()
        credits = attribute(paths, models)
        self.results = {"arguments": arguments, "filter": code, "paths": paths, "credits": credits}
        shown = Overview.of(credits, paths, lead=models[0])
        period = period_of(both, models[0], shown.currency or None, days)
        shown = self._with_pages(shown, since, until, notes)
        notes.insert(0, f"{day_in_words(since)} to {day_in_words(until)}, {paths.timezone}.")
        # Nobody need have chosen the model that is shown first.
        shown = replace(shown, reason=f"Models: {listed([in_words(model) for model in models])}.")
        return replace(shown, period=period), notes

    def _with_pages(self, shown: Overview, since: date, until: date, notes: list[str]) -> Overview:
        """Add the pages of the period's visits, and the funnel that is given; nothing without hits."""
        asked: dict[str, Any] = {"since": str(since), "until": str(until)}
        only, chosen = self._inputs["only"].value, self._inputs["value"].value
        if only == _CHANNEL and chosen:
            asked["nodes"] = node(_CHANNEL.lower()) == chosen
        elif only != _ALL and chosen:
            asked["where"] = interaction(_OF_VISITS[only]) == chosen
        arguments = {name: repr(value) for name, value in asked.items()}
        lines = self.results["pages"] = []

        def read(result: str, function: Callable[..., pd.DataFrame], **more: Any) -> pd.DataFrame:
            extra = {name: repr(value) for name, value in more.items()}
            found = function(self._project, **asked, **more)
            lines.append(form.write_call(function, "project", arguments | extra, result=result))
            return found

        try:
            pages = read("pages", interactions.page_insights, sort="-views", limit=10)
            entries = read(
                "entries", interactions.page_insights, group_by="channel", sort="-entries", limit=10
            )
        except (errors.InvalidRequest, errors.Forbidden, errors.NotFound, errors.NotSupported):
            lines.clear()
            return shown
        steps, funnel = [step.strip() for step in self._inputs["funnel"].value.split(">")], pd.DataFrame()
        if steps != [""]:
            try:
                funnel = read("steps", interactions.funnel, steps=steps)
            except errors.AttribError as error:
                notes.append(f"Funnel: {error.message}")
        return replace(shown, pages=pages, entries=entries[entries["entries"] > 0], funnel=funnel)

    def _models(self) -> list[str]:
        return list(dict.fromkeys(_MODELS[self._inputs[name].value] for name in ("model", "beside")))

    def _bounds(self, paths: Paths) -> tuple[date, date, date]:
        """Return the first day with conversions, and the first and the last day of the period.

        It ends with the last day with conversions that is over, unless days are given.
        """
        dates: Any = paths.conversions.event_date  # type: ignore[union-attr]
        zone = ZoneInfo(paths.timezone)
        yesterday = instants.now().astimezone(zone).date() - timedelta(days=1)
        first, last = (
            yesterday if instant is None else pd.Timestamp(instant, tz="UTC").astimezone(zone).date()
            for instant in (bound.to_pyarrow().as_py() for bound in (dates.min(), dates.max()))
        )
        since, until = self._inputs["since"].value, self._inputs["until"].value
        if self._inputs["period"].value == _OWN and since and until:
            if since > until:
                raise errors.InvalidRequest(f"From: {since} is after {until}", field="since")
            return first, since, until
        last = min(last, yesterday)
        days = _PERIODS.get(self._inputs["period"].value, 84)
        return first, last - timedelta(days=days - 1), last

    def _filtered(self, paths: Paths) -> tuple[Paths, list[str], list[str]]:
        """Keep the conversions that the filter names; return what that means in words and as code."""
        only, chosen = self._inputs["only"].value, self._inputs["value"].value
        if only == _ALL or not chosen:
            return paths, [], []
        if only == _CHANNEL:
            rows = paths.to_pandas()
            groups = rows.loc[rows["node_name"] == chosen, ["event_id", "node_name"]].drop_duplicates()
            code = [
                "rows = paths.to_pandas()",
                f"groups = rows.loc[rows['node_name'] == {chosen!r}, ['event_id', 'node_name']]",
                "groups = groups.drop_duplicates()",
            ]
            meaning = f"Only conversions with a visit of {chosen} on the way"
        else:
            field = _OF_VISITS[only]
            groups = self._last_visits(field)
            code = [
                f"visits = at.search_interactions(project, columns=['userId', {field!r}], sort='startDate')",
                "groups = visits.dropna().drop_duplicates('userId', keep='last').drop(columns='_id')",
                "groups = groups.rename(columns={'userId': 'user_id'})",
            ]
            meaning = f"Only people whose last visit has {only.lower()} {chosen}"
        parts = paths.split(groups)
        if chosen not in parts:
            raise errors.NotFound(f"{meaning}: no conversions in this period")
        conversions = paths.conversions.count().to_pyarrow().as_py()  # type: ignore[union-attr]
        kept = parts[chosen].conversions.count().to_pyarrow().as_py()  # type: ignore[union-attr]
        note = f"{meaning}: {kept:,} of {conversions:,} conversions."
        if paths.spend is not None:
            note += " The spend is not known by group, so returns are not shown."
        return parts[chosen], [note], [*code, f"paths = paths.split(groups)[{chosen!r}]"]

    def _last_visits(self, field: str) -> pd.DataFrame:
        if field not in self._people:
            columns = ["userId", field]
            visits = interactions.search_interactions(
                self._project, columns=columns, sort="startDate"
            ).dropna()
            visits = visits.drop_duplicates("userId", keep="last").drop(columns="_id")
            self._people[field] = visits.rename(columns={"userId": "user_id"})
        return self._people[field]

    def _list_values(self) -> None:
        """Offer the values of the property that the filter names, most frequent first."""
        only, menu = self._inputs["only"].value, self._inputs["value"]
        if only == _ALL:
            menu.options = [""]
        elif only == _CHANNEL:
            menu.options = controls.values(self._project, "node", "channel") or [""]
        else:
            menu.options = controls.values(self._project, "interaction", _OF_VISITS[only]) or [""]

    def _changed(self, name: str) -> None:
        if self._is_setting:
            return
        if name == "only":
            self._is_setting = True
            try:
                self._list_values()
            finally:
                self._is_setting = False
        self._show_fields()
        days_are_missing = self._inputs["period"].value == _OWN and not all(
            self._inputs[end].value for end in ("since", "until")
        )
        if not days_are_missing:
            self.refresh()

    def refresh(self) -> None:
        """Run, and show what fails instead of raising it."""
        with suppress(Exception):  # run() has shown it
            self.run()

    def _is_shown(self, name: str) -> bool:
        if name in ("since", "until"):
            return bool(self._inputs["period"].value == _OWN)
        if name == "value":
            return bool(self._inputs["only"].value != _ALL)
        return name != "conversions" or len(self._events) > 1

    def _show_fields(self) -> None:
        for name, widget in self._fields.items():
            widget.layout.display = "" if self._is_shown(name) else "none"

    def _open_part(self, heading: str) -> None:
        if self._open_form is None or not self.results:
            return
        extra = next(value for start, value in _FORMS if heading.startswith(start))
        value = {"models": self._models(), **self.results["arguments"], **extra}
        only, chosen = self._inputs["only"].value, self._inputs["value"].value
        left_out = "" if only == _ALL else f"These are the conversions of everyone, not of {chosen} alone."
        self._open_form(value, left_out)


class Answers(anywidget.AnyWidget):  # type: ignore[misc]
    """The first page of a report, with a button beside each heading.

    Parameters
    ----------
    on_open : callable
        Takes the heading of the part whose button was pressed.
    """

    _esm = (Path(__file__).parent / "answers.js").read_text(encoding="utf-8")
    _css = report.STYLE
    html = traitlets.Unicode().tag(sync=True)
    is_stale = traitlets.Bool(default_value=True).tag(sync=True)
    without_form = traitlets.List([report.PAGES, report.ENTRIES, report.FUNNEL]).tag(sync=True)
    can_open = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, on_open: Callable[[str], None]) -> None:
        super().__init__()
        self.on_msg(lambda _, message, __: on_open(str(message.get("open", ""))))


def _menu(label: str, options: list[str], chosen: str | None) -> Any:
    return ipywidgets.Dropdown(
        options=options, value=chosen if chosen in options else next(iter(options), None), description=label
    )


@takes_project
def overview(project: Project) -> OverviewPage:
    """Make a page that shows what led to the conversions of a period.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    OverviewPage
        Displays itself in a notebook, with numbers. ``.state`` is what is asked, ``.run()`` returns the
        credits, ``.code`` is the code of the calls.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> page = forms.overview(sample_project())
    >>> page.state = {"period": "4 weeks", "model": "Linear"}
    >>> round(float(page.run()["share"].sum()), 6)
    1.0
    """
    return OverviewPage(project)
