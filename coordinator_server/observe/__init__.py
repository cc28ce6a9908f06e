"""Log lines, metrics, timelines, findings, health checks, the JSON API and the page."""
