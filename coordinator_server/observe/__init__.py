"""What people and monitors see: log lines, metrics, timelines, health and the JSON API."""
