"""Experiments as arrays: participants, withheld users and the windows in which conversions count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.paths.inputs import Input
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Flags = NDArray[np.bool_]
    Instants = NDArray[np.int64]

#: Microseconds since 1970, beyond any instant.
ALWAYS: Final = -(2**62)
NEVER: Final = 2**62


@dataclass(frozen=True, eq=False)
class Trial:
    """Participants of an experiment; users are numbered by their position in ``users``.

    Attributes
    ----------
    users : Index
        All participants, for any node.
    node_ids : list of str
        Withheld nodes, sorted.
    takes_part, is_withheld : bool array, shape (n_nodes, n_users)
        Participants in the experiment on each node, and users from whom it was withheld.
    since, until : int array, shape (n_nodes, n_users), or None
        Window in which conversions count, in microseconds since 1970; None if unbounded.
    """

    users: pd.Index[str]
    node_ids: list[str]
    takes_part: Flags
    is_withheld: Flags
    since: Instants | None = None
    until: Instants | None = None

    @classmethod
    def of(cls, paths: Paths, withheld: object, participants: object) -> Trial:
        """Read an experiment from frames.

        Raises
        ------
        InvalidRequest
            If a node or a user is unknown, a pair occurs twice with different windows, or fewer than two
            participants are withheld or not withheld.
        """
        held = _pairs(withheld, "withheld")
        if held.empty:
            raise InvalidRequest(
                "withheld has no rows; allowed: one row per user and withheld node",
                field="withheld",
            )
        node_ids = sorted(held["node_id"].unique())
        _check_nodes(paths, node_ids)
        took_part = None if participants is None else _pairs(participants, "participants")
        users = _users(paths, took_part)
        shape = (len(node_ids), len(users))
        is_withheld, windows = _marked(held, users, node_ids, "withheld")
        if took_part is None:
            takes_part = np.ones(shape, bool)
        else:
            relevant = took_part[took_part["node_id"].isin(node_ids)]
            takes_part, others = _marked(relevant, users, node_ids, "participants")
            if (is_withheld & ~takes_part).any():
                node, user = (int(position[0]) for position in np.nonzero(is_withheld & ~takes_part))
                raise InvalidRequest(
                    f"participants: user {users[user]!r} is missing, but node {node_ids[node]!r} was "
                    "withheld from them; allowed: all participants, withheld or not",
                    field="participants",
                )
            for name, instants in others.items():
                windows[name] = (
                    np.where(is_withheld, windows[name], instants) if name in windows else instants
                )
        given = [] if took_part is None else list(took_part.columns)
        for name, instants in windows.items():
            if name not in given:
                windows[name] = _for_all(instants, is_withheld, node_ids, name)
        trial = cls(users, node_ids, takes_part, is_withheld, **windows)
        trial.check()
        return trial

    def check(self) -> None:
        """Refuse an experiment with fewer than two users on either side."""
        for node, part, held in zip(self.node_ids, self.takes_part, self.is_withheld, strict=True):
            counts = int((part & held).sum()), int((part & ~held).sum())
            if min(counts) < 2:
                raise InvalidRequest(
                    f"withheld: node {node!r} was withheld from {counts[0]} of {sum(counts)} participants; "
                    "allowed: at least 2 withheld and 2 other participants",
                    field="withheld",
                )

    def within(self, node: int, user: NDArray[np.int64], instant: Instants) -> Flags:
        """Return which instants of users lie within the window of a node."""
        inside = self.takes_part[node, user]
        if self.since is not None:
            inside = inside & (instant >= self.since[node, user])
        if self.until is not None:
            inside = inside & (instant <= self.until[node, user])
        return np.asarray(inside)

    def before(self, node: int, user: NDArray[np.int64], instant: Instants) -> Flags:
        """Return which instants of participants lie before the window of a node; none if it is unbounded."""
        if self.since is None:
            return np.zeros(len(user), bool)
        return np.asarray(self.takes_part[node, user] & (instant < self.since[node, user]))

    def numbers_of(self, rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], Flags]:
        """Return the positions of each row's user and node, and which rows belong to the experiment."""
        user = self.users.get_indexer(pd.Index(rows["user_id"]))
        node = pd.Index(self.node_ids).get_indexer(pd.Index(rows["node_id"]))
        return user, node, np.asarray((user >= 0) & (node >= 0))


def read_moments(frame: object, argument: str) -> pd.DataFrame:
    """Return ``user_id``, ``node_id`` and ``date`` (int64, microseconds since 1970) of a frame."""
    given = Input.open(engine(), frame, argument=argument)
    columns = {name: given.keys(name, role=None) for name in ("user_id", "node_id")}
    columns["date"] = given.instants("date", role=None)
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow())
    return rows.assign(date=microseconds(rows["date"]))


def microseconds(instants: pd.Series[Any]) -> Instants:
    """Return the microseconds since 1970 of instants."""
    plain = instants.dt.tz_convert(None) if instants.dt.tz is not None else instants
    return np.asarray(plain.to_numpy().astype("datetime64[us]").astype(np.int64))


def _pairs(frame: object, argument: str) -> pd.DataFrame:
    given = Input.open(engine(), frame, argument=argument)
    columns: dict[str, Any] = {name: given.keys(name, role=None) for name in ("user_id", "node_id")}
    for name in ("since", "until"):
        if given.has(name):
            columns[name] = given.instants(name, role=None)
    if argument == "withheld" and given.has("withheld"):
        remedy = "pass all participants as participants=, or a log as opportunities="
        given.suspect("withheld", f"is false; {remedy}", ~given.flags("withheld", role=None))
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow()).drop_duplicates()
    is_duplicate = rows.duplicated(["user_id", "node_id"])
    if is_duplicate.any():
        user, node = rows.loc[is_duplicate, ["user_id", "node_id"]].iloc[0]
        raise InvalidRequest(
            f"{argument}: user {user!r} and node {node!r} occur with different since or until; allowed: one "
            "row per user and node",
            field=argument,
        )
    for name in ("since", "until"):
        if name in rows.columns:
            rows[name] = microseconds(rows[name])
    if {"since", "until"} <= set(rows.columns) and (rows["since"] > rows["until"]).any():
        user, node = rows.loc[rows["since"] > rows["until"], ["user_id", "node_id"]].iloc[0]
        raise InvalidRequest(
            f"{argument}: since is after until, for example for user {user!r} and node {node!r}; allowed: "
            "since no later than until",
            field=argument,
        )
    return rows


def _check_nodes(paths: Paths, node_ids: list[str]) -> None:
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    found = points.filter(points.node_id.notnull()).select("node_id").distinct().to_pyarrow()
    allowed = set(found["node_id"].to_pylist())
    if paths.nodes is not None:
        allowed |= set(paths.nodes["node_id"])
    for node in node_ids:
        if node not in allowed:
            raise InvalidRequest.choice("withheld", node, allowed)


def _users(paths: Paths, took_part: pd.DataFrame | None) -> pd.Index[str]:
    if not paths.has_users:
        raise InvalidRequest(
            "paths: an experiment needs users, which aggregated paths do not have; use Paths.from_frames",
            field="paths",
        )
    if took_part is not None:
        users: pd.Index[str] = pd.Index(sorted(took_part["user_id"].unique()), dtype=TEXT)
        return users
    if paths.observed is None:
        raise InvalidRequest(
            "participants is required, because the paths have no users; allowed: a frame with user_id and "
            "node_id, or paths from Paths.from_frames(users=…), whose users all took part",
            field="participants",
        )
    observed = paths.observed.select("user_id").order_by("user_id").to_pyarrow()
    index: pd.Index[str] = pd.Index(to_pandas(observed)["user_id"], dtype=TEXT)
    return index


def _marked(
    rows: pd.DataFrame, users: pd.Index[str], node_ids: list[str], argument: str
) -> tuple[Flags, dict[str, Instants]]:
    """Return the users paired with each node, and the windows of the pairs."""
    user = users.get_indexer(pd.Index(rows["user_id"]))
    if (user < 0).any():
        example = rows["user_id"].iloc[int(np.argmax(user < 0))]
        raise InvalidRequest(
            f"{argument}: {int((user < 0).sum())} rows have users who did not take part, for example "
            f"{example!r}; allowed: users of participants=, or of Paths.from_frames(users=…) without it",
            field=argument,
        )
    node = pd.Index(node_ids).get_indexer(pd.Index(rows["node_id"]))
    marks = np.zeros((len(node_ids), len(users)), bool)
    marks[node, user] = True
    instants = {}
    for name, otherwise in (("since", ALWAYS), ("until", NEVER)):
        if name in rows.columns:
            instants[name] = np.full(marks.shape, otherwise, np.int64)
            instants[name][node, user] = rows[name]
    return marks, instants


def _for_all(instants: Instants, is_withheld: Flags, node_ids: list[str], name: str) -> Instants:
    """Extend the window of a node's withheld users to all other users."""
    extended = np.empty_like(instants)
    for node, held in enumerate(is_withheld):
        distinct = np.unique(instants[node, held])
        if len(distinct) != 1:
            raise InvalidRequest(
                f"withheld: {name!r} differs between the users of node {node_ids[node]!r}, so the window of "
                f"the other users is undefined; allowed: one {name!r} per node, or participants= with since "
                "and until for every user",
                field="withheld",
            )
        extended[node] = distinct[0]
    return extended
