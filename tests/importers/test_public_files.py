"""Files of twelve public kinds: from the file to credited channels.

The shapes follow the published schemas; the rows are made here. ``Anna`` clicks a Google ad, reads a newsletter and buys
for 30; ``Ben`` comes from ChatGPT and buys for 10. The linear model gives Paid Search and Email 0.5 orders each.
"""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.commands.cli import main

TIMES = ["2025-01-01T10:00:00", "2025-01-02T10:00:00", "2025-01-03T10:00:00"]
BOUGHT = ["2025-01-04T10:00:00", "2025-01-05T10:00:00"]
SOURCES = ["google", "newsletter", "chatgpt.com"]
MEDIA = ["cpc", "email", "referral"]
CAMPAIGNS = ["spring", "weekly", None]
USERS = ["anna", "anna", "ben"]
EXPECTED = {"Paid Search": 0.5, "Email": 0.5, "AI Assistants": 1.0}


def micros(texts):
    return [int(pd.Timestamp(text, tz="UTC").timestamp() * 1_000_000) for text in texts]


def seconds(text):
    return micros([text])[0] // 1_000_000


def ga4_rows():
    """Yield each event's time, name, user, session, source, medium, campaign, order and revenue."""
    for at_time, user, *traffic in zip(TIMES, USERS, SOURCES, MEDIA, CAMPAIGNS, strict=True):
        yield at_time, "session_start", user, seconds(at_time), *traffic, None, None
    for number, (time, user, value) in enumerate(zip(BOUGHT, ["anna", "ben"], [30.0, 10.0], strict=True)):
        session = seconds(TIMES[1] if user == "anna" else TIMES[2])
        yield time, "purchase", user, session, None, None, None, f"T{number}", value


def ga4_nested():
    def parameters(session, source, medium, campaign):
        named = {"ga_session_id": session, "source": source, "medium": medium, "campaign": campaign}
        kinds = {int: "int_value", str: "string_value"}
        return [
            {"key": key, "value": {kinds[type(value)]: value}}
            for key, value in named.items()
            if value is not None
        ]

    return pd.DataFrame(
        [
            {
                "event_timestamp": micros([time])[0],
                "event_name": name,
                "user_pseudo_id": user,
                "event_params": parameters(session, *traffic),
                "ecommerce": {"transaction_id": order, "purchase_revenue": value},
            }
            for time, name, user, session, *traffic, order, value in ga4_rows()
        ]
    )


def ga4_flat():
    names = [
        "event_timestamp",
        "event_name",
        "user_pseudo_id",
        "ga_session_id",
        "source",
        "medium",
        "campaign",
    ]
    frame = pd.DataFrame(list(ga4_rows()), columns=[*names, "transaction_id", "purchase_revenue"])
    return frame.assign(event_timestamp=micros(frame["event_timestamp"]), currency="EUR")


def ga4_fivetran():
    names = ["timestamp", "name", "user_pseudo_id", "param_ga_session_id", "param_source", "param_medium"]
    revenue = ["param_campaign", "ecommerce_transaction_id", "ecommerce_purchase_revenue_in_usd"]
    frame = pd.DataFrame(list(ga4_rows()), columns=names + revenue)
    return frame.assign(
        _fivetran_id=range(len(frame)), timestamp=pd.to_datetime(frame["timestamp"], utc=True)
    )


def snowplow_events():
    rows = [
        {
            "event_id": f"11111111-1111-4111-8111-11111111111{number}",
            "event_name": "page_view" if order is None else "transaction",
            "domain_userid": user,
            "domain_sessionid": str(session),
            "derived_tstamp": pd.Timestamp(time),
            "mkt_source": source,
            "mkt_medium": medium,
            "mkt_campaign": campaign,
            "tr_orderid": order,
            "tr_total": value,
            "tr_currency": "EUR" if value else None,
        }
        for number, (time, _, user, session, source, medium, campaign, order, value) in enumerate(ga4_rows())
    ]
    return pd.DataFrame(rows)


def snowplow_views():
    return pd.DataFrame(
        {
            "view_id": ["1", "2", "3"],
            "event_id": ["1", "2", "3"],
            "user_id": None,
            "user_identifier": USERS,
            "stitched_user_id": USERS,
            "session_identifier": ["a", "b", "c"],
            "start_tstamp": pd.to_datetime(TIMES),
            "mkt_source": SOURCES,
            "mkt_medium": MEDIA,
            "mkt_campaign": CAMPAIGNS,
            "default_channel_group": None,
        }
    )


def snowplow_conversions():
    return pd.DataFrame(
        {
            "cv_id": ["1", "2"],
            "event_id": ["8", "9"],
            "user_id": None,
            "stitched_user_id": ["anna", "ben"],
            "cv_tstamp": pd.to_datetime(BOUGHT),
            "cv_value": [30.0, 10.0],
            "cv_type": "transaction",
        }
    )


def segment_pages():
    return pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "anonymous_id": USERS,
            "timestamp": TIMES,
            "received_at": TIMES,
            "context_campaign_source": [*SOURCES[:2], None],
            "context_campaign_medium": [*MEDIA[:2], None],
            "context_campaign_name": CAMPAIGNS,
            "context_page_referrer": [None, None, "https://chatgpt.com/"],
        }
    )


def segment_orders():
    return pd.DataFrame(
        {
            "id": ["8", "9"],
            "order_id": ["T0", "T1"],
            "anonymous_id": ["anna", "ben"],
            "timestamp": BOUGHT,
            "revenue": [30.0, 10.0],
        }
    )


def rudderstack(frame):
    return frame.rename(columns={"timestamp": "original_timestamp"}).assign(uuid_ts=TIMES[0])


def matomo():
    kinds = [("campaign", "spring"), ("campaign", "weekly"), ("ai-assistant", "ChatGPT")]
    visits = []
    for number, (user, time, source, medium) in enumerate(zip(USERS, TIMES, SOURCES, MEDIA, strict=True)):
        kind, name = kinds[number]
        bought = {1: (BOUGHT[0], 30), 2: (BOUGHT[1], 10)}.get(number)
        action = bought and {
            "type": "ecommerceOrder",
            "orderId": f"T{number}",
            "revenue": bought[1],
            "timestamp": seconds(bought[0]),
        }
        visits.append(
            {
                "idSite": 1,
                "idVisit": number,
                "visitorId": user,
                "firstActionTimestamp": seconds(time),
                "siteCurrency": "EUR",
                "referrerType": kind,
                "referrerName": name,
                "campaignSource": source if kind == "campaign" else None,
                "campaignMedium": medium if kind == "campaign" else None,
                "actionDetails": [action] if action else [],
            }
        )
    return visits


def utm_log():
    return pd.DataFrame(
        {
            "sessionid": USERS,
            "time": TIMES,
            "utm_source": SOURCES,
            "utm_medium": MEDIA,
            "utm_campaign": CAMPAIGNS,
        }
    )


def orders():
    return pd.DataFrame(
        {
            "order_id": ["T0", "T1"],
            "sessionid": ["anna", "ben"],
            "order_date": BOUGHT,
            "revenue": [30.0, 10.0],
        }
    )


def order_lines():
    lines = pd.concat([orders().assign(revenue=[20.0, 10.0]), orders()[:1].assign(revenue=10.0)])
    return lines.assign(order_line_id=["1", "2", "3"])


def in_dollars(frame):
    with pytest.warns(errors.InputWarning, match="2 conversions with revenue in USD, since"):
        return at.read_ga4(frame)


KINDS = {
    "Google Analytics 4, BigQuery": lambda folder: at.read_ga4(ga4_nested(), currency="EUR"),
    "Google Analytics 4, flattened": lambda folder: at.read_ga4(ga4_flat()),
    "Google Analytics 4, Fivetran": lambda folder: in_dollars(ga4_fivetran()),
    "Snowplow, atomic.events": lambda folder: at.read_snowplow(snowplow_events()),
    "Snowplow, dbt": lambda folder: at.read_journeys(snowplow_views(), snowplow_conversions()),
    "Segment": lambda folder: at.read_journeys(segment_pages(), segment_orders()),
    "RudderStack": lambda folder: at.read_journeys(
        rudderstack(segment_pages()), rudderstack(segment_orders())
    ),
    "Matomo": lambda folder: at.read_matomo(matomo()),
    "UTM log and orders, CSV": lambda folder: at.read_journeys(
        written(utm_log(), folder / "log.csv"), written(orders(), folder / "orders.csv")
    ),
    "UTM log and order lines, Excel": lambda folder: at.read_journeys(
        written(utm_log(), folder / "log.xlsx"),
        written(order_lines(), folder / "lines.xlsx"),
        reading=at.Reading(aggregate=True),
    ),
}


def written(frame, path):
    if path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_credited_channels_in_one_call(kind, tmp_path):
    journeys = KINDS[kind](tmp_path)
    assert not len(journeys.rejected)
    credits = at.attribute(journeys.paths(), "linear")
    rolled = at.roll_up(credits, journeys.nodes, "channel").set_index("node_id")
    assert rolled["conversions"].to_dict() == EXPECTED
    assert rolled["value"].to_dict() == {"Paid Search": 15.0, "Email": 15.0, "AI Assistants": 10.0}


@pytest.mark.parametrize("outcomes", [["conv", "null", ""], [1, 0, 0], ["true", "false", None]])
def test_wide_journeys_are_read_on_the_command_line(outcomes, tmp_path, capsys):
    wide = pd.DataFrame({"T_1": ["a", "b", "a"], "T_2": ["b", None, None], "conv_flag": outcomes})
    file = written(wide, tmp_path / "wide.csv")
    assert main(["attribute", "--paths", str(file), "--models", "linear"]) == 0
    shown = capsys.readouterr().out
    assert "path = T_1, T_2, flag = conv_flag" in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [["a", "0.5", "50.0"], ["b", "0.5", "50.0"]]


def test_aggregated_paths_of_snowplow_s_fractribution_are_read(tmp_path, capsys):
    rows = pd.DataFrame(
        {"transformed_path": ["a > b"], "conversions": [2], "non_conversions": [3], "revenue": [40.0]}
    )
    assert main(["attribute", "--paths", str(written(rows, tmp_path / "p.csv")), "--models", "linear"]) == 0
    assert "nulls = non_conversions" in capsys.readouterr().out


def test_columns_of_a_user_s_own_make_a_tree_with_levels():
    touches = pd.DataFrame(
        {
            "user": ["u", "u", "v"],
            "time": TIMES,
            "platform": ["Ads", "Ads", "Mail"],
            "region": ["EU", "US", None],
            "creative": ["red", "blue", None],
        }
    )
    bought = pd.DataFrame({"user": ["u", "v"], "time": BOUGHT})
    journeys = at.read_journeys(
        touches, bought, reading=at.Reading(columns={"node": ["platform", "region", "creative"]})
    )
    assert journeys.nodes[["_id", "parentId", "type"]].astype(object).fillna("").to_numpy().tolist() == [
        ["Ads", "", "channel"],
        ["Mail", "", "channel"],
        ["Ads/EU", "Ads", "campaign"],
        ["Ads/US", "Ads", "campaign"],
        ["Ads/EU/red", "Ads/EU", "adset"],
        ["Ads/US/blue", "Ads/US", "adset"],
    ]
    credits = at.attribute(journeys.paths(), "linear")
    assert credits.set_index("node_id")["conversions"].to_dict() == {
        "Ads/EU/red": 0.5,
        "Ads/US/blue": 0.5,
        "Mail": 1.0,
    }
    by_platform = at.roll_up(credits, journeys.nodes, "channel").set_index("node_id")["conversions"]
    assert by_platform.to_dict() == {"Ads": 1.0, "Mail": 1.0}
    assert set(at.roll_up(credits, journeys.nodes, "campaign")["node_id"]) == {"Ads/EU", "Ads/US", "Mail"}


@pytest.mark.large
@pytest.mark.slow
def test_rules_of_the_user_assign_the_channels():
    own = pd.DataFrame({"channel": ["Assistants and ads"], "source": ["google|chatgpt.*"]})
    rules = pd.concat([own, at.hits.channel_rules()])
    journeys = at.read_journeys(utm_log(), orders(), channels=rules)
    credits = at.attribute(journeys.paths(level="channel"), "linear").set_index("node_id")["conversions"]
    assert credits.to_dict() == {"Assistants and ads": 1.5, "Email": 0.5}
    export = at.read_ga4(ga4_flat(), channels=rules)
    touched = export.nodes[export.nodes["_id"].isin(export.interactions["nodeId"])]
    assert set(touched["channel"]) == {"Assistants and ads", "Email"}


@pytest.mark.parametrize(("dayfirst", "month"), [(True, 4), (False, 3)])
def test_dates_that_begin_with_the_day_are_read_if_the_caller_says_so(dayfirst, month):
    touches = pd.DataFrame({"user": ["u"], "channel": ["a"], "date": ["03/04/2025"]})
    bought = pd.DataFrame({"user": ["u"], "date": ["03/04/2025 12:30"]})
    journeys = at.read_journeys(touches, bought, reading=at.Reading(dayfirst=dayfirst))
    assert journeys.events["eventDate"].item().month == month
    with pytest.raises(at.errors.InvalidRequest, match="date is not a date"):
        at.read_journeys(touches, bought)


def test_columns_of_conversions_may_have_names_of_their_own():
    touches = pd.DataFrame({"visitor": ["u"], "channel": ["a"], "seen": [TIMES[0]]})
    bought = pd.DataFrame({"buyer": ["u"], "paid": [BOUGHT[0]]})
    names = {"user": "visitor", "date": "seen", "conversion_user": "buyer", "conversion_date": "paid"}
    journeys = at.read_journeys(touches, bought, reading=at.Reading(columns=names))
    assert journeys.columns["conversions"] == {"user": "buyer", "date": "paid"}
    assert len(journeys.events) == 1


@pytest.mark.large
@pytest.mark.slow
def test_lines_of_an_order_are_added_up():
    journeys = at.read_journeys(utm_log(), order_lines(), reading=at.Reading(aggregate=True))
    assert journeys.events.set_index("event.sourceId")["statistics.revenue"].to_dict() == {
        "T0": 30.0,
        "T1": 10.0,
    }
    with pytest.raises(
        at.errors.InvalidRequest, match="1 row more than distinct values of 'order_id'; aggregate"
    ):
        at.read_journeys(utm_log(), order_lines())
    mixed = order_lines().assign(sessionid=["anna", "ben", "ben"])
    with pytest.raises(at.errors.InvalidRequest, match="the rows of conversion 'T0' are of several users"):
        at.read_journeys(utm_log(), mixed, reading=at.Reading(aggregate=True))
    with pytest.raises(at.errors.InvalidRequest, match="aggregate: conversions has no column"):
        at.read_journeys(utm_log(), orders().drop(columns="order_id"), reading=at.Reading(aggregate=True))


def test_a_workbook_that_is_none_is_refused(tmp_path):
    file = tmp_path / "log.xlsx"
    file.write_text("no workbook")
    with pytest.raises(
        at.errors.InvalidRequest, match="'log.xlsx' is plain text without a table, not a workb"
    ):
        at.read_journeys(file, orders())
