"""Requests about a project as a whole: its backups and its soundness."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from attrib_ds.contract.request import ProjectRequest


class CheckProject(ProjectRequest):
    """What in the project contradicts itself."""


class BackUpProject(ProjectRequest):
    """A copy of the project as it is at one moment."""


class RestoreProject(ProjectRequest):
    """A backup of the project to put in its place; over HTTP the body is the file itself."""

    source: Annotated[Path, Field(repr=False)]
