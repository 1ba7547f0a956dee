"""Of a test with many cases, a few run for every change, and all of them before a release."""

from collections import defaultdict

import pytest


def keep_few_cases(items, *, at_most=None):
    """Mark what ``few(n)`` leaves of the cases of a test as slow and large: all but n, which are evenly spread.

    With ``at_most`` each test keeps no more cases than that.
    """
    cases = defaultdict(list)
    for item in items:
        if at_most or item.get_closest_marker("few"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_one_test in cases.values():
        marker = of_one_test[0].get_closest_marker("few")
        wanted = min(marker.args[0] if marker else len(of_one_test), at_most or len(of_one_test))
        kept = {place * len(of_one_test) // wanted for place in range(wanted)}
        for place, item in enumerate(of_one_test):
            if place not in kept:
                item.add_marker(pytest.mark.slow)
                item.add_marker(pytest.mark.large)
