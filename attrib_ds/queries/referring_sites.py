"""Recognises known sites by their host: that of a referrer in Python, and by a pattern in tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from attrib_ds.queries.known_sites import COUNTRY, KINDS, SITES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Search engines have subdomains that are no search, such as ``docs.google.com``.
_WITH_SUBDOMAINS: Final = frozenset(KINDS) - {"search"}
_URL: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]+)", re.IGNORECASE)
#: The country in a host, such as ``de``. At the end of a host, names may be registered below a label of the
#: country's, such as ``co.uk``; ``google.abc.de`` is whoever's ``abc.de`` is.
_INNER: Final = r"[a-z]{2}"
_ENDING: Final = r"((com|co|org|net)\.)?[a-z]{2}"


@dataclass(frozen=True)
class Site:
    """A known site.

    Parameters
    ----------
    kind : {"ai", "email", "search", "shopping", "social", "video"}
        What it is.
    name : str
        Its name, in lower case as in the sources of Google Analytics.
    """

    kind: str
    name: str


def known_site(referrer: str) -> Site | None:
    """Return the site of a referrer, or None if it is not known.

    Parameters
    ----------
    referrer : str
        A URL.

    Examples
    --------
    >>> known_site("https://www.google.co.uk/")
    Site(kind='search', name='google')
    >>> known_site("https://l.facebook.com/l.php").kind, known_site("https://gemini.google.com/app").kind
    ('social', 'ai')
    >>> known_site("https://docs.google.com/document")
    >>> known_site("https://google.example.de/")
    """
    return _site_of(referrer_host(referrer).removeprefix("www."), _sites())


def host_pattern(kind: str) -> str:
    """Return a regular expression of the hosts of a kind of sites, those :func:`known_site` recognises."""
    hosts = "|".join(sorted(_pattern(host) for host, site in _sites().items() if site.kind == kind))
    below = ".*" if kind in _WITH_SUBDOMAINS else "www"
    return rf"({below}\.)?({hosts})"


def referrer_host(referrer: str) -> str:
    """Return the host of a URL in lower case; empty if it is no URL.

    Examples
    --------
    >>> referrer_host("https://News.example:8080/today?id=1")
    'news.example'
    """
    match = _URL.match(referrer.strip())
    return match[1].lower().rstrip(".") if match else ""


def _site_of(host: str, sites: Mapping[str, Site]) -> Site | None:
    for written, is_whole in _written_forms(host):
        site = sites.get(written)
        if site is not None and (is_whole or site.kind in _WITH_SUBDOMAINS):
            return site
    return None


def _written_forms(host: str) -> Iterator[tuple[str, bool]]:
    """Return the forms in which a host and its parents may be listed, and whether it is the whole host."""
    labels = host.split(".")
    for start in range(len(labels) - 1):
        name, is_whole = labels[start:], start == 0
        yield ".".join(name), is_whole
        # The country is at the end (google.{}) or before the site ({}.search.yahoo.com).
        for count in (1, 2):
            if len(name) > count and re.fullmatch(_ENDING, ".".join(name[-count:])):
                yield ".".join([*name[:-count], COUNTRY]), is_whole
        for position in range(len(name) - 2):
            if re.fullmatch(_INNER, name[position]):
                yield ".".join([*name[:position], COUNTRY, *name[position + 1 :]]), is_whole


def _pattern(host: str) -> str:
    """Return the regular expression of a listed host."""
    escaped = re.escape(host.removesuffix(f".{COUNTRY}"))
    ending = rf"\.{_ENDING}" if host.endswith(f".{COUNTRY}") else ""
    return escaped.replace(re.escape(COUNTRY), _INNER) + ending


@cache
def _sites() -> dict[str, Site]:
    """Return the sites by host, each host with one site."""
    sites: dict[str, Site] = {}
    for kind in KINDS:
        for name, hosts in SITES[kind].items():
            for host in (host.removeprefix("www.") for host in hosts):
                if _site_of(host, sites) is None:
                    sites[host] = Site(kind, name.lower())
    return sites
