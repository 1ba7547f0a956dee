"""Map traffic sources to chains of nodes: channel or source and medium, then campaign, ad and keyword."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from attrib_ds.contract.identifiers import slug_of
from attrib_ds.queries.channel_rules import UNASSIGNED

#: Placeholders for an unknown source or medium.
_UNKNOWN: Final = frozenset({"", "(none)", "(not set)", "(not provided)", "(data deleted)", "(unavailable)"})
_NOT_SET: Final = "(not set)"
_DIRECT: Final = frozenset({"direct", "(direct)"})
#: Placeholders of Google Analytics for the campaign of a visit without a campaign.
_NO_CAMPAIGN: Final = frozenset({"(direct)", "(organic)", "(referral)", "(content)"})

_REFERRER_TYPES: Final = {
    "Direct": "direct",
    "Organic Search": "search",
    "Organic Social": "social",
    "AI Assistants": "ai",
    **dict.fromkeys(("Organic Shopping", "Organic Video", "Referral"), "referral"),
}
#: Unpaid channels with the id of their node.
_UNPAID: Final = {name: name.lower().replace(" ", "-") for name in _REFERRER_TYPES if name != "Direct"}
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
