"""Which keys a project has, and what is declared of its fields."""

from __future__ import annotations

import pytest
from support.order_events import declared
from support.service_records import send

from attrib_ds.contract.users import PLAIN
from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.users.user_fields import ProjectKeys


@pytest.fixture
def project_keys(crowd):
    with crowd._store.read() as backend:
        yield ProjectKeys(backend.con)


@pytest.mark.parametrize(
    "key",
    [
        *PLAIN,
        "fields.email",
        "fields.phone",
        "fields.home",
        "eventTypesCount.lead",
        "metrics.event-count.sum",
        "metrics.confirmed.average",
        "metrics.state-delay-confirmed.min",
        "mostProbableLocation.confidence",
    ],
)
def test_r238_existing_keys(project_keys, key):
    project_keys.check([key], argument="fields")


@pytest.mark.parametrize(
    "key",
    [
        "fields.Email",
        "fields.turnover",
        "eventTypesCount.orders",
        "metrics.email.sum",
        "metrics.state-delay-turnover.sum",
        "metrics.order.count",
        "evntCount",
    ],
)
def test_r241_keys_that_are_not(project_keys, key):
    with pytest.raises(InvalidRequest, match="is not allowed") as error:
        project_keys.check(["_id", key], argument="columns")
    assert error.value.field == "columns/1"


def test_g216_fields_are_those_of_the_event_types_and_three_that_every_project_has(project_keys):
    assert {key: field.type for key, field in project_keys.fields.items()} == {
        "email": "email",
        "first_name": "string",
        "age": "number",
        "member": "boolean",
        "birthday": "date",
        "home": "location",
        "vendorUserId": "string",
        "phone": "phone",
    }
    assert {
        key: field.discriminating for key, field in project_keys.fields.items() if field.discriminating
    } == {"email": {"order"}}
    assert {key: field.placing for key, field in project_keys.fields.items() if field.placing} == {
        "home": {"order"}
    }


def test_of_a_type_that_two_event_types_declare_the_oldest_one_counts():
    service = Service.open("shop", ":memory:")
    for reference, kind in (("first", "number"), ("second", "string")):
        fields = [declared(kind, "user", "size", optional=True)]
        send(service, "create_event_type", reference=reference, name=reference, fields=fields)
    with service._store.read() as backend:
        assert ProjectKeys(backend.con).fields["size"].type == "number"
    service.close()
