"""Channel rules: patterns that assign a channel to source, medium, campaign and the site of a referrer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import duckdb
import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.records.frames import TEXT, read_frame, to_pandas

if TYPE_CHECKING:
    from attrib_ds.records.frames import Frame


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


#: Columns of rules with a pattern each.
CONDITIONS: Final = ("source", "medium", "campaign", "referrer")
#: Channel of rows that no rule matches.
UNASSIGNED: Final = "Unassigned"

#: Common names of the columns, in order of preference.
COLUMN_NAMES: Final = {
    "source": (
        "source", "utm_source", "mkt_source", "marketing_source", "session_source", "context_campaign_source",
    ),
    "medium": (
        "medium", "utm_medium", "mkt_medium", "marketing_medium", "session_medium", "context_campaign_medium",
    ),
    "campaign": (
        "campaign", "utm_campaign", "mkt_campaign", "marketing_campaign", "session_campaign", "campaign_name",
        "context_campaign_name",
    ),
    "referrer": ("referrer", "page_referrer", "referrer_url", "context_page_referrer"),
}  # fmt: skip


def _sources(kind: str, *names: str) -> str:
    """Return a pattern of the sources of a kind of sites: names as in exports, and hosts."""
    return "|".join([*names, host_pattern(kind)])


_SEARCH: Final = _sources(
    "search", "google", "bing", "yahoo!?", "duckduckgo", "ecosia", "baidu", "yandex", "qwant", "startpage",
    "naver", "mojeek", "seznam", "ask", "aol", "brave", "daum", "sogou", "rambler", "dogpile", "lycos", "msn",
    "presearch",
)  # fmt: skip
_SOCIAL: Final = _sources(
    "social", "facebook", "fb", "instagram", "ig", "meta", "messenger", "linkedin", "lnkd", "twitter", "x",
    "pinterest", "reddit", "tiktok", "snapchat", "vk", "vkontakte", "xing", "threads", "mastodon", "bluesky",
    "bsky", "quora", "tumblr", "whatsapp", "telegram", "weibo", "wechat", "discord", "hacker ?news",
)  # fmt: skip
_VIDEO: Final = _sources("video", "youtube", "vimeo", "dailymotion", "twitch", "wistia", "youku")
_SHOPPING: Final = _sources(
    "shopping", "amazon", "ebay", "etsy", "alibaba", "aliexpress", "walmart", "temu", "idealo",
    "mercadolibre", "igshopping", "shopping",
)  # fmt: skip
_ASSISTANT: Final = _sources(
    "ai", "chatgpt", "openai", "perplexity", "copilot", "claude", "deepseek", "grok", "phind",
    "(google )?gemini", "mistral",
)  # fmt: skip
_WEBMAIL: Final = _sources("email", "gmail")
_EMAIL: Final = r"e[-_ ]?mail|newsletter"
_PAID: Final = r".*cp.*|ppc|retargeting|paid.*"
_SHOP_CAMPAIGN: Final = r"(.*[^a-df-z])?shop.*|.*shopping.*"

#: The published definitions of Google Analytics for manual traffic, and AI assistants (G-196). Sources are
#: the names above and the hosts of known sites (G-195).
_DEFAULT: Final[tuple[dict[str, str], ...]] = (
    {"channel": "Direct", "source": r"\(?direct\)?", "medium": r"(\(none\)|\(not set\))?"},
    {
        "channel": "Direct",
        "source": "",
        "medium": r"(\(none\)|\(not set\))?",
        "campaign": r"(\((direct|none|not set)\))?",
    },
    {"channel": "Cross-network", "campaign": ".*cross-network.*"},
    {"channel": "Paid Shopping", "source": _SHOPPING, "medium": _PAID},
    {"channel": "Paid Shopping", "campaign": _SHOP_CAMPAIGN, "medium": _PAID},
    {"channel": "Paid Search", "source": _SEARCH, "medium": _PAID},
    {"channel": "Paid Social", "source": _SOCIAL, "medium": _PAID},
    {"channel": "Paid Video", "source": _VIDEO, "medium": _PAID},
    {"channel": "Display", "medium": "display|banner|expandable|interstitial|cpm"},
    {"channel": "Paid Other", "medium": _PAID},
    {"channel": "Organic Shopping", "source": _SHOPPING},
    {"channel": "Organic Shopping", "campaign": _SHOP_CAMPAIGN},
    {"channel": "AI Assistants", "source": _ASSISTANT},
    {"channel": "AI Assistants", "medium": r"ai[-_ ]?assistants?"},
    {"channel": "Email", "source": _WEBMAIL},
    {"channel": "Organic Social", "source": _SOCIAL},
    {"channel": "Organic Social", "medium": r"social([-_ ](network|media))?|sm"},
    {"channel": "Organic Video", "source": _VIDEO},
    {"channel": "Organic Video", "medium": ".*video.*"},
    {"channel": "Organic Search", "source": _SEARCH},
    {"channel": "Organic Search", "medium": "organic"},
    {"channel": "Email", "source": _EMAIL},
    {"channel": "Email", "medium": _EMAIL},
    {"channel": "Affiliates", "medium": "affiliates?"},
    {"channel": "Referral", "medium": "referral|app|link"},
    {"channel": "Audio", "medium": "audio"},
    {"channel": "SMS", "source": "sms"},
    {"channel": "SMS", "medium": "sms"},
    {"channel": "Mobile Push Notifications", "medium": ".*push|.*mobile.*|.*notification.*"},
    {"channel": "Mobile Push Notifications", "source": "firebase"},
)


def channel_rules() -> pd.DataFrame:
    r"""Return the default channel rules, as a table to change and pass on.

    They follow the published definitions of the default channel group of Google Analytics 4, with a channel
    for AI assistants and for webmail. Search engines, social networks and assistants are those of Matomo's
    list, some 900 hosts, and common names; shops and video sites are the common ones. A host is one of a site
    if it is the site's own, in any country: ``google.co.uk`` is a search engine, ``docs.google.com`` and
    ``google.abc.de`` are referrals, as are all others until you add them.

    Returns
    -------
    DataFrame
        One row per rule, in order: the first rule that matches assigns its ``channel``. ``source``,
        ``medium``, ``campaign`` and ``referrer`` hold regular expressions that must match the whole value,
        without regard to case; a missing one is no condition, and all of a row must match. A blank value is
        an empty text.

    See Also
    --------
    attrib_ds.assign_channels : Apply rules to a frame.

    Examples
    --------
    Rules are rows. Put one's own first, and pass the table to a reader as ``channels=rules``:

    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> partners = pd.DataFrame({"channel": ["Partners"], "source": [r"(.*\.)?partner\.example"]})
    >>> rules = pd.concat([partners, at.channel_rules()], ignore_index=True)
    >>> visits = pd.DataFrame({"source": ["shop.partner.example", "google"], "medium": ["referral", "cpc"]})
    >>> at.assign_channels(visits, rules).tolist()
    ['Partners', 'Paid Search']
    """
    return pd.DataFrame(list(_DEFAULT), columns=["channel", *CONDITIONS]).astype(TEXT)


def assign_channels(
    frame: Frame, rules: Frame | None = None, *, columns: Mapping[str, str] | None = None
) -> pd.Series[Any]:
    """Assign a channel to each row of a frame by rules.

    Parameters
    ----------
    frame : DataFrame or ibis.Table
        With a source, medium, campaign or referrer, under these names, those of UTM parameters, or the names
        in exports of Snowplow and Segment. A visit with a referrer only has the referrer's host as source
        and the medium ``referral``.
    rules : DataFrame, optional
        From :func:`channel_rules`, changed or not; by default as it is.
    columns : mapping of str to str, optional
        Columns of ``source``, ``medium``, ``campaign`` and ``referrer`` with other names.

    Returns
    -------
    Series
        ``channel`` (str) with the index of the frame; ``Unassigned`` if no rule matches. For an Ibis table, a
        column expression.

    Raises
    ------
    InvalidRequest
        If the frame has none of the columns, a named column does not exist, or there is no rule, or one
        that is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> visits = pd.DataFrame({"utm_source": ["google", None, None], "utm_medium": ["cpc", None, None],
    ...                        "referrer": [None, "https://chatgpt.com/", None]})
    >>> at.assign_channels(visits).tolist()
    ['Paid Search', 'AI Assistants', 'Direct']
    """
    checked = default_rules() if rules is None else read_rules(rules)
    if isinstance(frame, ir.Table):
        column: pd.Series[Any] = _expression(_values(frame, _found(frame.columns, columns)), checked)
        return column
    given = read_frame("frame", frame)
    found = _found([str(name) for name in given.columns], columns)
    texts = pa.table({name: _texts(given[column]) for name, column in found.items()})
    channels = to_pandas(pa.table({"channel": channels_of(texts, checked)}))
    assigned: pd.Series[Any] = channels["channel"].set_axis(given.index)
    return assigned


def channels_of(rows: pa.Table, rules: pd.DataFrame) -> pa.ChunkedArray:
    """Return the channel of each row of an Arrow table with some of the columns of :data:`CONDITIONS`."""
    connection = ibis.duckdb.connect()
    # The engine does not keep the order of rows.
    connection.con.register("rows", rows.append_column("row", pa.array(range(rows.num_rows), pa.int64())))
    return with_channels(connection.table("rows"), rules).order_by("row").to_pyarrow()["channel"]


def with_channels(table: ir.Table, rules: pd.DataFrame) -> ir.Table:
    """Add the column ``channel`` to a table with the columns of :data:`CONDITIONS`, or some of them.

    Each distinct combination of values is matched once.
    """
    names = [name for name in CONDITIONS if name in table.columns]
    keyed = table.mutate(**{f"key_{name}": table[name].cast("string").fill_null("") for name in names})
    given = keyed.select(**{name: keyed[f"key_{name}"] for name in names}).distinct()
    matched = given.select(
        _expression(_values(given, {name: name for name in names}), rules).name("channel"),
        **{f"matched_{name}": given[name] for name in names},
    )
    joined = keyed.left_join(matched, [keyed[f"key_{name}"] == matched[f"matched_{name}"] for name in names])
    return joined.select(*table.columns, "channel")


def read_rules(rules: Frame) -> pd.DataFrame:
    """Check rules and return them with all columns, None where there is no condition."""
    given = read_frame("rules", rules, ("channel",))
    unknown = [name for name in given.columns if name not in ("channel", *CONDITIONS)]
    if unknown:
        raise InvalidRequest(
            f"rules: the column {unknown[0]!r} is not allowed{closest(str(unknown[0]), CONDITIONS)}; "
            f"allowed: channel, {', '.join(CONDITIONS)}",
            field="rules",
        )
    if given.empty:
        raise InvalidRequest(
            "rules: there is no rule; allowed: at least one row, such as those of channel_rules()",
            field="rules",
        )
    checked = _completed(given)
    for row, rule in enumerate(checked.to_dict("records")):
        patterns = [name for name in CONDITIONS if rule[name] is not None]
        if not isinstance(rule["channel"], str) or not rule["channel"].strip():
            raise InvalidRequest(f"rules: the rule in row {row} has no channel", field="rules")
        if not patterns:
            raise InvalidRequest(
                f"rules: the rule in row {row} has no condition and would match everything; allowed: a "
                f"pattern in at least one of {', '.join(CONDITIONS)}, such as '.*'",
                field="rules",
            )
        for name in patterns:
            _check_pattern(rule[name], name, row)
    return checked


def default_rules() -> pd.DataFrame:
    """Return the default rules as :func:`read_rules` does, without checking them."""
    return _completed(pd.DataFrame(list(_DEFAULT)))


def _completed(rules: pd.DataFrame) -> pd.DataFrame:
    """Return rules with all columns, None where there is no condition."""
    completed = rules.reindex(columns=["channel", *CONDITIONS]).astype(object)
    return completed.where(completed.notna(), None).reset_index(drop=True)


def _check_pattern(pattern: object, name: str, row: int) -> None:
    try:
        # Python's rules are not those of the engines; a pattern has to be one for both.
        re.compile(str(pattern))
        duckdb.execute("SELECT regexp_matches('', ?)", [_whole(str(pattern))])
    except (re.error, duckdb.Error) as error:
        raise InvalidRequest(
            f"rules: {pattern!r}, {name} in row {row}, is not a regular expression: {error}", field="rules"
        ) from error


def _whole(pattern: str) -> str:
    return f"(?i)^(?:{pattern})$"


def _found(present: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the column of each condition that the frame has."""
    named = dict(columns or {})
    for name, column in named.items():
        if name not in CONDITIONS:
            raise InvalidRequest.choice("columns", name, CONDITIONS)
        if column not in present:
            raise InvalidRequest(
                f"columns: the frame has no column {column!r}{closest(column, present)}", field="columns"
            )
    for name, candidates in COLUMN_NAMES.items():
        common = next((column for column in candidates if column in present), None)
        if common is not None:
            named.setdefault(name, common)
    if not named:
        raise InvalidRequest(
            f"frame: no column of a source, medium, campaign or referrer; its columns: {', '.join(present)}; "
            'name them with columns={"source": COLUMN}',
            field="frame",
        )
    return named


def _texts(column: pd.Series[Any]) -> pa.Array:
    try:
        return pa.array(column, pa.string(), from_pandas=True)
    except pa.ArrowException:
        return pa.array(column.map(str, na_action="ignore"), pa.string(), from_pandas=True)


def _values(table: ir.Table, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that rules are matched with: lower case, trimmed, blank if missing."""
    empty = ibis.literal("")
    values: dict[str, Any] = dict.fromkeys(CONDITIONS, empty)
    for name, column in columns.items():
        values[name] = table[column].cast("string").fill_null("").strip().lower()
    # The host is what rules ask for, as collected hits have it, and there are fewer hosts than pages.
    address = values["referrer"].re_replace(r"^([a-z][a-z0-9+.-]*:)?//([^/?#@]*@)?", "")
    host = address.re_replace(r"[/?#:].*$", "").re_replace(r"[.]+$", "")
    values["referrer"] = host
    source, medium, campaign = (values[name] for name in ("source", "medium", "campaign"))
    is_referred = (source + medium + campaign == "") & (host != "")
    values["source"] = ibis.ifelse(is_referred, host, source)
    values["medium"] = ibis.ifelse(is_referred, "referral", medium)
    return values


def _expression(values: Mapping[str, Any], rules: pd.DataFrame) -> Any:
    """Return the channel of the first rule that matches."""
    branches = []
    for rule in rules.to_dict("records"):
        conditions = [
            values[name].re_search(_whole(rule[name])) for name in CONDITIONS if rule[name] is not None
        ]
        branches.append((ibis.and_(*conditions), ibis.literal(rule["channel"])))
    return ibis.cases(*branches, else_=UNASSIGNED)
