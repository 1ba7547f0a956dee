"""Rules for identifiers: projects, records, references, storage keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from attrib_ds.contract.rule import Refused, Rule, pattern, text

_SLUG: Final = "[a-z0-9]+(?:-[a-z0-9]+)*"


def _check_path_text(value: Any) -> str:
    if isinstance(value, str) and value in {".", ".."}:
        # HTTP clients resolve these path segments, and would call another operation.
        raise Refused(f"{value!r} cannot be a path segment; expected other text, not empty")
    return str(_FILLED.check(value))


def _check_uuid(value: Any) -> str:
    name = _check_path_text(str(value) if isinstance(value, UUID) else value)
    return name.lower() if _UUID.fullmatch(name) else name


def _check_blank(value: Any) -> str:
    name: str = _ANY_TEXT.check(value)
    if not name.strip():
        raise Refused
    return name


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ANY_TEXT: Final = text()
_FILLED: Final = text(expected="text that is not empty", shortest=1)

Text: TypeAlias = Annotated[str, _ANY_TEXT]
Name: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_blank,
        expected="text that is not blank",
        json_schema={"type": "string", "minLength": 1},
    ),
]
ProjectId: TypeAlias = Annotated[
    str,
    pattern(
        _SLUG,
        shortest=3,
        longest=64,
        expected="3 to 64 lower-case letters and digits, with single hyphens between them",
    ),
]
VendorId: TypeAlias = ProjectId
HexId: TypeAlias = Annotated[
    str, pattern("[a-f0-9]{24}", shortest=24, longest=24, expected="24 lower-case hexadecimal digits")
]
PathText: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_path_text,
        expected="text that is not empty",
        json_schema={"type": "string", "minLength": 1},
    ),
]
#: A malformed UUID is not found, not invalid: operations on events and hits list no 400 (G-032, G-154).
Uuid: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_uuid,
        expected="a UUID",
        json_schema={"type": "string", "format": "uuid"},
    ),
]
#: As :data:`HexId`, for operations that list no 400: a malformed id is not found, not invalid (G-150).
UserIdOrUnknown: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_path_text,
        expected="24 lower-case hexadecimal digits",
        json_schema={"type": "string", "pattern": "^[a-f0-9]{24}$"},
    ),
]
Slug: TypeAlias = Annotated[
    str,
    pattern(
        r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}",
        longest=128,
        expected="1 to 128 letters, digits and . _ ~ -, starting with a letter or digit",
    ),
]
Reference: TypeAlias = Annotated[
    str,
    pattern(
        "[a-z0-9]+(?:[-_][a-z0-9]+)*",
        longest=64,
        expected="1 to 64 lower-case letters and digits, with single - or _ between them",
    ),
]
StorageKey: TypeAlias = Annotated[
    str,
    pattern(
        "[A-Za-z][A-Za-z0-9_-]{0,63}",
        longest=64,
        expected="1 to 64 letters, digits, _ and -, starting with a letter",
    ),
]
