"""Generator of the shipped sample data: ``cd tools && python -m sample_data.generate``."""
