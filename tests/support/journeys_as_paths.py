"""Journeys as paths, and credits as dictionaries, for tests of the models of whole paths."""

import pandas as pd
from hypothesis import strategies as st

from attrib_ds import Paths, attribute
from attrib_ds.records.frames import TEXT

NOON = pd.Timestamp("2025-03-10T12:00:00Z")
HOUR = pd.Timedelta(hours=1)


def paths_of(journeys) -> Paths:
    """Paths from (nodes, conversions, value, nulls)."""
    rows = [(" > ".join(path), *rest) for path, *rest in journeys]
    frame = pd.DataFrame(rows, columns=["path", "n", "worth", "lost"]).astype({"path": TEXT})
    return Paths.from_sequences(frame, path="path", conversions="n", value="worth", nulls="lost")


def users_of(journeys, **options) -> Paths:
    """The same journeys as touchpoints and conversions of users, an hour between two touchpoints."""
    touchpoints, conversions = [], []
    for row, (path, converted, value, lost) in enumerate(journeys):
        for index in range(converted + lost):
            user = f"user {row}-{index}"
            for back, node in enumerate(reversed(path)):
                touchpoints.append((user, node, NOON - back * HOUR))
            if index < converted:
                conversions.append((f"event {row}-{index}", user, NOON, value / converted))
    touched = pd.DataFrame(touchpoints, columns=["user_id", "node_id", "date"])
    converted = pd.DataFrame(conversions, columns=["event_id", "user_id", "date", "value"])
    for frame in (touched, converted):
        frame["date"] = pd.to_datetime(frame["date"], utc=True)
    return Paths.from_frames(touched, converted, **options)


def credited(paths, model, column="conversions") -> dict[str | None, float]:
    """Credit by node; None is unattributed."""
    credits = attribute(paths, model)
    ids = [None if pd.isna(node) else node for node in credits["node_id"]]
    return dict(zip(ids, credits[column].tolist(), strict=True))


def journeys(nodes="abcd", *, max_size=7, max_length=5):
    """Draw journeys: some paths only converted, some never did, and some paths are there twice."""
    path = st.lists(st.sampled_from(nodes), min_size=1, max_size=max_length).map(tuple)
    row = st.tuples(path, st.integers(0, 3), st.integers(0, 3)).map(
        lambda drawn: (drawn[0], drawn[1], 1.5 * drawn[1] * len(drawn[0]), drawn[2])
    )
    return st.lists(row, min_size=1, max_size=max_size)
