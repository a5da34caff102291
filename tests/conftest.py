"""Hypothesis without deadlines: no test may depend on how fast or busy the machine is."""

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
