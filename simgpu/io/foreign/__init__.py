"""Configurations of other programs, read into scenario fields."""
