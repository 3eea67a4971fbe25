"""PromQL: parsing and evaluation over a series store."""
