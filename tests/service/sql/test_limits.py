"""Conditions on keys and ids spare the reading of other values, and change no answer."""

from __future__ import annotations

import pytest
from support.service_records import hex_id, send, table, visit

from attrib_ds.service import Service
from attrib_ds.service.sql.admission import admit
from attrib_ds.service.users import sandbox
from attrib_ds.service.users.sandbox import VIEWS

A, B = hex_id(0xA), hex_id(0xB)
EMAIL = {"user_fields": {"key": ("email",)}}
LIMITED = {
    "SELECT userId FROM user_fields WHERE key = 'email'": EMAIL,
    "SELECT userId FROM user_fields WHERE 'email' = KEY AND (value = 'x' AND date IS NULL)": EMAIL,
    "SELECT userId FROM user_fields f WHERE (f.key IN ('email') AND f.value LIKE 'a%')": EMAIL,
    "SELECT userId FROM user_fields WHERE key IN ('city', 'email') AND key = 'email'": EMAIL,
    f"SELECT userId FROM user_fields WHERE userId = '{A}' AND key IN ('email', 'city')": {
        "user_fields": {"key": ("city", "email"), "userId": (A,)}
    },
    "SELECT _id FROM users u JOIN user_fields f ON f.userId = u._id AND f.key = 'email'": EMAIL,
    "SELECT _id FROM users u LEFT JOIN user_fields f ON f.userId = u._id AND f.key = 'email'": EMAIL,
    "SELECT _id FROM users u JOIN user_fields f ON f.userId = u._id WHERE f.key = 'email'": EMAIL,
    "SELECT _id FROM users WHERE EXISTS (SELECT 1 FROM user_fields WHERE key = 'email' AND userId = _id)": EMAIL,
    "WITH mails AS (SELECT * FROM user_fields WHERE key = 'email') SELECT userId FROM mails": EMAIL,
    "SELECT a.userId FROM user_fields a JOIN user_fields b USING (userId) WHERE a.key = 'email' AND b.key = 'city'": {
        "user_fields": {"key": ("city", "email")}
    },
    "SELECT userId FROM user_fields WHERE key = 'email' UNION SELECT userId FROM user_fields WHERE key = 'city'": {
        "user_fields": {"key": ("city", "email")}
    },
    f"SELECT _id FROM users WHERE _id = '{A}' AND eventCount = 0": {"users": {"_id": (A,)}},
    "SELECT userId FROM user_fields WHERE key = 'email' AND key = 'city'": {"user_fields": {"key": ()}},
}
UNLIMITED = [
    "SELECT userId FROM user_fields",
    "SELECT userId FROM user_fields WHERE key = 'email' OR value = 'Oslo'",
    "SELECT userId FROM user_fields WHERE NOT key = 'email'",
    "SELECT userId FROM user_fields WHERE key <> 'email'",
    "SELECT userId FROM user_fields WHERE key NOT IN ('email')",
    "SELECT userId FROM user_fields WHERE key = lower('EMAIL')",
    "SELECT userId FROM user_fields WHERE key IN (SELECT 'email')",
    "SELECT userId FROM user_fields WHERE lower(key) = 'email'",
    "SELECT value AS key, userId FROM user_fields WHERE key = 'Oslo'",
    "SELECT userId FROM (SELECT value AS key, userId FROM user_fields) WHERE key = 'Oslo'",
    "SELECT userId FROM user_fields GROUP BY userId HAVING min(key) = 'email'",
    "SELECT f.userId FROM user_fields f LEFT JOIN users u ON u._id = f.userId AND f.key = 'email'",
    "SELECT f.userId FROM users u RIGHT JOIN user_fields f ON u._id = f.userId AND f.key = 'email'",
    "SELECT f.userId FROM users u FULL JOIN user_fields f ON u._id = f.userId AND f.key = 'email'",
    "SELECT userId FROM user_fields WHERE key = 'email' UNION ALL SELECT userId FROM user_fields WHERE value = 'Oslo'",
    "SELECT userId FROM user_fields WHERE CASE WHEN key = 'email' THEN false ELSE true END",
    "SELECT a.userId FROM user_fields a JOIN user_fields b ON a.userId = b.userId WHERE a.key = 'email'",
]


@pytest.fixture(scope="module")
def service():
    opened = Service.open("shop", ":memory:")
    contents = (
        (A, '{"email":"a@example.org","city":"Oslo","nested":{"x":"Oslo"}}'),
        (A, '{"email":"a@example.com"}'),
        (B, '{"city":"Oslo"}'),
        (hex_id(0xC), "{}"),
    )
    visits = [
        visit(place, userId=user, userData=data, startDate=f"2025-01-{place:02}T10:00:00Z")
        for place, (user, data) in enumerate(contents, start=1)
    ]
    assert send(opened, "load_records", resource="interactions", source=table(*visits)).read().num_rows == 0
    yield opened
    opened.close()


def answered(service, sql):
    with service._store.read() as backend:
        return sorted(sandbox.user_ids(backend, sql)["_id"].to_pylist())


@pytest.mark.parametrize("sql", LIMITED)
def test_plain_conditions_limit_a_view(sql):
    assert admit(sql, VIEWS).limits == LIMITED[sql]


@pytest.mark.parametrize("sql", UNLIMITED)
def test_others_limit_nothing(sql):
    assert "user_fields" not in admit(sql, VIEWS).limits


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        *LIMITED,
        *UNLIMITED,
        "SELECT userId FROM user_fields WHERE key = 'nested/x'",
        "SELECT userId FROM user_fields WHERE key = ''",
        "SELECT userId FROM user_fields WHERE key = 'EMAIL'",
        "SELECT userId FROM user_fields WHERE key = 'email' GROUP BY userId HAVING count(*) = 2",
        "SELECT userId FROM events WHERE eventDate = '2025-01-01' AND userId = 'x'",
        "SELECT userId FROM interactions WHERE userId = '" + B + "'",
        "SELECT _id FROM users u LEFT JOIN user_fields f ON f.userId = u._id AND f.key = 'email' WHERE f.key IS NULL",
        "SELECT _id FROM users u LEFT JOIN user_fields f ON f.userId = u._id WHERE f.key = 'email'",
        "SELECT _id FROM users u WHERE _id NOT IN (SELECT userId FROM user_fields WHERE key = 'email')",
    ],
)
def test_limits_change_no_answer(service, monkeypatch, sql):
    limited = answered(service, sql)
    whole = sandbox.query_of
    monkeypatch.setattr(
        sandbox, "query_of", lambda backend, view, columns, limits: whole(backend, view, columns)
    )
    assert limited == answered(service, sql)


def test_some_of_them_find_somebody(service):
    assert answered(service, "SELECT userId FROM user_fields WHERE key = 'email'") == [A]
    assert answered(
        service, "SELECT userId FROM user_fields WHERE key IN ('email', 'city') AND value = 'Oslo'"
    ) == [A, B]
    assert answered(service, f"SELECT userId FROM user_fields WHERE userId = '{B}'") == [B]
