"""The page that shows today's visits, sources and conversions as they arrive."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import anywidget
import pandas as pd
import traitlets

from attrib_ds import errors, instants
from attrib_ds.api import admin, events, interactions
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.forms import day_view, elements, form
from attrib_ds.forms.day_view import Calls, DayNumbers, Labels, day_calls, read_day, statistics
from attrib_ds.project import Project, takes_project

_SECONDS: Final = 5.0
_SHORTEST: Final = 1.0
#: Parts of the page, from top to bottom.
_PARTS: Final = ("figures", "nothing", "hours", "sources", "conversions", "newest")


class Moment(NamedTuple):
    """What the page shows at one moment.

    Parameters
    ----------
    at : datetime
        When it was read, in the time zone of the page.
    numbers : DayNumbers
        Of the day so far.
    labels : mapping of str to tuple of str
        Labels of the nodes that are shown.
    currency : str
        The project's currency; empty if the key may not read it.
    last_visit : datetime, optional
        Start of the last visit, if there is none today.
    """

    at: datetime
    numbers: DayNumbers
    labels: Labels
    currency: str
    last_visit: datetime | None


class Live(elements.Displayed):
    """Today's visits, sources and conversions, from :func:`attrib_ds.forms.live`.

    While a visible page displays it, it reads them again every few seconds. Nothing is read any more when
    the page is closed or hidden, since the page keeps the time.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    results : dict of str to DataFrame
        What was read last, by the variable of the code; empty before the first time.
    error : Exception or None
        Error of the last read. The page shows it, beside the numbers from before.
    """

    instead = "call <code>page.run()</code>, which returns the numbers, and read <code>page.code</code>"

    def __init__(
        self,
        project: Project,
        *,
        timezone: str | None = None,
        seconds: float = _SECONDS,
        now: Callable[[], datetime] = instants.now,
    ) -> None:
        self.results: dict[str, pd.DataFrame] = {}
        self.error: Exception | None = None
        self._project, self._timezone, self._now = project, timezone, now
        self._labels: dict[str, tuple[str, ...]] = {}
        self._settings: tuple[ZoneInfo, str] | None = None
        self._last_visit: tuple[date, datetime | None] | None = None
        self._calls: Calls | None = None
        self._seen: set[str] | None = None
        self._heading, self._problem = elements.html("<h2>Today</h2>"), elements.html()
        self._ticker = Ticker(seconds, Polling(self._read, self._show, seconds=seconds).tick)
        self._code = elements.html()
        self._parts = {name: elements.html() for name in _PARTS}
        for name, part in self._parts.items():
            part.add_class(f"attrib-live-{name}")
            elements.fill(part, "")
        elements.fill(self._problem, "")
        self.widget = elements.page(
            elements.row("bar", self._heading, self._ticker),
            self._problem,
            elements.box("live", *self._parts.values()),
            elements.disclosure("Code", self._code),
        )

    @property
    def code(self) -> str:
        """Python code of the calls for today's numbers."""
        if self._calls is None:
            zone, _ = self._zone_and_currency()
            keys = statistics(events.list_event_types(self._project))
            return self._write(day_calls(self._now().astimezone(zone).date(), zone, keys))
        return self._write(self._calls)

    def run(self) -> dict[str, pd.DataFrame]:
        """Read today's numbers once, show them and return them.

        Returns
        -------
        dict of str to DataFrame
            ``visits`` by hour and node (:func:`attrib_ds.interaction_insights`), ``conversions`` by event
            type (:func:`attrib_ds.event_insights`), and the ``newest`` visits
            (:func:`attrib_ds.search_interactions`).

        Raises
        ------
        Exception
            Any exception of the calls, after the page has shown it.
        """
        try:
            outcome: Moment | Exception = self._read()
        except Exception as error:  # noqa: BLE001  (shown, and raised below)
            outcome = error
        self._show(outcome)
        if self.error is not None:
            raise self.error
        return self.results

    def __repr__(self) -> str:
        return f"<Live page of {self._project.project_id}; .code, .run()>"

    def _read(self) -> Moment:
        zone, currency = self._zone_and_currency()
        at = self._now().astimezone(zone)
        numbers = read_day(self._project, at.date(), zone)
        labels = self._labels_of(set(numbers.nodes(day_view.MOST_SOURCES)))
        last_visit = None if len(numbers.visits) else self._find_last_visit(at.date(), zone)
        return Moment(at, numbers, labels, currency, last_visit)

    def _labels_of(self, ids: set[str | None]) -> Labels:
        """Return the labels of nodes by id; the tree is read again only when a new node appears."""
        missing = {id for id in ids if id is not None} - self._labels.keys()
        if missing:
            nodes = interactions.list_nodes(self._project)
            names = dict(zip(nodes["_id"], nodes["name"].fillna(nodes["_id"]), strict=True))
            self._labels = {id: (id,) for id in missing} | self._labels
            for id, path in zip(nodes["_id"], nodes["path"], strict=True):
                self._labels[id] = (*(names.get(ancestor, ancestor) for ancestor in path), names[id])
        return {id: ("unknown",) if id is None else self._labels[id] for id in ids}

    def _zone_and_currency(self) -> tuple[ZoneInfo, str]:
        """Return the time zone of the page, and the project's currency, or nothing if it is unknown."""
        if self._settings is None:
            try:
                settings = admin.get_settings(self._project)
                zone, currency = settings["timezone"], settings["currency"]
            except (errors.NotFound, errors.Forbidden, errors.NotSupported):
                # Not every key may read them, nor has every service them.
                zone = currency = None
            zone = self._timezone or (zone if isinstance(zone, str) else "UTC")
            self._settings = ZoneInfo(zone), currency if isinstance(currency, str) else ""
        return self._settings

    def _find_last_visit(self, day: date, zone: ZoneInfo) -> datetime | None:
        """Return the start of the last visit; searched once a day, since it may be long ago."""
        if self._last_visit is None or self._last_visit[0] != day:
            found = interactions.search_interactions(self._project, columns=["startDate"], limit=1)[
                "startDate"
            ]
            self._last_visit = day, found[0].tz_convert(zone).to_pydatetime() if len(found) else None
        return self._last_visit[1]

    def _show(self, outcome: Moment | Exception) -> None:
        """Show what was read, or why nothing could be read or shown."""
        self.error = outcome if isinstance(outcome, Exception) else None
        if not isinstance(outcome, Exception):
            try:
                self._show_moment(outcome)
            except Exception as error:  # noqa: BLE001  (shown; the kernel would only log it)
                self.error = error
        elements.fill(self._problem, "" if self.error is None else self._alert(self.error))

    def _alert(self, error: Exception) -> str:
        updated = self._ticker.updated
        before = f" The numbers below are from {updated}." if updated else ""
        return elements.alert(f"{elements.error_message(error)}\nThe page tries again by itself.{before}")

    def _show_moment(self, moment: Moment) -> None:
        at, numbers, labels, currency, last_visit = moment
        self.results, self._calls = numbers.results, numbers.calls
        newest = numbers.results["newest"]
        elements.fill(self._code, elements.code_block(self._write(numbers.calls)))
        elements.fill(self._heading, f"<h2>Today</h2><p>{at:%A} {at.day} {at:%B %Y}, {at.tzinfo}</p>")
        contents = dict.fromkeys(_PARTS, "")
        contents["figures"] = day_view.figures(numbers)
        if len(numbers.visits) or numbers.conversion_count():
            contents["conversions"] = day_view.conversions(numbers, currency)
        if len(numbers.visits):
            contents["hours"] = day_view.hours(numbers.by_hour(), current=at.hour)
            contents["sources"] = day_view.sources(numbers.by_node(), labels)
            contents["newest"] = day_view.newest(newest, labels, zone=at.tzinfo, seen=self._seen)
        else:
            contents["nothing"] = day_view.nothing_yet(self._project, last_visit)
        for name, content in contents.items():
            elements.fill(self._parts[name], content)
        self._seen = set(newest["_id"])
        # Last: the page says from when all of it is.
        self._ticker.updated = f"{at:%H:%M:%S}"

    def _write(self, calls: Calls) -> str:
        lines = [form.write_opening(self._project)]
        for name, (function, arguments) in calls.items():
            sources = {argument: repr(value) for argument, value in arguments.items()}
            lines.append(form.write_call(function, "project", sources, result=name))
        return form.write_program(lines)


@takes_project
def live(project: Project, *, timezone: str | None = None, seconds: float = _SECONDS) -> Live:
    """Make a page that shows today's visits, sources and conversions as they arrive.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`: embedded, or of the server that collects the visits.
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the time zone of the day. By default that of the project, or
        UTC if the key may not read the project's settings.
    seconds : float, default 5
        Time between two reads, at least 1. If reading takes long or fails, they are further apart.

    Returns
    -------
    Live
        Displays itself in a notebook. ``.run()`` reads the numbers once and returns them, ``.code`` is the
        code of the calls.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> hits = pd.DataFrame({"trackerId": ["t"], "date": [pd.Timestamp.now("UTC")],
    ...                      "pageUrl": ["https://shop.example/?gclid=1"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.load(shop, hits=hits)
    ...     at.forms.live(shop).run()["visits"]["group"].tolist()
    ['google/cpc']
    """
    build(OPERATIONS["interaction_insights"], project_id=project.project_id, timezone=timezone)
    if not seconds >= _SHORTEST:
        raise errors.InvalidRequest(
            f"seconds: {seconds!r} is not allowed; expected a number of at least {_SHORTEST:g}"
        )
    return Live(project, timezone=timezone, seconds=float(seconds))


#: The time between two reads is at least ten times the time that a read took.
_LEAST_RATIO: Final = 10
#: Longest wait after failures, in seconds, unless a service asks for more.
_LONGEST_WAIT: Final = 60.0
#: Longest wait for a read when the process ends, in seconds.
_SECONDS_TO_END: Final = 5.0


@dataclass(eq=False, repr=False)
class Polling:
    """Reads at each tick of a page, unless it is too early.

    Parameters
    ----------
    read : callable
        Takes no arguments; called in a thread of its own, so that a slow service does not block the kernel.
    show : callable
        Takes the result or the exception, in the kernel's thread, which may change widgets.
    seconds : float
        Time between two ticks. A read that takes long is repeated less often, and so is one that fails.
    clock : callable
        Returns seconds that only increase.
    """

    read: Callable[[], Any]
    show: Callable[[Any], None]
    _: KW_ONLY
    seconds: float
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._due = -math.inf

    def tick(self) -> None:
        """Read now, unless the last read is still under way or was too short a time ago."""
        if self._thread is not None or self.clock() < self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel, so there is nothing to block
            self.show(self._attempt())
            return
        # What the kernel sends names the message that it answers: the page's tick.
        context = contextvars.copy_context()

        def work() -> None:
            outcome = self._attempt()
            with suppress(RuntimeError):  # the kernel has ended meanwhile
                loop.call_soon_threadsafe(self._finish, outcome, context=context)

        # A daemon, since a read of a service that is away takes long. But a thread that comes back from
        # DuckDB to an interpreter that has gone aborts the process.
        self._thread = threading.Thread(target=work, name="attrib-ds live page", daemon=True)
        atexit.register(self._thread.join, _SECONDS_TO_END)
        self._thread.start()

    def _finish(self, outcome: Any) -> None:
        if self._thread is not None:
            atexit.unregister(self._thread.join)
        self._thread = None
        self.show(outcome)

    def _attempt(self) -> Any:
        started = self.clock()
        try:
            outcome = self.read()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            outcome = error
        took = self.clock() - started
        # Ticks come at about the same times, so the wait ends half a period early.
        self._due = started + self._seconds_to_wait(outcome, took) - self.seconds / 2
        return outcome

    def _seconds_to_wait(self, outcome: Any, took: float) -> float:
        if not isinstance(outcome, Exception):
            self._failures = 0
            return max(self.seconds, _LEAST_RATIO * took)
        self._failures = min(self._failures + 1, 10)
        backoff = min(self.seconds * 2.0**self._failures, max(_LONGEST_WAIT, self.seconds))
        return took + max(backoff, getattr(outcome, "retry_after", None) or 0.0)


class Ticker(anywidget.AnyWidget):  # type: ignore[misc]
    """Text that says when the page was updated, and the page's timer.

    The browser keeps the time, so the calls end with the page.

    Parameters
    ----------
    seconds : float
        Time between two calls.
    on_tick : callable
        Takes no arguments.

    Attributes
    ----------
    updated : str
        Time of the last update, to show; empty before the first.
    """

    _esm = (Path(__file__).parent / "ticker.js").read_text(encoding="utf-8")
    seconds = traitlets.Float().tag(sync=True)
    updated = traitlets.Unicode().tag(sync=True)

    def __init__(self, seconds: float, on_tick: Callable[[], None]) -> None:
        super().__init__(seconds=seconds)
        self.on_msg(lambda *_: on_tick())
