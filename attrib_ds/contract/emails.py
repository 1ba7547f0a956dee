"""The form of email addresses that events may have (G-052)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

import email_validator

#: Local parts that are valid whatever the domain; the bounds leave room for a longer form of the domain.
_PLAIN_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9_-]+(?:[.+][A-Za-z0-9_-]+)*")
_LONGEST_PLAIN_EMAIL: Final = 64


def normal_email(value: str) -> str:
    """Return an email address in its normal form.

    Raises
    ------
    ValueError
        If the text is no email address.

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
