"""Attribution in plain Python, written from the formulas alone: what the engine is checked against."""

from collections import defaultdict
from datetime import datetime, timedelta
from fractions import Fraction

Touch = tuple[str, str, datetime]  # user, node, date
Conversion = tuple[str, str, datetime, float]  # event, user, date, value

DIRECT = "direct"


def path_of(conversion: Conversion, touches: list[Touch], lookback: timedelta) -> list[Touch]:
    _, user, date, _ = conversion
    inside = [touch for touch in touches if touch[0] == user and date - lookback < touch[2] <= date]
    return sorted(inside, key=lambda touch: (touch[2], touch[1]))


def weights(rule: str, path: list[Touch], date: datetime) -> list[Fraction | float]:
    n = len(path)
    one = [Fraction(0)] * n
    if rule == "first_touch":
        return [Fraction(1), *one[1:]]
    if rule == "last_touch":
        return [*one[1:], Fraction(1)]
    if rule == "linear":
        return [Fraction(1, n)] * n
    if rule == "linear_ramp":
        return [Fraction(i + 1, n * (n + 1) // 2) for i in range(n)]
    if rule == "last_non_direct":
        kept = [i for i, touch in enumerate(path) if touch[1] != DIRECT] or [n - 1]
        return [Fraction(int(i == kept[-1])) for i in range(n)]
    if rule == "time_decay":
        ages = [(date - touch[2]) / timedelta(days=1) for touch in path]
        raw = [2.0 ** (-age / 7) for age in ages]
        return [item / sum(raw) for item in raw]
    ends = {"position_based": (4, 4), "j_shaped": (2, 6), "inverse_j": (6, 2)}[rule]
    first, last = Fraction(ends[0], 10), Fraction(ends[1], 10)
    if n == 1:
        return [Fraction(1)]
    if n == 2:
        return [first / (first + last), last / (first + last)]
    return [first, *[(1 - first - last) / (n - 2)] * (n - 2), last]


def credits(
    rule: str, touches: list[Touch], conversions: list[Conversion], lookback: timedelta
) -> dict[str | None, tuple[float, float]]:
    """Credited conversions and value by node; None is unattributed."""
    counts: dict[str | None, float] = defaultdict(float)
    values: dict[str | None, float] = defaultdict(float)
    for conversion in conversions:
        path = path_of(conversion, touches, lookback)
        if not path:
            shares = {None: 1.0}
        elif rule == "participation":
            shares = {node: 1.0 for _, node, _ in path}
        else:
            shares = defaultdict(float)
            for (_, node, _), share in zip(path, weights(rule, path, conversion[2]), strict=True):
                shares[node] += float(share)
        for node, share in shares.items():
            counts[node] += share
            values[node] += share * conversion[3]
    return {node: (counts[node], values[node]) for node in counts}
