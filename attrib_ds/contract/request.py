"""Base classes of request models."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from attrib_ds.contract.identifiers import ProjectId


class Untitled(GenerateJsonSchema):
    """Generate JSON Schema without titles made from attribute names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  (pydantic's signature)
        """Return False: no titles."""
        return False


class Part(BaseModel):
    """Base of requests and of the objects inside them: frozen, unknown properties ignored (G-043)."""

    # Secret attributes have `repr=False`; error messages never show their values.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Request(Part):
    """The request of an operation; attributes have the names of the specification.

    Attributes
    ----------
    null_counts : frozenset of str
        Attributes with None as a value; for all others None means "not given".
    """

    null_counts: ClassVar[frozenset[str]] = frozenset()


class ProjectRequest(Request):
    """A request about one project."""

    projectId: ProjectId  # noqa: N815  (the specification's name)


def disagreement(*violations: tuple[str, str]) -> PydanticCustomError:
    """Return the error for attributes that contradict each other.

    Parameters
    ----------
    *violations : tuple of str
        An attribute and its problem; ``{name}`` in the problem is replaced with the name that the reader
        uses for the attribute ``name``.

    Returns
    -------
    PydanticCustomError
        For a validator of the model to raise.
    """
    return PydanticCustomError("disagreement", "contradictory properties", {"violations": violations})
