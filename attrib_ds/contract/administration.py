"""Requests about a whole project: consistency checks and backups."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from attrib_ds.contract.request import ProjectRequest


class CheckProject(ProjectRequest):
    """Check the project for inconsistencies."""


class BackUpProject(ProjectRequest):
    """Back up the project at one point in time."""


class RestoreProject(ProjectRequest):
    """Replace the project with a backup; over HTTP the body is the file."""

    source: Annotated[Path, Field(repr=False)]
