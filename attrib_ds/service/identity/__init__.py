"""Identity resolution, merging and splitting of users, and tombstones of erased data."""
