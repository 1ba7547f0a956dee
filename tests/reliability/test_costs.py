"""No input of 16 KiB costs more than 50 ms beyond plain text, and none holds a transaction for 100 ms.

Other tests run beside these, which makes all input dearer: four times as much is allowed here. The program itself
allows what it says.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from reliability.costs import TARGETS, problems, run, search


@pytest.mark.large
@pytest.mark.slow
def test_a_function_whose_cost_grows_with_the_shape_is_found():
    def work(content):
        for start in range(len(content)):
            content[start:].count(b".")

    drawn = st.integers(0, 12).map(lambda size: b"." * 2**size * 4)
    costs = search("quadratic", drawn, work, plain=0.0, examples=15)
    (problem, *_) = problems(costs)
    assert problem.startswith("quadratic: ")
    assert list(problems(search("constant", drawn, len, plain=0.0, examples=10))) == []


def test_a_fault_is_told():
    def fail(content):
        raise ValueError(content)

    (problem,) = problems(search("wrong", st.just(b"a"), fail, plain=0.0, examples=2))
    assert problem.startswith("wrong: ValueError")


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_costs_too_much(name):
    found, _ = run([name], examples=10, times=4.0)
    assert found == []
