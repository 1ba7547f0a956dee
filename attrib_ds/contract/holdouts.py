"""Holdouts that the service draws: the setting that declares them, who is withheld, and requests."""

# ruff: noqa: N815  (attributes carry the names of the API)

import hmac
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Self, TypeAlias

import numpy as np
from pydantic import model_validator

from attrib_ds import instants
from attrib_ds.contract.request import ProjectRequest, disagreement
from attrib_ds.contract.rule import Refused, Rule, pattern
from attrib_ds.errors import NotFound, closest

_NAME: Final = "[a-z0-9][a-z0-9_-]{0,63}"
_SHARE: Final = r"0\.[0-9]{0,5}[1-9]"
_DAY: Final = "[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_NODE: Final = r"[^\x00\ud800-\udfff]+"
_LONGEST_NODE: Final = 512
_TEXT: Final = pattern(
    rf"{_NAME}:{_SHARE}:(?:{_DAY})?/(?:{_DAY})?:{_NODE}",
    longest=_LONGEST_NODE + 128,
    expected="'name:share:since/until:node', such as 'banner:0.1:2026-05-01/2026-06-30:spring' or "
    "'banner:0.1:/:spring'",
)
_DECIMALS: Final = 6
_BYTES_DRAWN: Final = 8
_RANGE: Final = 256.0**_BYTES_DRAWN

NAME: Final = pattern(
    _NAME,
    longest=64,
    expected="1 to 64 lower-case letters, digits, - and _, starting with a letter or digit",
)
HoldoutName: TypeAlias = Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """A node that is withheld from a random share of visitors or users.

    Parameters
    ----------
    name : str
        Its name, which the draw depends on: holdouts of different names are independent.
    share : float
        Share withheld, more than 0 and less than 1, to six decimals.
    since, until : date, optional
        First and last day, in UTC; unbounded by default.
    node_id : str
        The node.
    """

    name: str
    share: float
    node_id: str
    since: date | None = None
    until: date | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the holdout of an entry of the setting ``holdouts``.

        Raises
        ------
        ValueError
            If it is not of the form ``name:share:since/until:node``.

        Examples
        --------
        >>> holdout = Holdout.parse("banner:0.1:2026-05-01/:spring")
        >>> holdout.name, holdout.share, holdout.node_id, str(holdout)
        ('banner', 0.1, 'spring', 'banner:0.1:2026-05-01/:spring')
        """
        name, share, period, node_id = _TEXT.check(text).split(":", 3)
        since, until = (date.fromisoformat(day) if day else None for day in period.split("/"))
        if since and until and since > until:
            raise Refused
        return cls(name=name, share=float(share), node_id=node_id, since=since, until=until)

    def __str__(self) -> str:
        """Return the entry of the setting ``holdouts``."""
        share = f"{self.share:.6f}".rstrip("0")
        return f"{self.name}:{share}:{self.since or ''}/{self.until or ''}:{self.node_id}"

    def is_running(self, now: datetime) -> bool:
        """Return whether an instant, aware, is in the period."""
        day = now.astimezone(UTC).date()
        return (self.since is None or self.since <= day) and (self.until is None or day <= self.until)

    def withholds(self, id: str, *, key: str) -> bool:
        """Return whether the node is withheld from a visitor or user.

        The first eight bytes of HMAC-SHA256 of the name, a line break and the id, as a fraction of their
        range, are below the share. So a larger share withholds from the same ids and from others.

        Parameters
        ----------
        id : str
            Id of the tracker or user.
        key : str
            The setting ``holdoutKey``.

        Examples
        --------
        >>> Holdout(name="banner", share=0.1, node_id="spring").withholds("t-1", key="secret")
        False
        """
        message = f"{self.name}\n{id}".encode("utf-8", "surrogatepass")
        drawn = hmac.digest(key.encode(), message, "sha256")[:_BYTES_DRAWN]
        return int.from_bytes(drawn, "big") < self.share * _RANGE


def find_holdout(texts: tuple[str, ...], name: str) -> Holdout | None:
    """Return the holdout of a name among the entries of the setting ``holdouts``."""
    found = (holdout for holdout in map(Holdout.parse, texts) if holdout.name == name)
    return next(found, None)


def get_holdout(texts: tuple[str, ...], name: str, *, advice: str = "") -> Holdout:
    """Return the holdout of a name from the texts of the setting.

    Raises
    ------
    NotFound
        If there is none; the message names the closest one and ends with the advice.
    """
    found = find_holdout(texts, name)
    if found is None:
        names = [Holdout.parse(text).name for text in texts]
        raise NotFound(
            f"holdout: there is no holdout {name!r}{closest(name, names)}{advice}", field="holdout"
        )
    return found


def _check_text(value: Any) -> str:
    try:
        return str(Holdout.parse(value))
    except ValueError:
        raise Refused from None


def _check_share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | np.integer | np.floating):
        raise Refused
    # Comparing a NaN raises, if it is a decimal.
    if (isinstance(value, Decimal) and value.is_nan()) or not 0 < value < 1:
        raise Refused
    share = round(float(value), _DECIMALS)
    if not 0 < share < 1:
        raise Refused
    return share


def _check_day(value: Any) -> date:
    day = instants.parse_day(value, argument="value")
    if day is None or not re.fullmatch(_DAY, str(day)):
        raise Refused
    return day


#: An entry of the setting ``holdouts``.
HoldoutText: TypeAlias = Annotated[
    str, Rule(check=_check_text, expected=_TEXT.expected, json_schema=_TEXT.json_schema)
]
Share: TypeAlias = Annotated[
    float,
    Rule(
        check=_check_share,
        expected=f"a number above 0 and below 1, to {_DECIMALS} decimals",
        json_schema={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
]
#: A day in UTC.
Day: TypeAlias = Annotated[
    date,
    Rule(
        check=_check_day,
        expected="a day, such as '2026-05-01'",
        json_schema={"type": "string", "format": "date"},
        write=str,
    ),
]
NodeId: TypeAlias = Annotated[
    str,
    pattern(_NODE, longest=_LONGEST_NODE, expected=f"the id of a node, of 1 to {_LONGEST_NODE} characters"),
]


class ListHoldouts(ProjectRequest):
    """List the holdouts that the service draws, by name."""


class CreateHoldout(ProjectRequest):
    """Create a holdout, or change its period and enlarge its share."""

    holdout: HoldoutName
    nodeId: NodeId
    share: Share
    firstDay: Day | None = None
    lastDay: Day | None = None

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        if self.firstDay and self.lastDay and self.firstDay > self.lastDay:
            raise disagreement(("lastDay", "is before {firstDay}"))
        return self


class DeleteHoldout(ProjectRequest):
    """End a holdout."""

    holdout: HoldoutName
