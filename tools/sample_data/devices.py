"""Browsers and crawlers of the shop's visitors, month by month."""

from __future__ import annotations

import numpy as np
import pandas as pd

_MONTHS = 6
_CHROME = (132, 133, 134, 135, 136, 137)
_FIREFOX = (134, 135, 136, 137, 138, 139)
_IOS = (2, 3, 3, 4, 5, 5)  # minor releases of iOS 18
_SAMSUNG = (27, 27, 27, 27, 28, 28)

_BLINK = "AppleWebKit/537.36 (KHTML, like Gecko)"
_WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
_IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_{ios} like Mac OS X)"
_IPAD = "Mozilla/5.0 (iPad; CPU OS 18_{ios} like Mac OS X)"
_MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"

# Text; browser, engine, system, each with its version; vendor, model, type; processor; weight.
_DEVICES = (
    (f"{_IPHONE} {_WEBKIT} Version/18.{{ios}} Mobile/15E148 Safari/604.1",
     "Mobile Safari", "18.{ios}", "WebKit", "605.1.15", "iOS", "18.{ios}", "Apple", "iPhone", "mobile",
     None, 28),
    (f"Mozilla/5.0 (Linux; Android 10; K) {_BLINK} Chrome/{{chrome}}.0.0.0 Mobile Safari/537.36",
     "Mobile Chrome", "{chrome}.0.0.0", "Blink", "{chrome}.0.0.0", "Android", "10", None, "K", "mobile",
     None, 19),
    (f"Mozilla/5.0 (Linux; Android 14; SM-S911B) {_BLINK} SamsungBrowser/{{samsung}}.0 Chrome/125.0.0.0 "
     "Mobile Safari/537.36",
     "Samsung Internet", "{samsung}.0", "Blink", "125.0.0.0", "Android", "14", "Samsung", "SM-S911B",
     "mobile", None, 7),
    ("Mozilla/5.0 (Android 14; Mobile; rv:{firefox}.0) Gecko/{firefox}.0 Firefox/{firefox}.0",
     "Mobile Firefox", "{firefox}.0", "Gecko", "{firefox}.0", "Android", "14", None, None, "mobile", None, 2),
    (f"{_WINDOWS} {_BLINK} Chrome/{{chrome}}.0.0.0 Safari/537.36",
     "Chrome", "{chrome}.0.0.0", "Blink", "{chrome}.0.0.0", "Windows", "10", None, None, "desktop",
     "amd64", 16),
    (f"{_WINDOWS} {_BLINK} Chrome/{{chrome}}.0.0.0 Safari/537.36 Edg/{{chrome}}.0.0.0",
     "Edge", "{chrome}.0.0.0", "Blink", "{chrome}.0.0.0", "Windows", "10", None, None, "desktop", "amd64", 6),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:{firefox}.0) Gecko/20100101 Firefox/{firefox}.0",
     "Firefox", "{firefox}.0", "Gecko", "{firefox}.0", "Windows", "10", None, None, "desktop", "amd64", 4),
    (f"{_MAC} {_WEBKIT} Version/18.{{ios}} Safari/605.1.15",
     "Safari", "18.{ios}", "WebKit", "605.1.15", "macOS", "10.15.7", "Apple", "Macintosh", "desktop",
     None, 7),
    (f"{_MAC} {_BLINK} Chrome/{{chrome}}.0.0.0 Safari/537.36",
     "Chrome", "{chrome}.0.0.0", "Blink", "{chrome}.0.0.0", "macOS", "10.15.7", "Apple", "Macintosh",
     "desktop", None, 5),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:{firefox}.0) Gecko/20100101 Firefox/{firefox}.0",
     "Firefox", "{firefox}.0", "Gecko", "{firefox}.0", "Linux", "x86_64", None, None, "desktop", "amd64", 1),
    (f"{_IPAD} {_WEBKIT} Version/18.{{ios}} Mobile/15E148 Safari/604.1",
     "Mobile Safari", "18.{ios}", "WebKit", "605.1.15", "iOS", "18.{ios}", "Apple", "iPad", "tablet",
     None, 4),
    (f"Mozilla/5.0 (Linux; Android 14; SM-X710) {_BLINK} Chrome/{{chrome}}.0.0.0 Safari/537.36",
     "Chrome", "{chrome}.0.0.0", "Blink", "{chrome}.0.0.0", "Android", "14", "Samsung", "SM-X710", "tablet",
     None, 2),
)  # fmt: skip

_CRAWLERS = (
    (f"Mozilla/5.0 {_BLINK.removesuffix(')')}; compatible; Googlebot/2.1; +http://www.google.com/bot.html) "
     "Chrome/{chrome}.0.0.0 Safari/537.36",
     "Googlebot", "2.1", "Blink", "{chrome}.0.0.0"),
    (f"Mozilla/5.0 {_BLINK.removesuffix(')')}; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) "
     "Chrome/{chrome}.0.0.0 Safari/537.36",
     "bingbot", "2.0", "Blink", "{chrome}.0.0.0"),
    ("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot", "7.0", None, None),
    ("AdsBot-Google (+http://www.google.com/adsbot.html)", "AdsBot-Google", None, None, None),
)  # fmt: skip

#: Columns of :func:`user_agents` that describe a browser, in the names of an interaction.
AGENT_COLUMNS = (
    "userAgent.ua",
    "userAgent.browser.name",
    "userAgent.browser.version",
    "userAgent.engine.name",
    "userAgent.engine.version",
    "userAgent.os.name",
    "userAgent.os.version",
    "userAgent.device.vendor",
    "userAgent.device.model",
    "userAgent.device.type",
    "userAgent.cpu.architecture",
    "userAgent.browser.major",
)

DEVICES = len(_DEVICES)
CRAWLERS = len(_CRAWLERS)


def shares() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of people by first device.

    Examples
    --------
    >>> len(shares()) == DEVICES
    True
    """
    weights = np.array([device[-1] for device in _DEVICES], dtype=np.float64)
    share: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return share


def user_agents() -> pd.DataFrame:
    """Return the user agents of all devices and crawlers in each month.

    Returns
    -------
    DataFrame
        The ``userAgent.`` columns of an interaction, indexed by (device, month): ``DEVICES`` devices, then
        ``CRAWLERS`` crawlers, months from 0.

    Examples
    --------
    >>> user_agents().loc[(4, 1), "userAgent.browser.version"]
    '133.0.0.0'
    """
    rows = [*(device[:-1] for device in _DEVICES), *((*crawler, *[None] * 6) for crawler in _CRAWLERS)]
    cells = {
        (device, month): [text and text.format(**_releases(month)) for text in row]
        for device, row in enumerate(rows)
        for month in range(_MONTHS)
    }
    agents = [[*row, row[2] and row[2].partition(".")[0]] for row in cells.values()]
    index = pd.MultiIndex.from_tuples(list(cells), names=["device", "month"])
    return pd.DataFrame(agents, index=index, columns=list(AGENT_COLUMNS), dtype=object)


def _releases(month: int) -> dict[str, int]:
    return {
        "chrome": _CHROME[month],
        "firefox": _FIREFOX[month],
        "ios": _IOS[month],
        "samsung": _SAMSUNG[month],
    }
