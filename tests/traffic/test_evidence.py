"""The order of the evidence of a visit (G-248), by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from attrib_ds.traffic.sources import resolve_visits

PAGE = "https://shop.example"
WORDS = ("source", "medium", "campaign", "ad", "keyword")


def resolved(*, own=(), **evidence):
    """Node and reason of one visit."""
    visit = {"search": None, "page": PAGE, "referrer": None, "is_derived": False} | dict.fromkeys(WORDS)
    kinds = {"is_derived": pa.bool_()}
    columns = {
        name: pa.array([value], kinds.get(name, pa.string())) for name, value in (visit | evidence).items()
    }
    (row,) = resolve_visits(pa.table(columns), own=own).to_pylist()
    return row["node_id"], row["reason"]


ORGANIC = {"source": "google", "medium": "organic", "is_derived": True}
PARTNER = {"source": "partner.example", "medium": "referral", "is_derived": True}


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        # A campaign that the record names comes before the parameters of the page, those before click ids.
        (
            {"source": "news", "medium": "email", "search": "?utm_source=fb&utm_medium=paid"},
            ("news/email", "campaign"),
        ),
        ({"source": "news", "search": "?utm_source=News&utm_medium=email"}, ("news/email", "campaign")),
        ({"source": "news", "search": "?utm_source=fb&utm_medium=paid&gclid=1"}, ("news/cpc", "campaign")),
        ({"campaign": "may", "search": "?gclid=1"}, ("google/cpc/may", "campaign")),
        ({"search": "?utm_source=fb&utm_medium=paid&gclid=1"}, ("fb/paid", "campaign")),
        # A click on an ad beats what the vendor derived, and so do the parameters of the page.
        ({**ORGANIC, "search": "?gclid=1"}, ("google/cpc", "campaign")),
        ({**ORGANIC, "search": "?wbraid=1"}, ("google/cpc", "campaign")),
        ({**ORGANIC, "search": "?utm_source=bing&utm_medium=cpc"}, ("bing/cpc", "campaign")),
        # What the vendor derived comes before the referrer.
        ({**ORGANIC, "referrer": "https://www.bing.com"}, ("organic-search/google", "search")),
        ({**PARTNER, "referrer": "https://www.bing.com"}, ("referral/partner.example", "referral")),
        # Own hosts, payments and checks of banks are no source, as a word or as the referrer.
        ({**PARTNER, "source": "blog.shop.example"}, ("direct", "direct")),
        ({**PARTNER, "source": "checkout.stripe.com"}, ("direct", "direct")),
        ({"referrer": "https://checkout.stripe.com"}, ("direct", "internal")),
        ({"referrer": "https://acs.bank.example"}, ("direct", "internal")),
        ({"referrer": "https://blog.shop.example"}, ("direct", "internal")),
        ({"referrer": "https://checkout.provider.example"}, ("direct", "internal")),
        ({"referrer": "https://www.mercadopago.com.do"}, ("direct", "internal")),
        # A page that Google shows translated or from its cache is that of its own host.
        ({"referrer": "https://blog-shop-example.translate.goog"}, ("direct", "internal")),
        ({"page": "https://shop-example.translate.goog", "referrer": PAGE}, ("direct", "internal")),
        ({"referrer": "https://my--news-example.cdn.ampproject.org"}, ("referral/my-news.example", "referral")),
        # Addresses without a dot are none of words.
        ({"referrer": "http://localhost:8080"}, ("referral/localhost", "referral")),
        ({"referrer": "http://[2001:db8::1]"}, ("referral/[2001:db8::1]", "referral")),
        ({"referrer": "https://deref-gmx.net"}, ("gmx/email", "email")),
        ({"referrer": "android-app://com.whatsapp"}, ("organic-social/whatsapp", "social")),
        ({"search": "?gad_source=1", "referrer": "https://www.google.com"}, ("google/cpc", "campaign")),
        ({"search": "?_hsmi=1"}, ("hubspot/email", "campaign")),
        ({"search": "?igsh=x"}, ("organic-social/instagram", "social")),
        ({"referrer": "https://other.example", "page": None}, ("referral/other.example", "referral")),
        ({"referrer": "https://own.example", "page": None, "own": ["own.example"]}, ("direct", "internal")),
        # Hosts without a scheme, words, and what stands for direct.
        ({"referrer": "www.google.com"}, ("organic-search/google", "search")),
        ({"referrer": "Google"}, ("organic-search/Google", "search")),
        ({"referrer": "$direct"}, ("direct", "direct")),
        ({"source": "(direct)", "medium": "(none)", "referrer": "https://www.bing.com"},
         ("organic-search/bing", "search")),
        ({}, ("direct", "direct")),
    ],
)  # fmt: skip
def test_g248_the_order_of_evidence(evidence, expected):
    assert resolved(**evidence) == expected
