"""Starts and stops the server process."""
