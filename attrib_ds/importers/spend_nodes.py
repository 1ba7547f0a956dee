"""The nodes of touchpoints, by the names that tables of spend have for them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from attrib_ds.importers.columns import folded
from attrib_ds.importers.own_paths import caseless

_TABLE: Final = Path(__file__).with_name("platforms.tsv").read_text(encoding="utf-8").splitlines()[2:]
#: Platforms by their names, folded.
_PLATFORMS: Final = {
    name: platform for platform, names in (line.split("\t") for line in _TABLE) for name in names.split()
}
_KNOWN: Final = frozenset(_PLATFORMS.values())
#: Endings of the names of platforms that say nothing.
_ENDING: Final = re.compile("(ads?|adwords|advertising|marketing|business|com|campaignmanager)$")
#: Media of ads, folded.
_PAID: Final = frozenset(
    ["cpc", "ppc", "cpm", "paid", "paidsearch", "paidsocial", "sem", "display", "ads", "ad", "banner"]
)
#: Types of nodes whose last part is not the name of a campaign.
_NO_CAMPAIGNS: Final = frozenset(["referrer", "integration"])


@cache
def platform_of(word: str) -> str:
    """Return the platform that a name stands for.

    Examples
    --------
    >>> [platform_of(word) for word in ("google_ads", "Facebook Ads", "Microsoft Advertising (Bing)")]
    ['google', 'meta', 'microsoft']
    """
    name = folded(re.sub(r" *\(.*?\)", "", word))
    while name not in _PLATFORMS and (shorter := _ENDING.sub("", name)) not in {name, ""}:
        name = shorter
    return _PLATFORMS.get(name, name or word)


class Place(NamedTuple):
    """The nodes that the names of some spend meet; the spend has a place if there is one."""

    nodes: tuple[str, ...] = ()
    is_source: bool = False

    @property
    def node(self) -> str | None:
        """The only node."""
        return self.nodes[0] if len(self.nodes) == 1 else None


class Tree:
    """The nodes of touchpoints, by what tables of spend call them.

    Parameters
    ----------
    nodes : mapping of str to str
        Types of nodes by their ids; blank if they are not known.
    ignore_case : bool
        Whether names that differ by case only are one.
    """

    def __init__(self, nodes: Mapping[str, str], *, ignore_case: bool) -> None:
        self._fold: Callable[[str], str] = caseless if ignore_case else str
        #: Types of the nodes by their ids.
        self.types = dict(nodes)
        self._parts = {node: self._parts_of(node) for node in sorted(nodes)}
        self._whole: dict[tuple[str, ...], str] = {}
        self._last: dict[str, list[str]] = {}
        self._roots: dict[str, list[str]] = {}
        for node, parts in self._parts.items():
            self._whole.setdefault(parts, node)
            if nodes[node] not in _NO_CAMPAIGNS:
                self._last.setdefault(parts[-1], []).append(node)
            if nodes[node] != "referrer":
                self._roots.setdefault(node.split("/")[0], []).append(node)
        self._above = {
            part: at
            for node, parts in self._parts.items()
            for at, part in enumerate(parts if nodes[node] == "integration" else parts[:-1])
        }
        self._sources = {platform_of(root) for root in self._roots}

    def _parts_of(self, node: str) -> tuple[str, ...]:
        parts = node.split("/")
        return tuple(self._plain(unquote(part) if len(parts) > 1 else part) for part in parts)

    def _plain(self, word: str) -> str:
        name = self._fold(word.strip())
        return name.removesuffix(".0") if re.fullmatch(r"\d+\.0", name) else name

    def place(self, names: Sequence[str], platform: str = "") -> Place:
        """Return the nodes that names meet: those of a path from the root down, or some of them.

        Parameters
        ----------
        names : sequence of str
            The last one is that of the node.
        platform : str, default ""
            Ad platform whose report has the names.
        """
        if not names:
            return Place()
        parts = [part for name in names for part in re.split(r"\s*[/>]\s*", name) if part]
        for path in (names, parts):
            if (node := self._path(path)) is not None:
                return Place((node,))
        *above, last = names
        if not above and (source := self._source(last)).nodes:
            return source
        found = self._last.get(self._plain(last), [])
        for word in filter(None, [platform, *above]):
            found = self._below(found, word)
        if len(found) > 1 and (platform or above):
            found = self._paid(found) or found
        if found and all(node.startswith(f"{found[0]}/") for node in found[1:]):
            found = found[:1]
        return Place(tuple(found)) if found else self._without_campaigns(above or [platform])

    def _path(self, names: Sequence[str]) -> str | None:
        """Return the node of a whole path, whose source may have another name of its platform."""
        first, *rest = map(self._plain, names)
        if (node := self._whole.get((first, *rest))) is not None or not rest:
            return node
        roots = [root for root in self._roots if platform_of(root) == platform_of(first)]
        found = {self._whole.get((self._plain(root), *rest)) for root in roots} - {None}
        return found.pop() if len(found) == 1 else None

    def _source(self, word: str) -> Place:
        """Return a whole source, or its only node."""
        exact = [root for root in self._roots if self._plain(root) == self._plain(word)]
        roots = exact or [
            root
            for root in self._roots
            if platform_of(root) == platform_of(word) and platform_of(word) in _KNOWN
        ]
        below = [node for root in roots for node in self._roots[root]]
        return Place(tuple(below if len(below) == 1 else roots), is_source=True)

    def _below(self, nodes: Sequence[str], word: str) -> list[str]:
        """Return the nodes below a name, or below a source that a name of its platform stands for."""
        name = self._plain(word)
        exact = [node for node in nodes if name in self._parts[node][:-1]]
        return exact or [node for node in nodes if self._may_be_of(node, platform_of(word))]

    def _may_be_of(self, node: str, platform: str) -> bool:
        root = node.split("/")[0]
        is_channel = root == node or self.types.get(root) == "channel"
        return platform_of(root) == platform or (is_channel and platform_of(root) not in _KNOWN)

    def _paid(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes whose medium is one of ads."""
        return [node for node in nodes if folded("".join(self._parts[node][1:2])) in _PAID]

    def _without_campaigns(self, above: Sequence[str]) -> Place:
        """Return the node of a source whose touchpoints have no campaigns."""
        place = self._source(above[0]) if len(above) == 1 else Place(tuple(filter(None, [self._path(above)])))
        if place.node is None:
            return Place()
        below = [node for node in self.types if node.startswith(f"{place.node}/")]
        if place.node in self.types:
            return Place() if below else place
        is_deep = any(len(self._parts[node]) > 2 for node in below)
        return Place() if is_deep else Place(tuple(self._paid(below)))

    def position(self, word: str) -> int | None:
        """Return the level, from 0, of a name that nodes are below; None of other names."""
        at = self._above.get(self._plain(word))
        is_platform = platform_of(word) in _KNOWN or platform_of(word) in self._sources
        return 0 if at is None and is_platform else at

    def depth(self, node: str) -> int:
        """Return the number of parts of a node."""
        return len(self._parts[node])
