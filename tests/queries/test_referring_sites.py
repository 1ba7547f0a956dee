"""Referrers of search engines, social networks, AI assistants and webmail are recognised by their host."""

from __future__ import annotations

import pytest

from attrib_ds.queries.referring_sites import Site, known_site


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
        "https://notfacebook.com/",
        "https://shop.example/google.com",
        "https://com/",
        "https:///",
    ],
)
def test_other_sites(referrer):
    assert known_site(referrer) is None
