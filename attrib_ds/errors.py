"""Every error of the package, with its HTTP status.

::

    AttribError
    ├── InvalidRequest      400  a value that is not allowed (also a ValueError)
    ├── Unauthorized        401  no token, or one that no longer works
    ├── Forbidden           403  the account may not do this (also a PermissionError)
    ├── NotFound            404  no such record (also a LookupError)
    ├── Conflict            409  a key is taken, or a nonce was used for something else
    ├── TooManyRequests     429  the rate limit is reached
    ├── ServiceFailure      500  the service failed; nothing was stored
    ├── NotSupported        501  the project is of a kind that cannot do it
    └── Unavailable         503  the service or its file cannot be used now
        └── ProjectInUse    503  another process holds the project's file

Warnings of this package: :class:`UnknownFields`, :class:`UnknownCurrency`, :class:`InputWarning`,
:class:`RejectedRows`, :class:`ConfoundingWarning`, :class:`TruncatedUsers`, :class:`HoldoutWarning`.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
import sys
import warnings
from collections.abc import Collection, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from attrib_ds.display import printable

if TYPE_CHECKING:
    import pandas as pd


__all__ = [
    "AttribError", "Conflict", "ConfoundingWarning", "Forbidden", "HoldoutWarning", "InputWarning",
    "InvalidRequest", "NotFound", "NotSupported", "ProjectInUse", "RejectedRows", "ServiceFailure",
    "TooManyRequests", "TruncatedUsers", "Unauthorized", "Unavailable", "UnknownCurrency",
    "UnknownFields",
]  # fmt: skip

#: Maximum number of allowed values in a message.
_MAX_CHOICES: Final = 10
#: Packages whose frames a warning passes on the way to the caller. Dispatch by type adds a frame of
#: functools, and functions that run in a context one of contextlib.
_PASSED: Final = ("attrib_ds", "functools", "contextlib")


class AttribError(Exception):
    """Base class of all errors of this package.

    Parameters
    ----------
    message : str
        What went wrong and what to do about it; control characters are escaped.
    field : str, optional
        The argument or property the error is about.
    request_id : str, optional
        The service's identifier of the failed request.
    details : list of dict, optional
        One entry per violation, machine-readable.
    retry_after : float, optional
        Seconds after which it may work, where the service says so.

    Attributes
    ----------
    status : int
        The HTTP status this error stands for.
    partial : DataFrame, optional
        What became of each row so far, where rows of a frame were sent.
    is_unknown : bool
        Whether the request may have been carried out, since its answer was lost.
    """

    status: ClassVar[int] = 500
    partial: pd.DataFrame | None = None
    is_unknown: bool = False

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        request_id: str | None = None,
        details: list[dict[str, Any]] | None = None,
        retry_after: float | None = None,
    ) -> None:
        # A message may repeat what a service or a file contains.
        message = printable(message)
        super().__init__(message)
        self.message = message
        self.field = field
        self.request_id = None if request_id is None else printable(request_id)
        self.details = details or []
        self.retry_after = retry_after

    def __str__(self) -> str:
        suffix = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.message}{suffix}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the keyword-only fields, which ``Exception`` alone would drop."""
        names = ("field", "request_id", "details", "retry_after")
        fields = {name: getattr(self, name) for name in names}
        return (
            _rebuild,
            (type(self), self.message, fields),
            {"partial": self.partial, "is_unknown": self.is_unknown},
        )


def _rebuild(kind: type[AttribError], message: str, fields: dict[str, Any]) -> AttribError:
    return kind(message, **fields)


class _OfField(AttribError):
    """An error of a field: the word that its message begins with, ``field: problem``, unless it is given."""

    def __init__(self, message: str, **particulars: Any) -> None:
        name = re.match(r"([^\s:]+): ", message)
        super().__init__(message, **{"field": name and name[1], **particulars})


class InvalidRequest(_OfField, ValueError):
    """A value that is not allowed; the message names the argument, its value and what is allowed."""

    status = 400

    @classmethod
    def choice(cls, field: str, got: object, allowed: Iterable[str]) -> Self:
        """Return the error of a value that is none of ``allowed``, naming the closest one."""
        options = sorted(set(allowed))
        if len(options) > _MAX_CHOICES:
            options.sort(key=lambda option: -difflib.SequenceMatcher(None, str(got), option).ratio())
        shown = ", ".join(options[:_MAX_CHOICES])
        shown += f", … ({len(options)} in all)" if len(options) > _MAX_CHOICES else ""
        advice = f"allowed: {shown}" if options else "there is none to choose from yet"
        return cls(f"{field}: {got!r} is not allowed{closest(got, options)}; {advice}", field=field)

    @classmethod
    def value(cls, field: str, got: object, allowed: str) -> Self:
        """Return the error of a value that is not what ``allowed`` says in words."""
        return cls(f"{field}: {got!r} is not allowed; allowed: {allowed}", field=field)


def check_choice(field: str, got: object, allowed: Collection[Any]) -> None:
    """Raise :class:`InvalidRequest` unless a value is one of ``allowed``."""
    if not isinstance(got, str) or got not in allowed:
        raise InvalidRequest.choice(field, got, allowed)


def check_number(
    field: str,
    got: object,
    allowed: str,
    *,
    above: float = -math.inf,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    below: float = math.inf,
) -> Any:
    """Return a finite number within bounds as Python's; raise :class:`InvalidRequest` else."""
    number = plain_number(got)
    is_number = isinstance(number, numbers.Real) and not isinstance(number, bool)
    if not is_number or not (above < number < below and minimum <= number <= maximum):
        raise InvalidRequest.value(field, number, allowed)
    return number


def check_whole(field: str, got: object, *, minimum: int, maximum: float = math.inf) -> int:
    """Return a whole number within bounds, also one such as ``3.0``; raise :class:`InvalidRequest` else."""
    bounds = f"{minimum:,} or more" if maximum == math.inf else f"{minimum:,} to {maximum:,}"
    number = check_number(field, got, f"whole numbers, {bounds}", minimum=minimum, maximum=maximum)
    if number % 1 != 0:
        raise InvalidRequest.value(field, number, f"whole numbers, {bounds}")
    return int(number)


def plain_number(got: object) -> Any:
    """Return numbers of NumPy, fractions and decimals as Python's, and any other value unchanged."""
    number = got.item() if isinstance(got, numbers.Number) and hasattr(got, "item") else got
    try:
        return float(number) if isinstance(number, Fraction | Decimal) else number
    except (OverflowError, ValueError):
        return number


class Unauthorized(AttribError):
    """The token is missing or no longer valid."""

    status = 401


class Forbidden(AttribError, PermissionError):
    """The account may not do this."""

    status = 403


class NotFound(_OfField, LookupError):
    """The record does not exist."""

    status = 404


class Conflict(_OfField):
    """A key is already in use, or a nonce was used for something else."""

    status = 409


class TooManyRequests(AttribError):
    """The rate limit is reached."""

    status = 429


class ServiceFailure(AttribError):
    """The service failed; nothing was stored."""

    status = 500


class NotSupported(AttribError, NotImplementedError):
    """The call needs another kind of project; the message names it."""

    status = 501


class Unavailable(_OfField):
    """The service or its file cannot be used now."""

    status = 503


class ProjectInUse(Unavailable):
    """Another process holds the project's file."""


class UnknownFields(UserWarning):
    """A service returned fields that this version does not have."""


class UnknownCurrency(UserWarning):
    """Values without a currency cannot be compared with spend, or a currency does not exist."""


class InputWarning(UserWarning):
    """A file, frame or export may have been misread, or lacks something."""


class RejectedRows(UserWarning):
    """Rows of a file or frame could not be read and are left out."""


class ConfoundingWarning(UserWarning):
    """The data contradict a model of effects, for example because negative controls earn credit."""


class TruncatedUsers(UserWarning):
    """The table of observed users does not list users without touchpoints."""


class HoldoutWarning(UserWarning):
    """A holdout may not be a fair draw, or its node may not exist."""


def warn(message: str, category: type[UserWarning] = InputWarning) -> None:
    """Warn the first caller outside this package, of odd input by default."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def closest(got: object, options: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the option closest to ``got``, or an empty string."""
    if not isinstance(got, str):
        return ""
    by_folded = {option.casefold(): option for option in options}
    matches = difflib.get_close_matches(got.casefold(), by_folded, n=1, cutoff=0.6)
    return f" (did you mean {by_folded[matches[0]]!r}?)" if matches else ""


def __dir__() -> list[str]:
    return __all__
