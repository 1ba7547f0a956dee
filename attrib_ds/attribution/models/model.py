"""Base class of the attribution models, and the checks of their parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from attrib_ds.display import card
from attrib_ds.errors import InvalidRequest


@dataclass(frozen=True)
class Model:
    """Base of every attribution model: a frozen value with a name, to compare, hash and print.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.models.TimeDecay(half_life="3D").name
    'time_decay(half_life=3D)'
    >>> at.models.Linear() == at.models.Linear()
    True
    """

    @property
    def name(self) -> str:
        """Name of the model in results: snake_case, with the parameters that differ from the defaults."""
        changed = [
            f"{parameter.name}={getattr(self, parameter.name)!r}".replace("'", "")
            for parameter in fields(self)
            if parameter.repr and getattr(self, parameter.name) != parameter.default
        ]
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{stem}({', '.join(changed)})" if changed else stem

    def _repr_html_(self) -> str:
        parameters = {parameter.name: repr(getattr(self, parameter.name)) for parameter in fields(self)}
        summary = (type(self).__doc__ or "").partition("\n")[0]
        return card(type(self).__name__, parameters, note=summary)


def check_share(argument: str, share: object) -> None:
    """Require a number from 0 to 1."""
    valid = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
    if not valid or not 0 <= share <= 1:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {share!r} is not a share; allowed: 0 to 1", field=argument)


def check_level(argument: str, level: object) -> None:
    """Require a number between 0 and 1, both excluded."""
    check_share(argument, level)
    if not 0 < level < 1:  # type: ignore[operator]
        raise InvalidRequest(
            f"{argument}: {level!r} is not allowed; allowed: between 0 and 1", field=argument
        )


def check_amount(argument: str, amount: object) -> None:
    """Require a finite number, 0 or more."""
    valid = isinstance(amount, int | float) and not isinstance(amount, bool) and math.isfinite(amount)
    if not valid or amount < 0:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {amount!r} is not allowed; allowed: 0 or more", field=argument)


def check_whole(argument: str, number: object, *, minimum: int, maximum: int | None = None) -> None:
    """Require a whole number within bounds."""
    valid = isinstance(number, int) and not isinstance(number, bool) and number >= minimum
    if not valid or (maximum is not None and number > maximum):  # type: ignore[operator]
        bounds = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        raise InvalidRequest(
            f"{argument}: {number!r} is not allowed; allowed: whole numbers, {bounds}", field=argument
        )


def check_strings(argument: str, given: object, *, of: str = "node ids") -> tuple[str, ...]:
    """Require a list of strings, and return it as a tuple."""
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (given,)
    if isinstance(given, str) or not all(isinstance(item, str) for item in items):
        raise InvalidRequest(
            f"{argument}: {given!r} is not allowed; allowed: a list of {of}, such as ('one', 'two')",
            field=argument,
        )
    return items
