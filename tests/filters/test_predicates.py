# ruff: noqa: SIM300  (the predicates in capitals are not the constants of these comparisons)
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, as_condition, event, interaction, node, user

NAMES = {
    "interaction": interaction,
    "node": node,
    "user": user,
    "event": event,
    "Condition": Condition,
}
A = interaction("geo.city") == "A"
B = interaction("geo.city") == "B"
C = interaction("geo.city") == "C"
LONG = interaction("duration") > 3
EMPTY = Condition("interaction", "AND")
EMPTY_OR = Condition("interaction", "OR")


def nested(levels):
    """Build a predicate with that many levels, whose combinators alternate so that none are joined."""
    predicate = A
    for level in range(levels - 1):
        predicate = Condition("interaction", ("AND", "OR")[level % 2], (predicate,))
    return predicate


@pytest.mark.parametrize(
    ("combined", "combinator", "rules"),
    [
        (A & B, "AND", (A, B)),
        (A | B, "OR", (A, B)),
        (A & B & C, "AND", (A, B, C)),
        (A & (B & C), "AND", (A, B, C)),
        (A | (B | C), "OR", (A, B, C)),
        (A & (B | C), "AND", (A, B | C)),
        (A | B & C, "OR", (A, B & C)),
        (A & ~(B & C), "AND", (A, ~(B & C))),
        (EMPTY & A, "AND", (EMPTY, A)),
        (EMPTY_OR | A, "OR", (EMPTY_OR, A)),
    ],
)
def test_rules_of_one_combinator_are_joined(combined, combinator, rules):
    assert combined == Condition("interaction", combinator, rules)


@pytest.mark.parametrize(
    ("predicate", "negation"),
    [
        (A, interaction("geo.city") != "A"),
        (interaction("geo.city").isin(["A"]), interaction("geo.city").not_in(["A"])),
        (interaction("geo.city").contains("A"), interaction("geo.city").not_contains("A")),
        (interaction("geo.city").starts_with("A"), interaction("geo.city").not_starts_with("A")),
        (interaction("geo.city").ends_with("A"), interaction("geo.city").not_ends_with("A")),
        (interaction("duration").between(1, 2), interaction("duration").not_between(1, 2)),
        (interaction("geo.city").is_empty(), interaction("geo.city").is_not_empty()),
        (interaction("geo").is_null(), interaction("geo").is_not_null()),
        (interaction("geo.city").matches("A"), interaction("geo.city").not_matches("A")),
        (LONG, Condition("interaction", "AND", (LONG,), negated=True)),
        (A & B, Condition("interaction", "AND", (A, B), negated=True)),
        (EMPTY, Condition("interaction", "AND", (), negated=True)),
    ],
)
def test_negation(predicate, negation):
    assert ~predicate == negation
    assert ~negation == predicate


# Where ~ has to tell the negation of a comparison from that of a condition around it.
@pytest.mark.parametrize(
    "predicate",
    [
        Condition("interaction", "AND", (LONG,)),
        Condition("interaction", "OR", (LONG,)),
        Condition("interaction", "AND", (Condition("interaction", "AND", (LONG,)),)),
        Condition("interaction", "AND", (Condition("interaction", "AND", (LONG,), negated=True),)),
        Condition("interaction", "AND", (A,), negated=True),
        ~Condition("interaction", "AND", (LONG,)),
    ],
)
def test_double_negation_of_single_rules(predicate):
    assert ~~predicate == predicate
    assert ~predicate != predicate


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=80)
@given(data=st.data())
def test_laws_of_building(data, any_predicate):
    predicate = data.draw(any_predicate)
    assert ~~predicate == predicate
    assert ~predicate != predicate
    again = eval(repr(predicate), dict(NAMES))
    assert again == predicate
    assert hash(again) == hash(predicate)
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    assert as_condition(as_condition(predicate)) == as_condition(predicate)


@settings(max_examples=50)
@given(text=st.text())
def test_any_text_survives_repr(text):
    try:
        predicate = (interaction("geo.city") == text) | interaction("geo.city").isin([text, "b"])
    except InvalidRequest:
        assert "\0" in text
    else:
        assert eval(repr(predicate), dict(NAMES)) == predicate


@pytest.mark.parametrize(
    ("predicate", "written"),
    [
        (
            (interaction("geo.countryCode") == "FR") & ~((interaction("hitCount") > 1) | LONG),
            '(interaction("geo.countryCode") == "FR") & '
            '~((interaction("hitCount") > 1) | (interaction("duration") > 3))',
        ),
        ((~(A & B) & C) | A, None),
        ((~(A & B) | C) & A, None),
        (~LONG, '~(interaction("duration") > 3)'),
        (EMPTY, 'Condition("interaction", "AND", ())'),
        (~EMPTY_OR, 'Condition("interaction", "OR", (), negated=True)'),
        (as_condition(A), 'Condition("interaction", "AND", (interaction("geo.city") == "A",))'),
        (
            interaction("startDate").between("2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"),
            'interaction("startDate").between("2025-01-01T00:00:00.000Z", "2025-02-01T00:00:00.000Z")',
        ),
        (
            user("fields.since", operator_type="date").isin(["2025-01-01T00:00:00Z"]),
            'user("fields.since", operator_type="date").isin(["2025-01-01T00:00:00.000Z"])',
        ),
        (user("fields.age") > 30, 'user("fields.age") > 30'),
        (interaction("isBot") == True, 'interaction("isBot") == True'),  # noqa: E712
        (interaction("geo.city") == 'a"\\\n', r'interaction("geo.city") == ' + repr('a"\\\n')),
    ],
)
def test_repr_is_the_code_that_builds_it(predicate, written):
    assert written is None or repr(predicate) == written
    assert eval(repr(predicate), dict(NAMES)) == predicate


def test_equality_is_structural():
    assert A == (interaction("geo.city") == "A")
    assert len({A, interaction("geo.city") == "A", B}) == 2
    assert (A & B) != (B & A)
    assert A in [B, A]
    assert (user("fields.a") == True) != (user("fields.a") == 1)  # noqa: E712


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: bool(A), r"write & \| ~ for and, or, not"),
        (lambda: A and B, r"write & \| ~ for and, or, not"),
        (lambda: A or B, r"write & \| ~ for and, or, not"),
        (lambda: not A, r"write & \| ~ for and, or, not"),
        (lambda: A & True, r"& combines predicates, got True \(bool\); put each comparison in parentheses"),
        (lambda: None | A, r"\| combines predicates, got None"),
        (lambda: "x" & A, r"& combines predicates, got 'x'"),
    ],
)
def test_truth_and_foreign_operands_are_refused(misuse, message):
    with pytest.raises(TypeError, match=message):
        misuse()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: A & (node("channel") == "search"),
            r"cannot combine interaction and node predicates.*nodes=",
        ),
        (lambda: (user("_id") == "u") | (event("_id") == "e"), r"cannot combine user and event predicates"),
        (lambda: Condition("node", "AND", (A,)), r"cannot combine node and interaction predicates"),
        (lambda: Condition("interaction", "and", (A,)), r"combinator: 'and' .*did you mean 'AND'"),
        (lambda: Condition("interaction", "AND", ("x",)), r"must be predicates, got str"),
        (lambda: Condition("interaction", "AND", (), negated=1), r"negated: must be True or False"),
        (lambda: Condition("visit", "AND", ()), r"kind: 'visit'"),
    ],
)
def test_conditions_refuse_what_does_not_combine(build, message):
    with pytest.raises(InvalidRequest, match=message):
        build()


def test_ten_levels_are_the_most():
    assert nested(10).kind == "interaction"
    with pytest.raises(InvalidRequest, match=r"may have at most 10 levels, this one has 11"):
        nested(11)


def test_two_hundred_nodes_are_the_most():
    # 199 comparisons and the condition that holds them.
    assert len(Condition("interaction", "OR", (A,) * 199).rules) == 199
    with pytest.raises(
        InvalidRequest, match=r"may have at most 200 comparisons and conditions, this one has 201"
    ):
        Condition("interaction", "OR", (A,) * 200)


def test_largest_predicate_survives_repr():
    largest = Condition("interaction", "OR", tuple(interaction("hitCount") == n for n in range(199)))
    assert eval(repr(largest), dict(NAMES)) == largest


def test_drawing_as_text():
    predicate = (A | interaction("geo").is_null()) & ~(B & LONG) & EMPTY
    assert str(predicate).splitlines() == [
        "all of",
        "├── any of",
        '│   ├── geo.city equals "A"',
        "│   └── geo is null",
        "├── not all of",
        '│   ├── geo.city equals "B"',
        "│   └── duration greater than 3",
        "└── everything",
    ]
    assert str(~(A | B)).splitlines()[0] == "none of"
    assert str(~EMPTY) == "nothing"


def test_drawing_shortens_long_lists():
    drawn = str(interaction("hitCount").isin(range(1000)))
    assert drawn == "hitCount in 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (1,000 in all)"


def test_drawing_as_html_escapes_values():
    drawn = ((interaction("referrer") == "<script>&") | A)._repr_html_()
    assert "<script>" not in drawn
    assert "<code>referrer equals &quot;&lt;script&gt;&amp;&quot;</code>" in drawn
    assert drawn.count("<li>") == drawn.count("</li>") == 2


def test_comparisons_are_frozen():
    with pytest.raises(AttributeError):
        A.value = "B"
    assert isinstance(A, Comparison)
