"""Draws of an experiment, read from the column ``withheld`` of its participants or its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.paths.inputs import Input
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

_KEYS: Final = ["user_id", "node_id"]


def complete_draws(withheld: Any, participants: Any, opportunities: Any) -> tuple[Any, Any]:
    """Return ``withheld`` and ``participants`` of an experiment, given one frame or several.

    Without ``withheld``, the draws are those of ``participants``, or of ``opportunities`` without that.

    Raises
    ------
    InvalidRequest
        If nothing tells from whom the nodes were withheld, or a draw is missing or contradicts another one.
    """
    if withheld is not None:
        return withheld, participants
    if participants is None and opportunities is None:
        raise InvalidRequest(
            "withheld is required, because neither participants nor opportunities is given; allowed: "
            "participants or opportunities with the column 'withheld', or withheld",
            field="withheld",
        )
    argument = "opportunities" if participants is None else "participants"
    drawn = _read(opportunities if participants is None else participants, argument)
    took_part = drawn.drop(columns="withheld")
    return took_part[drawn["withheld"]], took_part


def _read(frame: Any, argument: str) -> pd.DataFrame:
    """Return the users and nodes of a frame, with the windows that it has, and whether each was withheld."""
    given = Input.open(engine(), frame, argument=argument)
    columns: dict[str, Any] = {name: given.keys(name, role=None) for name in _KEYS}
    if not given.has("withheld"):
        raise InvalidRequest(
            f"{argument}: there is no column 'withheld'; columns: {', '.join(given.table.columns)}. It is "
            "required without withheld=",
            field=argument,
        )
    columns["withheld"] = given.flags("withheld", role=None)
    for name in ("since", "until"):
        if given.has(name):
            columns[name] = given.instants(name, role=None)
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow()).drop_duplicates()
    if rows.empty:
        raise InvalidRequest(f"{argument} has no rows; allowed: one row per user and node", field=argument)
    draws = rows[[*_KEYS, "withheld"]].drop_duplicates()
    twice = draws[draws.duplicated(_KEYS)]
    if len(twice):
        user, node = twice[_KEYS].iloc[0]
        raise InvalidRequest(
            f"{argument}: user {user!r} and node {node!r} occur as withheld and as not withheld; allowed: "
            "one draw per user and node, such as the first one",
            field=argument,
        )
    users = draws.groupby("node_id")["withheld"].agg(["any", "size"])
    for node, count in users.loc[~users["any"], "size"].items():
        raise InvalidRequest(
            f"{argument}: node {node!r} was withheld from none of its {count} users; allowed: at least 2 "
            "withheld and 2 other participants",
            field=argument,
        )
    return rows.astype({"withheld": bool})
