"""A small round of ``random_order.py``."""

from pathlib import Path
from types import SimpleNamespace

from reliability.random_order import SEED, pytest_collection_modifyitems

PATHS = ["test_a.py", "test_b.py", "first.ipynb", "test_c.py"]


def shuffled(monkeypatch, seed):
    monkeypatch.setenv(SEED, seed)
    items = [SimpleNamespace(path=Path(path), number=number) for path in PATHS for number in range(8)]
    pytest_collection_modifyitems(items)
    return [(item.path.name, item.number) for item in items]


def test_files_and_tests_are_shuffled_and_cells_keep_their_order(monkeypatch):
    first = shuffled(monkeypatch, "1")
    assert first == shuffled(monkeypatch, "1")
    assert first != shuffled(monkeypatch, "2")
    files = list(dict.fromkeys(path for path, _ in first))
    assert [path for path, _ in first] == [path for path in files for _ in range(8)]
    assert files != PATHS
    assert [number for path, number in first if path == "first.ipynb"] == list(range(8))
    for path in files:
        assert sorted(number for name, number in first if name == path) == list(range(8))
    assert [number for path, number in first if path == "test_a.py"] != list(range(8))
