"""Commands about logs: inspect, verify, repair, copy."""
