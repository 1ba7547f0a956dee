"""The records of a search as they arrive, a frame per table."""

from contextlib import closing

from attrib_ds.records.frames import to_pandas


def frames_of(operation, project, **arguments):
    """Yield the frames of a stream; closing the generator ends its requests and threads."""
    with closing(project.stream(operation, **arguments)) as answer:
        for table in answer:
            yield to_pandas(table)
