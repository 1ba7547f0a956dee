"""The tree of traffic-source nodes and their properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attrib_ds import schema
from sample_data.columns import table_of
from sample_data.demand import DAY, OPENING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Root:
    """Common properties of the nodes below one root.

    ``query`` is the query string of landing pages, with placeholders for medium and campaign.
    """

    kind: str
    name: str
    channel: str
    source: str
    medium: str
    query: str = ""
    referrer: str | None = None
    referrer_type: str | None = "campaign"


ROOTS = {
    "google-ads": Root(
        "integration", "Google Ads", "Paid Search", "google", "cpc",
        "?utm_source=google&utm_medium={medium}&utm_campaign={slug}", "https://www.google.com/",
    ),
    "meta-ads": Root(
        "integration", "Meta Ads", "Paid Social", "meta", "paid_social",
        "?utm_source=meta&utm_medium={medium}&utm_campaign={slug}", "https://l.instagram.com/",
    ),
    "newsletter": Root(
        "integration", "Newsletter", "Email", "newsletter", "email",
        "?utm_source=newsletter&utm_medium={medium}&utm_campaign={slug}",
    ),
    "affiliate": Root(
        "integration", "Affiliates", "Affiliates", "affiliate", "affiliate",
        "?utm_source=affiliate&utm_medium={medium}&utm_campaign={slug}", "https://{slug}.example/",
    ),
    "organic-search": Root(
        "channel", "Organic search", "Organic Search", "search", "organic",
        referrer="https://www.{name}/", referrer_type="search",
    ),
    "referral": Root(
        "integration", "Referrals", "Referral", "referral", "referral",
        referrer="https://{name}/", referrer_type="referral",
    ),
    "direct": Root("channel", "Direct", "Direct", "(direct)", "(none)", referrer_type="direct"),
    "store": Root(
        "integration", "Stores and phone", "Offline", "store", "offline", referrer_type=None
    ),
}  # fmt: skip

# Nodes below the roots: id, type, name, landing page (of nodes with visits).
_CHILDREN = (
    ("google-ads/brand", "campaign", "Brand", None),
    ("google-ads/brand/shop", "adset", "Shop name", None),
    ("google-ads/brand/shop/sample-shop", "keyword", "sample shop", "/"),
    ("google-ads/brand/shop/sample-shop-outdoor", "keyword", "sample shop outdoor", "/"),
    ("google-ads/brand/shoes", "adset", "Shop name and shoes", "/shoes"),
    ("google-ads/brand/sale", "adset", "Shop name and sale", "/sale"),
    ("google-ads/hiking", "campaign", "Hiking", None),
    ("google-ads/hiking/boots", "adset", "Hiking boots", None),
    ("google-ads/hiking/boots/hiking-boots", "keyword", "hiking boots", "/hiking/boots"),
    ("google-ads/hiking/boots/trekking-shoes", "keyword", "trekking shoes", "/hiking/boots"),
    ("google-ads/hiking/boots/waterproof-boots", "keyword", "waterproof boots", "/hiking/boots"),
    ("google-ads/hiking/backpacks", "adset", "Backpacks", None),
    ("google-ads/hiking/backpacks/trekking-backpack", "keyword", "trekking backpack", "/hiking/backpacks"),
    ("google-ads/hiking/backpacks/day-pack", "keyword", "day pack", "/hiking/backpacks"),
    ("google-ads/hiking/jackets", "adset", "Rain jackets", "/hiking/jackets"),
    ("google-ads/camping", "campaign", "Camping", None),
    ("google-ads/camping/tents", "adset", "Tents", None),
    ("google-ads/camping/tents/light-tent", "keyword", "light tent", "/camping/tents"),
    ("google-ads/camping/tents/family-tent", "keyword", "family tent", "/camping/tents"),
    ("google-ads/camping/sleeping-bags", "adset", "Sleeping bags", "/camping/sleeping-bags"),
    ("google-ads/shopping", "campaign", "Shopping feed", None),
    ("google-ads/shopping/shoes", "adset", "Shoes", "/shoes"),
    ("google-ads/shopping/gear", "adset", "Gear", "/camping/tents"),
    ("google-ads/display", "campaign", "Display prospecting", None),
    ("google-ads/display/travel-sites", "adset", "Travel sites", None),
    ("google-ads/display/travel-sites/banner-lake", "ad", "Banner lake", "/hiking"),
    ("google-ads/display/travel-sites/banner-summit", "ad", "Banner summit", "/hiking"),
    ("google-ads/display/weather-sites", "adset", "Weather sites", "/hiking/jackets"),
    ("meta-ads/prospecting", "campaign", "Prospecting", None),
    ("meta-ads/prospecting/lookalike", "adset", "Lookalike 2 %", None),
    ("meta-ads/prospecting/lookalike/video-hut", "ad", "Video hut to hut", "/hiking"),
    ("meta-ads/prospecting/lookalike/carousel-boots", "ad", "Carousel boots", "/hiking/boots"),
    ("meta-ads/prospecting/outdoor-interests", "adset", "Outdoor interests", None),
    ("meta-ads/prospecting/outdoor-interests/video-tent", "ad", "Video tent in rain", "/camping/tents"),
    ("meta-ads/retargeting", "campaign", "Retargeting", None),
    ("meta-ads/retargeting/cart-abandoners", "adset", "Cart abandoners", "/cart"),
    ("meta-ads/retargeting/product-viewers", "adset", "Product viewers", "/shoes"),
    ("meta-ads/spring-sale", "campaign", "Spring sale", None),
    ("meta-ads/spring-sale/story", "ad", "Story", "/sale"),
    ("meta-ads/reels-test", "campaign", "Reels test (views only)", None),
    ("newsletter/weekly", "campaign", "Weekly newsletter", "/new"),
    ("newsletter/spring-sale", "campaign", "Spring sale mailing", "/sale"),
    ("newsletter/summer-preview", "campaign", "Summer preview mailing", "/camping/tents"),
    ("affiliate/gear-tests", "campaign", "Gear Tests", "/hiking/boots"),
    ("affiliate/trail-magazine", "campaign", "Trail Magazine", "/hiking"),
    ("affiliate/coupon-corner", "campaign", "Coupon Corner", "/sale"),
    ("organic-search/google", "referrer", "google.com", None),
    ("organic-search/bing", "referrer", "bing.com", None),
    ("organic-search/duckduckgo", "referrer", "duckduckgo.com", None),
    ("organic-search/ecosia", "referrer", "ecosia.org", None),
    ("referral/hikers-forum", "referrer", "hikers-forum.example", "/hiking/boots"),
    ("referral/hut-guide", "referrer", "hut-guide.example", "/hiking"),
    ("referral/alpine-club", "referrer", "alpine-club.example", "/"),
    ("store/paris", "campaign", "Paris store", None),
    ("store/berlin", "campaign", "Berlin store", None),
    ("store/phone", "campaign", "Phone orders and advice", None),
)

_ENDED = ("meta-ads/spring-sale", "newsletter/spring-sale")
_NUMBERED = ("google-ads", "meta-ads")


@dataclass(frozen=True)
class Node:
    """A node with its landing page; ``landing`` is None if visits through it have no fixed landing page."""

    node_id: str
    kind: str
    name: str
    landing: str | None

    @property
    def parent_id(self) -> str | None:
        """The id of the parent."""
        return self.node_id.rpartition("/")[0] or None

    @property
    def root_id(self) -> str:
        """The id of the root."""
        return self.node_id.partition("/")[0]

    @property
    def root(self) -> Root:
        """The root's properties."""
        return ROOTS[self.root_id]

    @property
    def slug(self) -> str:
        """The slug of the node's campaign; the root's id without one."""
        return self.node_id.split("/")[1] if "/" in self.node_id else self.node_id

    @property
    def is_banner(self) -> bool:
        """Whether the node is display advertising."""
        return self.node_id.startswith("google-ads/display")

    @property
    def channel(self) -> str:
        """The channel: ``Display`` for banners, otherwise that of the root."""
        return "Display" if self.is_banner else self.root.channel

    @property
    def medium(self) -> str:
        """The medium: ``display`` for banners, otherwise that of the root."""
        return "display" if self.is_banner else self.root.medium

    @property
    def referrer(self) -> str | None:
        """The referrer of visits."""
        if self.is_banner:
            return "https://banner-network.example/"
        referrer = self.root.referrer
        return referrer and referrer.format(slug=self.slug, name=self.name)

    @property
    def query(self) -> str:
        """The query string of landing pages."""
        return self.root.query.format(medium=self.medium, slug=self.slug)


def nodes() -> list[Node]:
    """Return every node, parents before children.

    Examples
    --------
    >>> nodes()[8].parent_id
    'google-ads'
    """
    roots = [Node(node_id, root.kind, root.name, None) for node_id, root in ROOTS.items()]
    return [*roots, *(Node(*row) for row in _CHILDREN)]


def entries(source: str) -> list[str]:
    """Return the ids of the leaves below a source.

    Examples
    --------
    >>> entries("store"), entries("direct")
    (['store/paris', 'store/berlin', 'store/phone'], ['direct'])
    """
    node_ids = [node.node_id for node in nodes()]
    parents = {node.parent_id for node in nodes()}
    subtree = [node_id for node_id in node_ids if node_id == source or node_id.startswith(f"{source}/")]
    return [node_id for node_id in subtree if node_id not in parents]


def node_table() -> pa.Table:
    """Return the nodes as a table in the NODE schema, without project and path.

    Returns
    -------
    pyarrow.Table
        One row per node, parents before children.

    Examples
    --------
    >>> node_table().column("parentId")[:1].to_pylist()
    [None]
    """
    rows = nodes()
    created = [OPENING - 200 * DAY + 3600 * row for row in range(len(rows))]
    ended = [node.node_id.startswith(_ENDED) for node in rows]
    return table_of(
        {
            "_id": [node.node_id for node in rows],
            "integrationId": [node.root_id for node in rows],
            "vendorId": [node.root_id for node in rows],
            "parentId": [node.parent_id for node in rows],
            "type": [node.kind for node in rows],
            "name": [node.name for node in rows],
            "externalId": [_external_id(node, row) for row, node in enumerate(rows)],
            "channel": [node.channel for node in rows],
            "campaignSlug": [node.slug if node.kind == "campaign" else None for node in rows],
            "source": [node.root.source for node in rows],
            "medium": [node.medium for node in rows],
            "active": [not over for over in ended],
            "createdAt": created,
            "updatedAt": [
                OPENING + 103 * DAY if over else start for over, start in zip(ended, created, strict=True)
            ],
        },
        schema.NODE,
    )


def _external_id(node: Node, row: int) -> str | None:
    has_id = node.root_id in _NUMBERED and node.parent_id is not None
    return f"{21_480_000_000 + 7_919 * row}" if has_id else None
