"""Files of earlier formats, kept as SQL: they open, with a copy as they were beside them."""

from pathlib import Path
from urllib.parse import urlencode

import duckdb
import pandas as pd
import pytest
from support.service_records import uuid

import attrib_ds as at
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.store import tables
from attrib_ds.service.store.migration import OLDEST

FORMATS = sorted(Path(__file__).with_name("formats").glob("format-*.sql"))


def earlier(folder, kept, *more):
    """Write the file of an earlier format."""
    file = folder / "shop.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute(kept.read_text())
        for statement in more:
            connection.execute(statement)
    return file


def test_g245_every_format_is_kept():
    assert [int(kept.stem.rpartition("-")[2]) for kept in FORMATS] == list(range(OLDEST, tables.VERSION))


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("kept", FORMATS, ids=lambda kept: kept.stem)
def test_a_file_of_an_earlier_format_opens_with_all_it_held(tmp_path, kept, caplog):
    file = earlier(tmp_path, kept)
    with pytest.raises(Unavailable, match="open it once for writing"):
        at.connect("shop", path=file, read_only=True)
    before = file.read_bytes()
    with at.connect("shop", path=file) as shop:
        assert "was brought up to date" in caplog.text
        (visit,) = at.search_interactions(shop)["_id"]
        assert visit == f"{1:024x}"
        order = at.get_event(shop, at.search_events(shop)["_id"].item())
        assert order["statistics.turnover.amount"] == 90.5
        (buyer,) = at.search_users(shop, columns=["fields.email"], where=at.user("eventCount") == 1)["_id"]
        assert at.get_user(shop, buyer)["eventCount"] == 1
        assert at.list_nodes(shop)["name"].tolist()[:1] == ["N"]
        assert at.admin.check(shop).empty
        orders = pd.DataFrame({"eventType": ["order"], "nonce": ["new"], "data.email": ["Anna@example.com"]})
        sent = at.send_events(shop, orders)
        assert sent["status"].tolist() == ["processed"]
        assert at.get_user(shop, buyer)["eventCount"] == 2
    # The copy is the file as it was, and opening once more changes nothing.
    copy = file.with_name(f"shop.{kept.stem}.duckdb")
    assert copy.read_bytes() == before
    assert copy.stat().st_mode & 0o077 == 0
    copy.unlink()
    at.connect("shop", path=file, read_only=True).close()
    assert not copy.exists()


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("kept", FORMATS, ids=lambda kept: kept.stem)
def test_hits_that_waited_in_the_file_become_sessions(tmp_path, kept):
    columns = "id, trackerId, serverDate, timezoneOffset, isBot, userAgent, pageUrl, hitType"
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
    values = (
        f"'{uuid(2)}', 't', '2025-02-01 10:00:00', 0, false, '{agent}', 'https://shop.example/', 'pageview'"
    )
    file = earlier(tmp_path, kept, f"INSERT INTO pending_hits ({columns}) VALUES ({values})")
    # Closing waits until the hits are in sessions.
    at.connect("shop", path=file).close()
    with at.connect("shop", path=file, read_only=True) as shop:
        assert len(at.search_interactions(shop, since="2025-02-01")) == 1


def test_what_cannot_be_brought_up_to_date_stays_as_it_was(tmp_path, monkeypatch):
    file = earlier(tmp_path, FORMATS[-1])
    before = file.read_bytes()
    monkeypatch.setattr("shutil.copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(
        Unavailable, match="cannot be brought up to date: .*No space left.*; it was not changed"
    ):
        at.connect("shop", path=file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "format" in path.name] == []
    with pytest.raises(InvalidRequest, match="holds the project 'shop'"):
        at.connect("other-shop", path=file)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_campaigns_of_an_earlier_format_keep_their_slugs_and_answer_to_those_of_their_texts(tmp_path):
    """G-246: texts that shared a slug are told apart from now on; who made the campaign decides on its text."""
    campaigns = {
        # Traffic named it by its text; another text of the same slug was joined to it.
        "1": ("C++ course", "c-course", False),
        # Created under a text that is not kept.
        "2": ("In spring", "fr-hling", True),
        "3": ("Spring sale", "spring-sale", True),
        # Of a loaded tree.
        "4": ("Winter", "Winter Sale", True),
    }
    statements = [
        "INSERT INTO integrations (_id, projectId, vendorId, type, name, currency, parameters, nodeId) "
        "VALUES ('i', 'shop', 'ads', 'custom-ads', 'Ads', 'EUR', '{}', 'i')",
        "INSERT INTO nodes (_id, projectId, integrationId, vendorId, type, name, path, active, implicit) "
        "VALUES ('i', 'shop', 'i', 'ads', 'integration', 'Ads', [], true, false)",
    ]
    for id, (name, slug, explicit) in campaigns.items():
        statements += [
            "INSERT INTO campaigns (id, integrationId, projectId, name, campaignSlug, active, explicit) "
            f"VALUES ('{id}', 'i', 'shop', '{name}', '{slug}', true, {explicit})",
            "INSERT INTO nodes (_id, projectId, integrationId, vendorId, parentId, type, name, campaignSlug, "
            f"path, active, implicit) VALUES ('{id}', 'shop', 'i', 'ads', 'i', 'campaign', '{name}', '{slug}', "
            "['i'], true, false)",
        ]
    days = iter(pd.date_range("2025-03-01", periods=20, tz="UTC"))
    with at.connect("shop", path=earlier(tmp_path, FORMATS[-1], *statements)) as shop:

        def visited(text):
            """Return the campaign of a visit."""
            page = "https://shop.example/?" + urlencode({"utm_source": "ads", "utm_campaign": text})
            date = next(days)
            at.load(
                shop, hits=pd.DataFrame({"trackerId": [f"t{date:%d}"], "date": [date], "pageUrl": [page]})
            )
            return at.search_interactions(shop, since=date, bots=None)["nodeId"].item()

        def listed(slug):
            return at.list_campaigns(shop, "ads", campaign_slug=slug)["id"].tolist()

        slugs = at.list_campaigns(shop, "ads").set_index("id")["campaignSlug"]
        assert slugs.to_dict() == {id: slug for id, (_, slug, _) in campaigns.items()}
        assert [visited(text) for text in ("C++ course", "c-course", "Frühling", "spring_sale")] == list(
            "1123"
        )
        assert [visited(text) for text in ("winter-sale", "Winter Sale")] == list("44")
        assert visited("C# course") not in campaigns
        assert listed("c-course") == listed("C++ course") == listed("c-course-d751c790d0") == ["1"]
        assert listed("C# course") == [visited("C# course")]
        assert listed("winter-sale") == ["4"]
        # Created on its own, a text no longer belongs to the campaign with which it shared a slug.
        made = at.create_campaign(shop, "ads", "Frühling", name="Frühling")
        assert visited("Frühling") == made not in campaigns
        assert listed("fr-hling") == ["2"]
        assert at.admin.check(shop).empty
