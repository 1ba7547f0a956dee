"""Each operation of the service, declared once as data; what a machine reads is derived from it."""

from attrib_ds.contract.answer import Answer, Answering, File, Stream
from attrib_ds.contract.build import build, from_wire
from attrib_ds.contract.catalogue import OPERATIONS
from attrib_ds.contract.operation import BASES, Operation
from attrib_ds.contract.request import Request
from attrib_ds.contract.wire import Wire, to_wire

__all__ = [
    "BASES",
    "OPERATIONS",
    "Answer",
    "Answering",
    "File",
    "Operation",
    "Request",
    "Stream",
    "Wire",
    "build",
    "from_wire",
    "to_wire",
]
