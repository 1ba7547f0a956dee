"""Roles of the columns of users' files: their options in the command line and their common names."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

#: One column, or the columns of several levels.
Named: TypeAlias = str | Sequence[str]

_TABLE: Final = Path(__file__).with_name("columns.tsv").read_text(encoding="utf-8")
_ROWS: Final = [line.split("\t") for line in _TABLE.splitlines()[2:]]

#: Option of the command line by role.
OPTIONS: Final = {role: option.removesuffix("...") for role, option, _ in _ROWS if option}
#: Roles that several columns can have; options list them with commas.
LISTED: Final = [role for role, option, _ in _ROWS if option.endswith("...")]
#: Common names by role, in order of preference.
COMMON_NAMES: Final = {role: names.split() for role, _, names in _ROWS}
#: Roles of columns that divide conversions into groups.
GROUPS: Final = ("country", "device_type")


#: Objects in which exports and APIs put a whole row, and what APIs of reports write before each name.
_WRAPPERS: Final = re.compile(
    r"((_source|_airbyte_data|attributes|properties|event_properties|relationships|node|fields|document"
    r"|record|payload|raw_data|after)\.)+|(?<=\w)\.data(?=\.\w)|^(?!utm)[a-z]{2,3}:([a-z]+:)?(?=\w)",
    re.IGNORECASE,
)


def inner(name: str) -> str:
    """Return the name of a member without those of the objects around the whole row.

    Examples
    --------
    >>> inner("attributes.event_properties.utm_source"), inner("customer.data.id"), inner("ym:s:UTMSource")
    ('utm_source', 'customer.id', 'UTMSource')
    """
    return _WRAPPERS.sub(lambda found: "" if found[1] is None or not found.start() else found[0], name)


@cache
def folded(name: str) -> str:
    """Return a name without case, punctuation and the objects around it, which do not matter."""
    return re.sub(r"[^a-z0-9]", "", inner(name).casefold())


def names_of(named: Named) -> list[str]:
    """Return one column, or several, as a list."""
    return [named] if isinstance(named, str) else list(named)
