"""Users who are described some at a time are those who are described at once."""

from __future__ import annotations

import pytest
from support.service_records import hex_id, send, table, visit

from attrib_ds.service import Service
from attrib_ds.service.users import search

KEYS = ["fields.email", "interactionCount"]


@pytest.fixture(scope="module")
def service():
    opened = Service.open("shop", ":memory:")
    visits = [
        visit(
            place,
            userId=hex_id(500 - place % 23),
            userData=f'{{"email":"u{place % 7}-{place % 23}@example.com"}}',
            startDate=f"2025-01-01T00:00:{place:02}Z",
        )
        for place in range(1, 60)
    ]
    assert send(opened, "load_records", resource="interactions", source=table(*visits)).read().num_rows == 0
    yield opened
    opened.close()


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"order": "DESC"},
        {"sort": "fields.email", "multiFieldMode": "alphabetical"},
        {"sort": "interactionCount", "order": "DESC"},
        {"sort": "fields.email", "order": "DESC", "offset": 3, "limit": 11},
        {"offset": 20},
        {"offset": 30, "limit": 5},
        {"limit": 0},
    ],
)
def test_g099_pages_keep_the_order_and_the_total(service, monkeypatch, asked):
    whole = send(service, "search_users", fields=KEYS, **asked)
    monkeypatch.setattr(search, "_FIRST_USERS", 2)
    monkeypatch.setattr(search, "_USERS_AT_ONCE", 4)
    parts = send(service, "search_users", fields=KEYS, **asked)
    assert parts.read().equals(whole.read())
    assert (parts.total, parts.offset, parts.limit) == (whole.total, whole.offset, whole.limit)
    assert whole.total == 23
    assert whole.read().num_rows == max(min(asked.get("limit", 23), 23 - asked.get("offset", 0)), 0)


def test_a_file_of_users_is_the_same_in_parts(service, monkeypatch):
    asked = {
        "filename": "users.csv",
        "exporterDataConfig": {"columns": ["_id", *KEYS]},
        "outputFormatConfig": {"type": "csv"},
        "transformerConfig": [],
    }

    def written():
        file = send(service, "export_users", **asked).value
        content = b"".join(file.pieces)
        file.close()
        return content

    whole = written()
    monkeypatch.setattr(search, "_FIRST_USERS", 3)
    monkeypatch.setattr(search, "_USERS_AT_ONCE", 5)
    assert written() == whole
    assert whole.count(b"\n") == 24
