"""Integers are of 64 bits everywhere, also where NumPy's default has 32: NumPy below 2 on Windows."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import attrib_ds as at
from attrib_ds.plots.overview import Overview

PACKAGE = Path(at.__file__).parent
#: Functions whose result has the default width if their arguments are Python's integers or truth values.
MAKERS = {"arange": 0, "full": 1, "array": 0, "asarray": 0, "cumsum": 0}


def is_of(node, kind):
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(node, ast.List | ast.Tuple):
        return bool(node.elts) and all(is_of(each, kind) for each in node.elts)
    if kind is int and isinstance(node, ast.Call) and ast.unparse(node.func) in {"int", "len", "round"}:
        return True
    return isinstance(node, ast.Constant) and type(node.value) is kind


def unsized(tree):
    """Yield the lines of calls that make an array of integers without a width."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        function = node.func.attr
        if function not in {*MAKERS, "astype", "zeros", "ones", "empty"}:
            continue
        named = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        first = ast.unparse(node.args[0]) if node.args else ""
        is_numpy = ast.unparse(node.func).startswith("np.")
        if (function == "astype" and first in {"int", "'int'"}) or named.get("dtype") in {"int", "'int'"}:
            yield node.lineno
        elif is_numpy and function in MAKERS and "dtype" not in named:
            place = MAKERS[function]
            values = node.args[place:] if function == "arange" else node.args[place : place + 1]
            is_sized = len(node.args) > place + (3 if function == "arange" else 1)
            if function == "arange":
                is_doubtful = not any(is_of(value, float) for value in values)
            else:
                is_doubtful = any(is_of(value, int) or is_of(value, bool) for value in values)
            if function == "cumsum":
                is_doubtful = first.startswith(("is_", "has_"))
            if is_doubtful and not is_sized:
                yield node.lineno


def test_arrays_of_integers_say_their_width():
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in PACKAGE.rglob("*.py")
        for line in unsized(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "is_unsized"),
    [
        ("np.arange(n)", True),
        ("np.arange(n, dtype=np.int64)", False),
        ("np.arange(-5.0, 1.0)", False),
        ("np.full(n, -1)", True),
        ("np.full(n, -1, np.int64)", False),
        ("np.full(n, 0.5)", False),
        ("np.array([round(x)])", True),
        ("np.array([len(x)], np.int64)", False),
        ("np.cumsum(is_first)", True),
        ("x.astype(int)", True),
        ("np.zeros(n, dtype=int)", True),
        ("np.zeros(n, dtype=np.int64)", False),
    ],
)
def test_the_search_finds_them(code, is_unsized):
    assert bool([*unsized(ast.parse(code))]) == is_unsized


@pytest.fixture
def narrow(monkeypatch):
    """Let NumPy's functions return 32 bits where NumPy 1 on Windows does."""

    def narrowed(original):
        def function(*arguments, **options):
            result = original(*arguments, **options)
            is_given = "dtype" in options or any(
                isinstance(value, type | np.dtype) or getattr(value, "dtype", None) in (np.int64, np.uint64)
                for value in arguments
            )
            return result if is_given or result.dtype != np.int64 else result.astype(np.int32)

        return function

    for name in MAKERS:
        monkeypatch.setattr(np, name, narrowed(getattr(np, name)))
    assert np.arange(3).dtype == np.full(2, 1).dtype == np.array([1]).dtype == np.int32


def test_files_are_attributed(narrow, tmp_path):
    touches, orders = tmp_path / "touches.csv", tmp_path / "orders.csv"
    touches.write_text("user_id,date,channel\nu,2025-01-01,search\nu,2025-01-02,email\n", encoding="utf-8")
    orders.write_text("order_id,user_id,date,value\n1,u,2025-01-05,100\n", encoding="utf-8")
    credits = at.attribute(at.read_journeys(touches, orders, currency="EUR").paths(), "linear")
    assert dict(zip(credits["node_id"], credits["value"], strict=True)) == {"email": 50.0, "search": 50.0}


def test_records_are_loaded(narrow):
    with at.connect("shop", path=":memory:") as shop:
        nodes = pd.DataFrame({"_id": ["search"], "name": ["Search"], "type": ["campaign"]})
        report = at.load(shop, nodes=nodes)
        assert report.rejected.empty
        assert "Search" in at.list_nodes(shop)["name"].tolist()


def test_many_clusters_are_planned(narrow):
    """Four thousand regions of a user each, of whom half converted: 2,000 × 1,999 × 2,000 exceeds 32 bits."""
    count = 4_000
    users = [f"u{number:04d}" for number in range(count)]
    begin = pd.Timestamp("2025-01-01", tz="UTC")
    frame = pd.DataFrame(
        {"user_id": users, "since": begin, "until": begin + pd.Timedelta("30D"), "region": users}
    )
    conversions = pd.DataFrame({"event_id": users[::2], "user_id": users[::2], "date": begin})
    points = pd.DataFrame({"user_id": ["u0000"], "node_id": "ads", "date": begin})
    paths = at.Paths.from_frames(points, conversions, users=frame)
    (row,) = at.experiments.plan_holdout(paths, share=0.5, cluster="region").to_dict("records")
    # Each cluster is a half above or below the mean; both arms have 2,000 clusters and 3,998 degrees of freedom.
    error = count * (count / 4 / (count - 1)) ** 0.5 * (2 / 2_000) ** 0.5
    assert (row["withheld"], row["error"]) == (2_000, pytest.approx(error))
    reach, power = student.ppf(0.975, 3_998), student.ppf(0.8, 3_998)
    assert row["precision"] == pytest.approx(reach * error, rel=1e-9)
    assert row["detectable"] == pytest.approx((reach + power) * error, rel=1e-9)
    (found,) = at.experiments.plan_holdout(paths, precision=1.001 * reach * error, cluster="region").to_dict(
        "records"
    )
    assert 1_900 < found["withheld"] < 2_000


@pytest.mark.few(2)
@pytest.mark.parametrize("whole", [np.int32, np.int64, np.uint8])
def test_numbers_of_numpy_are_numbers(whole):
    rows = pd.DataFrame({"path": ["a > b", "b"], "n": [3, 2]})
    paths = at.Paths.from_sequences(rows, path="path", conversions="n")
    assert at.models.Markov(order=whole(2)) == at.models.Markov(order=2)
    assert paths.summary(top=whole(1)).equals(paths.summary(top=1))
    credits = at.attribute(paths, "linear", confidence=np.float64(0.9))
    assert credits.equals(at.attribute(paths, "linear", confidence=0.9))
    at.attribute(paths, "linear", confidence=np.float32(0.9))
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["ads"], "date": ["2025-01-01T10:00:00Z"]})
    orders = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": ["2025-01-02"]})
    dated = at.Paths.from_frames(touchpoints, orders)
    assert Overview.of(at.attribute(dated, "linear"), dated, days=whole(1)).period.days == 1
