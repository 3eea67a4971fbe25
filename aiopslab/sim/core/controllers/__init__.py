"""Controllers: control loops over ``core.api.Api``, each in its own module."""
