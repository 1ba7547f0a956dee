"""Channels of sources, media, campaigns and referrers, by the published definitions and by users' own rules."""

import re
from itertools import cycle

import ibis
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds.errors import InvalidRequest
from attrib_ds.traffic.channel_rules import COUNTRY, Site, default_rules, known_site, read_rules, sites


def channel_of(rules=None, **values):
    return at.hits.assign_channels(
        pd.DataFrame({name: [value] for name, value in values.items()}), rules
    ).item()


#: Source, medium, campaign and the channel.
DEFAULT_CHANNELS = [
    # The published definitions of Google Analytics, in its order.
    ("(direct)", "(none)", None, "Direct"),
    ("(direct)", "(not set)", None, "Direct"),
    (None, None, None, "Direct"),
    ("google", "cpc", "eu cross-network sale", "Cross-network"),
    ("amazon", "cpc", None, "Paid Shopping"),
    ("google", "cpc", "winter-shopping", "Paid Shopping"),
    ("google", "cpc", "workshop", "Paid Search"),
    ("google", "cpc", "my shop", "Paid Shopping"),
    ("google", "cpc", "eshop", "Paid Shopping"),
    ("google", "cpm", None, "Paid Search"),
    ("google", "paid_search", None, "Paid Search"),
    ("facebook", "paid-social", None, "Paid Social"),
    ("youtube", "cpv", None, "Paid Video"),
    ("youtube", "cpc", None, "Paid Video"),
    ("some-network", "cpm", None, "Display"),
    ("some-network", "retargeting", None, "Paid Other"),
    ("ebay.de", "referral", None, "Organic Shopping"),
    ("l.instagram.com", "referral", None, "Organic Social"),
    ("blog", "social network", None, "Organic Social"),
    ("m.youtube.com", "referral", None, "Organic Video"),
    ("partner", "video", None, "Organic Video"),
    ("duckduckgo.com", "referral", None, "Organic Search"),
    ("somewhere", "organic", None, "Organic Search"),
    ("e mail", None, None, "Email"),
    ("crm", "e-mail", None, "Email"),
    ("partner", "affiliate", None, "Affiliates"),
    ("partner", "app", None, "Referral"),
    ("podcast", "audio", None, "Audio"),
    ("sms", "text", None, "SMS"),
    ("crm", "web push", None, "Mobile Push Notifications"),
    ("firebase", None, None, "Mobile Push Notifications"),
    ("partner", "print", None, "Unassigned"),
    ("google", "organic", None, "Organic Search"),
    ("meta", "paid_social", None, "Paid Social"),
    ("t.co", "referral", None, "Organic Social"),
    # A name that only ends like that of a search engine is none.
    ("notgoogle", "cpc", None, "Paid Other"),
    # Assistants are not search, though some are pages of search engines.
    ("gemini.google.com", "referral", None, "AI Assistants"),
    ("copilot.microsoft.com", "referral", None, "AI Assistants"),
    ("Perplexity", None, None, "AI Assistants"),
    # Webmail is neither.
    ("mail.google.com", "referral", None, "Email"),
    # Hosts of the public list, with and without the country, and below another host.
    ("suche.t-online.de", "referral", None, "Organic Search"),
    ("startsiden.no", "referral", None, "Organic Search"),
    ("123people.co.uk", "referral", None, "Organic Search"),
    ("startsiden.no", "cpc", None, "Paid Search"),
    ("m.gaiaonline.com", "referral", None, "Organic Social"),
    ("github.com", "cpc", None, "Paid Social"),
    ("chat.qwen.ai", "referral", None, "AI Assistants"),
    # On the list of social networks and on that of search engines too.
    ("youtube.com", "referral", None, "Organic Video"),
    ("www.facebook.com", "cpc", None, "Paid Social"),
    # Names that only contain another.
    ("x123people.fr", "referral", None, "Referral"),
    ("notgoogle", "referral", None, "Referral"),
    ("x.example", "referral", None, "Referral"),
    ("x.com", "referral", None, "Organic Social"),
    # Sites of a country, and of a country that registers companies below its own .com or .co.
    ("google.de", "referral", None, "Organic Search"),
    ("google.co.uk", "referral", None, "Organic Search"),
    ("www.google.com.tr", "referral", None, "Organic Search"),
    ("smile.amazon.co.jp", "referral", None, "Organic Shopping"),
    ("yahoo.co.jp", "referral", None, "Organic Search"),
    ("m.facebook.com", "cpc", None, "Paid Social"),
    # Hosts that contain the name of a site: another's, or a page of the company that is no search.
    ("docs.google.com", "referral", None, "Referral"),
    ("login.yahoo.com", "referral", None, "Referral"),
    ("google.abc.de", "referral", None, "Referral"),
    ("google.de.evil.com", "referral", None, "Referral"),
    ("google.com.evil.example", "referral", None, "Referral"),
    ("google.example", "referral", None, "Referral"),
    ("notgoogle.com", "referral", None, "Referral"),
    ("google.evil.com", "cpc", None, "Paid Other"),
    ("facebook.evil.com", "referral", None, "Referral"),
    ("amazon.evil.com", "referral", None, "Referral"),
    ("youtube.evil.com", "referral", None, "Referral"),
    ("chatgpt.evil.com", "referral", None, "Referral"),
]


def test_default_channels():
    cases = {case[:3]: case[3] for case in DEFAULT_CHANNELS}
    visits = pd.DataFrame(list(cases), columns=["source", "medium", "campaign"])
    assert dict(zip(cases, at.hits.assign_channels(visits), strict=True)) == cases


def test_a_referrer_counts_if_there_is_no_source():
    for referrer, channel in [
        ("https://www.google.com/search?q=x", "Organic Search"),
        ("android-app://com.linkedin.android/", "Organic Social"),
        ("https://chatgpt.com/", "AI Assistants"),
        ("https://docs.google.com/document/d/1", "Referral"),
        ("https://www.google.com.evil.example/", "Referral"),
        ("news.example", "Referral"),
        ("", "Direct"),
    ]:
        assert channel_of(source=None, medium=None, referrer=referrer) == channel, (referrer, channel)
        assert channel_of(source="crm", medium="email", referrer=referrer) == "Email", (referrer, channel)


def test_hosts_of_referrers_are_those_that_collected_hits_have():
    urls = [
        *("https://www.google.com./search", "https://user:word@www.google.com:443/", "//www.google.com/"),
        *("https://google.com@evil.example/", "https://www.google.com.evil.example/", "google.co.uk."),
    ]
    channels = at.hits.assign_channels(pd.DataFrame({"referrer": urls})).tolist()
    assert channels == [*["Organic Search"] * 3, "Referral", "Referral", "Organic Search"]


def test_case_and_spaces_do_not_matter():
    assert channel_of(utm_source=" Google ", utm_medium="CPC") == "Paid Search"


def test_the_default_rules_need_no_check():
    assert default_rules().equals(read_rules(at.hits.channel_rules()))


@pytest.mark.slow
def test_rules_are_edited_as_rows():
    rules = at.hits.channel_rules()
    partners = pd.DataFrame({"channel": ["Partners"], "source": [r"(.*\.)?partner\.example"]})
    assert channel_of(pd.concat([partners, rules]), source="A.partner.example", medium="cpc") == "Partners"
    without = rules[rules["channel"] != "AI Assistants"]
    assert channel_of(without, source="chatgpt.com", medium="referral") == "Referral"
    renamed = rules.assign(channel=rules["channel"].replace("Organic Search", "SEO"))
    assert channel_of(renamed, source="bing", medium="organic") == "SEO"
    assert at.hits.channel_rules().equals(rules)


def test_a_blank_value_can_be_a_condition():
    rules = pd.DataFrame({"channel": ["Untagged"], "medium": [""], "source": [".+"]})
    frame = pd.DataFrame({"source": ["a", "a", None], "medium": [None, "m", None]})
    assert at.hits.assign_channels(frame, rules).tolist() == ["Untagged", "Unassigned", "Unassigned"]


def test_a_class_of_characters_keeps_its_case():
    rules = pd.DataFrame({"channel": ["Numbered"], "campaign": [r"\S+\D\d+"]})
    assert channel_of(rules, campaign="Spring-12") == "Numbered"


def test_the_index_and_an_empty_frame():
    frame = pd.DataFrame({"source": ["google", None]}, index=["b", "a"])
    assert at.hits.assign_channels(frame).to_dict() == {"b": "Organic Search", "a": "Direct"}
    assert at.hits.assign_channels(frame[:0]).tolist() == []


def test_columns_of_ibis_tables_stay_lazy():
    frame = pa.table({"utm_source": ["google", None], "utm_medium": ["cpc", None]})
    table = ibis.duckdb.connect().create_table("visits", frame)
    channels = table.mutate(channel=at.hits.assign_channels(table)).to_pyarrow()["channel"].to_pylist()
    assert channels == ["Paid Search", "Direct"]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (pd.DataFrame({"source": ["a"]}), "rules: no column 'channel'"),
        (pd.DataFrame({"channel": ["A"], "medum": ["a"]}), "'medum' is not allowed.*did you mean 'medium'"),
        (pd.DataFrame({"channel": ["A"], "medium": ["("]}), r"'\(', medium in row 0, is not a regular"),
        (pd.DataFrame({"channel": ["A"], "medium": ["(?<=a)b"]}), "medium in row 0, is not a regular"),
        (pd.DataFrame({"channel": ["A", None], "medium": ["a", "b"]}), "the rule in row 1 has no channel"),
        (at.hits.channel_rules().head(0), "rules: is empty; expected at least one row"),
        (pd.DataFrame({"channel": ["A"], "medium": [None]}), "row 0 has no condition and would match"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(rules, complaint):
    with pytest.raises(InvalidRequest, match=complaint):
        at.hits.assign_channels(pd.DataFrame({"source": ["a"]}), rules)


def test_frames_without_a_source_are_refused():
    with pytest.raises(InvalidRequest, match="frame: no column of a source"):
        at.hits.assign_channels(pd.DataFrame({"visitor": ["a"]}))
    with pytest.raises(InvalidRequest, match="no column 'sourc'.*did you mean 'source'"):
        at.hits.assign_channels(pd.DataFrame({"source": ["a"]}), columns={"source": "sourc"})


CHANNELS = {
    "search": "Organic Search",
    "social": "Organic Social",
    "video": "Organic Video",
    "shopping": "Organic Shopping",
    "ai": "AI Assistants",
    "email": "Email",
}


def test_known_sites():
    for referrer, site in [
        ("https://www.google.com/", ("search", "google")),
        ("http://google.co.uk", ("search", "google")),
        ("https://www.google.com.br/search?q=boots", ("search", "google")),
        ("https://de.search.yahoo.com/search", ("search", "yahoo!")),
        ("https://www.bing.com/search", ("search", "bing")),
        ("android-app://com.google.android.googlequicksearchbox/", ("search", "google")),
        ("https://l.facebook.com/l.php?u=x", ("social", "facebook")),
        ("https://t.co/abc", ("social", "twitter")),
        ("https://www.facebook.com/", ("social", "facebook")),
        ("https://chatgpt.com/c/1", ("ai", "chatgpt")),
        ("https://gemini.google.com/app", ("ai", "gemini")),
        ("https://grok.com/chat", ("ai", "grok")),
        ("https://mail.google.com/mail/u/0/", ("email", "gmail")),
        ("android-app://com.google.android.gm/", ("email", "gmail")),
        ("https://google.de/", ("search", "google")),
        ("https://www.google.com.tr/", ("search", "google")),
        ("https://m.youtube.com/", ("video", "youtube")),
        ("https://smile.amazon.co.uk/", ("shopping", "amazon")),
        ("https://us-mg5.mail.yahoo.com/", ("email", "yahoo mail")),
        ("https://suche.web.de/web?su=x", ("search", "web.de")),
        ("https://user:name@www.google.com:8080/", ("search", "google")),
    ]:
        assert known_site(referrer) == Site(*site), (referrer, site)


def test_other_sites():
    for referrer in [
        "",
        "about:blank",
        "not a url",
        "https://docs.google.com/document",
        "https://google.com.attacker.example/",
        "https://google.abc.de/",
        "https://google.abc/",
        "https://google.de.evil.com/",
        "https://google.evil.com/",
        "https://notgoogle.com/",
        "https://notfacebook.com/",
        "https://facebook.evil.com/",
        "https://amazon.evil.com/",
        "https://abc.search.yahoo.com/",
        "https://shop.example/google.com",
        "https://com/",
        "https:///",
    ]:
        assert known_site(referrer) is None, referrer


def test_channel_rules_recognise_the_same_hosts():
    """Every listed site, its subdomains, and hosts of which it is a part."""
    listed = {host for names in sites().values() for hosts in names.values() for host in hosts}
    own = sorted({host.replace(COUNTRY, "fr") for host in listed})
    own += [host.replace(COUNTRY, "co.uk") for host in sorted(listed) if host.endswith(COUNTRY)]
    forms = cycle(("www.{}", "sub.{}", "not{}", "{}.evil.com"))
    hosts = [*own, *(next(forms).format(host) for host in own)]
    known = [known_site(f"https://{host}/") for host in hosts]
    expected = ["Referral" if site is None else CHANNELS[site.kind] for site in known]
    visits = pd.DataFrame({"source": hosts, "medium": "referral"})
    assert at.hits.assign_channels(visits).tolist() == expected
    assert expected.count("Referral") < len(hosts)


def test_hosts_are_listed_by_kind_and_name():
    assert {"google.com", "google.{}"} <= set(sites()["search"]["Google"])
    assert "facebook.com" in sites()["social"]["Facebook"]
    assert "claude.ai" in sites()["ai"]["Claude"]


def test_hosts_are_hosts():
    hosts = [host for names in sites().values() for listed in names.values() for host in listed]
    assert len(hosts) > 800
    assert [host for host in hosts if not re.fullmatch(r"[\w.-]+", host.replace(COUNTRY, "de"))] == []
