"""Predicate trees: fields, comparisons, and conditions that combine them."""

from __future__ import annotations

import html
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Final, Literal, NoReturn
from zoneinfo import ZoneInfo

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest, check_choice
from attrib_ds.filters import values
from attrib_ds.filters.vocabulary import OPERATORS, FieldType, Kind, check_kind, is_open, read_as, resolve


@dataclass(frozen=True, eq=False, repr=False)
class Field:
    """A property to compare; its operators and methods build predicates.

    Create fields with :func:`interaction`, :func:`node`, :func:`user` and :func:`event`.
    ``== != < <= > >=`` compare with one value. A calendar day (a ``date`` or ``"2025-04-01"``) stands for all
    of its instants in the project's time zone: ``<=`` includes the day, and ``>`` begins after it. A missing
    value only satisfies ``!=``, the ``not_`` methods, :meth:`is_null` and :meth:`is_empty`. :meth:`contains`,
    :meth:`starts_with` and :meth:`ends_with` ignore case; all others are case-sensitive.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    name : str
        Name of the property.
    operator_type : str, optional
        Type of a property that the project defines, see :func:`user`.

    Raises
    ------
    InvalidRequest
        If the kind has no such property; the message names the closest one.
    """

    kind: Kind
    name: str
    operator_type: str | None = None

    __array_ufunc__: ClassVar[None] = None
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        declared = resolve(check_kind(self.kind), self.name, argument=f"{self.kind} field")
        read_as(declared, self.operator_type, argument="operator_type")

    def __repr__(self) -> str:
        return write_field(self.kind, self.name, operator_type=self.operator_type)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return self._compare("equals", other)

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return self._compare("notEquals", other)

    def __lt__(self, other: object) -> Comparison:
        return self._compare("lessThan", other)

    def __le__(self, other: object) -> Comparison:
        return self._compare("lessThanOrEquals", other)

    def __gt__(self, other: object) -> Comparison:
        return self._compare("greaterThan", other)

    def __ge__(self, other: object) -> Comparison:
        return self._compare("greaterThanOrEquals", other)

    def isin(self, values: object) -> Comparison:
        """Hold where the field equals one of the values.

        Parameters
        ----------
        values : list, tuple, set, Series or Index
            1 to 10,000 values of the field's type; texts of at most 4,096 characters, 1,000,000 together.

        Returns
        -------
        Comparison
            With the operator ``in``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("geo.countryCode").isin(["FR", "DE"])
        interaction("geo.countryCode").isin(["FR", "DE"])
        """
        return self._compare("in", values)

    def not_in(self, values: object) -> Comparison:
        """Hold where the field equals none of the values, or is missing.

        Parameters
        ----------
        values : list, tuple, set, Series or Index
            1 to 10,000 values of the field's type.

        Returns
        -------
        Comparison
            With the operator ``notIn``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("geo.countryCode").not_in(["FR", "DE"])
        interaction("geo.countryCode").not_in(["FR", "DE"])
        """
        return self._compare("notIn", values)

    def contains(self, text: str) -> Comparison:
        """Hold where the field contains the text, ignoring case.

        Parameters
        ----------
        text : str
            Literal text, without wildcards, at most 4,096 characters. Searches as many of the field.

        Returns
        -------
        Comparison
            With the operator ``contains``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.node("campaignName").contains("brand")
        node("campaignName").contains("brand")
        """
        return self._compare("contains", text)

    def not_contains(self, text: str) -> Comparison:
        """Hold where the field does not contain the text, or is missing.

        Parameters
        ----------
        text : str
            Literal text, without wildcards.

        Returns
        -------
        Comparison
            With the operator ``notContains``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.node("campaignName").not_contains("brand")
        node("campaignName").not_contains("brand")
        """
        return self._compare("notContains", text)

    def starts_with(self, text: str) -> Comparison:
        """Hold where the field starts with the text, ignoring case.

        Parameters
        ----------
        text : str
            Literal text, without wildcards.

        Returns
        -------
        Comparison
            With the operator ``startsWith``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("firstPageUrl.pathname").starts_with("/shop")
        interaction("firstPageUrl.pathname").starts_with("/shop")
        """
        return self._compare("startsWith", text)

    def not_starts_with(self, text: str) -> Comparison:
        """Hold where the field does not start with the text, or is missing.

        Parameters
        ----------
        text : str
            Literal text, without wildcards.

        Returns
        -------
        Comparison
            With the operator ``notStartsWith``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("firstPageUrl.pathname").not_starts_with("/shop")
        interaction("firstPageUrl.pathname").not_starts_with("/shop")
        """
        return self._compare("notStartsWith", text)

    def ends_with(self, text: str) -> Comparison:
        """Hold where the field ends with the text, ignoring case.

        Parameters
        ----------
        text : str
            Literal text, without wildcards.

        Returns
        -------
        Comparison
            With the operator ``endsWith``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.user("fields.email").ends_with("@example.com")
        user("fields.email").ends_with("@example.com")
        """
        return self._compare("endsWith", text)

    def not_ends_with(self, text: str) -> Comparison:
        """Hold where the field does not end with the text, or is missing.

        Parameters
        ----------
        text : str
            Literal text, without wildcards.

        Returns
        -------
        Comparison
            With the operator ``notEndsWith``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.user("fields.email").not_ends_with("@example.com")
        user("fields.email").not_ends_with("@example.com")
        """
        return self._compare("notEndsWith", text)

    def between(self, low: object, high: object) -> Comparison:
        """Hold where the field is between two values, inclusive.

        Parameters
        ----------
        low, high : str, number or instant
            Of the field's type; ``low`` is not above ``high``.

        Returns
        -------
        Comparison
            With the operator ``between``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("duration").between(10, 60)
        interaction("duration").between(10, 60)
        """
        return self._compare("between", [low, high])

    def not_between(self, low: object, high: object) -> Comparison:
        """Hold where the field is not between two values, or is missing.

        Parameters
        ----------
        low, high : str, number or instant
            Of the field's type.

        Returns
        -------
        Comparison
            With the operator ``notBetween``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("duration").not_between(10, 60)
        interaction("duration").not_between(10, 60)
        """
        return self._compare("notBetween", [low, high])

    def is_empty(self) -> Comparison:
        """Hold where the field is missing or an empty text.

        Returns
        -------
        Comparison
            With the operator ``isEmpty``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("referrer").is_empty()
        interaction("referrer").is_empty()
        """
        return self._compare("isEmpty")

    def is_not_empty(self) -> Comparison:
        """Hold where the field has a value other than an empty text.

        Returns
        -------
        Comparison
            With the operator ``isNotEmpty``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("referrer").is_not_empty()
        interaction("referrer").is_not_empty()
        """
        return self._compare("isNotEmpty")

    def is_null(self) -> Comparison:
        """Hold where the field is missing; for an object, where all its members are missing.

        Returns
        -------
        Comparison
            With the operator ``isNull``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("geo").is_null()
        interaction("geo").is_null()
        """
        return self._compare("isNull")

    def is_not_null(self) -> Comparison:
        """Hold where the field has a value; for an object, where any of its members has one.

        Returns
        -------
        Comparison
            With the operator ``isNotNull``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.user("fields.email").is_not_null()
        user("fields.email").is_not_null()
        """
        return self._compare("isNotNull")

    def matches(self, pattern: str) -> Comparison:
        """Hold where a regular expression matches anywhere in the field.

        Parameters
        ----------
        pattern : str
            RE2 syntax, at most 512 characters; case-sensitive unless it starts with ``(?i)``. Long counted
            repetitions, as in ``x{600}y``, are refused. Searches the first 4,096 characters of the field.

        Returns
        -------
        Comparison
            With the operator ``matches``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("geo.zipcode").matches("^75[0-9]{3}$")
        interaction("geo.zipcode").matches("^75[0-9]{3}$")
        """
        return self._compare("matches", pattern)

    def not_matches(self, pattern: str) -> Comparison:
        """Hold where a regular expression matches nowhere in the field, or the field is missing.

        Parameters
        ----------
        pattern : str
            As for :meth:`matches`.

        Returns
        -------
        Comparison
            With the operator ``notMatches``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> at.interaction("geo.zipcode").not_matches("^75[0-9]{3}$")
        interaction("geo.zipcode").not_matches("^75[0-9]{3}$")
        """
        return self._compare("notMatches", pattern)

    def _compare(self, operator: str, value: object = None) -> Comparison:
        if isinstance(value, (Field, Predicate)):
            raise InvalidRequest(
                f"{self.name}: is compared with values, not with another field or predicate; {PARENTHESES}",
                field=self.name,
            )
        return Comparison(self.kind, self.name, operator, value, self.operator_type)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> NoReturn:
        # Asked for what the class does not have; other names with underscores are Python's protocols.
        advice = None if name.startswith("_") else _NAMES_ELSEWHERE.get(name)
        if advice is None:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        raise AttributeError(f"{self.kind}({self.name!r}) is a field, not a column of pandas: {advice}")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a field and not true or false; compare it: {self!r} == value")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a field and has no members; compare it: {self!r} == value")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            f"Python's `in` does not work on fields; write {self!r}.contains(text) or {self!r}.isin(values)"
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} is a field, not a predicate: compare it first, and {PARENTHESES}")

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _refuse


_OF_TEXT: Final = "write .contains(text), .starts_with(text), .ends_with(text) or .matches(pattern)"
_OF_MISSING: Final = "a missing value only satisfies != and the not_ methods; add | field.is_null() for it"
_OF_CASE: Final = "contains, starts_with and ends_with ignore case, and so does .matches('(?i)…')"
_OF_DAYS: Final = "compare it with a day or an instant, such as field >= '2025-04-01'"
#: What to write instead of the methods that columns of pandas, Polars and SQL libraries have.
_NAMES_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("str", "startswith", "endswith", "match", "fullmatch", "like", "ilike", "find"), _OF_TEXT
    ),
    **dict.fromkeys(("fillna", "fill_null", "dropna"), _OF_MISSING),
    **dict.fromkeys(("lower", "upper", "casefold", "strip"), _OF_CASE),
    **dict.fromkeys(("dt", "date", "year", "month", "day"), _OF_DAYS),
    **dict.fromkeys(("isna", "isnull"), "write .is_null()"),
    **dict.fromkeys(("notna", "notnull"), "write .is_not_null()"),
    **dict.fromkeys(("is_in", "in_"), "write .isin([…])"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "write == != < <= > >="),
    **dict.fromkeys(("astype", "cast"), "give the type of a field of your own by operator_type="),
    **dict.fromkeys(("map", "apply", "replace"), "filter first, and change the result"),
}


def interaction(name: str) -> Field:
    """Select a property of interactions to compare.

    Parameters
    ----------
    name : str
        A property such as ``geo.countryCode``. Objects such as ``geo`` only have ``is_null`` and
        ``is_not_null``.

    Returns
    -------
    Field
        Its operators and methods build predicates for ``where=``.

    Raises
    ------
    InvalidRequest
        If interactions have no such property; the message names the closest one.

    Examples
    --------
    >>> import attrib_ds as at
    >>> (at.interaction("geo.countryCode") == "FR") & (at.interaction("hitCount") > 1)
    (interaction("geo.countryCode") == "FR") & (interaction("hitCount") > 1)
    """
    return Field("interaction", name)


def node(name: str) -> Field:
    """Select a property of traffic-source nodes to compare.

    A match on a node also selects the interactions of all nodes below it, and a negative operator selects
    those of all other nodes.

    Parameters
    ----------
    name : str
        One of the ``filterId`` names, such as ``campaignName``.

    Returns
    -------
    Field
        Its operators and methods build predicates for ``nodes=``.

    Raises
    ------
    InvalidRequest
        If nodes have no such property; the message names the closest one.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.node("channel") == "search"
    node("channel") == "search"
    """
    return Field("node", name)


def user(name: str, *, operator_type: str | None = None) -> Field:
    """Select a property of users to compare.

    Parameters
    ----------
    name : str
        ``fields.<key>``, ``eventTypesCount.<event type>``, ``metrics.<key>.<aggregation>``, or a counter such
        as ``interactionCount``.
    operator_type : {"string", "number", "date", "boolean", "array"}, optional
        Type of ``fields.<key>``, which the project defines; the type of the compared value by default.

    Returns
    -------
    Field
        Its operators and methods build predicates for users.

    Raises
    ------
    InvalidRequest
        If users have no such property, or ``operator_type`` contradicts its type.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.user("fields.birthday", operator_type="date") < "2000-01-01T00:00:00Z"
    user("fields.birthday", operator_type="date") < "2000-01-01T00:00:00.000Z"
    """
    return Field("user", name, operator_type)


def event(name: str, *, operator_type: str | None = None) -> Field:
    """Select a property of events to compare.

    Parameters
    ----------
    name : str
        A property such as ``eventType`` or ``eventDate``, ``event.<key>``, ``user.<key>`` or, in
        :func:`attrib_ds.conversion_paths`, ``statistics.<key>``, an amount in its own currency.
    operator_type : {"string", "number", "date", "boolean", "array"}, optional
        Type of ``event.<key>`` or ``user.<key>``, which the project defines; the type of the compared value
        by default.

    Returns
    -------
    Field
        Its operators and methods build predicates for events.

    Raises
    ------
    InvalidRequest
        If events have no such property, or ``operator_type`` contradicts its type.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.event("eventType").isin(["purchase", "lead"])
    event("eventType").isin(["purchase", "lead"])
    """
    return Field("event", name, operator_type)


@dataclass(frozen=True)
class _Branch:
    """A label on one line, and the branches below it."""

    label: str
    branches: tuple[_Branch, ...] = ()

    def lines(self) -> list[str]:
        """Return the tree as text, one line per label."""
        lines = [self.label]
        for branch in self.branches:
            is_last = branch is self.branches[-1]
            first, *others = branch.lines()
            lines.append(f"{'└' if is_last else '├'}── {first}")
            lines += [f"{' ' if is_last else '│'}   {line}" for line in others]
        return lines

    def html(self) -> str:
        """Return the tree as nested lists, in the colours and fonts of the page."""
        label = html.escape(self.label)
        if not self.branches:
            return f"<code>{label}</code>"
        members = "".join(f"<li>{branch.html()}</li>" for branch in self.branches)
        return f'{label}<ul style="margin: 0; padding-left: 1.5em">{members}</ul>'


Combinator = Literal["AND", "OR"]

#: Maximum size of a predicate; conditions and comparisons both count as levels and nodes.
MOST_LEVELS: Final = 10
MOST_NODES: Final = 200
#: Maximum number of searches for a substring or pattern: each takes 40 to 100 ms for 2,048 long texts.
MOST_SEARCHES: Final = 50
#: Maximum number of regular expressions, and their maximum expanded size together.
MOST_PATTERNS: Final = 20
LARGEST_PATTERNS: Final = 4 * values.LARGEST_PATTERN
#: Maximum number of values, and of characters of texts, of all comparisons together.
MOST_VALUES_TOGETHER: Final = 2 * values.MOST_VALUES
LONGEST_TOGETHER: Final = values.LONGEST_LIST

_SYMBOLS: Final = {"AND": "&", "OR": "|"}
_LABELS: Final = {
    ("AND", False): "all of",
    ("OR", False): "any of",
    ("AND", True): "not all of",
    ("OR", True): "none of",
}
_EMPTY_LABELS: Final = {False: "everything", True: "nothing"}
_MOST_DRAWN: Final = 10
#: Advice when an operand of & or | is not a predicate.
PARENTHESES: Final = "put each comparison in parentheses: (field == value) & (other == value)"


class Predicate:
    """A filter on records: a comparison, or a condition that combines several.

    Combine predicates of one kind with ``&``, ``|`` and ``~``. Two are equal if their trees are, and
    ``eval(repr(p)) == p``. ``print(p)`` draws the tree as text, and a notebook draws it as HTML.

    Attributes
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    """

    kind: Kind
    # Otherwise a NumPy scalar on the left of an operator treats the predicate as an array.
    __array_ufunc__: ClassVar[None] = None

    def __and__(self, other: object) -> Condition:
        return _combine("AND", self, other)

    def __or__(self, other: object) -> Condition:
        return _combine("OR", self, other)

    def __rand__(self, other: object) -> Condition:
        return _combine("AND", other, self)

    def __ror__(self, other: object) -> Condition:
        return _combine("OR", other, self)

    def __invert__(self) -> Predicate:
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a predicate is not true or false by itself: write & | ~ for and, or, not "
            "(each comparison in parentheses), field.between(1, 3) for 1 < field < 3, "
            "and field.isin([...]) for `in`"
        )

    def __str__(self) -> str:
        return "\n".join(self._outline().lines())

    def _repr_html_(self) -> str:
        return f'<div class="attrib-predicate">{self._outline().html()}</div>'

    def _outline(self) -> _Branch:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Comparison(Predicate):
    """One field compared with a value.

    Usually written with a field: ``interaction("geo.city") == "Paris"``.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    field : str
        Name of the field.
    operator : str
        Name in the specification, such as ``notEquals``.
    value : object, optional
        One value, a list of values, a low and a high value, or no value, depending on the operator. Stored
        in canonical form: instants as text in UTC, several values as a tuple.
    operator_type : str, optional
        Type of the comparison: ``string``, ``number``, ``date``, ``boolean`` or ``array``. By default the
        type of the field, or of the value if the project defines the field.

    Raises
    ------
    InvalidRequest
        If the kind, field or operator is unknown, or the value is not allowed.

    Examples
    --------
    >>> Comparison("interaction", "geo.city", "equals", "Paris")
    interaction("geo.city") == "Paris"
    """

    kind: Kind
    field: str
    operator: str
    value: values.Value = None
    operator_type: str | None = None

    def __post_init__(self) -> None:
        kind = check_kind(self.kind)
        name = str(self.field)
        has_operator = isinstance(self.operator, str) and self.operator in OPERATORS
        names = (f"{kind} field", name if has_operator else "operator", "operator_type", name)
        field_type, value = values.settle(
            kind, self.field, self.operator, self.value, self.operator_type, names
        )
        object.__setattr__(self, "operator_type", field_type.value)
        object.__setattr__(self, "value", value)

    def __invert__(self) -> Predicate:
        complement = OPERATORS[self.operator].complement
        if complement is None:
            return Condition(self.kind, "AND", (self,), negated=True)
        return replace(self, operator=complement)

    def __repr__(self) -> str:
        operator = OPERATORS[self.operator]
        inferred = values.infer_type(self.value, operator=operator, argument=self.field)
        stated = is_open(self.kind, self.field) and self.operator_type != inferred
        base = write_field(self.kind, self.field, operator_type=self.operator_type if stated else None)
        arguments = _arguments(self.value, most=None)
        if operator.shape == "values":
            arguments = f"[{arguments}]"
        if operator.python.isidentifier():
            return f"{base}.{operator.python}({arguments})"
        return f"{base} {operator.python} {arguments}"

    def _outline(self) -> _Branch:
        arguments = _arguments(self.value, most=_MOST_DRAWN)
        return _Branch(f"{self.field} {OPERATORS[self.operator].words} {arguments}".rstrip())


@dataclass(frozen=True, repr=False)
class Condition(Predicate):
    """Predicates combined with AND or OR.

    Usually written with ``&``, ``|`` and ``~``.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        The kind of every rule.
    combinator : {"AND", "OR"}
        Whether all rules must hold, or at least one.
    rules : tuple of Predicate
        Without rules the condition always holds, with either combinator.
    negated : bool, default False
        Whether to negate the combined rules.

    Raises
    ------
    InvalidRequest
        If the kinds differ, or the tree has more than 10 levels, 200 nodes, 50 searches for substrings or
        patterns, 20 patterns, 20,000 values or 1,000,000 characters of text.

    Examples
    --------
    >>> from attrib_ds.filters import node
    >>> ~((node("channel") == "search") | (node("channel") == "social"))
    ~((node("channel") == "search") | (node("channel") == "social"))
    """

    kind: Kind
    combinator: Combinator
    rules: tuple[Predicate, ...] = ()
    negated: bool = False

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_choice("combinator", self.combinator, _SYMBOLS)
        if not isinstance(self.negated, bool):
            raise InvalidRequest(f"negated: must be True or False, got {self.negated!r}")
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            if not isinstance(rule, Predicate):
                raise InvalidRequest(f"rules: must be predicates, got {type(rule).__name__}")
            if rule.kind != self.kind:
                raise InvalidRequest(
                    f"rules: cannot combine {self.kind} and {rule.kind} predicates; pass each kind "
                    "to its own argument (interaction predicates to where=, node predicates to nodes=)"
                )
        levels, nodes = measure(self)
        if levels > MOST_LEVELS:
            raise InvalidRequest(
                f"rules: a predicate may have at most {MOST_LEVELS} levels, this one has {levels}; join "
                "nested conditions with the same combinator, or use .isin([...])"
            )
        if nodes > MOST_NODES:
            raise InvalidRequest(
                f"rules: a predicate may have at most {MOST_NODES} comparisons and conditions, this one has "
                f"{nodes}; use .isin([...]) instead of many comparisons of one field"
            )
        check_values([self])

    def __invert__(self) -> Predicate:
        if _is_ordering(self):
            return Condition(self.kind, "AND", (self,), negated=True)
        return self.rules[0] if self._wraps_ordering() else replace(self, negated=not self.negated)

    def __repr__(self) -> str:
        if self._wraps_ordering():
            return f"~({self.rules[0]!r})"
        # Operators flatten nested conditions with the same combinator, and need two rules.
        if len(self.rules) < 2 or any(_joins(self.combinator, rule) for rule in self.rules):
            rules = "".join(f"{rule!r}, " for rule in self.rules).rstrip(" ")
            ending = ", negated=True" if self.negated else ""
            return f'Condition("{self.kind}", "{self.combinator}", ({rules}){ending})'
        written = f" {_SYMBOLS[self.combinator]} ".join(_operand(rule) for rule in self.rules)
        return f"~({written})" if self.negated else written

    def _outline(self) -> _Branch:
        label = _LABELS[self.combinator, self.negated] if self.rules else _EMPTY_LABELS[self.negated]
        return _Branch(label, tuple(rule._outline() for rule in self.rules))

    def _wraps_ordering(self) -> bool:
        one_rule = self.negated and self.combinator == "AND" and len(self.rules) == 1
        return one_rule and _is_ordering(self.rules[0])


_FIRST, _LAST = instants.first_instant, instants.last_instant
#: The operator instead of one whose value is a calendar day, and the instants of the day to compare with.
_BOUNDS: Final[Mapping[str, tuple[str, tuple[Callable[..., datetime], ...]]]] = {
    "equals": ("between", (_FIRST, _LAST)),
    "notEquals": ("notBetween", (_FIRST, _LAST)),
    "between": ("between", (_FIRST, _LAST)),
    "notBetween": ("notBetween", (_FIRST, _LAST)),
    "greaterThan": ("greaterThan", (_LAST,)),
    "greaterThanOrEquals": ("greaterThanOrEquals", (_FIRST,)),
    "lessThan": ("lessThan", (_FIRST,)),
    "lessThanOrEquals": ("lessThanOrEquals", (_LAST,)),
}
#: How comparisons with each of several values are combined.
_EACH: Final[Mapping[str, tuple[Combinator, str]]] = {"in": ("OR", "equals"), "notIn": ("AND", "notEquals")}


def in_zone(predicate: Predicate, zone: Callable[[], ZoneInfo]) -> Predicate:
    """Replace calendar days by their first and last instants.

    Parameters
    ----------
    predicate : Predicate
        Of any kind.
    zone : callable
        Returns the time zone of the days; called only if there are any.

    Examples
    --------
    >>> in_zone(interaction("startDate") <= "2025-04-01", lambda: ZoneInfo("Europe/Paris"))
    interaction("startDate") <= "2025-04-01T21:59:59.999999Z"
    """
    if isinstance(predicate, Condition):
        return replace(predicate, rules=tuple(in_zone(rule, zone) for rule in predicate.rules))
    if not isinstance(predicate, Comparison) or predicate.operator_type != FieldType.INSTANT:
        return predicate
    given = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
    if not values.calendar_days(given):
        return predicate
    if predicate.operator in _EACH:
        combinator, operator = _EACH[predicate.operator]
        alone = (in_zone(replace(predicate, operator=operator, value=value), zone) for value in given)
        return Condition(predicate.kind, combinator, tuple(alone))

    def instant(value: values.Scalar | None, bound: Callable[..., datetime]) -> object:
        day = instants.parse_day(value, argument=predicate.field)
        return value if day is None else bound(day, zone(), argument=predicate.field)

    operator, bounds = _BOUNDS[predicate.operator]
    # A day alone stands for its first and its last instant.
    pairs = zip(given if len(given) == len(bounds) else given * len(bounds), bounds, strict=True)
    settled = tuple(instant(value, bound) for value, bound in pairs)
    return replace(predicate, operator=operator, value=settled if len(settled) > 1 else settled[0])  # type: ignore[arg-type]


def write_field(kind: Kind, name: str, *, operator_type: str | None) -> str:
    """Write the Python call that creates a field.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Function to call.
    name : str
        Name of the field.
    operator_type : str or None
        Type of the field, if it must be stated.

    Returns
    -------
    str
        Python code.

    Examples
    --------
    >>> print(write_field("user", "fields.age", operator_type="number"))
    user("fields.age", operator_type="number")
    """
    stated = f', operator_type="{operator_type}"' if operator_type is not None else ""
    return f"{kind}({_literal(name)}{stated})"


def as_condition(predicate: Predicate) -> Condition:
    """Return the predicate as a condition, the form that a ``nodeFilter`` needs.

    Parameters
    ----------
    predicate : Predicate
        Any.

    Returns
    -------
    Condition
        The predicate itself, or a condition with the predicate as its only rule.

    Examples
    --------
    >>> from attrib_ds.filters import node
    >>> as_condition(node("channel") == "search").rules
    (node("channel") == "search",)
    """
    return predicate if isinstance(predicate, Condition) else Condition(predicate.kind, "AND", (predicate,))


def _combine(combinator: Combinator, left: object, right: object) -> Condition:
    rules: list[Predicate] = []
    for operand in (left, right):
        if not isinstance(operand, Predicate):
            raise TypeError(
                f"{_SYMBOLS[combinator]} combines predicates, got {reprlib.repr(operand)} "
                f"({type(operand).__name__}); {PARENTHESES}"
            )
        if isinstance(operand, Condition) and _joins(combinator, operand):
            rules.extend(operand.rules)
        else:
            rules.append(operand)
    return Condition(rules[0].kind, combinator, tuple(rules))


def _joins(combinator: Combinator, rule: Predicate) -> bool:
    """Return whether a condition can be flattened into another with ``combinator``."""
    # An empty condition always holds, so it must stay inside OR.
    return (
        isinstance(rule, Condition)
        and rule.combinator == combinator
        and not rule.negated
        and len(rule.rules) > 0
    )


def _is_ordering(predicate: Predicate) -> bool:
    """Return whether this is a comparison without complement, possibly inside conditions of one rule.

    ``~`` wraps such a predicate in a negated condition, and unwraps it when applied again.
    """
    if isinstance(predicate, Condition):
        bare = predicate.combinator == "AND" and not predicate.negated and len(predicate.rules) == 1
        return bare and _is_ordering(predicate.rules[0])
    return isinstance(predicate, Comparison) and OPERATORS[predicate.operator].complement is None


def measure(predicate: Predicate) -> tuple[int, int]:
    """Count levels and nodes."""
    if not isinstance(predicate, Condition):
        return 1, 1
    sizes = [measure(rule) for rule in predicate.rules]
    return 1 + max((levels for levels, _ in sizes), default=0), 1 + sum(nodes for _, nodes in sizes)


def check_values(predicates: Iterable[Predicate]) -> None:
    """Refuse predicates whose values are together too many, too long or too slow."""
    items = searches = patterns = size = length = 0
    for leaf in (leaf for predicate in predicates for leaf in comparisons(predicate)):
        own = leaf.value if isinstance(leaf.value, tuple) else (leaf.value,)
        items += len(own)
        length += sum(len(value) for value in own if isinstance(value, str))
        searches += OPERATORS[leaf.operator].positive in {"contains", "matches"}
        if OPERATORS[leaf.operator].positive == "matches":
            patterns += 1
            size += values.expanded_size(str(leaf.value))
    for got, most, noun in (
        (patterns, MOST_PATTERNS, "patterns"),
        (searches, MOST_SEARCHES, "patterns and substrings"),
        (size, LARGEST_PATTERNS, "characters and classes in its patterns, their repetitions written out"),
        (items, MOST_VALUES_TOGETHER, "values"),
        (length, LONGEST_TOGETHER, "characters of text"),
    ):
        if got > most:
            raise InvalidRequest(f"rules: a predicate may have at most {most:,} {noun}, this one has {got:,}")


def comparisons(predicate: Predicate) -> Iterator[Comparison]:
    """Yield the comparisons of a predicate."""
    if isinstance(predicate, Condition):
        for rule in predicate.rules:
            yield from comparisons(rule)
    elif isinstance(predicate, Comparison):
        yield predicate


def _operand(rule: Predicate) -> str:
    return repr(rule) if isinstance(rule, Condition) and rule.negated else f"({rule!r})"


def _arguments(value: values.Value, *, most: int | None) -> str:
    """Write a value as the arguments of a call, cut after ``most`` values."""
    if value is None:
        return ""
    items = value if isinstance(value, tuple) else (value,)
    rest = f", … ({len(items):,} in all)" if most is not None and len(items) > most else ""
    return ", ".join(_literal(item) for item in items[:most]) + rest


def _literal(value: values.Scalar) -> str:
    """Write a value as Python code, text in double quotes."""
    if isinstance(value, str) and value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
