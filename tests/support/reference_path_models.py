"""Models of whole paths in plain Python, written from their definitions: what the engine is checked against.

A journey is the nodes of a path, how many conversions had it, their value, and how many users without one had it.
"""

import itertools
from collections import defaultdict
from fractions import Fraction
from math import factorial

import numpy as np

Path = tuple[str, ...]
Journey = tuple[Path, float, float, float]  # nodes, conversions, value, nulls

START = ("(start)",)


def states_of(path: Path, order: int) -> list[Path]:
    return [START, *(path[max(0, end - order) : end] for end in range(1, len(path) + 1))]


def expected(
    journeys: list[Journey], order: int, *, removed: str | None = None, of: str = "conversions"
) -> float:
    """Expected outcome of one walk from the start, by a dense solve; walks into a removed node are lost."""
    moves: dict[tuple[Path, Path], float] = defaultdict(float)
    ends: dict[Path, float] = defaultdict(float)
    visits: dict[Path, float] = defaultdict(float)
    for path, conversions, value, nulls in journeys:
        walked = states_of(path, order)
        for state in walked:
            visits[state] += conversions + nulls
        for pair in itertools.pairwise(walked):
            moves[pair] += conversions + nulls
        ends[walked[-1]] += conversions if of == "conversions" else value
    kept = [state for state in visits if visits[state] > 0 and (state == START or removed not in state)]
    place = {state: index for index, state in enumerate(kept)}
    system = np.eye(len(kept))
    for (source, target), count in moves.items():
        if source in place and target in place:
            system[place[source], place[target]] -= count / visits[source]
    outcome = np.array([ends[state] / visits[state] for state in kept])
    return float(np.linalg.solve(system, outcome)[place[START]]) if START in place else 0.0


def removal_effects(journeys: list[Journey], order: int, *, of: str = "conversions") -> dict[str, float]:
    whole = expected(journeys, order, of=of)
    nodes = sorted({node for path, conversions, _, nulls in journeys if conversions + nulls for node in path})
    return {node: 1 - expected(journeys, order, removed=node, of=of) / whole for node in nodes}


def normalised(effects: dict[str, float], total: float) -> dict[str, float]:
    return {node: effect / sum(effects.values()) * total for node, effect in effects.items()}


def shapley(worth, players: list[str]) -> dict[str, float]:
    """Shapley values by the definition: every player joins every set of the others."""
    n, values = len(players), {}
    for player in players:
        others = [item for item in players if item != player]
        values[player] = sum(
            Fraction(factorial(size) * factorial(n - size - 1), factorial(n))
            * (Fraction(worth(frozenset({*joined, player}))) - Fraction(worth(frozenset(joined))))
            for size in range(n)
            for joined in itertools.combinations(others, size)
        )
    return values


def observed_sets(journeys: list[Journey]) -> dict[str, float]:
    """Shapley values when a set is worth the conversions of the paths that use nothing else."""
    players = sorted({node for path, *_ in journeys for node in path})

    def worth(joined: frozenset[str]) -> int:
        return sum(conversions for path, conversions, *_ in journeys if set(path) <= joined)

    return {node: float(value) for node, value in shapley(worth, players).items()}


def conversion_rates(journeys: list[Journey], *, shrinkage: int = 0) -> dict[str, float]:
    """Divide the conversions of each set by Shapley values of its conversion rates."""
    converted, users = defaultdict(int), defaultdict(int)
    for path, conversions, _, nulls in journeys:
        converted[frozenset(path)] += conversions
        users[frozenset(path)] += conversions + nulls
    everyone = sum(users.values())
    overall = Fraction(sum(converted.values()), everyone) if everyone and shrinkage else Fraction(0)

    def worth(joined: frozenset[str]) -> Fraction:
        if not joined:
            return Fraction(0)
        if users[joined] + shrinkage == 0:
            return overall
        return (converted[joined] + shrinkage * overall) / Fraction(users[joined] + shrinkage)

    credited: dict[str, float] = defaultdict(float)
    for joined in [item for item in converted if converted[item] > 0]:
        for node, value in shapley(worth, sorted(joined)).items():
            credited[node] += float(converted[joined] * value / worth(joined))
    return dict(credited)


def fractribution(journeys: list[Journey], *, shrinkage: int = 0) -> dict[str, float]:
    """Divide the conversions of each path by what its rate loses without each touchpoint."""
    converted, users = defaultdict(int), defaultdict(int)
    for path, conversions, _, nulls in journeys:
        converted[path] += conversions
        users[path] += conversions + nulls
    everyone = sum(users.values())
    overall = Fraction(sum(converted.values()), everyone) if everyone and shrinkage else Fraction(0)

    def rate(path: Path) -> Fraction:
        total = users.get(path, 0) + shrinkage
        return (converted.get(path, 0) + shrinkage * overall) / Fraction(total) if total else Fraction(0)

    credited: dict[str, float] = defaultdict(float)
    for path in [item for item in converted if converted[item] > 0]:
        losses = [max(Fraction(0), rate(path) - rate(path[:i] + path[i + 1 :])) for i in range(len(path))]
        if len(path) == 1 or not sum(losses):
            losses = [Fraction(int(i == len(path) - 1)) for i in range(len(path))]
        for node, loss in zip(path, losses, strict=True):
            credited[node] += float(converted[path] * loss / sum(losses))
    return dict(credited)
