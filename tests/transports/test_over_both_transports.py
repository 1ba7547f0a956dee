"""Every function of a project answers the same whether the project is embedded or remote."""

import inspect
import json
import re
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pandas as pd
import pytest
from support.service_records import hex_id, table, uuid, visit
from support.vendor.server import serving

import attrib_ds as at
from attrib_ds import Project, errors, event, interaction, node, user
from attrib_ds.records.frames import TEXT
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.transport import Options, open_http

FORMS = {"arrow": answers.EITHER, "json": answers.JSON}
#: Projects with no rows, one of each kind, and many.
SIZES = ("empty-shop", "single-shop", "sample-shop")
CASES = [
    ("json", SIZES[0]),
    ("json", SIZES[1]),
    ("arrow", SIZES[2]),
    *(
        pytest.param(*case, marks=pytest.mark.large)
        for case in zip(("arrow", "arrow", "json"), SIZES, strict=True)
    ),
]
DEALS = pd.DataFrame(
    {
        "deal": [1, 2],
        "mail": ["a@b.example", "nobody"],
        "closed": ["2025-01-31", "2025-02-01"],
        "amount": [5, 7.5],
    }
)
YEAR = {"since": "2025-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z"}
FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None},
]


def prepare(project):
    """Give a project what only an embedded one can be given, and events that came in."""
    project.send("create_integration", vendor_id="ads", name="Ads", currency="EUR")
    if project.project_id == "sample-shop":
        at.admin.update_event_type(project, "lead", fields=FIELDS)
    else:
        at.create_event_type(project, "lead", name="Lead", fields=FIELDS)


def fill(project):
    """Give a project one record of each kind."""
    prepare(project)
    first = uuid(1)
    hits = [
        {"id": first, "sessionId": hex_id(1), "serverDate": "2025-01-01T10:00:00Z", "hitType": "pageview"}
    ]
    nodes = [{"_id": "ads-node", "type": "campaign", "name": "Ads"}]
    visits = [
        visit(1, startDate="2025-01-01T10:00:00.123456Z", firstHitId=first, hitCount=1, geo__city="Oslo",
              userData='{"vendorUserId":"u-1"}', type="session", nodeId="ads-node"),
    ]  # fmt: skip
    at.load(project, nodes=table(*nodes), interactions=table(*visits), hits=table(*hits))
    lead = {"nonce": "1", "eventDate": "2025-01-02T12:00:00Z", "data.email": "anna@example.com", "data.turnover.amount": 90.5, "data.turnover.currency": "EUR"}  # fmt: skip
    at.send_events(project, pd.DataFrame([lead]), event_type="lead")
    at.send_events(project, pd.DataFrame({"nonce": ["2"], "data.x": ["ü"]}), event_type="unheard-of")
    spring = at.create_campaign(project, "ads", "spring", name="Spring")
    period = {"start_date": "2025-01-01T00:00:00Z", "end_date": "2025-02-01T00:00:00Z"}
    at.create_outlay(project, "ads", spring, amount=12.345678, **period)
    at.admin.create_audience(project, "Everybody", user("interactionCount") >= 0)
    at.admin.set_rates(
        project, pd.DataFrame({"currency": ["USD"], "date": ["2025-01-01T00:00:00Z"], "rate": [0.9]})
    )


class Served:
    """A server of copies of embedded projects, and ways to open them."""

    def __init__(self, here: Path, there: Path, url: str, key: Path, stack: ExitStack) -> None:
        self.here, self.there, self.url, self.key, self.stack = here, there, url, key, stack
        self.opened: dict[tuple[str, str], Project] = {}

    def add(self, project_id, fill) -> None:
        path = self.here / f"{project_id}.duckdb"
        with at.connect(project_id, path=path) as project:
            fill(project)
        shutil.copy(path, self.there / path.name)

    def embedded(self, project_id) -> Project:
        if ("", project_id) not in self.opened:
            path = self.here / f"{project_id}.duckdb"
            self.opened["", project_id] = self.stack.enter_context(at.connect(project_id, path=path))
        return self.opened["", project_id]

    def remote(self, project_id, form) -> Project:
        if (form, project_id) not in self.opened:
            transport = open_http(Remote(url=self.url, key=self.key), options=Options(accept=FORMS[form]))
            self.opened[form, project_id] = self.stack.enter_context(Project(project_id, transport))
        return self.opened[form, project_id]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    with ExitStack() as stack:
        key = there / "key.json"
        create_key(there, key, projects=None)
        url = stack.enter_context(running(there, options=ServerOptions(rate_limits=None)))
        served = Served(here, there, url, key, stack)
        at.sample_project(here / "sample-shop.duckdb").close()
        served.add("sample-shop", prepare)
        served.add("single-shop", fill)
        served.add("empty-shop", lambda project: None)
        for form in FORMS:
            served.add(f"{form}-shop", fill)
        yield served


def told(function, project):
    """Return what a function answers, or why not."""
    try:
        return function(project)
    except errors.AttribError as error:
        return type(error).__name__, error.message, error.field


def first(frame, column="_id", otherwise="0" * 24):
    return frame[column].dropna().iloc[0] if frame[column].notna().any() else otherwise


def campaign_of(project):
    return first(at.list_campaigns(project, "ads"), "id")


def outlay_of(project):
    return first(at.list_outlays(project, "ads", campaign_of(project)))


def event_of(project):
    metrics = [] if project.project_id == "empty-shop" else [uuid(1)]
    trashed = first(at.list_trashed_events(project), otherwise="")
    return trashed or (metrics or [uuid(9)])[0]


def exported(project):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "users.csv")
        columns = ["interactionCount", "eventCount", "fields.email"]
        return at.export_users(project, path, columns=columns, transformers=[]).read_text()


def written(project):
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_parquet(at.export_interactions(project, Path(folder, "visits.parquet")))


def backed_up(project):
    with tempfile.TemporaryDirectory() as folder:
        path = at.admin.back_up(project, Path(folder, "copy.duckdb"))
        with at.connect(project.project_id, path=path, read_only=True) as copied:
            return [at.search_interactions(copied), at.list_campaigns(copied, "ads")]


def mirrored(project, read):
    day = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-02T12:00:00Z"}
    with at.sync(project, ":memory:", **day) as mirror:
        return read(mirror)


def busiest(project):
    """Return the id of the user with most events."""
    return first(at.search_users(project, columns=["eventCount"], sort="-eventCount", limit=1))


#: What is read, by function: calls whose answers must be the same.
READS = {
    "check": [lambda p: at.admin.check(p)],
    "conversion_paths": [
        lambda p: at.conversion_paths(p, event_type="order", until="2025-06-30").to_pandas(),
        lambda p: at.conversion_paths(p, conversion_page="/checkout/*", until="2025-03-31").to_pandas(),
    ],
    "event_insights": [
        lambda p: at.event_insights(p, metrics=["event-count", "turnover"], interval="month", **YEAR),
        lambda p: at.event_insights(p, metrics=["event-count"], group_by="event-type", interval="year", **YEAR),
        lambda p: at.event_insights(p, metrics=["event-count"], group_by="event-type", event_type=event("eventType") == "order", interval="quarter", **YEAR),
        lambda p: at.event_insights(p, metrics=["event-count"], interval="day", since="1990-01-01T00:00:00Z", until="9000-01-01T00:00:00Z"),
    ],
    "get_audience": [lambda p: at.admin.get_audience(p, first(at.admin.list_audiences(p)))],
    "get_campaign": [lambda p: at.get_campaign(p, "ads", campaign_of(p))],
    "get_event": [lambda p: at.get_event(p, event_of(p)), lambda p: at.get_event(p, uuid(99))],
    "get_event_type": [lambda p: at.get_event_type(p, "lead"), lambda p: at.get_event_type(p, "nothing")],
    "get_interaction": [
        lambda p: at.get_interaction(p, first(at.search_interactions(p, limit=1))),
        lambda p: at.get_interaction(p, "x"),
    ],
    "get_outlay": [lambda p: at.get_outlay(p, "ads", campaign_of(p), outlay_of(p))],
    "get_raw_event": [lambda p: at.get_raw_event(p, event_of(p))],
    "get_settings": [lambda p: at.admin.get_settings(p)],
    "get_user": [lambda p: at.get_user(p, first(at.search_users(p, columns=[], limit=1)))],
    "interaction_insights": [
        lambda p: at.interaction_insights(p),
        lambda p: at.interaction_insights(p, group_by="geo.countryCode", interval="month", bots=None, filtered=None),
        lambda p: at.interaction_insights(p, interval="custom", segments=3, **YEAR),
        lambda p: at.interaction_insights(p, group_by="geo"),
    ],
    "page_insights": [
        lambda p: at.page_insights(p),
        lambda p: at.page_insights(p, page="/b*", group_by="channel", interval="month", sort="-entries", limit=3),
        lambda p: at.page_insights(p, interval="custom"),
    ],
    "funnel": [
        lambda p: at.funnel(p, ["/*", "order"], window="7D", group_by="geo.countryCode"),
        lambda p: at.funnel(p, ["/"]),
    ],
    # Who asked differs, so what was asked is compared where settings are updated.
    "list_audit": [lambda p: at.admin.list_audit(p, operation_name="split_user")],
    "list_audiences": [lambda p: at.admin.list_audiences(p)],
    "list_campaigns": [lambda p: at.list_campaigns(p, "ads"), lambda p: at.list_campaigns(p, "unknown")],
    "list_event_types": [lambda p: at.list_event_types(p), lambda p: at.list_event_types(p, sort="-name", limit=1)],
    "list_hits": [
        lambda p: at.list_hits(p, first(at.search_interactions(p, where=interaction("hitCount") >= 1, limit=1), "firstHitId", "none")),
        lambda p: at.list_hits(p, "unknown"),
    ],
    "list_holdouts": [lambda p: at.experiments.list_holdouts(p)],
    "list_nodes": [lambda p: at.list_nodes(p), lambda p: at.list_nodes(p, search="AD", limit=3, offset=1)],
    "list_outlays": [lambda p: at.list_outlays(p, "ads", campaign_of(p))],
    "list_keys": [lambda p: at.admin.list_keys(p)],
    "list_rates": [lambda p: at.admin.list_rates(p)],
    "export_user_data": [lambda p: sorted(at.admin.export_user_data(p, busiest(p)).items())],
    "list_user_events": [
        lambda p: at.list_user_events(p, busiest(p)),
        lambda p: at.list_user_events(p, busiest(p), limit=1, attributable=True),
        lambda p: at.list_user_events(p, hex_id(0)),
    ],
    "list_user_metrics": [
        lambda p: at.list_user_metrics(p, busiest(p)),
        lambda p: at.list_user_metrics(p, busiest(p), type="state", limit=1),
        lambda p: at.list_user_metrics(p, hex_id(0)),
    ],
    "list_trashed_events": [lambda p: at.list_trashed_events(p), lambda p: at.list_trashed_events(p, limit=0)],
    "search_events": [
        lambda p: at.search_events(p),
        lambda p: at.search_events(p, event_type="order", **YEAR),
        lambda p: at.search_events(p, user_ids=[busiest(p)], changed_since="2025-01-01", limit=2, offset=1),
        lambda p: at.search_events(p, event_type=event("eventType").isin(["lead"]), limit=0),
        lambda p: at.search_events(p, user_ids=[]),
        lambda p: at.search_events(p, limit=-1),
    ],
    "search_interactions": [
        lambda p: at.search_interactions(p, filtered=None, bots=None),
        lambda p: at.search_interactions(p, limit=0),
        lambda p: at.search_interactions(p, columns=["userAgent", "_id", "geo.city", "userData"], limit=50, offset=3),
        lambda p: at.search_interactions(p, where=(interaction("geo.countryCode") == "FR") & (interaction("hitCount") > 1), sort="duration", limit=20),
        lambda p: at.search_interactions(p, nodes=node("campaignName").contains("a"), columns=["nodeId"], **YEAR),
        lambda p: at.search_interactions(p, columns=["geo.cty"]),
        lambda p: at.search_interactions(p, limit=-1),
    ],
    "search_users": [
        lambda p: at.search_users(p, columns=[]),
        lambda p: at.search_users(p, columns=["fields.email", "eventTypesCount.lead", "eventCount", "lastInteractionDate", "audienceIds", "mostProbableLocation"], sort="-eventCount", limit=60),
        lambda p: at.search_users(p, columns=["metrics.turnover.sum"], where=user("eventCount") >= 1, limit=10),
        lambda p: at.search_users(p, columns=["fields.email", "eventTypesCount", "eventTypeMeta", "metrics"], sort="-eventCount", limit=20),
        lambda p: at.search_users(p, columns=["fields.nothing"]),
        lambda p: at.search_users(p, columns=[], sql="SELECT userId FROM interactions LIMIT 0"),
    ],
    "export_interactions": [written],
    "export_users": [exported],
    "sync": [
        lambda p: mirrored(p, at.search_interactions),
        lambda p: mirrored(p, lambda mirror: at.search_users(mirror, columns=["eventCount"])),
    ],
}  # fmt: skip


def leads(*nonces, **columns):
    dates = ["2025-03-01T12:00:00Z"] * len(nonces)
    frame = pd.DataFrame({"nonce": list(nonces), "eventDate": dates}, dtype=TEXT)
    frame["data.email"] = [f"{nonce}@example.com" for nonce in nonces]
    return frame.assign(**columns)


def outlays(campaign, *amounts):
    frame = pd.DataFrame({"amount": list(amounts)}, dtype="float64")
    frame["campaignId"] = pd.Series([campaign] * len(frame), dtype=TEXT)
    frame["startDate"] = pd.Series(["2025-01-01T00:00:00Z"] * len(frame), dtype=TEXT)
    frame["endDate"] = pd.Series(["2025-02-01T00:00:00Z"] * len(frame), dtype=TEXT)
    return frame


def calls(*emails):
    frame = pd.DataFrame({"userData.email": list(emails)}, dtype=TEXT)
    frame["date"] = "2025-01-31T12:00:00Z"
    frame["nodeData.vendorId"] = "ads"
    frame["nodeData.campaignSlug"] = "spring"
    frame["externalId"] = [f"call-{each}" for each in emails]
    return frame


def created_lead(project, nonce):
    return at.send_events(project, leads(nonce), event_type="lead")["id"].item()


def updated_states(project):
    made = [created_lead(project, f"state-{number}") for number in range(3)]
    updates = pd.DataFrame({"id": [*made, uuid(99)], "storageKey": "won", "value": [1, 0, 7, 1]})
    return [at.update_states(project, updates), at.update_states(project, updates.iloc[:0])]


def updated_statistics(project):
    made = created_lead(project, "statistic")
    updates = pd.DataFrame({"id": [made, made], "storageKey": ["turnover", "unknown"], "value": [9.25, 1]})
    return [
        at.update_statistics(project, updates),
        at.event_insights(project, metrics=["turnover"], interval="year", **YEAR),
    ]


def replayed(project):
    at.send_events(project, leads("replay"), event_type="later")
    trashed = at.list_trashed_events(project)["_id"].tolist()
    at.create_event_type(project, "later", name="Later", fields=FIELDS)
    return [
        at.admin.replay_events(project, [*trashed, uuid(99)]).sort_values(
            ["status", "error"], ignore_index=True
        )
    ]


def event_types(project):
    made = at.create_event_type(project, "visit", name="Visit", fields=FIELDS, metadata={"a": [1.5, None]})
    return [made, told(lambda p: at.create_event_type(p, "visit", name="Again"), project)]


def changed_event_type(project):
    at.create_event_type(project, "call", name="Call")
    return [
        at.admin.update_event_type(project, "call", name="Phone call"),
        told(lambda p: at.admin.update_event_type(p, "none", name="x"), project),
    ]


def archived(project):
    at.create_event_type(project, "old", name="Old")
    return [at.admin.archive_event_type(project, "old"), at.list_event_types(project, archived=True)]


def restored(project):
    at.create_event_type(project, "older", name="Older")
    at.admin.archive_event_type(project, "older")
    return [at.admin.restore_event_type(project, "older")]


def audiences(project):
    made = at.admin.create_audience(project, "Regulars", user("interactionCount") >= 5)
    return [made, told(lambda p: at.admin.create_audience(p, "x", {"type": "nothing"}), project)]


def deleted_audience(project):
    made = at.admin.create_audience(project, "Gone", user("eventCount") >= 1)["_id"]
    return [
        at.admin.delete_audience(project, made),
        told(lambda p: at.admin.delete_audience(p, hex_id(0)), project),
    ]


def campaigns(project):
    made = at.create_campaign(project, "ads", "summer", name="Sommer ☀")
    again = told(lambda p: at.create_campaign(p, "ads", "summer", name="x"), project)
    return [
        made,
        again,
        told(lambda p: at.create_campaign(p, "unknown", "y", name="x"), project),
    ]


def changed_campaign(project):
    made = at.create_campaign(project, "ads", "autumn", name="Autumn")
    return [
        at.update_campaign(project, "ads", made, name="Fall"),
        at.update_campaign(project, "ads", made, name="Fall"),
    ]


def an_outlay(project, slug):
    made = at.create_campaign(project, "ads", slug, name=slug)
    period = {"start_date": "2025-01-01T00:00:00Z", "end_date": "2025-02-01T00:00:00Z"}
    return {
        "campaign_id": made,
        "outlay_id": at.create_outlay(project, "ads", made, amount=0.1, **period),
    }


def an_outlay_read(project):
    made = an_outlay(project, "winter")
    return [made["outlay_id"], at.get_outlay(project, "ads", **made)]


def changed_outlay(project):
    made = an_outlay(project, "changed")
    return [at.update_outlay(project, "ads", **made, amount=0.3), at.get_outlay(project, "ads", **made)]


def deleted_outlay(project):
    made = an_outlay(project, "deleted")
    return [
        at.admin.delete_outlay(project, "ads", **made),
        told(lambda p: at.get_outlay(p, "ads", **made), project),
    ]


def many_outlays(project):
    made = at.create_campaign(project, "ads", "many", name="Many")
    return [
        at.create_outlays(project, "ads", outlays(*row))
        for row in ([made], [made, 1.0], [made, 0.1, -1.0, 1e9])
    ]


def a_person(project, name):
    """Return the id of a user who has just come up."""
    return at.get_event(project, created_lead(project, name))["userId"]


def deleted_user(project):
    ids = [a_person(project, "forgotten"), a_person(project, "erased"), hex_id(0)]
    modes = ["anonymise", "delete", "delete"]

    def erased(p, id, mode):
        answer = at.admin.delete_user(p, id, mode=mode)
        return answer["modifiedCount"], answer["inFilesUntil"].date()

    return [
        told(lambda p, id=id, mode=mode: erased(p, id, mode), project)
        for id, mode in zip(ids, modes, strict=True)
    ]


def merged(project):
    stays, goes = a_person(project, "stays"), a_person(project, "goes")
    again = told(lambda p: at.admin.merge_users(p, stays, stays), project)
    return [
        at.admin.merge_users(project, stays, goes),
        again,
        at.get_user(project, goes)["_id"] == stays,
    ]


def split(project):
    stays, goes = a_person(project, "whole"), a_person(project, "part")
    at.admin.merge_users(project, stays, goes)
    return [
        at.admin.split_user(project, stays, goes),
        told(lambda p: at.admin.split_user(p, stays, goes), project),
    ]


def created_key(project):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key.json")
        expiry = "2099-01-01T00:00:00+02:00"
        return [
            at.admin.create_key(project, path, scopes=["users:read", "admin"], expires_at=expiry),
            sorted(json.loads(path.read_text())),
            path.stat().st_mode & 0o777,
            at.admin.list_keys(project),
            at.admin.list_audit(project, operation_name="create_key")["details"],
            *(
                told(
                    lambda p, options=options: at.admin.create_key(p, Path(folder, "other"), **options),
                    project,
                )
                for options in ({"scopes": []}, {"scopes": ["x"]}, {"expires_at": "2020-01-01T00:00:00Z"})
            ),
            [path.name for path in Path(folder).iterdir()],
        ]


def revoked_key(project):
    with tempfile.TemporaryDirectory() as folder:
        made = at.admin.create_key(project, Path(folder, "key.json"))["_id"]
    return [
        at.admin.revoke_key(project, made),
        at.admin.revoke_key(project, made),
        told(lambda p: at.admin.revoke_key(p, "0" * 40), project),
        told(lambda p: at.admin.revoke_key(p, "x"), project),
        at.admin.list_keys(project)["revokedAt"].notna().iloc[-1],
    ]


#: What is written, by function, in a project with one record of each kind; what it returns must be the same.
WRITES = {
    "archive_event_type": archived,
    # Each project has a key of its own, so the draws differ.
    "assign": lambda p: [
        at.experiments.create_holdout(p, "letter", node_id="ads-node", share=0.5),
        at.experiments.assign(p, ["a", "b"], holdout="letter").drop(columns="withheld"),
        at.experiments.assign(p, [], holdout="letter"),
        told(lambda p: at.experiments.assign(p, ["a"], holdout="unknown"), p),
    ],
    "back_up": backed_up,
    "compact": lambda p: [at.admin.compact(p).index.tolist(), len(at.admin.list_audit(p, operation_name="compact_project"))],
    "create_audience": audiences,
    "create_campaign": campaigns,
    "create_event_type": event_types,
    "create_integration": lambda p: [
        len(at.admin.create_integration(p, "post", name="Post", channel="Offline")),
        at.list_nodes(p, search="Post")[["type", "name", "channel"]],
        len(p.send("list_integrations").read()),
    ],
    "create_offline_interactions": lambda p: [
        at.create_offline_interactions(p, calls(*emails)) for emails in ([], ["a@b.example"], ["a@b.example", "c@d.example", "nobody"])
    ],
    "create_holdout": lambda p: [
        at.experiments.create_holdout(p, "banner", node_id="ads-node", share=0.1, since="2026-05-01"),
        at.experiments.create_holdout(p, "banner", node_id="ads-node", share=0.2),
        at.experiments.list_holdouts(p),
        at.list_event_types(p, reference="holdout-opportunity").drop(columns="fields"),
    ],
    "create_key": created_key,
    "create_outlay": an_outlay_read,
    "create_outlays": many_outlays,
    "delete_audience": deleted_audience,
    "delete_holdout": lambda p: [
        at.experiments.create_holdout(p, "popup", node_id="ads-node", share=0.1),
        at.experiments.delete_holdout(p, "popup"),
        told(lambda p: at.experiments.delete_holdout(p, "popup"), p),
    ],
    "delete_outlay": deleted_outlay,
    "delete_user": deleted_user,
    "merge_users": merged,
    "replay_events": replayed,
    "restore_event_type": restored,
    "send_conversions": lambda p: [
        at.send_conversions(p, DEALS, email="mail", date="closed", id="deal", value="amount", currency="EUR")
        for _ in range(2)
    ],
    "send_events": lambda p: [
        at.send_events(p, leads(*nonces), event_type="lead", wait=wait)
        for wait in (True, False)
        for nonces in ([], ["n-1"], ["n-1", "n-2", "n-3"])
    ] + [at.send_events(p, leads("n-4", "n-5", **{"data.email": ["nobody", "x@y.example"]}), event_type="lead")],
    "revoke_key": revoked_key,
    "set_rates": lambda p: [
        at.admin.set_rates(p, pd.DataFrame({"currency": ["GBP"], "date": ["2025-01-01T00:00:00Z"], "rate": [1.2]})),
        at.admin.list_rates(p),
    ],
    "split_user": split,
    "update_campaign": changed_campaign,
    "update_event_type": changed_event_type,
    "update_outlay": changed_outlay,
    "update_settings": lambda p: [
        at.admin.update_settings(p, lenient_optional_fields=True),
        at.admin.get_settings(p),
        at.admin.list_audit(p, operation_name="update_settings").drop(columns=["_id", "date", "account"]),
    ],
    "update_states": updated_states,
    "update_statistics": updated_statistics,
    "validate_events": lambda p: [
        at.admin.validate_events(p, leads(*nonces), event_type=kind) for kind in ("lead", "unknown") for nonces in ([], ["v-1"], ["v-1", "v-2"])
    ],
}  # fmt: skip

#: What a remote project cannot do, and what it says.
EMBEDDED_ONLY = {
    "list_opportunities": (
        lambda p: at.experiments.list_opportunities(p, holdout="banner"),
        r"sync\(project, to=…\)",
    ),
    "load": (
        lambda p: at.load(p, nodes=table({"_id": "a", "type": "channel", "name": "A"})),
        r"connect\(…, path=…\)",
    ),
}


def test_every_function_of_a_project_is_among_the_cases():
    functions = {name: getattr(home, name) for home in (at, at.admin, at.experiments) for name in dir(home)}
    ours = {
        name
        for name, each in functions.items()
        if inspect.isfunction(each) and next(iter(inspect.signature(each).parameters), "") == "project"
    }
    assert sorted([*READS, *WRITES, *EMBEDDED_ONLY]) == sorted(ours)


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize(("form", "size"), CASES)
@pytest.mark.parametrize("name", READS)
def test_the_same_is_read(served, name, form, size):
    one, other = served.embedded(size), served.remote(size, form)
    for call in READS[name]:
        assert_same(told(call, one), told(call, other), form)


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WRITES)
def test_the_same_is_written(served, name, form):
    one, other = served.embedded(f"{form}-shop"), served.remote(f"{form}-shop", form)
    results, others = told(WRITES[name], one), told(WRITES[name], other)
    assert type(results) is type(others) is list, (results, others)
    assert len(results) == len(others)
    for result, another in zip(results, others, strict=True):
        assert_same(result, another, form, is_written=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", EMBEDDED_ONLY)
def test_what_a_remote_project_cannot_do_it_says(served, name):
    call, words = EMBEDDED_ONLY[name]
    with pytest.raises(errors.NotSupported, match=words):
        call(served.remote("sample-shop", "arrow"))


ADS = "Google Ads"


def buyer(project):
    """Return the id of a user with two events."""
    return first(at.search_users(project, columns=[], where=user("fields.email") == "user2@x.example"))


#: Reading functions that the specification's operations serve, by what a service of others answers to them.
OF_OTHERS = {
    "conversion_paths": [lambda p: at.conversion_paths(p, event_type="Order_Completed").to_pandas()],
    "event_insights": READS["event_insights"][:1],
    "export_users": [lambda p: sorted(exported(p).splitlines())],
    "get_campaign": [lambda p: at.get_campaign(p, ADS, first(at.list_campaigns(p, ADS, sort="name"), "id"))],
    "get_event": [lambda p: at.get_event(p, first(at.list_user_events(p, buyer(p)))), READS["get_event"][1]],
    "get_event_type": READS["get_event_type"],
    "get_interaction": READS["get_interaction"][:1],
    "get_user": [lambda p: at.get_user(p, buyer(p))],
    "interaction_insights": READS["interaction_insights"][:3],
    "list_campaigns": [lambda p: at.list_campaigns(p, ADS, sort="name")],
    "list_event_types": READS["list_event_types"],
    "list_hits": READS["list_hits"][:1],
    "list_outlays": [lambda p: at.list_outlays(p, ADS, first(at.list_campaigns(p, ADS, sort="name"), "id"), sort="startDate")],
    "list_user_events": [lambda p: at.list_user_events(p, buyer(p))],
    "list_user_metrics": [lambda p: at.list_user_metrics(p, buyer(p), type="state")],
    "search_interactions": [*READS["search_interactions"][:3], *READS["search_interactions"][5:]],
    "search_users": READS["search_users"][:2],
}  # fmt: skip
#: Columns that a mirror does not have from the service, or whose form the specification leaves open.
OPEN = {
    "get_event": ["event", "user"],
    "get_interaction": ["userData", "rawUserData", "rawNodeData"],
    "get_user": ["fields", "vendorUserIds", "audienceIds", "mostProbableLocation", "updatedAt"],
    "list_user_events": ["event", "user"],
    "search_interactions": ["userData", "rawUserData", "rawNodeData"],
    "search_users": ["audienceIds", "mostProbableLocation"],
}


def without_open(name, answer):
    """Return an answer without open columns, in an order of its own: the specification guarantees none."""
    if isinstance(answer, pd.Series):
        answer = answer.to_frame().T.infer_objects()
    if not isinstance(answer, pd.DataFrame):
        return answer
    names = [each for each in answer if not any(each.startswith(one) for one in OPEN.get(name, ()))]
    keys = [each for each in ("_id", "id", "group", "interval") if each in names]
    return answer[names].sort_values(keys[:1] or names[:1], ignore_index=True)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A service that others wrote, and an embedded project with its records."""
    with ExitStack() as stack:
        service = stack.enter_context(serving(tmp_path_factory.mktemp("vendor"), users=12))
        addresses = {"url": service.url, "url_v2": service.url_v2, "auth_url": service.auth_url}
        project = stack.enter_context(at.connect(service.project, key=service.key, **addresses))
        options = {"integrations": [ADS, "meta-ads"], "hits": True}
        yield project, stack.enter_context(at.sync(project, ":memory:", **options)), service.vendor.world


@pytest.mark.few(6)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_service_of_others_answers_the_same(foreign, name):
    for call in OF_OTHERS[name]:
        answers = [without_open(name, told(call, project)) for project in foreign[:2]]
        assert call in READS.get(name, ()) or len(answers[0]), "nothing is compared"
        if isinstance(answers[0], tuple):
            # Its words are its own.
            assert answers[0][0] == answers[1][0], answers
            continue
        assert_same(*answers, "json")


def records_of_others(records, *names):
    """Return records of the service, as it holds them, as rows."""
    return sorted(tuple(str(one[name]) for name in names) for one in records.values())


def rows_of(frame, *names):
    return sorted(tuple(map(str, row)) for row in frame[list(names)].itertuples(index=False))


@pytest.mark.large
@pytest.mark.slow
def test_events_of_others_are_those_that_their_service_holds(foreign):
    project, mirror, world = foreign
    names = ("_id", "userId", "eventType", "eventDate")
    assert rows_of(at.search_events(mirror), *names) == records_of_others(world.events, *names)
    with pytest.raises(errors.NotSupported, match="list_user_events reads the events of a user"):
        at.search_events(project)
    names = ("_id", "eventTypeRef", "rawEventDate", "processingDate")
    assert rows_of(at.list_trashed_events(project), *names) == records_of_others(world.trashed_events, *names)
    for id, raw in world.raw_events.items():
        found = at.get_raw_event(project, id)
        assert json.loads(found["data"]) == raw["data"]
        assert [found[name] for name in ("nonce", "eventType", "trackerId")] == [
            raw[name] for name in ("nonce", "eventType", "trackerId")
        ]
    # They concern the service, and attribution does not read them.
    assert at.list_trashed_events(mirror).empty


REQUEST = re.compile(r" \(request [0-9a-f-]{36}\)")
MADE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{40,64}|[0-9a-f]{24}|(?<=-)[0-9a-f]{8}(?=@)"
)
NOW = re.compile(rf"{pd.Timestamp.now('UTC').year}-\d\d-\d\dT[0-9:.]+Z")


def assert_same(one, other, form, *, is_written=False):
    """Compare two answers; what is made anew by each write, or is about this moment, is left out of it."""
    assert type(one) is type(other), (one, other)
    if isinstance(one, pd.DataFrame):
        # How rows were sent tells where, and which they were.
        assert {**one.attrs, "sending": None} == {**other.attrs, "sending": None}
        with suppress(AssertionError):
            pd.testing.assert_frame_equal(one, other)
            return
        plain = [
            each.apply(
                lambda column: column.map(lambda value: cleaned(value, form, is_written)).astype(object)
            )
            for each in (one, other)
        ]
        pd.testing.assert_series_equal(one.dtypes, other.dtypes)
        pd.testing.assert_index_equal(one.index, other.index)
        pd.testing.assert_frame_equal(*plain)
    elif isinstance(one, pd.Series):
        assert one.dtype == other.dtype
        assert is_written or one.name == other.name
        pd.testing.assert_series_equal(
            *(each.map(lambda value: cleaned(value, form, is_written)) for each in (one, other)),
            check_names=False,
        )
    elif isinstance(one, tuple):
        assert [cleaned(each, form, is_written) for each in one] == [
            cleaned(each, form, is_written) for each in other
        ]
    else:
        assert cleaned(one, form, is_written) == cleaned(other, form, is_written)


def cleaned(value, form, is_written):
    if isinstance(value, pd.Timestamp) and value > pd.Timestamp.now("UTC") - pd.Timedelta(hours=2):
        return "now"
    if not isinstance(value, str):
        return value
    text = NOW.sub("now", REQUEST.sub("", value))
    if is_written:
        text = MADE.sub("made", text)
    # What went through JSON may have 1.5 in place of 1.50.
    with suppress(ValueError):
        return json.loads(text) if form == "json" and text[:1] in "[{" else text
    return text
