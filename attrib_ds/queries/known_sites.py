"""Hosts of search engines, social networks and AI assistants, from Matomo's public-domain list (G-195).

``tools/known_sites.py`` writes the list; its first line names the release.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

#: Kinds of sites.
KINDS: Final = ("search", "social", "ai")
#: In a host, the placeholder for a country, as in ``google.{}`` and ``{}.bing.com``.
COUNTRY: Final = "{}"


def _read() -> dict[str, dict[str, tuple[str, ...]]]:
    text = files("attrib_ds.queries").joinpath("known_sites.tsv").read_text(encoding="utf-8")
    sites: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in KINDS}
    for line in text.splitlines()[2:]:
        kind, name, host = line.split("\t")
        sites[kind][name] = (*sites[kind].get(name, ()), host)
    return sites


#: Hosts by kind and by the name of the site.
SITES: Final = _read()
