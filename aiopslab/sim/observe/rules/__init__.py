"""Recording and alerting rules: read from files in Prometheus' own format, evaluated on the series store."""
