"""Whether the pages of a part are complete: what is missing is counted again before it is an error."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from attrib_ds.errors import ServiceFailure
from attrib_ds.transports.http.paging.completeness import counted, verified

SEARCH = SimpleNamespace(operation=SimpleNamespace(name="search"), page_size=10, total=5)


class Part:
    """Five records are promised, four come."""

    total, rows = 5, 4

    def __init__(self, now):
        self.now = now

    def pages(self):
        yield pa.table({"_id": list("abcd")})

    def recount(self):
        return self.now


def test_a_record_deleted_meanwhile_is_not_missing():
    (page,) = verified(lambda: Part(now=4), SEARCH)
    assert page.num_rows == 4
    (page,) = counted(Part(now=4).pages(), SEARCH, lambda: 4)
    assert page.num_rows == 4


def test_a_record_that_is_still_there_is_missing():
    made = []

    def make():
        made.append(Part(now=5))
        return made[-1]

    with pytest.raises(ServiceFailure, match="1 of 5 records are missing"):
        list(verified(make, SEARCH))
    assert len(made) == 3
    with pytest.raises(ServiceFailure, match="1 of 5 records are missing"):
        list(counted(Part(now=5).pages(), SEARCH, lambda: 5))
