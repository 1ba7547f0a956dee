import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import event, interaction, node, user
from attrib_ds.filters.vocabulary import OPERATORS, FieldType, vocabulary

# The allowed names of `projection` in Search interactions, copied from the specification (G-089).
PROJECTION = """
_id, projectId, type, userId, userLifetimeIndex, startDate, endDate, duration, ingestedAt, createdAt,
updateDate, userData, integrationId, nodeId, externalId, firstHitId, hitCount, isBot, referrer, referrerType,
trafficFilterId, partialResolvedVendorId, vendorUpdateDate, rawUserData, rawNodeData, firstPage, firstPageUrl,
firstPageUrl.protocol, firstPageUrl.hostname, firstPageUrl.port, firstPageUrl.origin, firstPageUrl.pathname,
firstPageUrl.search, firstPageUrl.hash, userAgent, userAgent.ua, userAgent.browser, userAgent.browser.name,
userAgent.browser.version, userAgent.browser.major, userAgent.engine, userAgent.engine.name,
userAgent.engine.version, userAgent.os, userAgent.os.name, userAgent.os.version, userAgent.device,
userAgent.device.vendor, userAgent.device.model, userAgent.device.type, userAgent.cpu,
userAgent.cpu.architecture, asn, asn.asnId, asn.asnName, geo, geo.countryCode, geo.state, geo.city,
geo.latitude, geo.longitude, geo.zipcode
"""
FILTER_IDS = """
nodeId, nodeName, nodeType, channel, integrationId, vendorId, campaignId, campaignSlug, campaignName, adsetId,
adsetName, adId, adName, keyword, source, medium, referrerHost
"""
OPERATOR_NAMES = """
equals, notEquals, in, notIn, contains, notContains, startsWith, notStartsWith, endsWith, notEndsWith,
greaterThan, greaterThanOrEquals, lessThan, lessThanOrEquals, between, notBetween, isEmpty, isNotEmpty,
isNull, isNotNull, matches, notMatches
"""


def names_in(text):
    return sorted(name.strip() for name in text.replace("\n", " ").split(","))


def test_names_are_those_of_the_specification():
    assert sorted(vocabulary("interaction")) == names_in(PROJECTION)
    assert len(vocabulary("interaction")) == 62
    assert sorted(vocabulary("node")) == names_in(FILTER_IDS)
    assert sorted(OPERATORS) == names_in(OPERATOR_NAMES)


@pytest.mark.parametrize(
    ("field", "field_type"),
    [
        (interaction("geo"), "object"),
        (interaction("userAgent.browser"), "object"),
        (interaction("userData"), "object"),
        (interaction("firstPage"), "string"),
        (interaction("geo.latitude"), "number"),
        (interaction("hitCount"), "number"),
        (interaction("isBot"), "boolean"),
        (interaction("startDate"), "date"),
        (node("nodeId"), "string"),
        (user("audienceIds"), "array"),
        (user("mostProbableLocation"), "object"),
        (user("mostProbableLocation.location.coordinates"), "object"),
        (user("metrics.revenue.v2.average"), "number"),
        (user("eventTypesCount.sign.up"), "number"),
        (event("attributable"), "boolean"),
    ],
)
def test_type_of_a_field(field, field_type):
    assert field.is_not_null().operator_type == field_type


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: interaction("geo.contryCode"), r"interaction field: .*did you mean 'geo.countryCode'"),
        (lambda: interaction("Geo.City"), r"did you mean 'geo.city'"),
        (lambda: interaction("campaignName"), r'node\("campaignName"\) exists'),
        (lambda: interaction("utm_source"), r'node\("source"\) exists'),
        (lambda: interaction("campaign"), r'node\("campaignName"\) exists'),
        (lambda: interaction("interactionCount"), r'user\("interactionCount"\) exists'),
        (lambda: interaction(""), r"'' is not allowed"),
        (lambda: interaction(None), r"must be text, got None"),
        (lambda: interaction("geo."), r"is not allowed"),
        (lambda: node("campaign"), r"node field: .*allowed: campaignId, campaignName, .*17 in all"),
        (lambda: user("fields."), r"fields.<key>"),
        (lambda: user("eventTypesCount."), r"eventTypesCount.<event type>"),
        (lambda: user("metrics.revenue"), r"metrics.<key>.<sum\|max\|min\|count\|average>"),
        (
            lambda: event("statistics.turnover.currency"),
            r"not allowed; statistics.turnover is an amount in its",
        ),
        (lambda: event("statistics."), r"is not allowed"),
        (lambda: user("ltv"), r"lifetime value of a user is metrics.<statistic>.sum"),
        (lambda: user("metrics.revenue.median"), r"is not allowed"),
        (lambda: user("metrics..sum"), r"is not allowed"),
        (lambda: event("event."), r"event.<key>"),
        (lambda: event("projectId"), r"event field: .*allowed: _id, attributable"),
        (lambda: vocabulary("session"), r"kind: 'session' is not allowed"),
    ],
)
def test_unknown_names_are_refused_at_once(build, message):
    with pytest.raises(InvalidRequest, match=message):
        build()


def test_each_complement_points_back():
    for operator in OPERATORS.values():
        if operator.complement is not None:
            other = OPERATORS[operator.complement]
            assert other.complement == operator.name
            assert other.negative != operator.negative
            assert other.types == operator.types
    assert [name for name, operator in OPERATORS.items() if operator.complement is None] == [
        "greaterThan",
        "greaterThanOrEquals",
        "lessThan",
        "lessThanOrEquals",
    ]


def test_types_of_fields_are_operator_types():
    assert set(FieldType) - {"object"} == {"string", "number", "date", "boolean", "array"}
