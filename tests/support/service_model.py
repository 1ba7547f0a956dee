"""What a project should contain, in plain Python: the model of ``test_state_machine.py``.

Nothing here is taken from the service but ids: what a rule of the specification says is computed anew from lists.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from support.service_records import utc

#: Instants of records: two of the past, and "now" for those that say nothing.
EARLY = utc(2025, 1, 10, 12)
LATE = utc(2025, 1, 20, 12)
WINDOW = timedelta(days=30)

Identity = tuple[str, str]


@dataclass
class Event:
    """An accepted event."""

    id: str
    nonce: str
    #: What was sent, but the nonce; None once it is erased.
    content: dict | None
    #: Of the event, or of its reception.
    date: datetime
    is_old: bool
    #: Type of the first error while it is in the trash.
    error: str | None = None
    user: str | None = None
    metrics: dict[str, object] = field(default_factory=dict)
    #: Declared when it was processed.
    keys: frozenset[str] = frozenset()

    type: str = ""


@dataclass
class Visit:
    """An interaction."""

    id: str
    user: str
    date: datetime
    node: str
    is_bot: bool = False
    external_id: str | None = None
    mail: str | None = None
    is_old: bool = True


@dataclass
class Merged:
    """A user that was merged into another, and what belonged to it."""

    into: str
    events: set[str]
    visits: set[str]
    identities: set[Identity]
    merged: set[str]


@dataclass
class Campaign:
    id: str
    name: str
    explicit: bool
    active: bool = True
    #: Amount and period by id of the outlay.
    outlays: dict[str, tuple[float, datetime, datetime]] = field(default_factory=dict)


#: Keys of the user's data that identify, by kind; in the order of matching (G-145).
_IDENTIFYING = {"mail": "email", "vendorUserId": "vendorUserId"}
#: Metrics of each kind of event, as declared first.
METRICS = {
    "order": frozenset({"turnover", "items", "confirmed", "returned"}),
    "lead": frozenset({"score", "qualified"}),
}


class Model:
    """A project."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.by_nonce: dict[str, str] = {}
        #: Id by nonce of events that were erased or dropped; None where it is only known to stay the same.
        self.buried_nonces: dict[str, str | None] = {}
        self.buried: set[Identity] = set()
        self.buried_users: set[str] = set()
        self.visits: dict[str, Visit] = {}
        self.holders: dict[Identity, str] = {}
        self.merged: dict[str, Merged] = {}
        self.campaigns: dict[str, Campaign] = {}
        #: Whether each declared type is archived.
        self.types: dict[str, bool] = {}

    # Users

    @property
    def users(self) -> set[str]:
        """A user is whoever has a record."""
        return {event.user for event in self.events.values() if event.user} | {
            visit.user for visit in self.visits.values()
        }

    def survivor(self, user: str) -> str:
        return self.merged[user].into if user in self.merged else user

    def identified(self, user: str) -> bool:
        return any(holder == user and kind != "trackerId" for (kind, _), holder in self.holders.items())

    def identities(self, content: dict) -> list[Identity]:
        data = content["data"]
        found = [(kind, data[key].lower()) for key, kind in _IDENTIFYING.items() if data.get(key)]
        tracker = content.get("tracker_id")
        return [*found, ("trackerId", tracker)] if tracker else found

    def expected_user(self, identities: list[Identity]) -> str | None:
        """Return the user of a new record; None for a new one (G-145 to G-147)."""
        personal = [
            self.holders[each] for each in identities if each[0] != "trackerId" and each in self.holders
        ]
        if personal:
            return personal[0]
        browser = next((self.holders.get(each) for each in identities if each[0] == "trackerId"), None)
        if browser is None or (
            self.identified(browser) and any(kind != "trackerId" for kind, _ in identities)
        ):
            return None
        return browser

    def assign(self, identities: list[Identity], user: str) -> None:
        """Bind the identities of a record to its user, and merge an anonymous user of its browser into it."""
        is_known = any(kind != "trackerId" and (kind, value) in self.holders for kind, value in identities)
        for each in identities:
            browser = self.holders.get(each)
            is_other = each[0] == "trackerId" and browser not in (None, user)
            if is_other and is_known and not self.identified(browser):
                self.merge(browser, user)
        for each in identities:
            if each[0] == "trackerId":
                self.holders[each] = user
            else:
                self.holders.setdefault(each, user)

    def merge(self, gone: str, user: str) -> None:
        events = {event.id for event in self.events.values() if event.user == gone}
        visits = {visit.id for visit in self.visits.values() if visit.user == gone}
        identities = {each for each, holder in self.holders.items() if holder == gone}
        merged = {id for id, entry in self.merged.items() if entry.into == gone}
        for id in merged:
            self.merged[id].into = user
        self.merged[gone] = Merged(user, events, visits, identities, merged)
        self._move(self.merged[gone], gone, user)

    def split(self, gone: str) -> bool:
        """Undo a merge for the records from before it; return whether there are any."""
        entry = self.merged[gone]
        if not self._move(entry, entry.into, gone):
            return False
        del self.merged[gone]
        for id in entry.merged & self.merged.keys():
            if self.merged[id].into == entry.into:
                self.merged[id].into = gone
        return True

    def _move(self, entry: Merged, source: str, target: str) -> bool:
        events = [
            self.events[id] for id in entry.events & self.events.keys() if self.events[id].user == source
        ]
        visits = [
            self.visits[id] for id in entry.visits & self.visits.keys() if self.visits[id].user == source
        ]
        for record in (*events, *visits):
            record.user = target
        if events or visits:
            for each in entry.identities:
                if self.holders.get(each) == source:
                    self.holders[each] = target
        return bool(events or visits)

    def erase(self, user: str, mode: str) -> None:
        """Remove a person; later records of the same identities belong to somebody new (G-209)."""
        events = [event for event in self.events.values() if event.user == user]
        visits = [visit for visit in self.visits.values() if visit.user == user]
        marks = {each for each, holder in self.holders.items() if holder == user}
        for event in events:
            if event.content is not None:
                marks |= {each for each in self.identities(event.content) if each[0] != "trackerId"}
        marks |= {("email", visit.mail.lower()) for visit in visits if visit.mail}
        marks = {each for each in marks if self.holders.get(each, user) == user}
        values = {value for _, value in marks}
        mentioning = [
            event
            for event in self.events.values()
            if event.user is None and any(value.lower() in values for value in _texts(event.content))
        ]
        for event in (*events, *mentioning):
            if event.content is not None or event in mentioning:
                self.buried_nonces.setdefault(event.nonce, event.id if mode == "anonymise" else None)
        for event in mentioning:
            self.buried_nonces[event.nonce] = None
            del self.events[event.id]
        self.buried |= marks
        self.buried_users |= {user} | {id for id, entry in self.merged.items() if entry.into == user}
        self.holders = {each: holder for each, holder in self.holders.items() if holder != user}
        for event in events:
            if mode == "delete":
                self.buried_nonces[event.nonce] = None
                del self.events[event.id]
            event.content = None
        for visit in visits:
            if mode == "delete":
                del self.visits[visit.id]
            visit.external_id = visit.mail = None
        for id in [id for id, entry in self.merged.items() if entry.into == user]:
            if mode == "delete":
                del self.merged[id]
            else:
                self.merged[id] = Merged(user, set(), set(), set(), set())

    # Events

    def error_of(self, content: dict) -> str | None:
        """Return the type of the first error of an event."""
        reference, data = content["event_type"], content["data"]
        if reference not in self.types:
            return "unknown-event-type"
        if self.types[reference]:
            return "archived-event-type"
        if reference == "lead" and data.get("score") is None:
            return "missing-field"
        number = data.get("items" if reference == "order" else "score")
        return "invalid-field" if isinstance(number, str) else None

    def is_dropped(self, event: Event) -> bool:
        """Return whether an event is of somebody who was erased after its date."""
        return event.is_old and bool(self.buried & set(self.identities(event.content)))

    def drop(self, event: Event) -> None:
        del self.events[event.id]
        self.buried_nonces[event.nonce] = None

    def process(self, event: Event, user: str) -> None:
        """Give a valid event its user and metrics."""
        event.error = None
        event.user = user
        event.type = event.content["event_type"]
        event.keys = METRICS[event.type]
        data = event.content["data"]
        event.metrics = {"event-count": 1.0}
        for key in event.keys & data.keys() - {"returned"}:
            event.metrics[key] = data[key] if isinstance(data[key], dict) else float(data[key])
            if key in ("confirmed", "qualified") and data[key] == 1:
                event.metrics[f"state-delay-{key}"] = 0.0

    # What reads return

    def visits_of(self, user: str) -> list[Visit]:
        mine = [visit for visit in self.visits.values() if visit.user == user]
        return sorted(mine, key=lambda visit: (visit.date, visit.id))

    def attributable(self, event: Event) -> bool:
        """Whether an interaction that is no bot's precedes the event within the window (G-064, G-202)."""
        return any(
            not visit.is_bot and event.date - WINDOW < visit.date <= event.date
            for visit in self.visits_of(event.user)
        )

    def computed(self) -> list[Event]:
        return [event for event in self.events.values() if event.user]

    def sums(self, key: str) -> dict[tuple[str, int], float]:
        """Return the sum of a number of events, by type and year."""
        sums: dict[tuple[str, int], float] = defaultdict(float)
        for event in self.computed():
            value = event.metrics.get(key)
            if isinstance(value, float):
                sums[event.type, event.date.year] += value
        return dict(sums)

    def by_node(self) -> dict[str, int]:
        return dict(Counter(visit.node for visit in self.visits.values() if not visit.is_bot))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    return [value] if isinstance(value, str) else []
