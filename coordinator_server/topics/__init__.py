"""Topics of the standalone mode: the catalog and a small data plane beneath Produce and Fetch."""
