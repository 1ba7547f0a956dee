"""The pages of the shop as URLs and URL parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.schema import URL_PARTS

if TYPE_CHECKING:
    import pandas as pd

HOST = "www.sample-shop.example"
ORIGIN = f"https://{HOST}"

#: Landing pages of visits whose node has none, most frequent first.
LANDINGS = (
    "/",
    "/hiking/boots",
    "/camping/tents",
    "/hiking",
    "/hiking/backpacks",
    "/products/ridge-gtx-boot",
    "/hiking/jackets",
    "/sale",
    "/guides/choose-a-tent",
    "/camping/sleeping-bags",
    "/products/lakeside-2-tent",
    "/shoes",
)

#: Further pages of a visit.
BROWSED = (
    "/products/ridge-gtx-boot",
    "/products/trail-runner-3",
    "/products/lakeside-2-tent",
    "/products/storm-shell-jacket",
    "/products/day-pack-24",
    "/products/down-bag-300",
    "/hiking/boots",
    "/camping/tents",
    "/hiking/jackets",
    "/shoes",
    "/guides/choose-a-tent",
    "/guides/care-for-leather",
    "/shipping-and-returns",
)

#: The last pages of a visit that ends in an order.
CHECKOUT = ("/checkout/thanks", "/checkout", "/cart")


def url_parts(prefix: str, pathnames: pd.Series[str], searches: pd.Series[str]) -> dict[str, object]:
    """Return the parts of URLs as columns named ``<prefix>.<part>``.

    Examples
    --------
    >>> import pandas as pd
    >>> parts = url_parts("pageUrl", pd.Series(["/cart"]), pd.Series(["?step=2"]))
    >>> parts["pageUrl.hostname"], parts["pageUrl.search"].tolist()
    (['www.sample-shop.example'], ['?step=2'])
    """
    count = len(pathnames)
    parts: dict[str, object] = {
        "protocol": ["https:"] * count,
        "hostname": [HOST] * count,
        "port": [""] * count,
        "origin": [ORIGIN] * count,
        "pathname": pathnames,
        "search": searches,
        "hash": [""] * count,
    }
    return {f"{prefix}.{part}": parts[part] for part in URL_PARTS}
