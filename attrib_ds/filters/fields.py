"""Fields to compare: their operators and methods build predicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters.predicates import PARENTHESES, Comparison, Predicate, write_field
from attrib_ds.filters.vocabulary import Kind, check_kind, read_as, resolve


@dataclass(frozen=True, eq=False, repr=False)
class Field:
    """A property to compare; its operators and methods build predicates.

    Create fields with :func:`interaction`, :func:`node`, :func:`user` and :func:`event`.
    ``== != < <= > >=`` compare with one value. A missing value only satisfies ``!=``, the ``not_`` methods,
    :meth:`is_null` and :meth:`is_empty` (G-084). :meth:`contains`, :meth:`starts_with` and :meth:`ends_with`
    ignore case; all others are case-sensitive.

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
            Of the field's type. If ``low`` is above ``high`` the comparison never holds.

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
            RE2 syntax, at most 512 characters; case-sensitive unless it starts with ``(?i)``. Slow counted
            repetitions, as in ``a.{40}c``, are refused. Searches the first 4,096 characters of the field.

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

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a field, neither true nor false; compare it: {self!r} == value")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a field and has no members; compare it: {self!r} == value")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            f"Python's `in` does not work on fields; write {self!r}.contains(text) or {self!r}.isin(values)"
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} is a field, not a predicate: compare it first, and {PARENTHESES}")

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _refuse


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
    those of all other nodes (G-090).

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
        A property such as ``eventType`` or ``eventDate``, ``event.<key>`` or ``user.<key>``.
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
