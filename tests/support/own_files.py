"""Reads users' files with options of both kinds."""

from dataclasses import fields

from attrib_ds import Reading, read_journeys


def read_files(*files, **options):
    """Read files as ``read_journeys`` does; options may be arguments of it or of a reading."""
    of_reading = {each.name: options.pop(each.name) for each in fields(Reading) if each.name in options}
    return read_journeys(*files, reading=Reading(**of_reading), **options)
