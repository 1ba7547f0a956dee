"""A budget of memory for the request bodies in flight (G-228)."""

from __future__ import annotations

from typing import Self

from attrib_ds.service.http.error_responses import HttpError


class BodyBudget:
    """Memory that all request bodies share; not thread-safe.

    Requests without a token get half of it at most, so that they cannot keep out those with one.

    Parameters
    ----------
    most_bytes : int
        Size of the budget.

    Examples
    --------
    >>> budget = BodyBudget(100)
    >>> with budget.request(has_token=False) as memory:
    ...     memory.take(51)
    Traceback (most recent call last):
        ...
    attrib_ds.service.http.error_responses.HttpError: (503, '')
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._taken = self._taken_without_token = 0

    def request(self, *, has_token: bool) -> BodyMemory:
        """Give one request its memory, and take it back at the end of the block."""
        return BodyMemory(self, has_token=has_token)

    def has_room(self, amount: int, *, has_token: bool) -> bool:
        """Return whether a body of this size fits in."""
        has_share = has_token or self._taken_without_token + amount <= self._most // 2
        return has_share and self._taken + amount <= self._most

    def change(self, amount: int, *, has_token: bool) -> None:
        """Take bytes, or give them back if negative."""
        self._taken += amount
        if not has_token:
            self._taken_without_token += amount


class BodyMemory:
    """Memory of one request's body, from :meth:`BodyBudget.request`.

    Parameters
    ----------
    budget : BodyBudget
        Where the memory comes from.
    has_token : bool
        Whether the request has a token.
    """

    def __init__(self, budget: BodyBudget, *, has_token: bool) -> None:
        self._budget = budget
        self.has_token = has_token
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.change(-self._taken, has_token=self.has_token)

    def take(self, amount: int) -> None:
        """Take more bytes.

        Raises
        ------
        HttpError
            With 503 if the budget is used up.
        """
        if not self._budget.has_room(amount, has_token=self.has_token):
            raise HttpError(503, headers={"Retry-After": "1"})
        self._taken += amount
        self._budget.change(amount, has_token=self.has_token)
