"""What holds in a project after every operation, checked in plain Python."""

from collections import defaultdict

from support.service_records import send


def rows_of(service, query: str) -> list[tuple]:
    with service._store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def assert_users_agree(service) -> None:
    """Users are those of events and interactions, whose places run from 1; who was merged is nobody else."""
    events = rows_of(service, "SELECT _id, userId FROM events")
    interactions = rows_of(service, "SELECT _id, userId, startDate, userLifetimeIndex FROM interactions")
    users = [id for (id,) in rows_of(service, "SELECT _id FROM users")]
    assert len(users) == len(set(users))
    assert set(users) == {row[1] for row in events} | {row[1] for row in interactions}
    visits = defaultdict(list)
    for id, user, date, place in interactions:
        visits[user].append((date, id, place))
    for item in visits.values():
        assert [place for *_, place in sorted(item)] == list(range(1, len(item) + 1))
    merged = dict(rows_of(service, "SELECT _id, userId FROM merged_users"))
    assert not merged.keys() & set(users)
    assert set(merged.values()) <= set(users)
    identities = rows_of(service, "SELECT kind, value, userId FROM identities")
    assert len({(kind, value) for kind, value, _ in identities}) == len(identities)
    assert {user for *_, user in identities} <= set(users)
    assert send(service, "check_project").read().to_pylist() == []
