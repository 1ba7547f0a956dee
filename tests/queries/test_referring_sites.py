"""Referrers of search engines, social networks, AI assistants and webmail are recognised by their host."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.queries.channel_rules import COUNTRY, Site, known_site, sites

CHANNELS = {
    "search": "Organic Search",
    "social": "Organic Social",
    "video": "Organic Video",
    "shopping": "Organic Shopping",
    "ai": "AI Assistants",
    "email": "Email",
}


@pytest.mark.parametrize(
    ("referrer", "site"),
    [
        ("https://www.google.com/", ("search", "google")),
        ("http://google.co.uk", ("search", "google")),
        ("https://www.google.com.br/search?q=boots", ("search", "google")),
        ("https://de.search.yahoo.com/search", ("search", "yahoo!")),
        ("https://www.bing.com/search", ("search", "bing")),
        ("android-app://com.google.android.googlequicksearchbox/", ("search", "google")),
        ("https://l.facebook.com/l.php?u=x", ("social", "facebook")),
        ("https://t.co/abc", ("social", "twitter")),
        ("https://www.facebook.com/", ("social", "facebook")),
        ("https://chatgpt.com/c/1", ("ai", "chatgpt")),
        ("https://gemini.google.com/app", ("ai", "gemini")),
        ("https://grok.com/chat", ("ai", "grok")),
        ("https://mail.google.com/mail/u/0/", ("email", "gmail")),
        ("android-app://com.google.android.gm/", ("email", "gmail")),
        ("https://google.de/", ("search", "google")),
        ("https://www.google.com.tr/", ("search", "google")),
        ("https://m.youtube.com/", ("video", "youtube")),
        ("https://smile.amazon.co.uk/", ("shopping", "amazon")),
        ("https://us-mg5.mail.yahoo.com/", ("email", "yahoo mail")),
        ("https://suche.web.de/web?su=x", ("search", "web.de")),
        ("https://user:name@www.google.com:8080/", ("search", "google")),
    ],
)
def test_known_sites(referrer, site):
    assert known_site(referrer) == Site(*site)


@pytest.mark.parametrize(
    "referrer",
    [
        "",
        "about:blank",
        "not a url",
        "https://docs.google.com/document",
        "https://google.com.attacker.example/",
        "https://google.abc.de/",
        "https://google.abc/",
        "https://google.de.evil.com/",
        "https://google.evil.com/",
        "https://notgoogle.com/",
        "https://notfacebook.com/",
        "https://facebook.evil.com/",
        "https://amazon.evil.com/",
        "https://abc.search.yahoo.com/",
        "https://shop.example/google.com",
        "https://com/",
        "https:///",
    ],
)
def test_other_sites(referrer):
    assert known_site(referrer) is None


def test_channel_rules_recognise_the_same_hosts():
    """Every listed site, its subdomains, and hosts of which it is a part."""
    listed = {host for names in sites().values() for hosts in names.values() for host in hosts}
    own = sorted({host.replace(COUNTRY, "fr") for host in listed})
    own += [host.replace(COUNTRY, "co.uk") for host in sorted(listed) if host.endswith(COUNTRY)]
    forms = cycle(("www.{}", "sub.{}", "not{}", "{}.evil.com"))
    hosts = [*own, *(next(forms).format(host) for host in own)]
    known = [known_site(f"https://{host}/") for host in hosts]
    expected = ["Referral" if site is None else CHANNELS[site.kind] for site in known]
    visits = pd.DataFrame({"source": hosts, "medium": "referral"})
    assert at.assign_channels(visits).tolist() == expected
    assert expected.count("Referral") < len(hosts)
