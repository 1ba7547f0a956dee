"""A value that shows itself nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

REDACTED: Final = "[secret]"


class Secret(Generic[T]):
    """Hold a private key, an assertion or a token out of sight.

    Its text, in a log, a notebook, an error or the locals of a traceback, is ``[secret]``; it has no
    ``__dict__``, copies are the same object, and it refuses to be pickled.

    Parameters
    ----------
    value : object
        What is kept.

    Examples
    --------
    >>> key = Secret("-----BEGIN PRIVATE KEY-----")
    >>> key, f"{key}", str({"key": key})
    ([secret], '[secret]', "{'key': [secret]}")
    >>> key.reveal()[:10]
    '-----BEGIN'
    """

    # Kept by a function: what shows the attributes of an object shows that there is one, not its value.
    __slots__ = ("_kept",)

    def __init__(self, value: T) -> None:
        self._kept: Callable[[], T] = lambda: value

    def reveal(self) -> T:
        """Return the value; to be handed on at once, never bound to a name."""
        return self._kept()

    def blot(self, text: str) -> str:
        """Return a text in which the value, if it is in there, is not to be read."""
        value = self._kept()
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
