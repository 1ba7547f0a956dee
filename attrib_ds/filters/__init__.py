"""Predicates over interactions, nodes, users and events."""

from attrib_ds.filters.predicates import (
    Comparison,
    Condition,
    Field,
    Predicate,
    as_condition,
    event,
    interaction,
    node,
    user,
)
from attrib_ds.filters.wire import from_json, to_json

__all__ = [
    "Comparison",
    "Condition",
    "Field",
    "Predicate",
    "as_condition",
    "event",
    "from_json",
    "interaction",
    "node",
    "to_json",
    "user",
]
