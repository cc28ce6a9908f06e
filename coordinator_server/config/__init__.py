"""Configuration: Kafka's property names, from a file, the environment and the command line."""

from coordinator_server.config.kinds import DeclaredTopic
from coordinator_server.config.listeners import Address, Listener, advertised_warnings
from coordinator_server.config.model import Config, from_texts, texts
from coordinator_server.config.sources import (
    DEV_SETTINGS,
    ConfigError,
    ConfigProblem,
    LoadedConfig,
    load,
    load_exactly,
)

__all__ = [
    "DEV_SETTINGS",
    "Address",
    "Config",
    "ConfigError",
    "ConfigProblem",
    "DeclaredTopic",
    "Listener",
    "LoadedConfig",
    "advertised_warnings",
    "from_texts",
    "load",
    "load_exactly",
    "texts",
]
