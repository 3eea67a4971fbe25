"""Load engine: runs what is in ``workloads/``. See ``load.engine``."""
