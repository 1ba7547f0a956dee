"""Placeholders as ids, and ids that a float has rounded, by every way in."""

import hashlib
import re

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds.errors import InputWarning, InvalidRequest
from attrib_ds.records import person_ids

NOBODY = [
    "", "   ", "nan", "NaN", "None", "NONE", "<NA>", "#N/A", "null", "Nil", "undefined", "[object Object]",
    "(not set)", "(Not Set)", "(none)", "[deleted]", "REDACTED", "0" * 16, "f" * 16, "F" * 32,
    "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "0" * 64,
    hashlib.md5(b"").hexdigest(), hashlib.sha1(b"").hexdigest(), hashlib.sha256(b"").hexdigest().upper(),
    hashlib.md5(b"undefined").hexdigest(), hashlib.sha256(b"null").hexdigest(), hashlib.sha1(b"NULL").hexdigest(),
    "guest@shop.invalid", "x@invalid", "NA", "n.a.", "\\N", "(null)", "<null>", "[unknown]", "(not provided)", "(Anonymous)",
    "(blank)", "#REF!", "#NUM!", "NaT", "'null'", '"undefined"', '""', "\u00a0", "\u200bnull", "\t(not set)\t", "--", "?",
    "k.A.", "{{user_id}}", "${user_id}", "%user_id%", "%%USER_ID%%", "%7B%7Buser.id%7D%7D", "GA1.2.undefined", "'fb.1.undefined'",
    "undefined-undefined", "null_null", "undefined@undefined", "{user_id}", "[USER_ID]", "<%= user.id %>", "\u2060",
    "<test lead: dummy data for email>",
]  # fmt: skip
SOMEBODY = [
    "nancy", "{ann}", "[ann-1]", "{u_1}", "nullable", "0", "00", "0" * 15, "f" * 15, "ff", "undefined1", "ann@valid.example", "ann@invalid.example",
    "{1a2b}", "50%", "u-undefined", "GA1.2.77", "GA1.2.null", "nan-cy", "notset", "na1", "nat.king", "(ann)", "#1", "unset-1", "'ann'", "00000000-0000-0000-0000-000000000001", hashlib.md5(b"ann").hexdigest(), "guest", "test", "-1",
]  # fmt: skip


def test_one_table_is_read_alike_in_python_duckdb_and_ibis():
    texts = NOBODY + SOMEBODY
    expected = [True] * len(NOBODY) + [False] * len(SOMEBODY)
    assert [person_ids.is_nobody(text) for text in texts] == expected
    connection = duckdb.connect()
    assert [
        connection.execute(f"SELECT {person_ids.nobody_sql('$1::VARCHAR')}", [text]).fetchone()[0]
        for text in texts
    ] == expected
    table = ibis.memtable(pa.table({"id": texts, "number": range(len(texts))}))
    found = table.mutate(found=person_ids.nobody(table.id)).order_by("number").found
    assert ibis.duckdb.connect().to_pyarrow(found).to_pylist() == expected


def frames(user, *, rows=30):
    """Return clicks of strangers and of u, and one order of a stranger and one of u."""
    clicks = pd.DataFrame(
        {
            "user_id": [user] * rows + ["u-1"],
            "node_id": "ads",
            "date": pd.date_range("2025-01-01T10:00", periods=rows + 1, freq="h", tz="UTC"),
        }
    )
    orders = pd.DataFrame(
        {
            "event_id": ["e", "f"],
            "user_id": [user, "u-1"],
            "date": pd.to_datetime(["2025-01-04T10:30", "2025-01-04T11:30"], utc=True),
            "value": [300.0, 50.0],
            "currency": "EUR",
        }
    )
    return clicks, orders


def credited(paths):
    credits = at.attribute(paths, "linear")
    return credits.set_index(credits["node_id"].fillna("unattributed"))["value"].to_dict()


FRAMES = {
    "frames": lambda clicks, orders: at.Paths.from_frames(clicks, orders),
    "files": lambda clicks, orders: at.read_journeys(clicks, orders).paths(),
}


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning", "ignore::attrib_ds.errors.RejectedRows")
@pytest.mark.parametrize("way", FRAMES)
def test_strangers_are_not_one_person(way):
    words = [None, *NOBODY]
    parts = [frames(word, rows=3) for word in words]
    clicks, orders = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    clicks["node_id"] = clicks["user_id"].eq("u-1").map({True: "ads", False: "banner"})
    orders["event_id"] = [f"e{number}" for number in range(len(orders))]
    found = credited(FRAMES[way](clicks, orders))
    of_strangers, of_u = 300.0 * len(words), 50.0 * len(words)
    assert {name: value for name, value in found.items() if value} == {
        "ads": of_u, "unattributed": of_strangers,
    }  # fmt: skip


@pytest.mark.parametrize("way", FRAMES)
def test_words_count_as_nobody_where_many_rows_share_them(way):
    clicks, orders = frames("guest", rows=99)
    others = clicks.assign(user_id=[f"u-{number}" for number in range(100)], node_id="mail")
    with pytest.warns(match="without|placeholder"):
        found = credited(FRAMES[way](pd.concat([clicks, others]), orders))
    assert found["unattributed"] == 300.0
    clicks, orders = frames("guest", rows=3)
    assert credited(FRAMES[way](clicks, orders)) == {"ads": 350.0}


@pytest.mark.parametrize("way", FRAMES)
def test_ids_that_a_spreadsheet_rounded_are_named(way):
    clicks, orders = frames("1.2E+12", rows=2)
    with pytest.warns(InputWarning) as caught:
        FRAMES[way](clicks, orders)
    said = [str(each.message).split(":")[0] for each in caught if "rounded" in str(each.message)]
    assert len(said) == 2
    for each, count in zip(said, ("2 rows", "1 row"), strict=True):
        assert each.endswith(f"has {count} with an id such as 1.2E+12 in 'user_id'")


#: Ids beyond 2^53 = 9007199254740992 that were floats, as programs write them.
LOST = [
    "1.2E+18",
    "1,2E+18",
    "1.761234568e+18",
    "1760000000000000000.0",
    "1760000000000000000,00",
    "9007199254740994.0",
]


@pytest.mark.parametrize("text", LOST)
@pytest.mark.parametrize("way", [*FRAMES, "ga4"])
def test_text_of_ids_that_were_numbers_is_refused(way, text):
    clicks, orders = frames(text, rows=2)
    export = pd.DataFrame({"event_date": "20250101", "event_timestamp": 1735725600000000, "event_name": "page_view",
                           "user_pseudo_id": [text], "ga_session_id": 1})  # fmt: skip
    with pytest.raises(
        InvalidRequest, match=f"last digits are lost: {re.escape(text)} may stand for several ids"
    ):
        at.read_ga4(export) if way == "ga4" else FRAMES[way](clicks, orders)


@pytest.mark.filterwarnings("ignore:touchpoints has")
@pytest.mark.parametrize(
    "text", ["9006199254740992.0", "1001.0", "123456789012345678", "1760000000000000000.5"]
)
def test_text_of_exact_ids_is_taken(text):
    assert len(at.Paths.from_frames(*frames(text, rows=2)).to_pandas()) == 3


@pytest.mark.parametrize("suffix", ["json", "ndjson"])
def test_json_that_has_rounded_ids_is_refused(tmp_path, suffix):
    clicks, orders = frames("x", rows=2)
    paths = []
    for name, table in (("clicks", clicks), ("orders", orders)):
        table["user_id"] = [2.0**60 + 512 * number for number in range(len(table))]
        paths.append(tmp_path / f"{name}.{suffix}")
        table.to_json(paths[-1], orient="records", lines=suffix == "ndjson", date_format="iso")
    with pytest.raises(InvalidRequest, match="last digits are lost"):
        at.read_journeys(*paths)


def test_zero_is_an_id_among_small_integers():
    counts = {"0": 30, "guest": 5, "test": 20}
    assert person_ids.shared(counts, 100, are_integers=True) == ["test"]
    assert person_ids.shared(counts, 100, are_integers=False) == ["0", "test"]
    assert person_ids.shared(counts, 99, are_integers=False) == ["0"]
    assert person_ids.shared(counts, 99, are_integers=None) == []


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")
@pytest.mark.parametrize("way", FRAMES)
def test_zero_among_longer_ids_is_nobody_in_a_small_table(way):
    with pytest.warns(match="without|placeholder"):
        assert credited(FRAMES[way](*frames("0", rows=2))) == {"ads": 50.0, "unattributed": 300.0}


@pytest.mark.parametrize("way", FRAMES)
def test_a_user_with_a_tenth_of_the_rows_and_100_is_kept_and_named(way):
    """Guests in other languages are in no list: 100 rows of 201 are named, 99 of 199 are not."""
    clicks, orders = frames("Gast", rows=100)
    others = clicks.assign(user_id=[f"u-{number}" for number in range(101)])
    with pytest.warns(InputWarning, match="touchpoints: 'Gast' in 'user_id' has 100 of 202 rows"):
        assert credited(FRAMES[way](pd.concat([clicks, others]), orders)) == pytest.approx({"ads": 350.0})
    assert credited(FRAMES[way](pd.concat([clicks[1:], others]), orders)) == pytest.approx({"ads": 350.0})


@pytest.mark.filterwarnings("ignore:there are no conversions")
def test_a_device_with_a_tenth_of_the_rows_of_an_export_is_named():
    rows = pd.DataFrame({"event_timestamp": 1735725600000000, "event_name": "page_view", "ga_session_id": 1,
                         "user_pseudo_id": ["999999"] * 100 + [f"u-{number}" for number in range(100)]})  # fmt: skip
    with pytest.warns(InputWarning, match="'999999' in 'device' has 100 of 200 rows"):
        at.read_ga4(rows.assign(event_date="20250101"))


@pytest.mark.parametrize("way", [*FRAMES, "ga4"])
def test_ids_that_a_float_has_rounded_are_refused_in_one_set_of_words(way):
    ids = np.array([2.0**60, 2.0**60 + 2**8, np.nan])
    clicks = pd.DataFrame({"user_id": ids, "node_id": "a", "date": pd.to_datetime(["2025-01-01T10:00"] * 3)})
    orders = clicks.rename(columns={"node_id": "event_id"}).assign(event_id=["e", "f", "g"])
    calls = {
        **{name: (lambda read=read: read(clicks, orders)) for name, read in FRAMES.items()},
        "ga4": lambda: at.read_ga4(
            pd.DataFrame({"event_date": "20250101", "event_timestamp": 1735725600000000, "event_name": "page_view",
                          "user_pseudo_id": ids, "ga_session_id": 1})
        ),
    }  # fmt: skip
    neighbours = f"{2**60} and {2**60 + 1} are both"
    with pytest.raises(InvalidRequest, match=re.escape("holds floats above 2^53") + ".*" + neighbours):
        calls[way]()


@pytest.mark.parametrize("way", FRAMES)
def test_ids_of_single_precision_have_fewer_digits(way):
    """Floats of 32 bits tell integers apart up to 16,777,216 only."""
    ids = np.array([2**24, 2**24 + 2, 7], np.float32)
    clicks = pd.DataFrame({"user_id": ids, "node_id": "a", "date": pd.to_datetime(["2025-01-01T10:00"] * 3)})
    orders = clicks.rename(columns={"node_id": "event_id"}).assign(event_id=["e", "f", "g"])
    with pytest.raises(InvalidRequest, match=r"floats above 2\^24.*: 16777216 and 16777217 are both"):
        FRAMES[way](clicks, orders)
    assert credited(FRAMES[way](clicks[2:], orders.assign(value=1.0, currency="EUR")[2:])) == {"a": 1.0}


@pytest.mark.parametrize("extra", [[], ["kim"]], ids=["numbers", "numbers and text"])
def test_a_workbook_has_rounded_long_numbers(tmp_path, extra):
    """Excel holds 15 digits: 1760000000000000001 is the float 1.76e18."""
    clicks, orders = frames("x", rows=2)
    paths = []
    for name, table in (("clicks", clicks), ("orders", orders)):
        ids = [1760000000000000001 + number for number in range(len(table))]
        paths.append(tmp_path / f"{name}.xlsx")
        table.assign(
            user_id=[*ids[: len(ids) - len(extra)], *extra], date=table["date"].dt.tz_localize(None)
        ).to_excel(paths[-1], index=False)
    with pytest.raises(InvalidRequest, match=r"2\^53"):
        at.read_journeys(*paths)


def test_loaded_hits_of_nobody_and_of_rounded_trackers_are_rejected():
    hits = pd.DataFrame({"trackerId": ["t-1", "undefined", ""], "date": "2025-01-01T10:00:00Z"})
    hits["pageUrl"] = "https://shop.example/"
    with at.connect("shop", path=":memory:") as shop:
        loaded = at.load(shop, hits=hits)
        assert (loaded.counts["hits"], len(loaded.rejected)) == (1, 2)
        assert loaded.rejected["reason"].str.startswith("trackerId").all()
        loaded = at.load(shop, hits=hits.assign(trackerId=["1.76E+18", "t-3", "t-4"]))
        assert (loaded.counts["hits"], len(loaded.rejected)) == (2, 1)
        assert "last digits are lost" in loaded.rejected["reason"].item()
        loaded = at.load(shop, hits=hits.assign(trackerId=[2.0**60, 1.0, 2.0]))
        assert loaded.counts["hits"] == 2
        assert "holds floats above 2^53" in loaded.rejected["reason"].item()


def _sent(clicks, orders):
    with at.connect("shop", path=":memory:") as shop:
        names = {
            "email": "user_id",
            "date": "date",
            "id": "event_id",
            "value": "value",
            "currency": "currency",
        }
        at.send_conversions(shop, orders, **names)


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")
@pytest.mark.parametrize("read", [*FRAMES.values(), _sent], ids=[*FRAMES, "sent"])
def test_strangers_of_two_currencies_are_told_by_currency(read):
    clicks, _ = frames("u-1", rows=1)
    orders = pd.DataFrame({"event_id": list("abc"), "user_id": [None, None, "u-1"], "value": [100.0, 1050.0, 20.0],
                           "date": pd.to_datetime(["2025-02-01T10:30"] * 3, utc=True), "currency": ["EUR", "USD", "EUR"]})  # fmt: skip
    with pytest.warns(InputWarning, match="worth 100.00 EUR and 1,050.00 USD, (which )?are unattributed"):
        read(clicks, orders)
