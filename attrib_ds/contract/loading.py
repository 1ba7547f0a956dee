"""The request to load records in bulk, which only the embedded service knows."""

from typing import Annotated, Any, TypeAlias

from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice
from attrib_ds.contract.values import Flag

Loaded: TypeAlias = Annotated[str, choice("interactions", "hits", "events", "nodes", "spend")]


class LoadRecords(ProjectRequest):
    """Records to load, from whatever the loader can read; those of stored ids replace them if asked."""

    resource: Loaded
    source: Any
    replace: Flag = False
