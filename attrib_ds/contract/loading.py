"""The request to load records in bulk, which only the embedded service accepts."""

from typing import Annotated, Any, TypeAlias

from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice
from attrib_ds.contract.values import Flag

Loaded: TypeAlias = Annotated[str, choice("interactions", "hits", "events", "nodes", "spend")]


class LoadRecords(ProjectRequest):
    """Load records from a frame, an Arrow table or a file.

    ``replace`` overwrites stored records by id; ``geo`` and ``asn`` are MMDB files for addresses of raw hits.
    """

    resource: Loaded
    source: Any
    replace: Flag = False
    geo: Any = None
    asn: Any = None
