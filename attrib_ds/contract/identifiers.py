"""Rules for identifiers: projects, records, references, storage keys, currencies and email addresses."""

import hashlib
import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import email_validator

from attrib_ds.contract.json_values import Refused, Rule, pattern, text

_LONGEST_SLUG: Final = 128
#: Ends the former slug of a campaign of which no text is known; no slug has it.
FORMER: Final = "~"
#: Digits of a hash at the end of a slug, and longest part before the hyphen between both.
_DIGITS: Final = 10
_LONGEST_READABLE: Final = _LONGEST_SLUG - 1 - _DIGITS
_READABLE: Final = re.compile("[a-z0-9 ]+")
_STORABLE: Final = r"[^\x00\ud800-\udfff]"
#: Longest text that names a campaign.
LONGEST_CAMPAIGN: Final = 255
_SLUG: Final = "[a-z0-9]+(?:-[a-z0-9]+)*"


def slug_of(text: str) -> str:
    """Return the slug of a campaign's text: small letters, digits and hyphens, at most 128.

    Compatible forms of a letter are one, case does not count, and a run of white space, ``-`` and ``_`` is
    one hyphen. The slug of a text with anything else ends with a part of a hash, so that no other has it.

    Examples
    --------
    >>> slug_of("Spring Sale 2025"), slug_of("spring_SALE-2025")
    ('spring-sale-2025', 'spring-sale-2025')
    >>> slug_of("C++ course"), slug_of("C# course"), slug_of("春")
    ('c-course-d751c790d0', 'c-course-b807d68b3d', 'campaign-b3c33b7aba')
    """
    key = re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()
    if len(key) <= _LONGEST_SLUG and _READABLE.fullmatch(key):
        return key.replace(" ", "-")
    readable = re.sub("[^a-z0-9]+", "-", key).strip("-")[:_LONGEST_READABLE].rstrip("-")
    return f"{readable or 'campaign'}-{hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]}"


def former_slug_of(text: str) -> str:
    """Return the slug that a text had before :func:`slug_of` told texts apart that share what is readable."""
    folded = unicodedata.normalize("NFKC", text).lower().strip()
    slug = re.sub("[^a-z0-9]+", "-", folded)[:_LONGEST_SLUG]
    return slug if slug.strip("-") else f"campaign-{hashlib.sha256(folded.encode()).hexdigest()[:12]}"


def _check_path_text(value: Any) -> str:
    if isinstance(value, str) and value in {".", ".."}:
        # HTTP clients resolve these path segments, and would call another operation.
        raise Refused(f"{value!r} cannot be a path segment; expected other text, not empty")
    return str(_FILLED.check(value))


def _check_uuid(value: Any) -> str:
    return _check_path_text(str(value) if isinstance(value, UUID) else value)


def with_lower_uuids(request: Any) -> Any:
    """Return a request with its UUIDs as our service stores them; other services may tell cases apart."""
    fields = type(request).model_fields.items()
    given = {name: getattr(request, name) for name, field in fields if _UUID_RULE in field.metadata}
    changes = {name: id.lower() for name, id in given.items() if _UUID.fullmatch(id) and id != id.lower()}
    return request.model_copy(update=changes) if changes else request


def _check_blank(value: Any) -> str:
    name: str = _ANY_TEXT.check(value)
    if not name.strip():
        raise Refused
    return name


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ANY_TEXT: Final = text()
_FILLED: Final = text("text that is not empty", shortest=1)

Text = Annotated[str, _ANY_TEXT]
Name = Annotated[str, Rule(_check_blank, "text that is not blank", {"type": "string", "minLength": 1})]
ProjectId = Annotated[
    str,
    pattern(
        _SLUG,
        "3 to 64 lower-case letters and digits, with single hyphens between them",
        shortest=3,
        longest=64,
    ),
]
VendorId = ProjectId
HexId = Annotated[str, pattern("[a-f0-9]{24}", "24 lower-case hexadecimal digits", shortest=24, longest=24)]
PathText = Annotated[
    str, Rule(_check_path_text, "text that is not empty", {"type": "string", "minLength": 1})
]
#: A malformed UUID is not found, not invalid: operations on events and hits list no 400.
_UUID_RULE: Final = Rule(_check_uuid, "a UUID", {"type": "string", "format": "uuid"})
Uuid = Annotated[str, _UUID_RULE]
#: As :data:`HexId`, for operations that list no 400: a malformed id is not found, not invalid.
UserIdOrUnknown = Annotated[
    str,
    Rule(
        _check_path_text, "24 lower-case hexadecimal digits", {"type": "string", "pattern": "^[a-f0-9]{24}$"}
    ),
]
Slug = Annotated[
    str,
    pattern(
        rf"{_STORABLE}*[^\s\x00\ud800-\udfff]{_STORABLE}*",
        f"text of 1 to {LONGEST_CAMPAIGN} characters, which becomes a slug",
        longest=LONGEST_CAMPAIGN,
    ),
]
Reference = Annotated[
    str,
    pattern(
        "[a-z0-9]+(?:[-_][a-z0-9]+)*",
        "1 to 64 lower-case letters and digits, with single - or _ between them",
        longest=64,
    ),
]
StorageKey = Annotated[
    str,
    pattern(
        "[A-Za-z][A-Za-z0-9_-]{0,63}", "1 to 64 letters, digits, _ and -, starting with a letter", longest=64
    ),
]


#: Codes in force, and those withdrawn, which old amounts have.
CURRENCIES: Final = frozenset(Path(__file__).with_name("currencies.txt").read_text("ascii").split())
#: Pattern of all codes.
PATTERN: Final = "|".join(sorted(CURRENCIES))
#: What a message says is expected.
EXPECTED: Final = "a currency of ISO 4217, such as 'EUR'"

#: Codes of the signs that stand for one currency; $, ¥ and kr stand for several.
SIGNS: Final = {
    "€": "EUR", "£": "GBP", "₹": "INR", "₺": "TRY", "₴": "UAH", "₦": "NGN", "₪": "ILS", "₫": "VND",
    "฿": "THB", "zł": "PLN", "Kč": "CZK",
}  # fmt: skip
#: Advice for signs.
NO_SIGN: Final = f"{EXPECTED}; the sign € means 'EUR', but $, ¥ and kr mean several"


def code_of(word: object) -> str | None:
    """Return the code that a word of a user stands for, or None.

    Examples
    --------
    >>> [code_of(word) for word in ("EUR", " eur", "€", "$", "euro")]
    ['EUR', 'EUR', 'EUR', None, None]
    """
    text = word.strip() if isinstance(word, str) else ""
    code = SIGNS.get(text, text.upper())
    return code if code in CURRENCIES else None


def coded(currency: Any) -> Any:
    """Return the code that a user's text stands for; anything else stays, for the request to refuse."""
    return code_of(currency) or currency


#: Local parts that are valid whatever the domain; the bounds leave room for a longer form of the domain.
_PLAIN_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9_-]+(?:[.+][A-Za-z0-9_-]+)*")
_LONGEST_PLAIN_EMAIL: Final = 64


def normal_email(value: str) -> str:
    """Return an email address in its normal form.

    Raises
    ------
    ValueError
        If the text is not an email address.

    Examples
    --------
    >>> normal_email(" Anna@EXAMPLE.com ")
    'Anna@example.com'
    """
    text = unicodedata.normalize("NFC", value).strip()
    local, _at, domain = text.rpartition("@")
    if text.isascii() and len(text) <= _LONGEST_PLAIN_EMAIL and _PLAIN_LOCAL_PART.fullmatch(local):
        # Most addresses: only the domain needs the library, and few domains are in use.
        return f"{local}@{_domain(domain)}"
    return _full_email(text)


def _full_email(text: str) -> str:
    try:
        # No DNS lookups; addresses of test domains are valid.
        address = email_validator.validate_email(text, check_deliverability=False, test_environment=True)
    except email_validator.EmailNotValidError as error:
        raise ValueError(f"email: {error}") from None
    return f"{address.local_part}@{address.domain.lower()}"


@lru_cache(maxsize=1_024)
def _domain(domain: str) -> str:
    return _full_email(f"a@{domain}").removeprefix("a@")
