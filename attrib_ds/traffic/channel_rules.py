"""Channel rules: patterns that assign a channel to source, medium, campaign and the site of a referrer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import duckdb
import ibis
import ibis.expr.types as ir
import pandas as pd
from publicsuffixlist import PublicSuffixList

from attrib_ds import scratch
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.records.frames import TEXT, Frame, read_frame

#: Kinds of sites. A host that is listed for several has the first of them.
KINDS: Final = ("email", "ai", "shopping", "video", "social", "search")
#: In a host, the placeholder for a country, as in ``google.{}`` and ``{}.bing.com``.
COUNTRY: Final = "{}"


@cache
def sites() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the hosts by kind and by the name of the site."""
    hosts: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in KINDS}
    for file in ("other_sites.tsv", "known_sites.tsv"):
        for kind, name, host in rows_of(file):
            hosts[kind][name] = (*hosts[kind].get(name, ()), host)
    return hosts


@cache
def returning_sites() -> tuple[str, ...]:
    """Return the hosts from which visitors come back: those of payments, banks and logins."""
    return tuple(host for kind, host in rows_of("returning_sites.tsv") if kind != "label")


@cache
def returning_labels() -> frozenset[str]:
    """Return the first labels of hosts of banks' checks, below the domain that somebody has registered."""
    return frozenset(label for kind, label in rows_of("returning_sites.tsv") if kind == "label")


def returning_hosts(*settings: Iterable[str]) -> set[str]:
    """Return the hosts from which visitors come back: the known ones, and those of settings without www."""
    return {*returning_sites(), *(host.removeprefix("www.") for hosts in settings for host in hosts)}


def rows_of(file: str) -> list[list[str]]:
    """Return the rows of a table of this package, below its comment and its header."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[2:]]


#: Search engines have subdomains that are not search, such as ``docs.google.com``.
_WITH_SUBDOMAINS: Final = frozenset(KINDS) - {"search"}
_URL: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]+)", re.IGNORECASE)
#: Ends of hosts that show the pages of others: Google's translations and its cache of AMP.
_COPIES: Final = (".translate.goog", ".cdn.ampproject.org")
#: Of a name in DNS: characters and labels.
LONGEST_HOST: Final = 253
_MOST_LABELS: Final = 127
_MOST_OF_SUFFIX: Final = 8
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
    return _site_of(referrer_host(referrer).removeprefix("www."), _by_host())


def host_pattern(kind: str) -> str:
    """Return a regular expression of the hosts of a kind of sites, those :func:`known_site` recognises."""
    hosts = "|".join(sorted(_pattern(host) for host, site in _by_host().items() if site.kind == kind))
    below = ".*" if kind in _WITH_SUBDOMAINS else "www"
    return rf"({below}\.)?({hosts})"


def referrer_host(referrer: str) -> str:
    """Return the host of a URL in lower case; empty if it is not a URL.

    Examples
    --------
    >>> referrer_host("https://News.example:8080/today?id=1")
    'news.example'
    """
    match = _URL.match(referrer.strip())
    return original_host(bounded_host(match[1].lower().rstrip("."))) if match else ""


def original_host(host: str) -> str:
    """Return the host whose page another one shows translated or from a cache; else the host itself.

    Examples
    --------
    >>> original_host("my--shop-example.translate.goog"), original_host("shop.example")
    ('my-shop.example', 'shop.example')
    """
    name = next((host.removesuffix(end) for end in _COPIES if host.endswith(end)), None)
    return host if name is None else re.sub("--?", lambda dash: ".-"[len(dash[0]) - 1], name)


def bounded_host(host: str) -> str:
    """Return at most what DNS allows of a host; its end, which names the site, is kept."""
    return ".".join(host[-LONGEST_HOST:].split(".")[-_MOST_LABELS:])


def registrable_domain(host: str) -> str | None:
    """Return the part of a host that somebody has registered; None of addresses and public suffixes.

    Examples
    --------
    >>> registrable_domain("blog.shop.co.uk"), registrable_domain("shop.github.io")
    ('shop.co.uk', 'shop.github.io')
    >>> registrable_domain("co.uk"), registrable_domain("192.0.2.1"), registrable_domain("localhost")
    (None, None, None)
    """
    if host.endswith(tuple("]0123456789")):
        return None
    # Whoever sends a host chooses the number of its labels; no public suffix has as many as these.
    return _public_suffixes().privatesuffix(".".join(host.split(".")[-_MOST_OF_SUFFIX:]))


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def _site_of(host: str, sites: Mapping[str, Site]) -> Site | None:
    for written, is_whole in _written_forms(host):
        site = sites.get(written)
        if site is not None and (is_whole or site.kind in _WITH_SUBDOMAINS):
            return site
    return None


def _written_forms(host: str) -> Iterator[tuple[str, bool]]:
    """Return the forms in which a host and its parents may be listed, and whether it is the whole host."""
    labels = host.split(".")
    # Longer ends of a host are never listed, and whoever sends it chooses the number of its labels.
    for start in range(max(0, len(labels) - _most_listed()), len(labels) - 1):
        name, is_whole = labels[start:], start == 0
        yield ".".join(name), is_whole
        # The country is at the end (google.{}) or before the site ({}.search.yahoo.com).
        for count in (1, 2):
            if len(name) > count and re.fullmatch(_ENDING, ".".join(name[-count:])):
                yield ".".join([*name[:-count], COUNTRY]), is_whole
        for position in range(len(name) - 2):
            if re.fullmatch(_INNER, name[position]):
                yield ".".join([*name[:position], COUNTRY, *name[position + 1 :]]), is_whole


@cache
def _most_listed() -> int:
    """Return the largest number of labels of a host that may be listed; a country may have two."""
    return (
        max(host.count(".") for names in sites().values() for hosts in names.values() for host in hosts) + 2
    )


def _pattern(host: str) -> str:
    """Return the regular expression of a listed host."""
    escaped = re.escape(host.removesuffix(f".{COUNTRY}"))
    ending = rf"\.{_ENDING}" if host.endswith(f".{COUNTRY}") else ""
    return escaped.replace(re.escape(COUNTRY), _INNER) + ending


@cache
def _by_host() -> dict[str, Site]:
    """Return the sites by host, each host with one site."""
    by_host: dict[str, Site] = {}
    for kind, names in sites().items():
        for name, hosts in names.items():
            for host in (host.removeprefix("www.") for host in hosts):
                if _site_of(host, by_host) is None:
                    by_host[host] = Site(kind, name.lower())
    return by_host


#: Columns of rules with a pattern each.
CONDITIONS: Final = ("source", "medium", "campaign", "referrer")
#: Channel of rows that no rule matches.
UNASSIGNED: Final = "Unassigned"

#: What a URL has before its host, and after it.
_BEFORE_HOST: Final = r"^([a-z][a-z0-9+.-]*:)?//([^/?#@]*@)?"
_AFTER_HOST: Final = r"[/?#:].*$"
_REMEMBERED: Final = 65_536

_PREFIXES: Final = ("", "utm_", "mkt_", "marketing_", "session_")
#: Common names of the columns, in order of preference.
COLUMN_NAMES: Final = {
    "source": (*(f"{prefix}source" for prefix in _PREFIXES), "context_campaign_source"),
    "medium": (*(f"{prefix}medium" for prefix in _PREFIXES), "context_campaign_medium"),
    "campaign": (*(f"{prefix}campaign" for prefix in _PREFIXES), "campaign_name", "context_campaign_name"),
    "referrer": ("referrer", "page_referrer", "referrer_url", "context_page_referrer", "referrer_domain"),
}


@cache
def default_rules() -> pd.DataFrame:
    """Return the default rules as :func:`read_rules` does, without checking them.

    They are the published definitions of Google Analytics for manual traffic, and AI assistants.
    """
    sources = {f"{{{kind}}}": f"{names}|{host_pattern(kind)}" for kind, names in rows_of("source_names.tsv")}
    rules = [
        [*(None if cell == "-" else sources.get(cell, cell) for cell in row), None]
        for row in rows_of("default_rules.tsv")
    ]
    return pd.DataFrame(rules, columns=["channel", *CONDITIONS], dtype=object)


def channel_rules() -> pd.DataFrame:
    r"""Return the default channel rules as a table that you can change.

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
        without regard to case; a missing one matches everything. All of a row must match. A blank value is an
        empty text.

    See Also
    --------
    attrib_ds.hits.assign_channels : Apply rules to a frame.

    Examples
    --------
    Rules are rows. Put one's own first, and pass the table to a reader as ``channels=rules``:

    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> partners = pd.DataFrame({"channel": ["Partners"], "source": [r"(.*\.)?partner\.example"]})
    >>> rules = pd.concat([partners, at.hits.channel_rules()], ignore_index=True)
    >>> visits = pd.DataFrame({"source": ["shop.partner.example", "google"], "medium": ["referral", "cpc"]})
    >>> at.hits.assign_channels(visits, rules).tolist()
    ['Partners', 'Paid Search']
    """
    return default_rules().astype(TEXT)


def assign_channels(
    frame: Frame, rules: Frame | None = None, *, columns: Mapping[str, str] | None = None
) -> pd.Series[Any]:
    """Assign a channel to each row of a frame by rules.

    Parameters
    ----------
    frame : DataFrame or ibis.Table
        With a source, medium, campaign or referrer, under these names, those of UTM parameters, or the names
        in exports of Snowplow and Segment. If a visit has only a referrer, its source is the referrer's host
        and its medium is ``referral``.
    rules : DataFrame, optional
        From :func:`channel_rules`, changed or not; by default unchanged.
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
    >>> at.hits.assign_channels(visits).tolist()
    ['Paid Search', 'AI Assistants', 'Direct']
    """
    checked = default_rules() if rules is None else read_rules(rules)
    if isinstance(frame, ir.Table):
        column: pd.Series[Any] = _expression(frame, _found(frame.columns, columns), checked)
        return column
    given = read_frame("frame", frame)
    found = _found([str(name) for name in given.columns], columns)
    cells = {
        name: given[column].astype(object).map(str, na_action="ignore").fillna("")
        for name, column in found.items()
    }
    values = [cells.get(name, repeat("")) for name in CONDITIONS]
    channels = list(map(channel_matcher(checked), *values)) if len(given) else []
    assigned: pd.Series[Any] = pd.Series(channels, index=given.index, name="channel", dtype=TEXT)
    return assigned


def channel_matcher(rules: pd.DataFrame) -> Callable[..., str]:
    """Return a function that names the channel of a source, medium, campaign and referrer."""
    listed: list[tuple[str, ...]] = list(rules[["channel", *CONDITIONS]].itertuples(index=False, name=None))

    # Large frames have few sources, media and campaigns.
    @lru_cache(_REMEMBERED)
    def fits(pattern: str, word: str) -> bool:
        return re.fullmatch(pattern, word, re.IGNORECASE) is not None

    @lru_cache(_REMEMBERED)
    def channel_of(source: str, medium: str, campaign: str, referrer: str = "") -> str:
        words = [word.strip().lower() for word in (source, medium, campaign, referrer)]
        words[3] = re.sub(_AFTER_HOST, "", re.sub(_BEFORE_HOST, "", words[3])).rstrip(".")
        if words[3] and not any(words[:3]):
            words[:2] = words[3], "referral"
        for channel, *patterns in listed:
            pairs = zip(patterns, words, strict=True)
            if all(pattern is None or fits(pattern, word) for pattern, word in pairs):
                return channel
        return UNASSIGNED

    return channel_of


@cache
def default_channel() -> Callable[..., str]:
    """Return the :func:`channel_matcher` of the default rules."""
    return channel_matcher(default_rules())


def read_rules(rules: Frame) -> pd.DataFrame:
    """Check rules and return them with all columns, None where there is no condition."""
    given = read_frame("rules", rules, ("channel",))
    unknown = [name for name in given.columns if name not in ("channel", *CONDITIONS)]
    if unknown:
        raise InvalidRequest(
            f"rules: the column {unknown[0]!r} is not allowed{closest(str(unknown[0]), CONDITIONS)}; "
            f"allowed: channel, {', '.join(CONDITIONS)}"
        )
    if given.empty:
        raise InvalidRequest("rules: is empty; expected at least one row, such as those of channel_rules()")
    checked = given.reindex(columns=["channel", *CONDITIONS]).astype(object).reset_index(drop=True)
    checked = checked.where(checked.notna(), None)
    for row, rule in enumerate(checked.to_dict("records")):
        patterns = [name for name in CONDITIONS if rule[name] is not None]
        if not isinstance(rule["channel"], str) or not rule["channel"].strip():
            raise InvalidRequest(f"rules: the rule in row {row} has no channel")
        if not patterns:
            raise InvalidRequest(
                f"rules: the rule in row {row} has no condition and would match everything; allowed: a "
                f"pattern in at least one of {', '.join(CONDITIONS)}, such as '.*'"
            )
        for name in patterns:
            _check_pattern(rule[name], name, row)
    return checked


def _check_pattern(pattern: object, name: str, row: int) -> None:
    try:
        # Python's rules are not those of the engines; a pattern has to be one for both.
        re.compile(str(pattern))
        scratch.connect().execute("SELECT regexp_matches('', ?)", [_whole(str(pattern))])
    except (re.error, duckdb.Error) as error:
        raise InvalidRequest(
            f"rules: {pattern!r}, {name} in row {row}, is not a regular expression: {error}"
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
            raise InvalidRequest(f"columns: the frame has no column {column!r}{closest(column, present)}")
    for name, candidates in COLUMN_NAMES.items():
        common = next((column for column in candidates if column in present), None)
        if common is not None:
            named.setdefault(name, common)
    if not named:
        raise InvalidRequest(
            f"frame: no column of a source, medium, campaign or referrer; its columns: {', '.join(present)}; "
            'name them with columns={"source": COLUMN}'
        )
    return named


def _expression(table: ir.Table, columns: Mapping[str, str], rules: pd.DataFrame) -> Any:
    """Return the channel of each row of a table, as :func:`channel_matcher` names it."""
    values: dict[str, Any] = dict.fromkeys(CONDITIONS, ibis.literal(""))
    for name, column in columns.items():
        values[name] = table[column].cast("string").fill_null("").strip().lower()
    host = values["referrer"].re_replace(_BEFORE_HOST, "").re_replace(_AFTER_HOST, "").re_replace("[.]+$", "")
    is_referred = (values["source"] + values["medium"] + values["campaign"] == "") & (host != "")
    values |= {
        "referrer": host,
        "source": ibis.ifelse(is_referred, host, values["source"]),
        "medium": ibis.ifelse(is_referred, "referral", values["medium"]),
    }
    branches = []
    for rule in rules.to_dict("records"):
        patterns = {name: _whole(rule[name]) for name in CONDITIONS if rule[name] is not None}
        conditions = [values[name].re_search(pattern) for name, pattern in patterns.items()]
        branches.append((ibis.and_(*conditions), ibis.literal(rule["channel"])))
    return ibis.cases(*branches, else_=UNASSIGNED)
