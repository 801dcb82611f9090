"""Machines are busy: no example has a time of its own."""

from hypothesis import settings

settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
