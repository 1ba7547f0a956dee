"""The keys of user properties in searches and exports.

Only their form is checked here; the service checks that the project has the field, event type or metric.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

from attrib_ds.contract.rule import Refused, Rule, listed, nearest, shown
from attrib_ds.filters.vocabulary import AGGREGATIONS
from attrib_ds.schema import USER

#: Properties of the user that are keys by themselves, including whole maps (G-107).
PLAIN: Final = tuple(
    name for name in dict.fromkeys(column.split(".")[0] for column in USER.names) if name != "fields"
)
_FIELD: Final = re.compile(r"fields\.[A-Za-z][A-Za-z0-9_-]{0,63}")
_TYPE_COUNT: Final = re.compile(r"eventTypesCount\.[a-z0-9]+(?:[-_][a-z0-9]+)*")
_METRIC: Final = re.compile(r"metrics\.[A-Za-z][A-Za-z0-9_-]{0,127}\.([^.]*)")
_FORMS: Final = (
    "fields.<field>",
    "eventTypesCount.<event type>",
    f"metrics.<metric>.<{'|'.join(AGGREGATIONS)}>",
)


def _check_key(value: Any) -> str:
    if not isinstance(value, str):
        raise Refused
    metric = _METRIC.fullmatch(value)
    if metric and metric[1] not in AGGREGATIONS:
        raise Refused(
            f"{shown(value)} has an unknown aggregation{nearest(metric[1], AGGREGATIONS)}; "
            f"allowed: {', '.join(AGGREGATIONS)}"
        )
    if not metric and not _FIELD.fullmatch(value) and not _TYPE_COUNT.fullmatch(value) and value not in PLAIN:
        raise Refused(f"{shown(value)} is not a key{nearest(value, PLAIN)}; allowed: {_ALLOWED}")
    return str(value)


_ALLOWED: Final = listed((*_FORMS, *PLAIN))

UserKey: TypeAlias = Annotated[
    str, Rule(check=_check_key, expected=f"one of {_ALLOWED}", json_schema={"type": "string", "minLength": 1})
]
