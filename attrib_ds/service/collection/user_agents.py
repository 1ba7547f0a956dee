"""Describes user agents and recognises bots (G-197)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import ua_parser
from crawleruseragents import is_crawler

#: Longest text that is parsed; the patterns need longer for longer texts.
_LONGEST: Final = 1_024
_BOT: Final = "Spider"
#: Columns of an interaction for the properties of its user agent.
COLUMNS: Final = (
    "userAgent.browser.name",
    "userAgent.browser.version",
    "userAgent.browser.major",
    "userAgent.os.name",
    "userAgent.os.version",
    "userAgent.device.vendor",
    "userAgent.device.model",
    "userAgent.device.type",
)


@lru_cache(maxsize=10_000)
def is_bot(text: str | None) -> bool:
    """Return whether a user agent is a known bot, or empty; None is an unknown one, and no bot.

    Examples
    --------
    >>> is_bot("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"), is_bot(" ")
    (True, True)
    >>> is_bot("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0")
    False
    """
    if text is None:
        return False
    word = text.strip()[:_LONGEST]
    if not word or is_crawler(word):
        return True
    device = ua_parser.parse_device(word)
    return device is not None and device.family == _BOT


@lru_cache(maxsize=10_000)
def describe(text: str) -> tuple[str | None, ...]:
    """Return the properties of a user agent in the order of :data:`COLUMNS`; None where unknown.

    Examples
    --------
    >>> phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15"
    >>> describe(f"{phone} (KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1")
    ('Mobile Safari', '17.2', '17', 'iOS', '17.2', 'Apple', 'iPhone', 'mobile')
    """
    word = text[:_LONGEST]
    parsed = ua_parser.parse(word)
    browser, system, device = parsed.user_agent, parsed.os, parsed.device
    return (
        browser.family if browser else None,
        _version(browser.major, browser.minor, browser.patch) if browser else None,
        browser.major if browser else None,
        system.family if system else None,
        _version(system.major, system.minor, system.patch) if system else None,
        device.brand if device else None,
        device.model if device else None,
        _device_type(word),
    )


def _version(*parts: str | None) -> str | None:
    return ".".join(part for part in parts if part) or None


def _device_type(text: str) -> str | None:
    """Return mobile or tablet; None for computers, as most user agents of computers do not say so."""
    if "iPad" in text or "Tablet" in text or ("Android" in text and "Mobile" not in text):
        return "tablet"
    return "mobile" if "Mobi" in text else None
