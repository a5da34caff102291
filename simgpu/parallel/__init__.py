"""Meshes, stages, schedules and data-parallel strategies: who does what in which order, without seconds."""
