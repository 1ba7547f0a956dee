"""Draws predicates of every kind, small enough to hit and miss the rows of small tables."""

import pytest
from hypothesis import strategies as st

from attrib_ds.filters import Comparison, Condition, Predicate
from attrib_ds.filters.vocabulary import FieldType, applying_to, vocabulary

TEXTS = st.text(alphabet="aAbé%_\\'\". *", max_size=3)
INSTANTS = st.sampled_from(
    [
        "2025-01-01T00:00:00.000Z",
        "2025-01-01T00:00:59.999999Z",
        "2025-03-30T01:30:00.000Z",
        "2025-03-30T03:30:00+02:00",
        "0001-01-01T00:00:00.000Z",
    ]
)
VALUES = {
    FieldType.TEXT: TEXTS,
    FieldType.TEXTS: TEXTS,
    FieldType.NUMBER: st.sampled_from([-1, 0, 1, 2, 3, 0.5, 1.5, 2.0, 1e17, 2**53, -(2**63)]),
    FieldType.INSTANT: INSTANTS,
    FieldType.FLAG: st.booleans(),
}
PATTERNS = st.sampled_from(["^a", "b$", "a.b", "[ab]{2}", "(?i)É", r"\.", "", r"\\", "^$"])

USER_FIELDS = {
    "fields.email": FieldType.TEXT,
    "fields.age": FieldType.NUMBER,
    "fields.tags": FieldType.TEXTS,
    "fields.since": FieldType.INSTANT,
    "fields.consent": FieldType.FLAG,
    "eventTypesCount.purchase": FieldType.NUMBER,
    "metrics.revenue.sum": FieldType.NUMBER,
}
EVENT_FIELDS = {
    "event.plan": FieldType.TEXT,
    "event.seats": FieldType.NUMBER,
    "event.trial": FieldType.FLAG,
    "user.birthday": FieldType.INSTANT,
}


def every_field(kind: str) -> dict[str, FieldType]:
    return {**vocabulary(kind), **{"user": USER_FIELDS, "event": EVENT_FIELDS}.get(kind, {})}


@st.composite
def draw_comparison(draw: st.DrawFn, kind: str, fields: dict[str, FieldType]) -> Comparison:
    field = draw(st.sampled_from(sorted(fields)))
    field_type = fields[field]
    operator = draw(st.sampled_from(applying_to(field_type)))
    one = PATTERNS if "atches" in operator.name else VALUES.get(field_type, st.none())
    value = {
        "none": st.none(),
        "scalar": one,
        "values": st.lists(one, min_size=1, max_size=3),
        # A low value above the high one is refused.
        "pair": st.tuples(one, one).map(sorted),
    }[operator.shape]
    return Comparison(kind, field, operator.name, draw(value), None if field_type == "object" else field_type)


def draw_predicate(kind: str, fields: dict[str, FieldType]) -> st.SearchStrategy[Predicate]:
    """Draw comparisons, conditions with any number of rules, and negations of both kinds."""
    return st.recursive(
        draw_comparison(kind, fields),
        lambda rules: st.one_of(
            st.builds(
                Condition,
                st.just(kind),
                st.sampled_from(["AND", "OR"]),
                st.lists(rules, max_size=3).map(tuple),
                st.booleans(),
            ),
            st.tuples(rules, rules).map(lambda pair: pair[0] & pair[1]),
            st.tuples(rules, rules).map(lambda pair: pair[0] | pair[1]),
            rules.map(lambda rule: ~rule),
        ),
        max_leaves=4,
    )


@pytest.fixture(scope="session")
def predicate_of():
    """Give a strategy for predicates of a kind, over all of its fields or those named."""

    def choose(kind: str, fields: dict[str, FieldType] | None = None) -> st.SearchStrategy[Predicate]:
        return draw_predicate(kind, every_field(kind) if fields is None else fields)

    return choose


@pytest.fixture(scope="session")
def any_predicate():
    """Give a strategy for predicates of all kinds."""
    return st.sampled_from(["interaction", "node", "user", "event"]).flatmap(
        lambda kind: draw_predicate(kind, every_field(kind))
    )
