"""Sessions by the rules of G-190, one hit at a time: the reference for the set-based engine."""

from collections import defaultdict
from datetime import timedelta

LONGEST = timedelta(hours=24)
MOST_HITS = 10_000


def split(hits: list[dict]) -> dict[str, str]:
    """Return the first hit of the session of each hit, by id."""
    by_tracker = defaultdict(list)
    for hit in hits:
        by_tracker[hit["trackerId"]].append(hit)
    first_hits = {}
    for own in by_tracker.values():
        session, node, previous = [], None, None
        for hit in sorted(own, key=position):
            is_other = hit["isCampaign"] and hit["nodeId"] != node
            if previous is None or is_other or is_over(session, previous, hit):
                session, node = [], hit["nodeId"]
            session.append(hit)
            first_hits[hit["id"]] = session[0]["id"]
            previous = hit
    return first_hits


def position(hit: dict) -> tuple:
    """At one instant: whoever comes from elsewhere, then those without a referrer, then views within the site."""
    if hit["isCampaign"] or hit["referrerType"] in {"search", "social", "ai", "email", "referral"}:
        return hit["serverDate"], 0, hit["id"]
    return hit["serverDate"], 1 + (hit["referrerType"] != "direct"), hit["id"]


def is_over(session: list[dict], previous: dict, hit: dict) -> bool:
    return (
        hit["serverDate"] - previous["serverDate"] >= timedelta(minutes=30)
        or hit["serverDate"] - session[0]["serverDate"] >= LONGEST
        or len(session) >= MOST_HITS
    )
