"""Recognises search engines, social networks, AI assistants and webmail by the URL of a referrer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from attrib_ds.queries.known_sites import SITES

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Webmail, which the list of sites does not have.
_WEBMAIL: Final = {
    "com.google.android.gm": "gmail",
    "e.mail.ru": "mail.ru",
    "mail.aol.com": "aol mail",
    "mail.google.com": "gmail",
    "mail.proton.me": "proton mail",
    "mail.yahoo.com": "yahoo mail",
    "mail.zoho.com": "zoho mail",
    "navigator.gmx.net": "gmx",
    "outlook.live.com": "outlook",
    "outlook.office.com": "outlook",
    "outlook.office365.com": "outlook",
    "web.de": "web.de",
}
#: Search engines have subdomains that are no search, such as ``docs.google.com``.
_WITH_SUBDOMAINS: Final = frozenset({"ai", "email", "social"})
_URL: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]+)", re.IGNORECASE)
_COUNTRY: Final = re.compile(r"(?:[a-z]{2,3}\.)?[a-z]{2,3}")


@dataclass(frozen=True)
class Site:
    """A known site.

    Parameters
    ----------
    kind : {"ai", "email", "search", "social"}
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
    """
    host = referrer_host(referrer).removeprefix("www.")
    sites = _sites()
    for written, is_whole in _written_forms(host):
        site = sites.get(written)
        if site is not None and (is_whole or site.kind in _WITH_SUBDOMAINS):
            return site
    return None


def referrer_host(referrer: str) -> str:
    """Return the host of a URL in lower case; empty if it is no URL.

    Examples
    --------
    >>> referrer_host("https://News.example:8080/today?id=1")
    'news.example'
    """
    match = _URL.match(referrer.strip())
    return match[1].lower().rstrip(".") if match else ""


def _written_forms(host: str) -> Iterator[tuple[str, bool]]:
    """Return the forms in which the list may have a host, and whether a form stands for the whole host."""
    yield host, True
    labels = host.split(".")
    # The country is at the end (google.{}) or before the site ({}.search.yahoo.com).
    for count in (1, 2):
        if len(labels) > count and _COUNTRY.fullmatch(".".join(labels[-count:])):
            yield f"{'.'.join(labels[:-count])}.{{}}", True
    for position in range(len(labels) - 2):
        if _COUNTRY.fullmatch(labels[position]):
            yield ".".join([*labels[:position], "{}", *labels[position + 1 :]]), True
    for position in range(1, len(labels) - 1):
        yield ".".join(labels[position:]), False


@cache
def _sites() -> dict[str, Site]:
    """Return the sites by host."""
    sites = {host: Site("email", name) for host, name in _WEBMAIL.items()}
    # Some social networks are listed as search engines too.
    for kind in ("ai", "social", "search"):
        for name, hosts in SITES[kind].items():
            for host in hosts:
                sites.setdefault(host.removeprefix("www."), Site(kind, name.lower()))
    return sites
