"""Deployment engine: installs what is in ``apps/``. See ``deploy.engine``."""
