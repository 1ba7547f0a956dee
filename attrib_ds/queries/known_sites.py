"""Hosts of known sites: Matomo's public-domain list (G-195), and kinds and hosts that it does not have.

``tools/known_sites.py`` writes the list; its first line names the release.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

#: Kinds of sites. A host that is listed for several has the first of them.
KINDS: Final = ("email", "ai", "shopping", "video", "social", "search")
#: In a host, the placeholder for a country, as in ``google.{}`` and ``{}.bing.com``.
COUNTRY: Final = "{}"

_OTHERS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "email": {
        "AOL Mail": ("mail.aol.com",),
        "Gmail": ("mail.google.com", "com.google.android.gm"),
        "GMX": ("navigator.gmx.net",),
        "Mail.ru": ("e.mail.ru",),
        "Outlook": ("outlook.live.com", "outlook.office.com", "outlook.office365.com"),
        "Proton Mail": ("mail.proton.me",),
        "Rambler Mail": ("mail.rambler.ru",),
        "Seznam Email": ("email.seznam.cz",),
        "WEB.DE": ("navigator.web.de", "3c.web.de"),
        "Yahoo Mail": ("mail.yahoo.com", "mail.yahoo.co.jp"),
        "Yandex Mail": ("mail.yandex.com", "mail.yandex.{}"),
        "Zoho Mail": ("mail.zoho.com",),
    },
    "ai": {
        "Phind": ("phind.com",),
        "Poe": ("poe.com",),
    },
    "shopping": {
        "Alibaba": ("alibaba.com",),
        "AliExpress": ("aliexpress.com", "aliexpress.{}"),
        "Amazon": ("amazon.com", "amazon.{}"),
        "eBay": ("ebay.com", "ebay.{}"),
        "Etsy": ("etsy.com",),
        "Idealo": ("idealo.{}",),
        "Mercado Libre": ("mercadolibre.com", "mercadolibre.{}"),
        "Naver Shopping": ("shopping.naver.com",),
        "Shop": ("shop.app",),
        "Temu": ("temu.com",),
        "Walmart": ("walmart.com", "walmart.{}"),
        "Yahoo Shopping": ("shopping.yahoo.com", "shopping.yahoo.co.jp"),
    },
    "video": {
        "Dailymotion": ("dailymotion.com",),
        "Twitch": ("twitch.tv",),
        "Vimeo": ("vimeo.com",),
        "Wistia": ("wistia.com", "wistia.net"),
        "Youku": ("youku.com",),
        "YouTube": ("youtube.com", "youtu.be", "com.google.android.youtube"),
    },
    "social": {
        "Facebook": ("fb.com", "messenger.com", "com.facebook.katana"),
        "Instagram": ("com.instagram.android",),
        "LinkedIn": ("com.linkedin.android",),
        "Pinterest": ("pinterest.{}", "com.pinterest"),
        "Quora": ("quora.com",),
        "Telegram": ("t.me",),
        "Twitter": ("com.twitter.android",),
        "WhatsApp": ("whatsapp.com", "wa.me"),
    },
    "search": {
        "AOL": ("aol.com",),
        "Daum": ("daum.net",),
        "Google": ("search.google.com", "lens.google.com"),
        "MSN": ("msn.com", "ntp.msn.com"),
        "Naver": ("naver.com", "m.naver.com", "m.search.naver.com"),
        "Rambler": ("rambler.ru",),
        "Seznam": ("seznam.cz",),
        "Yahoo!": ("yahoo.com", "yahoo.co.jp"),
    },
}  # fmt: skip


def _read() -> dict[str, dict[str, tuple[str, ...]]]:
    text = files("attrib_ds.queries").joinpath("known_sites.tsv").read_text(encoding="utf-8")
    sites = {kind: dict(_OTHERS[kind]) for kind in KINDS}
    for line in text.splitlines()[2:]:
        kind, name, host = line.split("\t")
        sites[kind][name] = (*sites[kind].get(name, ()), host)
    return sites


#: Hosts by kind and by the name of the site.
SITES: Final = _read()
