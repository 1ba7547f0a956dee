"""A project small enough to count by hand what its users' SQL answers.

======  =====================================  ===========================================
user    interactions                           events
======  =====================================  ===========================================
anna    1 Jan Oslo, 5 Jan Bergen               order 10 Jan 90 EUR, order 2 Feb 60 EUR
ben     2 Jan Oslo                             order 11 Jan 40 EUR
carl    1 Nov 2024, offline                    lead 6 Jan
dora    3 Jan Oslo, a bot                      none
======  =====================================  ===========================================
"""

from support.service_records import hex_id, order, send, table, uuid, visit

ANNA, BEN, CARL, DORA = (hex_id(number) for number in (0xA, 0xB, 0xC, 0xD))
NAMES = {ANNA: "anna", BEN: "ben", CARL: "carl", DORA: "dora"}


def fill(service) -> None:
    visits = table(
        visit(1, userId=ANNA, startDate="2025-01-01T10:00:00Z", geo__city="Oslo",
              userData='{"email":"anna@example.org"}', hitCount=3),
        visit(2, userId=ANNA, startDate="2025-01-05T10:00:00Z", geo__city="Bergen", hitCount=1),
        visit(3, userId=BEN, startDate="2025-01-02T10:00:00Z", geo__city="Oslo",
              userData='{"email":"ben@shop.example"}', hitCount=2),
        visit(4, userId=CARL, startDate="2024-11-01T10:00:00Z", type="offline"),
        visit(5, userId=DORA, startDate="2025-01-03T10:00:00Z", geo__city="Oslo", isBot=True),
    )  # fmt: skip
    amount = {"statistics.turnover.currency": "EUR"}
    events = table(
        order(
            1, userId=ANNA, eventDate="2025-01-10T10:00:00Z", **amount | {"statistics.turnover.amount": 90.0}
        ),
        order(
            2, userId=BEN, eventDate="2025-01-11T10:00:00Z", **amount | {"statistics.turnover.amount": 40.0}
        ),
        order(3, userId=CARL, eventDate="2025-01-06T10:00:00Z", eventType="lead"),
        order(
            4, userId=ANNA, eventDate="2025-02-02T10:00:00Z", **amount | {"statistics.turnover.amount": 60.0}
        ),
    )
    for resource, source in (("interactions", visits), ("events", events)):
        rejected = send(service, "load_records", resource=resource, source=source).read()
        assert rejected.num_rows == 0, rejected.to_pylist()


def event_id(number: int) -> str:
    return uuid(number)
