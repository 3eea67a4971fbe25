"""Clients for metrics and traces, and the evaluation of objectives. Import from the modules."""
