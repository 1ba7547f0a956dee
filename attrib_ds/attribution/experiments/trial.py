"""Reads an experiment: who took part, from whom each node was withheld, and when conversions count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.paths.input_tables import Input
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Flags = NDArray[np.bool_]
    Instants = NDArray[np.int64]

#: Microseconds since 1970 that no instant reaches.
ALWAYS: Final = -(2**62)
NEVER: Final = 2**62


@dataclass(frozen=True, eq=False)
class Trial:
    """Who took part in an experiment; users are numbered as in ``users``.

    Attributes
    ----------
    users : Index
        Everybody who took part for some node.
    node_ids : list of str
        The nodes that were withheld from somebody, in order.
    takes_part, is_withheld : bool array, shape (n_nodes, n_users)
        Who is compared in the experiment on a node, and from whom the draw withheld it.
    since, until : int array of the same shape, or None
        Microseconds since 1970 between which conversions count; None where all of them do.
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
            If a node or a user is unknown, a pair is there twice, or nobody or everybody is withheld.
        """
        held = _pairs(withheld, "withheld")
        if held.empty:
            raise InvalidRequest(
                "withheld: there is no row; allowed: one row for each user and node that was withheld",
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
                node, user = (int(each[0]) for each in np.nonzero(is_withheld & ~takes_part))
                raise InvalidRequest(
                    f"participants: user {users[user]!r} is missing, from whom node {node_ids[node]!r} was "
                    "withheld; allowed: everybody who took part, withheld or not",
                    field="participants",
                )
            for name, known in others.items():
                windows[name] = np.where(is_withheld, windows[name], known) if name in windows else known
        told = [] if took_part is None else list(took_part.columns)
        for name, instants in windows.items():
            if name not in told:
                windows[name] = _for_all(instants, is_withheld, node_ids, name)
        trial = cls(users, node_ids, takes_part, is_withheld, **windows)
        trial.check()
        return trial

    def check(self) -> None:
        """Refuse an experiment that compares nobody with somebody."""
        for node, part, held in zip(self.node_ids, self.takes_part, self.is_withheld, strict=True):
            counts = int((part & held).sum()), int((part & ~held).sum())
            if min(counts) < 2:
                raise InvalidRequest(
                    f"withheld: node {node!r} was withheld from {counts[0]} users who took part and not from "
                    f"{counts[1]}; allowed: 2 or more of either kind",
                    field="withheld",
                )

    def within(self, node: int, user: NDArray[np.int64], instant: Instants) -> Flags:
        """Say which instants of users lie within the window of a node."""
        inside = self.takes_part[node, user]
        if self.since is not None:
            inside = inside & (instant >= self.since[node, user])
        if self.until is not None:
            inside = inside & (instant <= self.until[node, user])
        return np.asarray(inside)

    def numbers_of(self, rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], Flags]:
        """Return the number of each row's user and node, and which rows are of users and nodes known here."""
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
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow()).drop_duplicates()
    twice = rows.duplicated(["user_id", "node_id"])
    if twice.any():
        user, node = rows.loc[twice, ["user_id", "node_id"]].iloc[0]
        raise InvalidRequest(
            f"{argument}: user {user!r} and node {node!r} are there with different instants; allowed: one "
            "row for each user and node",
            field=argument,
        )
    for name in ("since", "until"):
        if name in rows.columns:
            rows[name] = microseconds(rows[name])
    if {"since", "until"} <= set(rows.columns) and (rows["since"] > rows["until"]).any():
        user, node = rows.loc[rows["since"] > rows["until"], ["user_id", "node_id"]].iloc[0]
        raise InvalidRequest(
            f"{argument}: since is after until, for example of user {user!r} and node {node!r}; allowed: "
            "since at until or before",
            field=argument,
        )
    return rows


def _check_nodes(paths: Paths, node_ids: list[str]) -> None:
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    found = points.filter(points.node_id.notnull()).select("node_id").distinct().to_pyarrow()
    known = set(found["node_id"].to_pylist())
    if paths.nodes is not None:
        known |= set(paths.nodes["node_id"])
    for node in node_ids:
        if node not in known:
            raise InvalidRequest.choice("withheld", node, known)


def _users(paths: Paths, took_part: pd.DataFrame | None) -> pd.Index[str]:
    if not paths.has_users:
        raise InvalidRequest(
            "paths: an experiment needs users, which aggregated paths do not have; use Paths.from_frames",
            field="paths",
        )
    if took_part is not None:
        users: pd.Index[str] = pd.Index(sorted(took_part["user_id"].unique()), dtype="str")
        return users
    if paths.observed is None:
        raise InvalidRequest(
            "participants: who took part is not known; allowed: a frame of user_id and node_id, or paths of "
            "Paths.from_frames(users=…), all of whose users took part",
            field="participants",
        )
    observed = paths.observed.select("user_id").order_by("user_id").to_pyarrow()
    everybody: pd.Index[str] = pd.Index(to_pandas(observed)["user_id"], dtype="str")
    return everybody


def _marked(
    rows: pd.DataFrame, users: pd.Index[str], node_ids: list[str], argument: str
) -> tuple[Flags, dict[str, Instants]]:
    """Return who is paired with each node, and the instants of the pairs."""
    user = users.get_indexer(pd.Index(rows["user_id"]))
    if (user < 0).any():
        stranger = rows["user_id"].iloc[int(np.argmax(user < 0))]
        raise InvalidRequest(
            f"{argument}: {int((user < 0).sum())} rows are of users who did not take part, for example "
            f"{stranger!r}; allowed: users of participants=, or else those of Paths.from_frames(users=…)",
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
    """Give the window of a node's withheld users to those who were not withheld too."""
    alike = np.empty_like(instants)
    for node, held in enumerate(is_withheld):
        known = np.unique(instants[node, held])
        if len(known) != 1:
            raise InvalidRequest(
                f"withheld: {name!r} differs between users of node {node_ids[node]!r}, so it is not known "
                "when conversions of the others count; allowed: one instant for each node, or "
                "participants= with since and until of everybody",
                field="withheld",
            )
        alike[node] = known[0]
    return alike
