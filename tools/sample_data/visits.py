"""Convert visits to interactions and hits, as the service returns them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from attrib_ds import schema
from sample_data import demand, pages, tree
from sample_data.columns import Objects, Seconds, mask_unknown, table_of
from sample_data.devices import AGENT_COLUMNS, user_agents
from sample_data.identifiers import object_ids, uuids
from sample_data.people import pick
from sample_data.places import places, timezone_offset

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE_COLUMNS = (
    "asn.asnId",
    "asn.asnName",
    "geo.countryCode",
    "geo.state",
    "geo.city",
    "geo.latitude",
    "geo.longitude",
    "geo.zipcode",
)
_MAX_PAUSE = 1_500  # seconds, below the timeout of a session
_FILTER = "internal-traffic"


@dataclass(frozen=True)
class Visits:
    """Interactions and hits as tables, and the visits for drawing conversions.

    ``timeline`` has the columns of :func:`sample_data.journeys.journeys`, ``user_id`` and ``end``
    (seconds since 1970), by start.
    """

    interactions: pa.Table
    hits: pa.Table
    timeline: pd.DataFrame


def visits(rng: np.random.Generator, journeys: pd.DataFrame, people: pd.DataFrame) -> Visits:
    """Convert visits to interactions and hits.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    journeys : DataFrame
        From :func:`sample_data.journeys.journeys`.
    people : DataFrame
        From :func:`sample_data.people.people`.

    Returns
    -------
    Visits
        One interaction per visit, by start; every hit of every session.

    Examples
    --------
    >>> from sample_data.journeys import journeys
    >>> from sample_data.people import people
    >>> rng = np.random.default_rng(1)
    >>> visitors = people(rng)
    >>> tables = visits(rng, journeys(rng, visitors), visitors)
    >>> tables.interactions.num_rows == len(tables.timeline)
    True
    """
    timeline = journeys.sort_values(["start", "person", "journey"], ignore_index=True)
    start = timeline["start"].to_numpy()
    timeline["user_id"] = _user_ids(timeline)
    timeline["_id"] = object_ids(start, "5a7c10e4d2")
    online = (timeline["source"] != "store").to_numpy()
    hit_rows = _hit_rows(rng, timeline, online)
    last_hit = hit_rows.groupby("visit")["date"].max()
    timeline["end"] = last_hit.reindex(timeline.index).fillna(timeline["start"]).astype(np.int64)
    sessions = _sessions(rng, timeline[online], people)
    hits = _hits(rng, hit_rows, sessions)
    first = hits.groupby("visit")["id"].first()
    counts = hit_rows.groupby("visit").size()
    own = timeline.join(sessions).assign(firstHitId=first, hitCount=counts.astype("Int64"))
    return Visits(
        interactions=_interaction_table(rng, own, people, online),
        hits=table_of({name: hits[name] for name in schema.HIT.names if name in hits}, schema.HIT),
        timeline=timeline,
    )


def _user_ids(timeline: pd.DataFrame) -> pd.Series[str]:
    first_seen = timeline.groupby("person")["start"].min().sort_values(kind="stable")
    ids = pd.Series(object_ids(first_seen.to_numpy(), "3fd0b1876c"), index=first_seen.index)
    return timeline["person"].map(ids)


def _hit_rows(
    rng: np.random.Generator, timeline: pd.DataFrame, online: npt.NDArray[np.bool_]
) -> pd.DataFrame:
    """Draw the page views of each session: visit, number of views before and after, and date."""
    draws = rng.random(len(timeline))
    counts = 1 + pick(draws, np.array([0.70, 0.195, 0.07, 0.035]))
    counts = np.where(timeline["orders"], np.maximum(counts, 3 + (draws > 0.6)), counts)
    counts = np.where(timeline["kind"] == "crawler", 1 + (draws > 0.9), counts)
    visit = np.repeat(np.arange(len(timeline))[online], counts[online])
    rows = pd.DataFrame({"visit": visit})
    rows["before"] = rows.groupby("visit").cumcount()
    rows["after"] = counts[visit] - 1 - rows["before"]
    pause = np.minimum(6 + np.floor(-np.log(1.0 - rng.random(len(rows))) * 95.0), _MAX_PAUSE)
    waited = pd.Series(np.where(rows["before"] == 0, 0.0, pause)).groupby(visit).cumsum()
    rows["date"] = timeline["start"].to_numpy()[visit] + waited.to_numpy().astype(np.int64)
    rows["buys"] = timeline["orders"].to_numpy()[visit] & (timeline["lag"].to_numpy()[visit] == 0)
    return rows


def _sessions(rng: np.random.Generator, timeline: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return what a session knows of itself beyond its visit, indexed by visit."""
    of_person = people.loc[timeline["person"]]
    visit = timeline.index
    place = places().loc[of_person["place"]].set_index(visit)
    month = pd.to_datetime(timeline["start"], unit="s").dt.month - 1
    agent = user_agents().loc[pd.MultiIndex.from_arrays([timeline["device"], month])].set_index(visit)
    by_id = {node.node_id: node for node in tree.nodes()}
    nodes = [by_id[node_id] for node_id in timeline["node_id"]]
    landings = pages.LANDINGS
    anywhere = pick(rng.random(len(visit)), 1.0 / (1.0 + np.arange(len(landings)))).tolist()
    own = {
        "session_id": timeline["_id"],
        "isBot": timeline["kind"] == "crawler",
        "referrer": [node.referrer for node in nodes],
        "referrerType": [node.root.referrer_type for node in nodes],
        "pathname": [node.landing or landings[page] for node, page in zip(nodes, anywhere, strict=True)],
        "search": [node.query for node in nodes],
    }
    return pd.DataFrame(own, index=visit).join(place.drop(columns="share")).join(agent)


def _hits(rng: np.random.Generator, rows: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    """Return the hits with the columns of their schema and ``visit``."""
    of_session = sessions.loc[rows["visit"]].set_index(rows.index)
    opens = rows["before"] == 0
    browsed = np.array(pages.BROWSED, dtype=object)
    seen = browsed[pick(rng.random(len(rows)), 1.0 / (2.0 + np.arange(len(browsed))))]
    for after, page in enumerate(pages.CHECKOUT):
        seen[rows["buys"] & (rows["after"] == after)] = page
    pathname = of_session["pathname"].where(opens, pd.Series(seen))
    search = of_session["search"].where(opens, "")
    draws = rng.integers(4_096, size=len(rows))
    dates: Seconds = rows["date"].to_numpy()
    columns = {
        "visit": rows["visit"],
        "id": uuids(dates, draws, "0e361b04c9e7d25"),
        "sessionId": of_session["session_id"],
        "serverDate": dates,
        "timezoneOffset": timezone_offset(of_session["winter_offset"], pd.Series(demand.day_index(dates))),
        "isBot": of_session["isBot"],
        "userAgent": of_session["userAgent.ua"],
        **pages.url_parts("pageUrl", pathname, search),
        "referrerType": of_session["referrerType"].where(opens, "internal"),
        "hitType": "pageview",
        **{name: of_session[name] for name in _PLACE_COLUMNS},
    }
    return pd.DataFrame(columns)


def _interaction_table(
    rng: np.random.Generator, own: pd.DataFrame, people: pd.DataFrame, online: npt.NDArray[np.bool_]
) -> pa.Table:
    start: Seconds = own["start"].to_numpy()
    end: Seconds = own["end"].to_numpy()
    offline = ~online
    imported = start + 20 + np.floor(rng.random(len(own)) * 100).astype(np.int64)
    user_data = _json(offline, [{"email": email} for email in people.loc[own["person"], "email"]])
    node_data = _json(offline, [{"vendorId": "store", "campaignId": node} for node in own["node_id"]])
    page = own["pathname"].where(online, "")
    search = own["search"].where(online, "")
    parts = pages.url_parts("firstPageUrl", page, search)
    columns = {
        "_id": own["_id"],
        "type": np.where(online, "session", "offline"),
        "userId": own["user_id"],
        "startDate": start,
        "endDate": end,
        "duration": (end - start).astype(np.float64),
        # A session is ingested with its first hit and updated with its last.
        "ingestedAt": np.where(online, start, imported),
        "createdAt": mask_unknown(imported, offline),
        "updateDate": np.where(online, end, imported),
        "userData": user_data,
        "rawUserData": user_data,
        "rawNodeData": node_data,
        "integrationId": own["node_id"].str.partition("/")[0],
        "nodeId": own["node_id"],
        "externalId": mask_unknown("visit-" + own["_id"].str[-6:], offline),
        "isBot": own["isBot"].where(online, other=False),
        "referrer": own["referrer"],
        "referrerType": own["referrerType"],
        "trafficFilterId": mask_unknown([_FILTER] * len(own), (own["kind"] == "staff").to_numpy()),
        "firstHitId": own["firstHitId"],
        "hitCount": own["hitCount"],
        "firstPage": (pages.ORIGIN + page + search).where(online),
        **{name: pd.Series(part).where(online) for name, part in parts.items()},
        **{name: own[name] for name in (*AGENT_COLUMNS, *_PLACE_COLUMNS)},
    }
    return table_of(columns, schema.INTERACTION)


def _json(is_set: npt.NDArray[np.bool_], objects: list[dict[str, str]]) -> Objects:
    texts = [
        json.dumps(content, separators=(",", ":")) if has_value else None
        for has_value, content in zip(is_set.tolist(), objects, strict=True)
    ]
    return np.array(texts, dtype=object)
