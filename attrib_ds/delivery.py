"""Delivers the rows of a frame to a service: checked only, or sent, with a journal if there is one."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrib_ds.contract import OPERATIONS, build, to_wire
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.journal import Entry, Purpose, Recording, open_journal
from attrib_ds.progress import progress
from attrib_ds.sending import send_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    import pandas as pd

    from attrib_ds.contract import Request
    from attrib_ds.journal import Journal, Outcome
    from attrib_ds.project import Project
    from attrib_ds.sending import Send


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
    """

    project: Project
    function: str
    operation: str
    index: pd.Index[Any]
    arguments: Callable[[int], Mapping[str, Any]]
    key: Callable[[Any], Sequence[Any]]

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
            If the journal is for something else, or could only mislead.
        Unavailable
            If another run uses it.
        """
        if journal is None:
            yield Run(self)
            return
        with open_journal(journal, self._purpose()) as opened:
            yield Run(self, opened, Recording(opened, self._entries(), asked_again=asked_again))

    def _purpose(self) -> Purpose:
        address = self.project.transport.address
        if address == ":memory:":
            raise InvalidRequest(
                "journal: this project is gone when it is closed, so that a journal of it would tell of rows "
                "that are nowhere; leave it out, or connect(…, path=…)",
                field="journal",
            )
        service = address if "://" in address else str(Path(address).resolve())
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
    journal : Journal, optional
        Of this and of earlier runs.
    recording : Recording, optional
        The rows in the journal.
    """

    delivery: Delivery
    journal: Journal | None = None
    recording: Recording | None = None

    @property
    def known_ids(self) -> frozenset[str]:
        """The ids that rows of earlier runs were given."""
        return self.journal.ids if self.journal else frozenset()

    @property
    def is_over(self) -> bool:
        """Whether no row is left to be sent."""
        if self.recording is None:
            return len(self.delivery.index) == 0
        return None not in self.recording.outcomes

    def send(
        self,
        send: Send,
        *,
        keys: Sequence[Hashable] | None = None,
        size: int = 1,
        find: Callable[[int], Outcome | None] | None = None,
    ) -> pd.DataFrame:
        """Send the rows that are left and return what became of each; see :func:`send_rows`."""
        outcomes = self.recording.outcomes if self.recording else [None] * len(self.delivery.index)
        left = outcomes.count(None)
        with progress("rows", len(outcomes), done=len(outcomes) - left) as advance:
            return send_rows(
                self.delivery.index,
                send,
                keys=keys,
                size=size,
                find=find,
                recording=self.recording,
                advance=advance,
            )
