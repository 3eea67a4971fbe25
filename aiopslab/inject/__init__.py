"""Fault engine: runs what is in ``faults/``. See ``inject.protocol`` and ``inject.engine``."""
