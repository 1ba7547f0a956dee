"""Requests drawn from our own description of the interface: no failure, no status and no body it does not tell."""

import pytest
from conformance.drawn_requests import DESCRIBED, description_for, drawn_project
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from support.http_caller import token_of

from attrib_ds.service.accounts.accounts import create_key

#: Requests drawn for each operation, the same ones in every run.
EXAMPLES = {GenerationMode.POSITIVE: 5, GenerationMode.NEGATIVE: 3}
PROJECT = "drawn-shop"
NAMES = [
    (record["operationId"], method, path)
    for path, methods in DESCRIBED["paths"].items()
    for method, record in methods.items()
]
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def token(http):
    """The token of an account that may use the project alone: any other one is forbidden to it."""
    key = create_key(http.home, http.home / "drawn.json", projects=[PROJECT])
    return token_of(http.url, key)


@pytest.fixture(scope="module")
def drawn(http):
    return description_for(drawn_project(http, PROJECT))


@pytest.mark.few(52)
@pytest.mark.slow
@pytest.mark.http_only
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
@pytest.mark.parametrize(("name", "method", "path"), NAMES, ids=[name for name, *_ in NAMES])
def test_no_answer_is_undescribed(http, token, drawn, name, method, path, mode):
    operation = drawn[path][method.upper()]
    statuses = {
        int(record) for record in DESCRIBED["paths"][path][method]["responses"] if record != "default"
    }
    statuses |= {405} if mode is GenerationMode.NEGATIVE else set()
    count = 0

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        nonlocal count
        count += 1
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call(base_url=http.url, headers=headers, timeout=60)
        assert response.status_code in statuses, (response.status_code, response.content[:500])
        case.validate_response(response, checks=CHECKS)

    ask()
    assert count > 0
