"""Administration: integrations, rates, settings, backups and the audit log."""

import json
import stat
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds import connect, create_event_type, errors, list_event_types
from attrib_ds.api.admin import (
    back_up,
    check,
    create_key,
    get_settings,
    list_audit,
    list_keys,
    list_rates,
    revoke_key,
    set_rates,
    update_settings,
)
from attrib_ds.errors import Conflict, InvalidRequest
from attrib_ds.service.http.server import ServerOptions, running


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:") as project:
        yield project


def test_an_integration_is_a_node_whose_campaigns_have_its_channel(shop):
    post = at.admin.create_integration(shop, "post", name="Post", currency="NOK", channel="Offline")
    catalogue = at.create_campaign(shop, "post", "catalogue", name="Catalogue")
    nodes = at.list_nodes(shop).set_index("_id")
    assert nodes.loc[post, ["type", "name", "vendorId", "channel"]].tolist() == [
        *("integration", "Post", "post", "Offline")
    ]
    assert nodes.loc[catalogue, ["parentId", "channel"]].tolist() == [post, "Offline"]
    at.create_outlay(shop, "post", catalogue, amount=5,
                              start_date="2025-01-01T00:00:00Z", end_date="2025-01-02T00:00:00Z")  # fmt: skip
    outlays = at.list_outlays(shop, "post", catalogue)
    assert outlays["amount.currency"].tolist() == ["NOK"]


def test_without_a_choice_there_is_no_channel_and_the_currency_of_the_project(shop):
    post = at.admin.create_integration(shop, "post", name="Post")
    node = at.list_nodes(shop).set_index("_id").loc[post]
    assert node.isna()["channel"]
    listed = shop.send("list_integrations").read().to_pylist()
    assert [(each["vendorId"], each["currency"]) for each in listed] == [("post", "EUR")]


def test_a_loaded_node_becomes_its_root_and_keeps_its_channel(shop):
    rows = [
        {"_id": "n1", "type": "integration", "name": "TV", "vendorId": "tv-ads", "channel": "Broadcast"},
        {"_id": "n2", "type": "campaign", "name": "Spring", "parentId": "n1"},
    ]
    at.load(shop, nodes=pd.DataFrame(rows))
    at.admin.create_integration(shop, "tv-ads", name="Television", channel="Offline")
    nodes = at.list_nodes(shop).set_index("_id")["channel"]
    # What had none gets the one given.
    assert nodes.to_dict() == {"n1": "Broadcast", "n2": "Offline"}


def test_a_vendor_id_is_taken_once(shop):
    at.admin.create_integration(shop, "post", name="Post")
    with pytest.raises(Conflict, match="vendor_id: an integration 'post' exists already"):
        at.admin.create_integration(shop, "post", name="Again")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vendor_id": "no spaces", "name": "Post"}, "vendor_id"),
        ({"vendor_id": "post", "name": ""}, "name"),
        ({"vendor_id": "post", "name": "Post", "currency": "euro"}, "currency.*ISO 4217"),
        ({"vendor_id": "post", "name": "Post", "channel": ""}, "channel"),
    ],
)
def test_what_is_not_allowed_is_refused(shop, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        at.admin.create_integration(shop, **arguments)


def test_a_campaign_of_an_unknown_integration_names_the_way_out(shop):
    with pytest.raises(InvalidRequest, match="create one with create_integration"):
        at.create_campaign(shop, "post", "a", name="A")


def test_rates_are_set_and_listed(shop):
    frame = pd.DataFrame(
        {"currency": "NOK", "date": pd.to_datetime(["2025-02-01", "2025-01-01"]), "rate": [1, 0.085]}
    )
    assert set_rates(shop, frame) == 2
    assert set_rates(shop, frame.assign(rate=[2, 0.085])) == 1
    listed = list_rates(shop, currency="NOK")
    assert listed["date"].dt.strftime("%Y-%m-%d").tolist() == ["2025-01-01", "2025-02-01"]
    assert listed["rate"].tolist() == [0.085, 2.0]
    assert listed.attrs["total"] == 2
    empty = list_rates(shop, currency="USD")
    assert empty.dtypes.to_dict() == listed.dtypes.to_dict()


def test_g065_a_missing_rate_removes_the_one_of_its_date(shop):
    days = ["2025-01-01", "2025-02-01"]
    set_rates(shop, pd.DataFrame({"currency": "NOK", "date": days, "rate": [0.085, 0.09]}))
    removal = pd.DataFrame({"currency": "NOK", "date": [days[1], "2025-03-01"], "rate": [None, float("nan")]})
    assert set_rates(shop, removal) == 1
    assert list_rates(shop)["rate"].tolist() == [0.085]
    assert set_rates(shop, removal) == 0


def test_frames_that_are_no_rates(shop):
    frame = pd.DataFrame({"currency": ["NOK", "NOK"], "date": "2025-01-01", "rate": [0.085, 0]})
    with pytest.raises(InvalidRequest, match="rates/1/rate: "):
        set_rates(shop, frame)
    with pytest.raises(InvalidRequest, match="rates: has no column 'rate'"):
        set_rates(shop, frame.drop(columns="rate"))
    with pytest.raises(InvalidRequest, match="rates/0/currency: 'EUR' is the currency of the project"):
        set_rates(shop, frame.head(1).assign(currency="EUR"))
    assert len(list_rates(shop)) == 0


def test_what_a_project_was_made_with_is_told():
    with connect("my-shop", path=":memory:", currency="NOK", timezone="Europe/Oslo") as shop:
        told = get_settings(shop)
        assert (told["currency"], told["timezone"]) == ("NOK", "Europe/Oslo")


def test_choices_are_read_and_changed():
    with connect("my-shop", path=":memory:") as shop:
        changed = update_settings(
            shop,
            lenient_optional_fields=True,
            retention_duration_in_days=365,
            pii_fields=["email"],
            require_token_for_events=True,
            ingest_keys=["k" * 16],
            allowed_origins=["https://shop.example"],
            excluded_referrers=["pay.example"],
            domains=["shop.example"],
            traffic_filters=["address:203.0.113.0/24"],
            anonymous_nodes_per_day=7,
            respect_gpc=False,
            respect_dnt=True,
            visitor_of_the_day=False,
            anonymous_identification=True,
        )
        assert changed.to_dict() == {
            "lenientOptionalFields": True,
            "retentionDurationInDays": 365,
            "piiFields": ["email"],
            "requireTokenForEvents": True,
            "ingestKeys": ["k" * 16],
            "allowedOrigins": ["https://shop.example"],
            "excludedReferrers": ["pay.example"],
            "domains": ["shop.example"],
            "trafficFilters": ["address:203.0.113.0/24"],
            "holdoutKey": "",
            "anonymousNodesPerDay": 7,
            "respectGpc": False,
            "respectDnt": True,
            "visitorOfTheDay": False,
            "anonymousIdentification": True,
            "currency": "EUR",
            "timezone": "UTC",
        }
        update_settings(shop, lenient_optional_fields=False)
        told = get_settings(shop)
        assert (told["lenientOptionalFields"], told["retentionDurationInDays"]) == (False, 365)
        with pytest.raises(InvalidRequest, match="retention_duration_in_days: -1 is not allowed"):
            update_settings(shop, retention_duration_in_days=-1)


def test_a_sound_project_has_no_findings_and_all_columns():
    with connect("my-shop", path=":memory:") as shop:
        found = check(shop)
    assert dtype_names(found) == {
        "check": "str",
        "problem": "str",
        "records": "Int64",
        "examples": "object",
    }
    assert len(found) == 0


def test_findings_tell_the_check_the_problem_and_examples():
    with connect("my-shop", path=":memory:") as shop:
        store = shop.transport._store
        store.write(lambda connection: connection.execute("INSERT INTO users VALUES ('x', now())"))
        (row,) = check(shop).to_dict("records")
    assert (row["check"], row["records"], list(row["examples"])) == ("users", 1, ["x"])


def test_a_backup_is_a_project(tmp_path):
    with connect("my-shop", path=":memory:") as shop:
        create_event_type(shop, "order", name="Order")
        copy = back_up(shop, str(tmp_path / "copy.duckdb"))
        create_event_type(shop, "lead", name="Lead")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["copy.duckdb"]
    with connect("my-shop", path=copy) as shop:
        assert list_event_types(shop)["reference"].tolist() == ["order"]


@pytest.mark.slow
def test_a_backup_never_takes_the_place_of_a_file(tmp_path):
    file = tmp_path / "shop.duckdb"
    with connect("my-shop", path=file) as shop:
        with pytest.raises(InvalidRequest, match="exists already"):
            back_up(shop, file)
        with pytest.raises(InvalidRequest, match="the folder .* does not exist"):
            back_up(shop, tmp_path / "none" / "copy.duckdb")
        assert check(shop).empty


def test_g211_the_log_is_a_frame():
    with connect("my-shop", path=":memory:") as shop:
        empty = list_audit(shop)
        assert (len(empty), empty.attrs["total"]) == (0, 0)
        create_event_type(shop, "order", name="Order")
        update_settings(shop, retention_duration_in_days=1)
        update_settings(shop, retention_duration_in_days=2)
        found = list_audit(shop, limit=1)
        assert found.dtypes.to_dict() == empty.dtypes.to_dict()
        assert found.attrs["total"] == 2
        (line,) = found.to_dict("records")
        assert (line["operation"], line["subject"]) == ("update_settings", "my-shop")
        assert line["details"] == '{"retentionDurationInDays":2}'
        assert pd.isna(line["account"])
        assert line["date"].tzinfo is not None
        assert (
            len(list_audit(shop, operation_name="delete_user"))
            == len(list_audit(shop, account="nobody"))
            == 0
        )


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "projects"
    folder.mkdir()
    return folder


@pytest.fixture
def keys_shop(home):
    with at.connect("shop", path=home / "shop.duckdb") as project:
        yield project


def test_the_file_is_for_its_owner_alone_and_has_the_only_private_key(keys_shop, tmp_path):
    path = tmp_path / "key.json"
    expiry = datetime(2099, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    key = create_key(keys_shop, path, scopes=["users:read", "interactions:read"], expires_at=expiry)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert list(content) == ["clientId", "serviceAccountEmail", "privateKeyId", "privateKey"]
    assert key.name == key["_id"] == content["privateKeyId"]
    assert (key["clientId"], key["serviceAccountEmail"]) == (
        content["clientId"],
        content["serviceAccountEmail"],
    )
    assert key["scopes"].tolist() == ["interactions:read", "users:read"]
    assert key["expiresAt"] == pd.Timestamp("2099-01-01T00:00:00Z")
    assert content["privateKey"].splitlines()[1] not in repr(key.to_dict())
    listed = list_keys(keys_shop)
    assert listed["_id"].tolist() == [key["_id"]]
    assert listed.columns.tolist() == key.index.tolist()
    details = list_audit(keys_shop)[["operation", "subject", "details"]].to_numpy().tolist()
    assert details == [["create_key", key["_id"], "{}"]]


@pytest.mark.large
@pytest.mark.slow
def test_a_key_reads_what_its_scopes_allow_and_no_more(keys_shop, home, tmp_path):
    create_key(keys_shop, tmp_path / "reader.json", scopes=["interactions:read"])
    keys_shop.close()
    with (
        running(home, options=ServerOptions(rate_limits=None)) as url,
        at.connect("shop", url=url, key=tmp_path / "reader.json") as remote,
    ):
        assert at.search_interactions(remote).empty
        with pytest.raises(errors.Forbidden):
            list_keys(remote)


@pytest.mark.large
@pytest.mark.slow
def test_the_key_opens_the_project_on_a_server_until_it_is_revoked(keys_shop, home, tmp_path):
    create_key(keys_shop, tmp_path / "first.json")
    keys_shop.close()
    with ExitStack() as stack:
        url = stack.enter_context(running(home, options=ServerOptions(rate_limits=None)))
        remote = stack.enter_context(at.connect("shop", url=url, key=tmp_path / "first.json"))
        second = create_key(remote, tmp_path / "second.json")
        assert list_keys(remote)["_id"].tolist()[1:] == [second["_id"]]
        other = stack.enter_context(at.connect("shop", url=url, key=tmp_path / "second.json"))
        assert len(at.list_nodes(other)) == 0
        assert (revoke_key(remote, second["_id"]), revoke_key(remote, second["_id"])) == (1, 0)
        with pytest.raises(errors.Unauthorized):
            at.list_nodes(other)
        assert list_keys(remote)["revokedAt"].isna().tolist() == [True, False]


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_not_overwritten_and_nothing_is_asked(keys_shop, tmp_path, kind):
    path = tmp_path / "key.json"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(errors.InvalidRequest, match=r"path: .* already exists"):
        create_key(keys_shop, path)
    assert kind != "file" or path.read_text() == "precious"
    assert not (tmp_path / "elsewhere.json").exists()
    assert len(list_keys(keys_shop)) == len(list_audit(keys_shop)) == 0


def test_a_file_in_no_folder_is_an_error_before_anything_is_asked(keys_shop, tmp_path):
    with pytest.raises(errors.Unavailable, match=r"path: .*No such file or directory") as caught:
        create_key(keys_shop, tmp_path / "nowhere" / "key.json")
    assert caught.value.field == "path"
    assert len(list_keys(keys_shop)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes/0"),
        ({"scopes": "admin"}, "scopes"),
        ({"expires_at": datetime(2099, 1, 1)}, "expires_at"),
        ({"expires_at": pd.Timestamp("2099-01-01")}, "expires_at"),
        ({"expires_at": pd.NaT}, "expires_at"),
        ({"expires_at": "2099-01-01T00:00:00.123"}, "expires_at"),
        ({"expires_at": datetime.now(UTC) - timedelta(seconds=1)}, "expires_at"),
        ({"expires_at": 4_070_908_800}, "expires_at"),
    ],
)
def test_wrong_arguments_leave_no_file_and_no_key(keys_shop, tmp_path, arguments, field):
    with pytest.raises(errors.InvalidRequest) as caught:
        create_key(keys_shop, tmp_path / "key.json", **arguments)
    assert caught.value.field == field
    assert not (tmp_path / "key.json").exists()
    assert len(list_keys(keys_shop)) == 0


def test_a_project_in_memory_has_no_keys_and_no_file_is_left(tmp_path):
    with at.connect("shop", path=":memory:") as keys_shop:
        with pytest.raises(errors.NotSupported, match="a project in memory has no keys"):
            create_key(keys_shop, tmp_path / "key.json")
        with pytest.raises(errors.NotSupported, match="a project in memory has no keys"):
            list_keys(keys_shop)
    assert not (tmp_path / "key.json").exists()
