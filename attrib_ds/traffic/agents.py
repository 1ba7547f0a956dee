"""Who visits: the browser, the device and the crawler of a user agent, and what traffic filters capture."""

import ipaddress
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import pyarrow as pa

from attrib_ds.traffic.channel_rules import rows_of
from attrib_ds.traffic.sources import Unresolved, resolve_in_time

#: An example for :func:`resolve_in_time`.
_AGENT: Final = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
#: Longest text that is parsed; the patterns need longer for longer texts.
LONGEST_AGENT: Final = 1_024
_BOT: Final = "Spider"
#: Columns of an interaction for the properties of its user agent.
COLUMNS: Final = tuple(
    f"userAgent.{part}.{name}"
    for part, names in {
        "browser": ("name", "version", "major"), "engine": ("name", "version"), "os": ("name", "version"),
        "device": ("vendor", "model", "type"), "cpu": ("architecture",),
    }.items()
    for name in names
)  # fmt: skip


def _rules(kind: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    rules = (rule for of_kind, *rule in rows_of("user_agents.tsv") if of_kind == kind)
    return tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in rules)


_ENGINES, _DEVICES, _PROCESSORS = (_rules(kind) for kind in ("engine", "device", "processor"))


@lru_cache(maxsize=10_000)
def is_bot(text: str) -> bool:
    """Return whether a user agent is a known bot, or empty.

    Examples
    --------
    >>> is_bot("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"), is_bot(" ")
    (True, True)
    >>> is_bot("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0")
    False
    """
    import ua_parser  # slow to import
    from crawleruseragents import is_crawler

    word = text.strip()[:LONGEST_AGENT]
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
    ('Mobile Safari', '17.2', '17', 'WebKit', '605.1.15', 'iOS', '17.2', 'Apple', 'iPhone', 'mobile', None)
    """
    import ua_parser  # slow to import

    word = text[:LONGEST_AGENT]
    parsed = ua_parser.parse(word)
    browser, system, device = parsed.user_agent, parsed.os, parsed.device
    named: tuple[str | None, ...] = (None, None, None)
    if browser:
        named = (browser.family, _version(browser.major, browser.minor, browser.patch), browser.major)
    return (
        *(_crawler(word) or named),
        *_first(_ENGINES, word),
        system.family if system else None,
        _version(system.major, system.minor, system.patch) if system else None,
        device.brand if device else None,
        device.model if device else None,
        _first(_DEVICES, word)[0],
        _first(_PROCESSORS, word)[0],
    )


@cache
def _crawlers() -> re.Pattern[str]:
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA

    return re.compile("|".join(f"(?:{crawler['pattern']})" for crawler in CRAWLER_USER_AGENTS_DATA))


def _crawler(text: str) -> tuple[str | None, str | None, str | None] | None:
    """Return the name, version and major version of a listed crawler; None for other agents.

    The general patterns take the name of some from the address in the comment.
    """
    from crawleruseragents import is_crawler

    found = _crawlers().search(text) if is_crawler(text) else None
    if found is None:
        return None
    version = re.match(r"[/ ]?v?(\d+)(?:\.\d+)*", text[found.end() :])
    name = re.sub(r"^\W+|\W+$", "", found[0])
    return name, version and version[0].lstrip("/ v"), version and version[1]


def _first(rules: Sequence[tuple[str, re.Pattern[str]]], text: str) -> tuple[str | None, str | None]:
    """Return the name of the first rule that holds for a text, and the version that it finds."""
    for name, pattern in rules:
        if found := pattern.search(text):
            return name, found[1] if pattern.groups else None
    return None, None


def agent_table(texts: Sequence[str]) -> pa.Table:
    """Return a table with the properties of user agents, which may take long or fail.

    Columns are ``ua``, ``isBot``, :data:`COLUMNS`, and ``problem``, null unless an agent could not be read.
    """
    unknown = (None, *[None] * len(COLUMNS))
    found = resolve_in_time(lambda text: (is_bot(text), *describe(text)), texts, example=_AGENT)
    rows = [unknown if isinstance(row, Unresolved) else row for row in found]
    columns = zip(("isBot", *COLUMNS), zip(*rows, strict=True) if rows else [()] * len(unknown), strict=True)
    problems = [getattr(row, "reason", None) for row in found]
    return pa.table(
        {
            "ua": pa.array(texts, pa.string()),
            **{
                name: pa.array(values, pa.bool_() if name == "isBot" else pa.string())
                for name, values in columns
            },
            "problem": pa.array(problems, pa.string()),
        }
    )


def _version(*parts: str | None) -> str | None:
    return ".".join(part for part in parts if part) or None


ADDRESS: Final = "address"
USER_AGENT: Final = "userAgent"
PAGE: Final = "hostname"
#: The host of a URL in lower case, without ``www.``.
HOST: Final = r"^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(?:www\.)?(\[[^/?#\]]*\]|[^/?#:]+)"


def captures(filters: Sequence[str], *, address: str, user_agent: str, page: str, referrer: str) -> bool:
    """Return whether a filter captures what a page sends, as :func:`capture_sql` does with its hits.

    Parameters
    ----------
    filters : sequence of str
        The setting ``trafficFilters``.
    address, user_agent : str
        Of the client.
    page, referrer : str
        URL or origin of the page, and of the page that led there; empty if unknown.

    Examples
    --------
    >>> client = {"address": "203.0.113.7", "user_agent": "probe/2", "referrer": ""}
    >>> captures(["hostname:shop.example"], page="https://test.shop.example", **client)
    True
    """
    hosts = {PAGE: _host(page), "referrer": _host(referrer)}
    for text in filters:
        kind, _, value = text.partition(":")
        if kind == USER_AGENT and value.lower() in user_agent.lower():
            return True
        # An empty host is no part of a domain.
        if kind in hosts and f".{hosts[kind]}".endswith(f".{captured_host(value)}"):
            return True
    return captures_address(filters, address)


def captured_host(value: str) -> str:
    """Return the host that a filter names, as hosts of hits are written."""
    return value.lower().removeprefix("www.")


def _host(url: str) -> str:
    found = re.match(HOST, url.lower())
    return found[1].rstrip(".") if found else ""


def captures_address(filters: Sequence[str], address: str) -> bool:
    """Return whether a filter captures an address.

    Examples
    --------
    >>> filters = ["address:203.0.113.0/24", "hostname:test.shop.example"]
    >>> captures_address(filters, "203.0.113.7"), captures_address(filters, "198.51.100.7")
    (True, False)
    """
    networks = [text.partition(":")[2] for text in filters if text.startswith(f"{ADDRESS}:")]
    parsed = parse_address(address) if networks else None
    return parsed is not None and any(
        parsed in ipaddress.ip_network(network, strict=False) for network in networks
    )


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, as IPv4 if it is mapped to IPv6; None if the text is not an address.

    Examples
    --------
    >>> parse_address("::ffff:203.0.113.7"), parse_address("unix:")
    (IPv4Address('203.0.113.7'), None)
    """
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
