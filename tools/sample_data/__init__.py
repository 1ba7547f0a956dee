"""Generator of the sample data that ships with the package: ``cd tools && python -m sample_data.generate``."""
