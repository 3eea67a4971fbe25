"""What is scraped: one module per exporter, each with the metric names and labels of the real one."""
