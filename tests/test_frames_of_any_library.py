"""Every public function that takes a DataFrame takes those of Polars and Arrow too, with the same result."""

import inspect
import tempfile
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.result_frames import HAZARD_EFFECTS, MODEL_ORDERS, SENSITIVITY

import attrib_ds as at
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

# The exports here are a single visit.
pytestmark = pytest.mark.filterwarnings(
    "ignore::attrib_ds.errors.InputWarning", "ignore::attrib_ds.errors.UnknownCurrency"
)

TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v", "w"],
        "node_id": ["search", "email", "search", "email"],
        "date": pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-03"], utc=True),
    }
)
CONVERSIONS = pd.DataFrame(
    {
        "event_id": ["1", "2"],
        "user_id": ["u", "v"],
        "date": pd.to_datetime(["2025-01-05", "2025-01-06"], utc=True),
        "value": [30.0, 10.0],
        "currency": ["EUR", None],
    }
)
ADJUSTMENTS = pd.DataFrame({"event_id": ["1"], "date": CONVERSIONS["date"][:1], "value": [-5.0]})
OBSERVED = pd.DataFrame(
    {"user_id": ["u", "v", "w"], "since": TOUCHPOINTS["date"][:3], "until": [CONVERSIONS["date"][1]] * 3}
)
RATES = pd.DataFrame({"currency": ["NOK"], "date": ["2025-01-01"], "rate": [0.085]})
SPEND = pd.DataFrame({"node_id": ["search", "email"], "spend": [10, 4], "currency": ["EUR", "EUR"]})
NODES = pd.DataFrame(
    {
        "_id": ["search", "email", "own"],
        "parentId": [None, "own", None],
        "type": ["channel", "adset", "campaign"],
        "name": ["Search", "Email", "Own"],
    }
)
SEQUENCES = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1], "nulls": [5, 2]})
PATHS = at.Paths.from_frames(TOUCHPOINTS, CONVERSIONS.drop(columns="currency"), currency="EUR")
CREDITS = at.attribute(PATHS, ["first_touch", "linear"])
SERIES = at.credit_series(PATHS, "linear", interval="day")
EXPLANATION = at.explain(PATHS, "linear", "1")
EXPLANATION.attrs.clear()
SEGMENTS = pd.DataFrame({"event_id": CONVERSIONS["event_id"].astype(str), "country": "FR"})
WORLD = at.simulate("random", users=2_000, seed=1, holdout=0.2)
DRAWS = WORLD.withheld.merge(WORLD.opportunities, how="left")
SPEND_OF_WORLD = pd.DataFrame({"node_id": ["display"], "spend": [100.0]})
WORLD_PATHS = at.Paths.from_frames(WORLD.touchpoints, WORLD.conversions, users=WORLD.users)
VISITS = pd.DataFrame(
    {
        "_id": ["6650a1b2c3d4e5f601234567"],
        "userId": ["6650a1b2c3d4e5f601234568"],
        "nodeId": ["search"],
        "type": ["session"],
        "startDate": ["2025-01-01T10:00:00Z"],
    }
)
EVENTS = pd.DataFrame(
    {
        "nonce": ["1", "2"],
        "eventDate": ["2025-01-01T10:00:00Z"] * 2,
        "data.email": ["a@example.com", "nobody"],
    }
)
UPDATES = pd.DataFrame({"id": ["6650a1b2c3d4e5f601234567"], "storageKey": ["won"], "value": [True]})
INSIGHTS = pd.DataFrame(
    {
        "group": [None, None],
        "interval": ["1", "7"],
        "sessionCount": [4, 2],
        "hitCount": [9, 3],
        "durationSum": [60.0, 5.0],
    }
)
MATOMO = pd.DataFrame(
    {"idSite": [1], "idVisit": [7], "visitorId": ["a1"], "firstActionTimestamp": [1735725600]}
)
SNOWPLOW = pd.DataFrame(
    {
        "event_id": ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"],
        "event_name": ["page_view", "transaction"],
        "domain_userid": ["d", "d"],
        "domain_sessionid": ["s", "s"],
        "mkt_source": ["google", None],
        "derived_tstamp": pd.to_datetime(["2025-01-01 10:00", "2025-01-01 10:05"]),
    }
)


def _parameter(key, **value):
    return {"key": key, "value": {"string_value": None, "int_value": None} | value}


GA4 = pd.DataFrame(
    {
        "event_timestamp": [1735725600000000, 1735725900000000],
        "event_name": ["page_view", "purchase"],
        "user_pseudo_id": ["a.1", "a.1"],
        "event_params": [
            [_parameter("ga_session_id", int_value=1735725600), _parameter("source", string_value="google")],
            [_parameter("ga_session_id", int_value=1735725600)],
        ],
    }
)


def _order_shop():
    shop = at.connect("my-shop", path=":memory:")
    email = {
        "name": "Email",
        "ingestionKey": "email",
        "storageKey": "email",
        "type": "email",
        "entity": "user",
        "unique": True,
    }
    at.create_event_type(shop, "order", name="Order", fields=[email])
    return shop


def _send(given):
    with _order_shop() as shop:
        return at.send_events(shop, given(EVENTS), event_type="order")[["status"]]


def _validate(given):
    with _order_shop() as shop:
        return at.admin.validate_events(shop, given(EVENTS), event_type="order")


def _send_conversions(given):
    deals = pd.DataFrame({"deal": [1, 2], "mail": ["a@b.example"] * 2, "closed": ["2025-01-31"] * 2})
    with at.connect("shop", path=":memory:") as shop:
        return at.send_conversions(shop, given(deals), email="mail", date="closed", id="deal")[["status"]]


def _series(given):
    spend = SPEND.assign(date="2025-01-01")
    return at.credit_series(PATHS, "linear", interval="month", spend=given(spend))


def _report(given):
    with tempfile.TemporaryDirectory() as folder:
        return at.report(given(CREDITS), Path(folder, "report.html")).read_text(encoding="utf-8")


def _workbook(given):
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_excel(at.to_excel(given(CREDITS), Path(folder) / "credits.xlsx"))


def _update(function):
    def call(given):
        with _order_shop() as shop:
            return function(shop, given(UPDATES), dry_run=True)

    return call


def _offline(given):
    frame = pd.DataFrame(
        {
            "date": ["2025-01-31T12:00:00Z"],
            "userData.email": ["anna@example.com"],
            "nodeData.vendorId": ["phone"],
            "externalId": ["call-17"],
        }
    )
    with at.connect("my-shop", path=":memory:") as shop:
        return at.create_offline_interactions(shop, given(frame), dry_run=True)


def _outlays(given):
    frame = pd.DataFrame(
        {
            "campaignId": ["6650a1b2c3d4e5f601234567"],
            "amount": [70.5],
            "startDate": ["2025-01-01"],
            "endDate": ["2025-01-31"],
        }
    )
    with at.connect("my-shop", path=":memory:") as shop:
        return at.create_outlays(shop, "my-ads", given(frame), dry_run=True)


def _rates(given):
    with at.connect("my-shop", path=":memory:") as shop:
        at.admin.set_rates(shop, given(RATES))
        return at.admin.list_rates(shop)


def _assign(given):
    with at.connect("my-shop", path=":memory:") as shop:
        at.experiments.create_holdout(shop, "letter", node_id="email", share=0.5)
        # The draw is that of the key of the project.
        return at.experiments.assign(shop, given(TOUCHPOINTS), holdout="letter").drop(columns="withheld")


def _load(given):
    hits = pd.DataFrame(
        {
            "id": ["11111111-1111-4111-8111-111111111111"],
            "sessionId": VISITS["_id"],
            "serverDate": VISITS["startDate"],
            "hitType": ["pageview"],
        }
    )
    events = pd.DataFrame(
        {
            "_id": ["11111111-1111-4111-8111-111111111112"],
            "userId": VISITS["userId"],
            "eventType": ["order"],
            "eventDate": VISITS["startDate"],
        }
    )
    spend = pd.DataFrame({"campaignId": ["own"], "startDate": ["2025-01-01"], "endDate": ["2025-01-02"]})
    with at.connect("my-shop", path=":memory:") as shop:
        loaded = at.load(
            shop,
            interactions=given(VISITS),
            hits=given(hits),
            events=given(events),
            nodes=given(NODES),
            spend=given(spend.assign(amount=1.5)),
        )
        return loaded.counts, loaded.rejected


def _conversion_paths(given):
    with at.connect("my-shop", path=":memory:") as shop:
        at.read_journeys(TOUCHPOINTS, CONVERSIONS.assign(currency="NOK")).load(shop)
        paths = at.conversion_paths(
            shop, event_type="conversion", statistic="revenue", in_currency="EUR", rates=given(RATES)
        )
        return at.attribute(paths, "linear")


def _from_frames(given):
    paths = at.Paths.from_frames(
        given(TOUCHPOINTS),
        given(CONVERSIONS.assign(currency="NOK")),
        users=given(OBSERVED),
        adjustments=given(ADJUSTMENTS),
        in_currency="EUR",
        rates=given(RATES),
    )
    return at.attribute(paths, "linear"), to_pandas(paths.observed.order_by("user_id").to_pyarrow())


def _journeys(read, *frames, **options):
    def call(given):
        added = {name: given(frame) for name, frame in options.items()}
        journeys = read(*map(given, frames), channels=given(at.hits.channel_rules()), **added)
        return journeys.interactions, journeys.events, journeys.nodes

    return call


def _plot(function, frame, **options):
    return lambda given: function(given(frame), ax=Figure().subplots(), **options)


CALLS = {
    "Paths.from_frames": _from_frames,
    "Paths.from_sequences": lambda given: at.Paths.from_sequences(
        given(SEQUENCES), path="path", conversions="n", nulls="nulls"
    ).summary(),
    "Paths.split": lambda given: PATHS.split(given(SEGMENTS))["FR"].to_pandas(),
    "Paths.with_spend": lambda given: at.attribute(PATHS.with_spend(given(SPEND)), "linear"),
    "admin.set_rates": _rates,
    "attribute": lambda given: at.attribute(PATHS, "linear", spend=given(SPEND)),
    "compare_models": lambda given: at.compare_models(given(CREDITS)),
    "conversion_paths": _conversion_paths,
    "create_offline_interactions": _offline,
    "create_outlays": _outlays,
    "credit_series": _series,
    "drill_down": lambda given: at.drill_down(given(CREDITS), given(NODES)),
    "experiments.assign": _assign,
    "experiments.Effects.returns": lambda given: at.experiments.holdout_effects(
        WORLD_PATHS, withheld=DRAWS
    ).returns(given(SPEND_OF_WORLD)),
    "experiments.holdout_effects": lambda given: at.experiments.holdout_effects(
        WORLD_PATHS, withheld=given(DRAWS)
    ).table(),
    "hits.assign_channels": lambda given: at.hits.assign_channels(
        given(pd.DataFrame({"source": ["google", None], "medium": ["cpc", None]})),
        given(at.hits.channel_rules()),
    ),
    "load": _load,
    "plots.credits": _plot(at.plots.credits, CREDITS, model="linear"),
    "plots.effects": _plot(at.plots.effects, HAZARD_EFFECTS),
    "plots.sensitivity": _plot(at.plots.sensitivity, SENSITIVITY),
    "plots.explanation": _plot(at.plots.explanation, EXPLANATION),
    "plots.funnel": _plot(
        at.plots.funnel, pd.DataFrame({"values.event-count": [80.0], "values.won": [20.0]})
    ),
    "plots.insights": _plot(at.plots.insights, INSIGHTS),
    "plots.lags": _plot(at.plots.lags, PATHS.lags()),
    "plots.lengths": _plot(at.plots.lengths, PATHS.lengths()),
    "plots.model_comparison": _plot(at.plots.model_comparison, CREDITS),
    "plots.orders": _plot(at.plots.orders, MODEL_ORDERS),
    "plots.paths": _plot(at.plots.paths, PATHS.to_pandas()),
    "plots.returns": _plot(at.plots.returns, at.report_returns(CREDITS, SPEND), model="linear"),
    "plots.seasonality": _plot(at.plots.seasonality, INSIGHTS, interval="dayOfWeek"),
    "preview_files": lambda given: at.preview_files(
        given(TOUCHPOINTS), given(CONVERSIONS.drop(columns="currency")), spend=given(SPEND)
    ),
    "read_ga4": _journeys(at.read_ga4, GA4),
    "read_journeys": _journeys(
        at.read_journeys, TOUCHPOINTS, CONVERSIONS.drop(columns="currency"), spend=SPEND
    ),
    "read_matomo": _journeys(at.read_matomo, MATOMO),
    "read_snowplow": _journeys(at.read_snowplow, SNOWPLOW),
    "plots.series": _plot(at.plots.series, SERIES),
    "report": _report,
    "report_returns": lambda given: at.report_returns(given(CREDITS), given(SPEND)),
    "roll_up": lambda given: at.roll_up(given(CREDITS), given(NODES), "campaign"),
    "send_conversions": _send_conversions,
    "send_events": _send,
    "to_excel": _workbook,
    "update_states": _update(at.update_states),
    "update_statistics": _update(at.update_statistics),
    "admin.validate_events": _validate,
}


class OnlyStream:
    """A table of a library that nothing is known of but the protocol."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


FORMS = {
    "Polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "stream": OnlyStream,
}


def public_functions():
    """Yield the dotted name and the object of every public function and public method of a class."""
    for name in at.__all__:
        value = getattr(at, name)
        members = {name: value}
        if isinstance(value, ModuleType):
            members = {f"{name}.{member}": getattr(value, member) for member in dir(value)}
        for dotted, member in members.items():
            if inspect.isclass(member):
                methods = inspect.getmembers(member, callable)
                yield from ((f"{dotted}.{method}", f) for method, f in methods if not method.startswith("_"))
            elif callable(member):
                yield dotted, member


def annotations_of(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built-in methods of exceptions
        return {}
    return {parameter.name: str(parameter.annotation) for parameter in parameters}


def frame_parameters(function):
    return [name for name, kind in annotations_of(function).items() if "Frame" in kind]


TAKERS = {name: function for name, function in public_functions() if frame_parameters(function)}


def test_every_function_that_takes_a_frame_has_an_example():
    assert set(CALLS) == set(TAKERS)


def test_no_public_function_takes_pandas_only():
    kinds = {name: " ".join(annotations_of(function).values()) for name, function in public_functions()}
    assert [name for name, kind in kinds.items() if "DataFrame" in kind] == []


def shown(result):
    """Return what a result shows: its frames, or the texts and shapes of a plot."""
    if isinstance(result, Axes):
        result.figure.canvas.draw()
        return [text.get_text() for text in result.findobj(lambda artist: hasattr(artist, "get_text"))]
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.few(6)
# One of a form and one of the protocol are enough for every run.
@pytest.mark.parametrize(
    "form", ["Polars", *(pytest.param(form, marks=pytest.mark.large) for form in ("Arrow", "stream"))]
)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.slow
def test_a_frame_of_any_library_gives_the_same_result(name, form):
    converted = []

    def given(frame):
        converted.append(frame)
        return FORMS[form](frame)

    expected = shown(CALLS[name](lambda frame: frame))
    found = shown(CALLS[name](given))
    assert len(converted) >= len(frame_parameters(TAKERS[name]))
    for part, other in zip(expected, found, strict=True):
        if isinstance(part, pd.DataFrame):
            pd.testing.assert_frame_equal(other, part)
        elif isinstance(part, pd.Series):
            pd.testing.assert_series_equal(other, part)
        else:
            assert other == part


def test_categories_and_results_of_duckdb_are_read():
    spend = pl.from_pandas(SPEND).with_columns(pl.col("node_id").cast(pl.Categorical))
    expected = at.attribute(PATHS, "linear", spend=SPEND)
    pd.testing.assert_frame_equal(at.attribute(PATHS, "linear", spend=spend), expected)
    points = pl.from_pandas(TOUCHPOINTS).with_columns(pl.col("node_id").cast(pl.Categorical))
    assert at.Paths.from_frames(points, CONVERSIONS).to_pandas()["node_id"].tolist() == [
        "search",
        "email",
        "search",
    ]
    with at.connect("my-shop", path=":memory:") as shop:
        at.load(shop, nodes=pl.from_pandas(NODES).with_columns(pl.col("type").cast(pl.Categorical)))
        assert at.list_nodes(shop)["type"].value_counts()["adset"] == 1
    with duckdb.connect() as own:
        relation = own.from_arrow(pa.Table.from_pandas(SPEND))
        pd.testing.assert_frame_equal(at.attribute(PATHS, "linear", spend=relation), expected)


@pytest.mark.parametrize("spend", [[1], None, pl.Series([1]), "spend.csv", pl.LazyFrame({"node_id": ["a"]})])
def test_other_values_are_refused(spend):
    with pytest.raises(InvalidRequest, match="spend: must be a DataFrame, got"):
        at.report_returns(CREDITS, spend)


def test_broken_batches_are_refused():
    offsets = pa.py_buffer(np.array([0, 9, 3], np.int64).tobytes())
    broken = pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    table = pa.table({"node_id": broken, "spend": [1.0, 2.0]})
    with pytest.raises(InvalidRequest, match="spend: cannot be read"):
        at.report_returns(CREDITS, table)
