"""Where a visit came from: its evidence resolved to a traffic source, and that to a chain of nodes."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import pyarrow as pa

from attrib_ds.contract.identifiers import slug_of
from attrib_ds.traffic import channel_rules
from attrib_ds.traffic.channel_rules import UNASSIGNED

#: Placeholders for an unknown source or medium.
_UNKNOWN: Final = frozenset({"", "(none)", "(not set)", "(not provided)", "(data deleted)", "(unavailable)"})
_NOT_SET: Final = "(not set)"
_DIRECT: Final = frozenset({"direct", "(direct)"})
#: Placeholders of Google Analytics for the campaign of a visit without a campaign.
_NO_CAMPAIGN: Final = frozenset({"(direct)", "(organic)", "(referral)", "(content)"})

#: Type of referrer and medium of unpaid channels.
_OF_UNPAID: Final = {name: words for name, *words in channel_rules.rows_of("unpaid_channels.tsv")}
_REFERRER_TYPES: Final = {"Direct": "direct", **{name: kind for name, (kind, _) in _OF_UNPAID.items()}}
#: Unpaid channels with the id of their node.
_UNPAID: Final = {name: name.lower().replace(" ", "-") for name in _OF_UNPAID}
#: Roots that are not source and medium. A source of the same name is written differently.
_ROOTS: Final = frozenset({"direct", *_UNPAID.values()})
#: Types of the levels of users' own columns, from the root down.
LEVELS: Final = ("channel", "campaign", "adset", "ad", "keyword")
#: Type of the nodes below one.
_BELOW: Final = {"channel": "referrer", "integration": "campaign", **dict(pairwise(LEVELS[1:]))}
#: Name of the node with the traffic of those that were too many.
_OTHER: Final = "(other)"
_MAX_LENGTH: Final = 128
_DIGEST: Final = re.compile(r"~[0-9a-f]{24}\Z")


@dataclass(frozen=True)
class Traffic:
    """The traffic source of a visit, in the words of its export.

    Attributes
    ----------
    source, medium, campaign, adset, ad, keyword : str, optional
        From the URL of the landing page, the ad platform or the referrer.
    campaign_id : str, optional
        Id of the campaign in the ad platform.
    channel : str, optional
        Channel of the default rules, or of the export.
    node : str, optional
        Name of a node without parent and children.
    levels : str, optional
        JSON array with the names of a node and its ancestors, from the root down.
    """

    source: str | None = None
    medium: str | None = None
    campaign: str | None = None
    campaign_id: str | None = None
    adset: str | None = None
    ad: str | None = None
    keyword: str | None = None
    channel: str | None = None
    node: str | None = None
    levels: str | None = None


@dataclass(frozen=True)
class Node:
    """A node of the tree, with the columns for loading it."""

    node_id: str
    parent_id: str | None
    kind: str
    name: str
    channel: str
    source: str | None = None
    medium: str | None = None
    slug: str | None = None
    external_id: str | None = None


#: Columns of stored nodes with the field of a node.
OF_NODE: Final = {
    "_id": "node_id", "parentId": "parent_id", "type": "kind", "name": "name", "channel": "channel",
    "campaignSlug": "slug", "source": "source", "medium": "medium",
}  # fmt: skip


def chain(traffic: Traffic, label: str | None = None) -> tuple[Node, ...]:
    """Return the nodes of a visit, from the root down.

    Unpaid visits have a channel and the referring site; all others have source and medium, then campaign, ad
    group, ad and keyword if they are known. An id is the path of these names, and no other node's: a missing
    name before others is empty, a missing source is ``(not set)``, and a source named like an unpaid channel
    has its first letter percent-encoded.

    Parameters
    ----------
    traffic : Traffic
        Its channel decides whether the visit is unpaid.
    label : str, optional
        Channel of the nodes, if it is another one.

    Examples
    --------
    >>> [node.node_id for node in chain(Traffic("google", "cpc", "spring", ad="boots"))]
    ['google/cpc', 'google/cpc/spring', 'google/cpc/spring//boots']
    >>> [node.node_id for node in chain(Traffic("google", "organic", channel="Organic Search"))]
    ['organic-search', 'organic-search/google']
    >>> [node.node_id for node in chain(Traffic("organic-search", "google"))]
    ['%6Frganic-search/google']
    >>> [node.node_id for node in chain(Traffic("(direct)", "(none)"))]
    ['direct']
    """
    if traffic.node is not None:
        return (Node(_short(traffic.node), None, "channel", traffic.node, traffic.node),)
    if traffic.levels is not None:
        return _nested(json.loads(traffic.levels), label)
    traffic = without_placeholders(traffic)
    source, medium, campaign = traffic.source, traffic.medium, traffic.campaign
    if campaign is None and medium is None and (source is None or source.casefold() in _DIRECT):
        return (Node("direct", None, "channel", "Direct", label or "Direct", "(direct)", "(none)"),)
    group = traffic.channel or UNASSIGNED
    channel = label or group
    if campaign is None and group in _UNPAID:
        # The sites below a root may have other channels.
        of_root = channel if source is None else group
        root = Node(_UNPAID[group], None, "channel", group, of_root, medium=medium)
        if source is None:
            return (root,)
        name = _id(root.node_id, source)
        return root, Node(name, root.node_id, "referrer", source, channel, source, medium)
    path = [_source_part(source), medium or ""]
    title = " / ".join(name for name in (source, medium) if name is not None) or _NOT_SET
    nodes = [Node(_id(*path), None, "integration", title, channel, source, medium)]
    for kind in LEVELS[1:]:
        level = getattr(traffic, kind)
        path.append(level or "")
        if level is not None:
            node = Node(_id(*path), nodes[-1].node_id, kind, level, channel, source, medium)
            if kind == "campaign":
                node = replace(node, slug=slug_of(level), external_id=traffic.campaign_id)
            nodes.append(node)
    return tuple(nodes)


def other(above: Node | None) -> Node:
    """Return the node for the traffic of nodes below one, or of roots, that are too many.

    Examples
    --------
    >>> root, _ = chain(Traffic("google", "cpc", "spring"))
    >>> other(root).node_id, other(root).kind, other(None).node_id
    ('google/cpc/(other)', 'campaign', '(other)')
    """
    if above is None:
        return Node(_OTHER, None, "channel", _OTHER, UNASSIGNED)
    id, kind = _id(above.node_id, _OTHER), _BELOW[above.kind]
    return Node(id, above.node_id, kind, _OTHER, above.channel, above.source, above.medium)


def without_placeholders(traffic: Traffic) -> Traffic:
    """Return a traffic source whose unknown values are None, whatever the export writes for them."""
    names = ("source", "medium", "campaign", "campaign_id", "adset", "ad", "keyword")
    known = {name: known_word(getattr(traffic, name)) for name in names}
    if (known["campaign"] or "").casefold() in _NO_CAMPAIGN:
        known["campaign"] = None
    return replace(traffic, **known)


def _nested(names: list[str | None], label: str | None) -> tuple[Node, ...]:
    """Return the nodes of the levels of a user's own columns, down to the first without a name."""
    nodes: list[Node] = []
    parts: list[str] = []
    for kind, name in zip(LEVELS, names, strict=False):
        word = (name or "").strip() or ("" if nodes else _NOT_SET)
        if not word:
            break
        parts.append(word)
        parent = nodes[-1].node_id if nodes else None
        name = _id(_escaped(parts[0]), *parts[1:])
        nodes.append(Node(name, parent, kind, word, label or parts[0]))
    return tuple(nodes)


def referrer_type(leaf: Node) -> str:
    """Return the type of referrer of a visit through a node."""
    return _REFERRER_TYPES.get(leaf.channel, "campaign") if leaf.slug is None else "campaign"


def tree(chains: Iterable[tuple[Node, ...]]) -> list[Node]:
    """Return the distinct nodes of all chains, parents before children.

    A campaign has an external id if any of its chains has one.
    """
    by_id: dict[str, Node] = {}
    for node in (node for nodes in chains for node in nodes):
        previous = by_id.get(node.node_id)
        if previous is None or (previous.external_id is None and node.external_id is not None):
            by_id[node.node_id] = node
    return sorted(by_id.values(), key=lambda node: (node.node_id.count("/"), node.node_id))


def known_word(text: str | None) -> str | None:
    """Return a value without blanks around it; None if it is blank or stands for an unknown value."""
    word = (text or "").strip()
    return None if word.casefold() in _UNKNOWN else word


def _source_part(source: str | None) -> str:
    """Return the first part of an id, which is never that of another kind of root."""
    if source is None:
        return _NOT_SET
    part = _escaped(source)
    return f"%{ord(part[0]):02X}{part[1:]}" if part in _ROOTS else part


def _id(*parts: str) -> str:
    """Return an id in the form of a path, without the empty parts at its end."""
    first, *rest = parts
    return _short("/".join([first, *map(_escaped, rest)]).rstrip("/"))


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _short(path: str) -> str:
    # A path that ends like a shortened one is shortened too, so that it is not the id of another path.
    if len(path) < _MAX_LENGTH or (len(path) == _MAX_LENGTH and _DIGEST.search(path) is None):
        return path
    # A hash of the whole path distinguishes long paths with the same beginning.
    digest = hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()[:24]
    return f"{path[: _MAX_LENGTH - len(digest) - 1]}~{digest}"


#: Source, medium and type of the links that platforms mark. The first of them that a URL has counts.
MARKS: Final = {name: tuple(words) for name, *words in channel_rules.rows_of("marks.tsv")}
_NETWORKS: Final = ("facebook", "fb", "instagram", "ig")
#: Fields of a traffic source by the parameters that name them.
_FIELDS: Final = {
    "utm_source": "source", "utm_medium": "medium", "utm_campaign": "campaign", "utm_content": "ad",
    "utm_term": "keyword",
}  # fmt: skip
_UTM: Final = tuple(_FIELDS)
#: The same parameters by the names that Matomo and Piwik give them.
_SYNONYMS: Final = dict(channel_rules.rows_of("parameters.tsv"))
#: Parameters whose values are ids, one of each click.
CLICK_IDS: Final = tuple(name for name in MARKS if "=" not in name)
#: Parameters of a URL that can name a source.
PARAMETERS: Final = (*_UTM, *_SYNONYMS, *dict.fromkeys(name.partition("=")[0] for name in MARKS))
#: Pattern of a URL, in lower case, with one of them; an underscore may be percent-encoded.
_MARKED: Final = "|".join(dict.fromkeys(name.partition("=")[0] for name in MARKS)).replace("_", "(_|%5f)")
NAMED: Final = f"[?&#;]((utm|mtm|pk)(_|%5f)(source|medium|campaign|content|term|keyword|cpn|kwd)|{_MARKED})="
#: Pattern of the id of a click, which says no more than that there is one: its group 3 and the one after it.
CLICKED: Final = rf"([?&#](amp;)?({'|'.join(CLICK_IDS)})=)[a-zA-Z0-9_.-]{{8,255}}([?&#]|$)"
#: Medium of the traffic of known sites that are named as the source, which decides their channel.
_MEDIA: Final = {"search": "organic", "social": "social", "ai": "ai-assistant", "email": "email"}
#: Channels of known sites whose traffic is a referral.
_REFERRING: Final = {"shopping": "Organic Shopping", "video": "Organic Video"}
#: Text of a campaign before letters that cannot be printed are left out of its name.
_AS_SENT: Final = "campaign as sent"
#: Slug of the campaign of traffic that names an integration and no campaign.
DEFAULT_SLUG: Final = "default"
#: Longest value of a parameter that names a source.
LONGEST_WORD: Final = 255
#: Longest URL of a page or a referrer that is stored, and in which a source is found.
LONGEST_URL: Final = 2_048
LONGEST_SENT_URL: Final = 4_096


@dataclass(frozen=True)
class TrafficSource:
    """The traffic source of hits.

    Parameters
    ----------
    referrer_type : str
        One of direct, search, social, ai, email, referral, campaign and internal.
    nodes : tuple of Node
        Its nodes, from the root down; empty for a custom campaign.
    custom_campaign : tuple of str, optional
        ``vendorId``, slug and name of a custom campaign.
    is_truncated : bool, default False
        Whether a text that names it was longer than is kept.
    traffic : Traffic
        Its words, of which the nodes are made.
    """

    referrer_type: str
    nodes: tuple[Node, ...] = ()
    custom_campaign: tuple[str, str, str] | None = None
    is_truncated: bool = False
    traffic: Traffic = Traffic()


def resolve_source(
    search: str,
    referrer: str,
    *,
    is_internal: bool = False,
    vendors: Collection[str] = (),
    record: Traffic | None = None,
    is_derived: bool = False,
) -> TrafficSource:
    """Return the traffic source of a visit by its evidence.

    In this order: the campaign that a vendor's record of the visit names, parameters of the landing page, the
    mark of a click, which adds what is missing, words that a vendor derived, the referrer.

    Parameters
    ----------
    search : str
        Query of the page's URL, with or without the question mark, and its fragment.
    referrer : str
        URL of the referrer; empty without one.
    is_internal : bool, default False
        Whether the referrer is a page of the site itself, or one from which visitors come back, such as that
        of a payment.
    vendors : collection of str
        ``vendorId`` of each integration.
    record : Traffic, optional
        What a vendor's record of the visit says.
    is_derived : bool, default False
        Whether the vendor derived this itself, such as organic from the referrer.

    Examples
    --------
    >>> ads = resolve_source("?utm_source=google&utm_medium=cpc&utm_campaign=spring", "")
    >>> ads.referrer_type, ads.nodes[-1].node_id, ads.nodes[-1].channel
    ('campaign', 'google/cpc/spring', 'Paid Search')
    >>> resolve_source("", "https://www.bing.com/").nodes[-1].node_id
    'organic-search/bing'
    >>> resolve_source("?utm_source=flyers&utm_campaign=may", "", vendors=["flyers"]).custom_campaign
    ('flyers', 'may', 'may')
    """
    values = _values(search)
    bounded = {name: value[:LONGEST_WORD] for name, value in values.items()}
    is_truncated = bounded != values
    if record is not None and not is_derived:
        bounded = _with_record(bounded, record)
    derived = without_placeholders(record) if record is not None and is_derived else Traffic()
    source = _source_of(bounded, referrer, derived, is_internal=is_internal, vendors=vendors)
    return replace(source, is_truncated=is_truncated)


def _with_record(values: Mapping[str, str], record: Traffic) -> dict[str, str]:
    """Return the parameters with those that a vendor's record names in their place."""
    known = without_placeholders(record)
    named = {utm: word for utm, field in _FIELDS.items() if (word := getattr(known, field)) is not None}
    source = named.get("utm_source", values.get("utm_source", "")).casefold()
    if named and values.get("utm_source", source).casefold() != source:
        # They are those of another click.
        values = {name: value for name, value in values.items() if name in MARKS}
    return {**values, **named}


def _source_of(
    values: Mapping[str, str], referrer: str, derived: Traffic, *, is_internal: bool, vendors: Collection[str]
) -> TrafficSource:
    named = Traffic(**{field: values.get(utm) for utm, field in _FIELDS.items()})
    source = named.source
    if source is not None:
        vendor = next((vendor for vendor in vendors if vendor.casefold() == source.casefold()), None)
        if vendor is not None:
            name = named.campaign or DEFAULT_SLUG
            slug = slug_of(values.get(_AS_SENT, name))
            return TrafficSource("campaign", custom_campaign=(vendor, slug, name))
    mark = next((name for name in MARKS if name in values), None)
    if mark is not None:
        return _of_mark(mark, named, referrer)
    is_alone = named == Traffic(source)
    assistant = channel_rules.known_site(f"//{source}") if source and is_alone else None
    if assistant is not None and assistant.kind == "ai":
        return _of_site(assistant)
    if source or named.medium or named.campaign:
        return _of_words("campaign", named)
    if derived.source or derived.medium or derived.campaign:
        return _of_words(None, derived)
    if is_internal:
        return _of_words("internal", Traffic())
    site = channel_rules.known_site(referrer)
    if site is not None and site.kind in _MEDIA:
        return _of_site(site)
    host = channel_rules.referrer_host(referrer).removeprefix("www.")
    if host:
        channel = _REFERRING[site.kind] if site is not None else "Referral"
        return _of_words("referral", Traffic(host, "referral", channel=channel))
    return _of_words("direct", Traffic())


def _of_mark(mark: str, named: Traffic, referrer: str) -> TrafficSource:
    """Return the source of a marked link: what it says itself counts; the mark adds what is missing."""
    platform, usual, kind = MARKS[mark]
    # Networks mark every outbound link, those of posts too.
    is_post = kind == "social"
    if is_post and named.source is None:
        network = channel_rules.known_site(referrer)
        platform = network.name.lower() if network is not None and network.kind == "social" else platform
    medium = named.medium
    if medium is None and (not is_post or named.source is None or named.source.lower() in _NETWORKS):
        medium = usual
    words = replace(named, source=named.source or platform, medium=medium)
    return _of_words(kind if named == Traffic() else "campaign", words)


def _values(search: str) -> dict[str, str]:
    """Return the first value of each parameter that can name a source."""
    values: dict[str, str] = {}
    # Links in HTML that was escaped twice, and parameters after the fragment.
    text = search.replace("&amp;", "&").replace("#", "&").replace("?", "&")
    for name, value in parse_qsl(text, errors="replace"):
        spaced = (" " if letter.isspace() else letter for letter in value)
        word = known_word("".join(letter for letter in spaced if letter.isprintable()))
        name = _SYNONYMS.get(name.lower(), name.lower())
        if word is not None and f"{name}={word.lower()}" in MARKS:
            values[f"{name}={word.lower()}"] = word
        if name in PARAMETERS and name not in values and word is not None:
            values[name] = word
            if name == "utm_campaign":
                values[_AS_SENT] = value.strip()
    return values


def _of_site(site: channel_rules.Site) -> TrafficSource:
    return _of_words(site.kind, Traffic(site.name, _MEDIA[site.kind]))


def _of_words(kind: str | None, traffic: Traffic) -> TrafficSource:
    nodes = _nodes(traffic)
    return TrafficSource(kind or referrer_type(nodes[-1]), nodes, traffic=traffic)


def _nodes(traffic: Traffic) -> tuple[Node, ...]:
    """Return nodes whose description follows from their id, whatever traffic is seen first."""
    if traffic.channel is not None:
        return chain(traffic)
    traffic = without_placeholders(traffic)
    source, medium = traffic.source or "", traffic.medium or ""
    channel = channel_rules.default_channel()(source, medium, traffic.campaign or "")
    nodes = chain(replace(traffic, channel=channel))
    if nodes[0].kind == "integration":
        return replace(nodes[0], channel=channel_rules.default_channel()(source, medium, "")), *nodes[1:]
    return tuple(replace(node, medium=_OF_UNPAID.get(channel, ["", node.medium])[1]) for node in nodes)


def is_internal(page: str, referrer: str, excluded: Collection[str] = ()) -> bool:
    """Return whether a visitor comes from the site itself, or from where visitors return.

    Parameters
    ----------
    page, referrer : str
        Hosts, in lower case and without ``www.``.
    excluded : collection of str
        Domains of the site, and hosts from which visitors return; with their subdomains.

    Examples
    --------
    >>> is_internal("help.shop.example", "blog.shop.example"), is_internal("a.github.io", "b.github.io")
    (True, False)
    >>> is_internal("shop.example", "eu.checkout.example", {"checkout.example"})
    True
    """
    page, referrer = (channel_rules.original_host(host).removeprefix("www.") for host in (page, referrer))
    ends = accumulate(reversed(referrer.split(".")), lambda end, label: f"{label}.{end}")
    if referrer == page or any(end in excluded for end in ends):
        return True
    domain = channel_rules.registrable_domain(referrer)
    if domain is None:
        return False
    if referrer.removesuffix(domain).partition(".")[0] in channel_rules.returning_labels():
        return True
    if domain != channel_rules.registrable_domain(page):
        return False
    # Sites that Google hosts are not its search engine.
    site = channel_rules.known_site(f"//{referrer}")
    return site is None or site.kind != "search"


_EVIDENCE: Final = ("search", "page", "referrer", *_FIELDS.values())
#: Columns of :func:`resolve_visits`.
RESOLVED: Final = (*_FIELDS.values(), "channel", "node_id", "reason")


def resolve_visits(visits: pa.Table, *, own: Collection[str] = ()) -> pa.Table:
    """Return the traffic sources of visits by their evidence.

    Parameters
    ----------
    visits : pyarrow.Table
        ``search`` (query and fragment of the landing page), ``page`` and ``referrer`` (origins, or hosts),
        what the vendor's record says (``source``, ``medium``, ``campaign``, ``ad``, ``keyword``), and
        ``is_derived``.
    own : collection of str
        Hosts of the site, of pages without a host.

    Returns
    -------
    pyarrow.Table
        In the order of the visits: the words of the source with its ``channel``, null if the rules decide on
        it; ``node_id``; ``reason``, as the referrer type of an interaction; ``is_campaign``, whether it may
        begin another visit.
    """
    excluded = channel_rules.returning_hosts(own)
    rows = []
    for visit in visits.select([*_EVIDENCE, "is_derived"]).to_pylist():
        page, origin = (_origin(visit[name]) for name in ("page", "referrer"))
        record = Traffic(**{name: visit[name] for name in _FIELDS.values()})
        is_derived = bool(visit["is_derived"])
        if record == Traffic() and origin.startswith("//") and "." not in origin:
            # A word in place of an address, which is not localhost, since that has a scheme.
            record, is_derived, origin = Traffic(origin.removeprefix("//"), "referral"), True, ""
        host = channel_rules.referrer_host(page).removeprefix("www.")
        known = without_placeholders(record)
        if (known.source or "").casefold() in _DIRECT and known.campaign is None:
            record = Traffic()
        if is_derived and record.source and is_internal(host, record.source.lower(), excluded):
            record = Traffic()
        referrer = channel_rules.referrer_host(origin).removeprefix("www.")
        inside = bool(referrer) and is_internal(host, referrer, excluded)
        source = resolve_source(
            visit["search"] or "",
            "" if inside else origin,
            is_internal=inside,
            record=record,
            is_derived=is_derived,
        )
        kind, words = source.referrer_type, source.traffic
        values = (getattr(words, name) for name in (*_FIELDS.values(), "channel"))
        rows.append((*values, source.nodes[-1].node_id, kind, kind == "campaign" and not inside))
    names = (*RESOLVED, "is_campaign")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    kinds = [pa.string()] * len(RESOLVED) + [pa.bool_()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names)


def _origin(text: str | None) -> str:
    """Return an origin with a scheme, also of a host alone; empty for words that stand for none."""
    word = known_word(text) or ""
    if word.lower().strip("$()") == "direct" or word == "-":
        return ""
    return word if not word or "//" in word else f"//{word}"


#: A query, a referrer and whether it is internal: an example for :func:`resolve_in_time`.
KEY: Final = ("?utm_source=news", "https://news.example/", False)
#: Processor time after which a text of a hit is given up.
_MOST_SECONDS: Final = 1.0
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Unresolved:
    """Why a text of a hit has no result."""

    reason: str


def resolve_in_time(
    resolve: Callable[[Key], Value],
    keys: Sequence[Key],
    *,
    example: Key | None = None,
    seconds: float = _MOST_SECONDS,
) -> list[Value | Unresolved]:
    """Return what a function makes of each key; those that fail or take too long do not hold up the others.

    The example is resolved first, without a limit: loading the rules takes none of the first key's time.

    Examples
    --------
    >>> resolve_in_time(lambda key: 1 / key, [2, 0])
    [0.5, Unresolved(reason='cannot be read: division by zero')]
    """
    results: list[Value | Unresolved] = []
    if keys and example is not None:
        resolve(example)
    while len(results) < len(keys):
        # A thread cannot be interrupted; it is left behind, and ends with the process at the latest.
        found: list[Value | Unresolved] = []
        is_given_up, clock = threading.Event(), _ThreadClock()
        arguments = (resolve, keys[len(results) :], seconds, found, is_given_up, clock)
        thread = threading.Thread(target=_resolve_each, args=arguments, daemon=True)
        thread.start()
        count, began = 0, clock.seconds()
        # Processor time of the thread: neither a busy machine nor other threads make it give up.
        while thread.is_alive() and (len(found) > count or clock.seconds() - began <= seconds):
            if len(found) > count:
                count, began = len(found), clock.seconds()
            thread.join(seconds / 4)
        is_given_up.set()
        results += found[:]
        if len(results) < len(keys):
            results.append(_late(seconds))
    return results


class _ThreadClock:
    """The processor time of a thread, read from another one; of the process where the system has none."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._is_started = threading.Event()

    def start(self) -> None:
        """Measure the thread that calls this."""
        find = getattr(time, "pthread_getcpuclockid", None)
        self._id = None if find is None else find(threading.get_ident())
        self._is_started.set()

    def seconds(self) -> float:
        """Return the processor time; any value after the thread has ended."""
        self._is_started.wait()
        if self._id is None:
            return time.process_time()
        with suppress(OSError):
            return time.clock_gettime(self._id)
        return 0.0


def _resolve_each(
    resolve: Callable[[Key], Value],
    keys: Sequence[Key],
    seconds: float,
    found: list[Value | Unresolved],
    is_given_up: threading.Event,
    clock: _ThreadClock,
) -> None:
    clock.start()
    for key in keys:
        started_at = time.thread_time()
        try:
            result: Value | Unresolved = resolve(key)
        except Exception as error:  # noqa: BLE001  (whoever sends a hit chooses its texts)
            result = Unresolved(f"cannot be read: {error}")
        if is_given_up.is_set():
            return
        found.append(_late(seconds) if time.thread_time() - started_at > seconds else result)


def _late(seconds: float) -> Unresolved:
    return Unresolved(f"took more than {seconds:g} s to read")
