"""Columns of returned frames have the same dtypes on every release of pandas."""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.records.frames import TEXT

SPEND = pd.DataFrame(
    {
        "node_id": ["search", "other"],
        "spend": [2.0, 1.0],
        "currency": ["EUR", "EUR"],
        "date": ["2025-01-01"] * 2,
    }
)
SEQUENCES = pd.DataFrame({"path": ["search > display", "display"], "conversions": [2, 1]})
ORDERS = pd.DataFrame({"nonce": ["n1", "n2"], "eventDate": ["2025-03-01T12:00:00Z"] * 2})


def frames_in(result):
    """Return a frame itself, or the frames that the attributes of a result hold."""
    if isinstance(result, pd.DataFrame):
        return [result]
    return [part for part in vars(result).values() if isinstance(part, pd.DataFrame)]


@pytest.fixture
def paths():
    touches = [("u1", "search", 1), ("u1", "display", 2), ("u2", "display", 1), ("u3", "search", 2)]
    touchpoints = pd.DataFrame(touches, columns=["user_id", "node_id", "day"])
    touchpoints["date"] = pd.to_datetime([f"2025-01-0{day}" for day in touchpoints.pop("day")], utc=True)
    conversions = pd.DataFrame({"event_id": ["e1", "e2", "e3"], "user_id": ["u1", "u2", "u4"]})
    conversions["date"] = pd.to_datetime(["2025-01-04"] * 3, utc=True)
    return at.Paths.from_frames(touchpoints, conversions.assign(value=10.0, currency="EUR"))


def assert_same_everywhere(name, result):
    for frame in frames_in(result):
        for column, cells in frame.items():
            if cells.dtype == object:
                assert not cells.map(lambda cell: isinstance(cell, str)).any(), (
                    f"{name}: {column} is not TEXT"
                )
            elif isinstance(cells.dtype, pd.StringDtype):
                assert cells.dtype == TEXT, f"{name}: {column} is {cells.dtype!r}"
            elif isinstance(cells.dtype, pd.DatetimeTZDtype) or cells.dtype.kind == "M":
                assert cells.dt.unit == "us", f"{name}: {column} is in {cells.dt.unit}"


@pytest.mark.large
@pytest.mark.slow
def test_credits(paths):
    models = {"last": "last_touch", "linear": "linear", "chain": "markov"}
    credits = at.attribute(paths, models, confidence=0.9)
    results = {
        "attribute": credits,
        "attribute by rules": at.attribute(paths, ["linear", "time_decay"]),
        "from_sequences": at.attribute(
            at.Paths.from_sequences(SEQUENCES, path="path", conversions="conversions"), "linear"
        ),
        "compare_models": at.compare_models(credits),
        "compare_lookbacks": at.compare_lookbacks(paths, ["1D", "7D"]),
        "compare_orders": at.compare_orders(paths, [1], folds=2),
        "credit_series": at.credit_series(paths, ["linear", "last_touch"]),
        "explain": at.explain(paths, "linear", "e1"),
        "explain an unattributed conversion": at.explain(paths, "linear", "e3"),
        "position_credits": at.position_credits(paths),
        "removal_effects": at.removal_effects(paths),
        "report_returns": at.report_returns(credits, SPEND),
        "touch_credits": at.touch_credits(paths, ["linear", "last_touch"]),
        "transition_matrix": at.transition_matrix(paths),
        "holdout plan": at.experiments.plan_holdout(users=1000, rate=0.1, effect=5.0),
        "simulated": at.simulate("intent", users=50, seed=7),
        "truth": at.simulate("intent", users=50, seed=7).truth(),
    }
    for name, result in results.items():
        assert_same_everywhere(name, result)


@pytest.mark.large
@pytest.mark.slow
def test_answers_of_the_service(shop):
    credits = at.attribute(at.conversion_paths(shop, event_type="order", level="campaign"), "linear")
    nodes = at.list_nodes(shop)
    results = {
        "search_interactions": at.search_interactions(shop),
        "interaction_insights": at.interaction_insights(shop, interval="week", group_by="referrerType"),
        "page_insights": at.page_insights(shop, interval="week", group_by="channel"),
        "funnel": at.funnel(shop, ["/", "order"]),
        "event_insights": at.event_insights(
            shop, metrics=["event-count"], since="2025-01-01", until="2025-04-01", group_by="event-type"
        ),
        "list_nodes": nodes,
        "search_users": at.search_users(shop, columns=["fields.email"]),
        "list_event_types": at.list_event_types(shop),
        "list_audiences": at.admin.list_audiences(shop),
        "credits with spend": credits,
        "roll_up": at.roll_up(credits, nodes, "channel"),
        "drill_down": at.drill_down(
            at.attribute(at.conversion_paths(shop, event_type="order"), "linear"), nodes
        ),
        "validate_events": at.admin.validate_events(shop, ORDERS, event_type="order"),
        "send_events": at.send_events(shop, ORDERS, event_type="order"),
        "list_rates": at.admin.list_rates(shop),
    }
    for name, result in results.items():
        assert_same_everywhere(name, result)
