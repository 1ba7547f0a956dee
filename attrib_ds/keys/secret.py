"""A wrapper for secrets that keeps them out of logs, tracebacks and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

REDACTED: Final = "[secret]"


class Secret(Generic[T]):
    """Hold a private key, an assertion or a token without displaying it.

    In logs, notebooks, errors and the locals of a traceback it appears as ``[secret]``. It has no
    ``__dict__``, copies are the same object, and it cannot be pickled.

    Parameters
    ----------
    value : object
        The secret.

    Examples
    --------
    >>> key = Secret("-----BEGIN PRIVATE KEY-----")
    >>> key, f"{key}", str({"key": key})
    ([secret], '[secret]', "{'key': [secret]}")
    >>> key.reveal()[:10]
    '-----BEGIN'
    """

    # Held in a closure: tools that print the attributes of an object show the function, not the value.
    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: Callable[[], T] = lambda: value

    def reveal(self) -> T:
        """Return the value; pass it on at once, and never bind it to a name."""
        return self._value()

    def redact(self, text: str) -> str:
        """Replace the value in a text by ``[secret]``."""
        value = self._value()
        return text.replace(value, REDACTED) if isinstance(value, str) and value else text

    def __repr__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled; call connect() in the process that needs the project")
