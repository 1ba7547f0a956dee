"""Delivers the rows of a frame to a service: checked only, or sent, with a journal if there is one."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import OPERATIONS, build, to_wire
from attrib_ds.contract.json_text import encode
from attrib_ds.display import progress
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.sending.journal import NOT_STORED, Entry, Purpose, Recording, open_journal
from attrib_ds.sending.rows import send_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    import pandas as pd

    from attrib_ds.contract import Request
    from attrib_ds.project import Project
    from attrib_ds.sending.journal import Journal, Outcome
    from attrib_ds.sending.rows import Send

#: Where a result tells how its rows were sent, in its ``attrs``.
SENDING: Final = "sending"
#: What became of rows that may be sent again.
_LEFT: Final = frozenset({"failed", "unsent"})
_MEMORY: Final = ":memory:"


@dataclass(frozen=True)
class Earlier:
    """What an earlier run told of the rows of a frame.

    Parameters
    ----------
    told : DataFrame
        Its result.
    """

    told: pd.DataFrame

    @property
    def sending(self) -> dict[str, Any]:
        """How it was sent, as its result tells."""
        return dict(self.told.attrs[SENDING])

    def outcomes(self) -> list[Outcome]:
        """Return what became of each row."""
        cells = self.told[["status", "id", "error"]].astype(object)
        missing = cells.isna().to_numpy()
        rows = cells.itertuples(index=False)
        return [
            tuple(None if is_missing else cell for cell, is_missing in zip(row, of_row, strict=True))  # type: ignore[misc]
            for row, of_row in zip(rows, missing, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Rows of a frame that one function sends.

    Parameters
    ----------
    project : Project
        Where they go.
    function : str
        Public name of the function.
    operation : str
        The operation that takes one row.
    index : Index
        Of the frame.
    arguments : callable
        Takes the position of a row and returns the operation's arguments.
    key : callable
        Takes the request of a row and returns what makes it the same row in another run, beside how often
        the same was in the frame before.
    rows : sequence
        What the frame holds, as it is sent.
    manner : mapping, optional
        Further arguments of the function, as JSON holds them.
    is_kept_once : callable, optional
        Takes the position of a row and says whether sending it twice stores it once; by default of each.
    earlier : Earlier, optional
        A run of the same frame, of which only what failed is sent again.
    """

    project: Project
    function: str
    operation: str
    index: pd.Index[Any]
    arguments: Callable[[int], Mapping[str, Any]]
    key: Callable[[Any], Sequence[Any]]
    rows: Sequence[Any]
    manner: Mapping[str, Any] = field(default_factory=dict)
    is_kept_once: Callable[[int], bool] | None = None
    earlier: Earlier | None = None

    def request(self, position: int) -> Request:
        """Build the request of a row, which checks it.

        Raises
        ------
        InvalidRequest
            If it is not allowed.
        """
        arguments = self.arguments(position)
        return build(OPERATIONS[self.operation], project_id=self.project.project_id, **arguments)

    def check(self, further: Callable[[int], str | None] | None = None) -> pd.DataFrame:
        """Check each row and send none.

        Parameters
        ----------
        further : callable, optional
            Takes the position of a row that is in order as such, and returns what is wrong with it.

        Returns
        -------
        DataFrame
            One row per row: ``status`` (``valid`` or ``rejected``), ``id`` (missing) and ``error``.
        """

        def look(positions: Sequence[int]) -> list[Outcome]:
            self.request(positions[0])
            problem = further(positions[0]) if further else None
            return [("valid" if problem is None else "rejected", None, problem)]

        # Only a further check asks the service, and waits.
        keys = range(len(self.index)) if further else None
        with progress("rows", len(self.index)) as advance:
            return send_rows(self.index, look, keys=keys, advance=advance)

    @contextmanager
    def begun(
        self, journal: str | Path | None, *, asked_again: frozenset[str] = frozenset()
    ) -> Iterator[Run]:
        """Begin to send.

        Parameters
        ----------
        journal : str or Path, optional
            File that remembers the rows.
        asked_again : frozenset of str, optional
            Statuses in it that are no end of a row.

        Yields
        ------
        Run
            To send with, once.

        Raises
        ------
        InvalidRequest
            If the journal is for something else, or could only mislead; or the earlier run was of other rows.
        Unavailable
            If another run uses it.
        """
        sending = self._sending(journal)
        known = self._known(sending)
        if journal is None:
            yield Run(self, sending, known)
            return
        with open_journal(journal, self._purpose()) as opened:
            recording = Recording(opened, self._entries(), asked_again=asked_again)
            known = [each or noted for each, noted in zip(known, recording.outcomes, strict=True)]
            yield Run(self, sending, known, opened, recording)

    def _sending(self, journal: str | Path | None) -> dict[str, Any]:
        """Return how the rows are sent, such that another run can go on with them."""
        rows = json.dumps(list(self.rows), sort_keys=True, default=str).encode("utf-8", "surrogatepass")
        return {
            "function": self.function,
            "project": self.project.project_id,
            "service": self._service(),
            "arguments": dict(self.manner),
            "journal": None if journal is None else str(Path(journal).resolve()),
            "rows": hashlib.sha256(rows).hexdigest(),
            "doubtful": [],
        }

    def _known(self, sending: dict[str, Any]) -> list[Outcome | None]:
        """Return what became of each row in the earlier run; None for those that are to be sent."""
        if self.earlier is None:
            return [None] * len(self.index)
        before = self.earlier.sending
        for name in ("project", "service"):
            if before[name] != sending[name]:
                raise InvalidRequest(
                    f"results: were sent to the {name} {before[name]!r} and not to {sending[name]!r}",
                    field="results",
                )
        if before["rows"] != sending["rows"] or not self.index.equals(self.earlier.told.index):
            raise InvalidRequest(
                "frame: is not the frame that was sent; give that one, with all its rows as they were and "
                f"with the index of results, or call {self.function} again",
                field="frame",
            )
        doubtful = set(before["doubtful"])
        sending["doubtful"] = [each for each in before["doubtful"] if not self._is_kept_once(each)]
        return [
            None if each[0] in _LEFT and (position not in doubtful or self._is_kept_once(position)) else each
            for position, each in enumerate(self.earlier.outcomes())
        ]

    def _is_kept_once(self, position: int) -> bool:
        return self.is_kept_once is None or self.is_kept_once(position)

    def _service(self) -> str:
        address = self.project.transport.address
        return address if "://" in address or address == _MEMORY else str(Path(address).resolve())

    def _purpose(self) -> Purpose:
        service = self._service()
        if service == _MEMORY:
            raise InvalidRequest(
                "journal: this project is gone when it is closed, so that a journal of it would tell of rows "
                "that are nowhere; leave it out, or connect(…, path=…)",
                field="journal",
            )
        return Purpose(function=self.function, project=self.project.project_id, service=service)

    def _entries(self) -> list[Entry | None]:
        seen: Counter[str] = Counter()
        return [self._entry(position, seen) for position in range(len(self.index))]

    def _entry(self, position: int, seen: Counter[str]) -> Entry | None:
        try:
            request = self.request(position)
        except InvalidRequest:
            # It is told of the row when its turn comes.
            return None
        key = json.dumps([str(part) for part in self.key(request)])
        seen[key] += 1
        return Entry(f"{seen[key]} {key}", self._content(request))

    def _content(self, request: Request) -> str:
        """Return what is sent of a row, such that 70 and 70.0 are the same."""
        wire = to_wire(OPERATIONS[self.operation], request)
        members = json.loads(
            wire.content() or b"null",
            parse_float=Decimal,
            parse_int=Decimal,
            object_pairs_hook=lambda pairs: dict(sorted(pairs)),
        )
        return encode([wire.path, members])


@dataclass(frozen=True)
class Run:
    """One run over the rows of a delivery.

    Parameters
    ----------
    delivery : Delivery
        The rows.
    sending : dict
        How they are sent, for the result to tell.
    known : sequence
        What became of each row before; None for those that are to be sent.
    journal : Journal, optional
        Of this and of earlier runs.
    recording : Recording, optional
        The rows in the journal.
    """

    delivery: Delivery
    sending: Mapping[str, Any]
    known: Sequence[Outcome | None]
    journal: Journal | None = None
    recording: Recording | None = None

    @property
    def known_ids(self) -> frozenset[str]:
        """The ids that rows of earlier runs were given."""
        noted = self.journal.ids if self.journal else frozenset()
        return noted | {each[1] for each in self.known if each is not None and each[1] is not None}

    def send(
        self,
        send: Send,
        *,
        keys: Sequence[Hashable] | None = None,
        size: int = 1,
        find: Callable[[int], Outcome | None] | None = None,
    ) -> pd.DataFrame:
        """Send the rows that are left and return what became of each; see :func:`send_rows`."""
        doubtful = set(self.sending["doubtful"])

        def watched(positions: Sequence[int]) -> Sequence[Outcome | AttribError]:
            told: Sequence[Outcome | AttribError]
            try:
                told = send(positions)
            except AttribError as error:
                told = [error] * len(positions)
            doubtful.update(
                position
                for position, each in zip(positions, told, strict=True)
                if isinstance(each, AttribError) and not isinstance(each, NOT_STORED)
            )
            return told

        done = sum(each is not None for each in self.known)
        try:
            with progress("rows", len(self.known), done=done) as advance:
                told = send_rows(
                    self.delivery.index,
                    watched,
                    keys=keys,
                    size=size,
                    find=find,
                    known=self.known,
                    recording=self.recording,
                    advance=advance,
                )
        except AttribError as error:
            if error.partial is not None:
                error.partial.attrs[SENDING] = {**self.sending, "doubtful": sorted(doubtful)}
            raise
        told.attrs[SENDING] = {**self.sending, "doubtful": sorted(doubtful)}
        return told
