"""The texts that name things: projects, records, references, keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from attrib_ds.contract.rule import Refused, Rule, pattern, text

_SLUG: Final = "[a-z0-9]+(?:-[a-z0-9]+)*"


def _check_path_text(value: Any) -> str:
    if isinstance(value, str) and value in {".", ".."}:
        # A client folds these parts of a path away and would call another operation.
        raise Refused(f"{value!r} cannot stand in a path; allowed: text of at least one character")
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
_FILLED: Final = text(allowed="text of at least one character", shortest=1)

Text: TypeAlias = Annotated[str, _ANY_TEXT]
Name: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_blank,
        allowed="text that is not blank",
        json_schema={"type": "string", "minLength": 1},
    ),
]
ProjectId: TypeAlias = Annotated[
    str,
    pattern(
        _SLUG,
        shortest=3,
        longest=64,
        allowed="3 to 64 lower-case letters and digits, with single hyphens between them",
    ),
]
VendorId: TypeAlias = ProjectId
HexId: TypeAlias = Annotated[
    str, pattern("[a-f0-9]{24}", shortest=24, longest=24, allowed="24 lower-case hexadecimal digits")
]
PathText: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_path_text,
        allowed="text of at least one character",
        json_schema={"type": "string", "minLength": 1},
    ),
]
#: A malformed UUID is unknown, not invalid: the operations on events and hits list no 400 (G-032, G-154).
Uuid: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_uuid,
        allowed="a UUID",
        json_schema={"type": "string", "format": "uuid"},
    ),
]
#: As :data:`HexId`, for the operations that list no 400: there a malformed id is unknown (G-150).
UserIdOrUnknown: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_path_text,
        allowed="24 lower-case hexadecimal digits",
        json_schema={"type": "string", "pattern": "^[a-f0-9]{24}$"},
    ),
]
Slug: TypeAlias = Annotated[
    str,
    pattern(
        r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}",
        longest=128,
        allowed="1 to 128 letters, digits and . _ ~ -, beginning with a letter or digit",
    ),
]
Reference: TypeAlias = Annotated[
    str,
    pattern(
        "[a-z0-9]+(?:[-_][a-z0-9]+)*",
        longest=64,
        allowed="1 to 64 lower-case letters and digits, with single - or _ between them",
    ),
]
StorageKey: TypeAlias = Annotated[
    str,
    pattern(
        "[A-Za-z][A-Za-z0-9_-]{0,63}",
        longest=64,
        allowed="1 to 64 letters, digits, _ and -, beginning with a letter",
    ),
]
