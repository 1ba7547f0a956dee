"""What every model has: a frozen value with a name, and parameters within documented bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from attrib_ds.display import card
from attrib_ds.errors import InvalidRequest


@dataclass(frozen=True)
class Model:
    """Base of every attribution model."""

    @property
    def name(self) -> str:
        """Name of the model in results: snake_case, with the parameters that are not the default."""
        changed = [
            f"{each.name}={getattr(self, each.name)!r}".replace("'", "")
            for each in fields(self)
            if each.repr and getattr(self, each.name) != each.default
        ]
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{stem}({', '.join(changed)})" if changed else stem

    def _repr_html_(self) -> str:
        told = {each.name: repr(getattr(self, each.name)) for each in fields(self)}
        summary = (type(self).__doc__ or "").partition("\n")[0]
        return card(type(self).__name__, told, note=summary)


def check_share(argument: str, share: object) -> None:
    """Refuse what is not a number from 0 to 1."""
    valid = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
    if not valid or not 0 <= share <= 1:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {share!r} is not a share; allowed: 0 to 1", field=argument)


def check_level(argument: str, level: object) -> None:
    """Refuse what is not a number between 0 and 1, these two left out."""
    check_share(argument, level)
    if not 0 < level < 1:  # type: ignore[operator]
        raise InvalidRequest(
            f"{argument}: {level!r} is not allowed; allowed: between 0 and 1", field=argument
        )


def check_amount(argument: str, amount: object) -> None:
    """Refuse what is not a finite number of at least zero."""
    valid = isinstance(amount, int | float) and not isinstance(amount, bool) and math.isfinite(amount)
    if not valid or amount < 0:  # type: ignore[operator]
        raise InvalidRequest(f"{argument}: {amount!r} is not allowed; allowed: 0 or more", field=argument)


def check_whole(argument: str, number: object, *, minimum: int, maximum: int | None = None) -> None:
    """Refuse what is not a whole number within bounds."""
    valid = isinstance(number, int) and not isinstance(number, bool) and number >= minimum
    if not valid or (maximum is not None and number > maximum):  # type: ignore[operator]
        bounds = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        raise InvalidRequest(
            f"{argument}: {number!r} is not allowed; allowed: whole numbers, {bounds}", field=argument
        )


def texts(argument: str, given: object, *, of: str = "node ids") -> tuple[str, ...]:
    """Return texts as a tuple; refuse what is no list of them."""
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (given,)
    if isinstance(given, str) or not all(isinstance(each, str) for each in found):
        raise InvalidRequest(
            f"{argument}: {given!r} is not allowed; allowed: a list of {of}, such as ('one', 'two')",
            field=argument,
        )
    return found
