"""The base of every request."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from attrib_ds.contract.identifiers import ProjectId


class Untitled(GenerateJsonSchema):
    """Leave out the titles that pydantic makes of attribute names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  (pydantic's signature)
        """Say no."""
        return False


class Part(BaseModel):
    """Base of requests and of the objects inside them: frozen, unknown properties ignored (G-043)."""

    # Attributes whose value is secret have `repr=False`; no message may show a value of theirs.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Request(Part):
    """What one operation is asked; attributes are named as in the specification.

    Attributes
    ----------
    null_counts : frozenset of str
        Attributes for which None is a value; for every other one None means "not given".
    """

    null_counts: ClassVar[frozenset[str]] = frozenset()


class ProjectRequest(Request):
    """A request about one project."""

    projectId: ProjectId  # noqa: N815  (the specification's name)


def disagreement(*violations: tuple[str, str]) -> PydanticCustomError:
    """Return the error of attributes that do not go together.

    Parameters
    ----------
    *violations : tuple of str
        The attribute, and what is wrong with it; ``{name}`` in the text becomes what the reader calls
        the attribute ``name``.

    Returns
    -------
    PydanticCustomError
        To be raised by a validator of the model.
    """
    return PydanticCustomError("disagreement", "the properties disagree", {"violations": violations})
