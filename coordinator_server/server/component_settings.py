"""Derives the settings of single components from the configuration."""

from pathlib import Path

from coordinator_server.config import Config
from coordinator_server.config.token_file import token_in
from coordinator_server.group.context import Limits
from coordinator_server.net.memory import MemoryBudget
from coordinator_server.observe.findings import FlappingLimits
from coordinator_server.observe.group_series import GroupChoice
from coordinator_server.server.machine_memory import available_memory, default_client_memory
from coordinator_server.storage.segments.cleaner import CleanerSettings


def admin_token(config: Config) -> str | None:
    """The token from the settings or the token file, None if there is none.

    Raises ValueError, naming the setting, if the file is unreadable, too large or has no token.
    """
    if not config.admin_token_file:
        return config.admin_token or None
    try:
        return token_in(Path(config.admin_token_file))
    except ValueError as error:
        raise ValueError(f"admin.token.file={config.admin_token_file}: {error}") from error


def client_memory(config: Config) -> MemoryBudget:
    """The memory budget for client data."""
    limit = config.queued_max_request_bytes
    if limit < 0:
        return MemoryBudget()
    return MemoryBudget(limit or default_client_memory(available_memory(), config.workers))


def limits(config: Config, max_append_bytes: int) -> Limits:
    """The settings that bound a group."""
    return Limits(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        member_metadata_max_bytes=config.group_max_member_metadata_bytes,
        max_groups=config.group_max_groups,
        offset_metadata_max_chars=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        max_append_bytes=max_append_bytes,
        history_retention_ms=config.rebalance_history_retention_ms,
        history_max_rebalances=config.rebalance_history_max_records,
    )


def flapping_limits(config: Config) -> FlappingLimits:
    """The thresholds of flapping and storms."""
    return FlappingLimits(
        window_ms=config.rebalance_flapping_window_ms,
        max_by_one=config.rebalance_flapping_max_rebalances,
        max_of_group=config.rebalance_storm_max_rebalances,
    )


def group_choice(config: Config) -> GroupChoice:
    """The selection of groups with their own series."""
    return GroupChoice(
        allow=config.metrics_groups_allow,
        deny=config.metrics_groups_deny,
        max_series=config.metrics_groups_max_series,
        exporter_names="kafka_exporter" in config.metrics_aliases,
    )


def cleaner_settings(config: Config) -> CleanerSettings:
    """The settings of the log's compaction."""
    return CleanerSettings(
        min_cleanable_ratio=config.log_cleaner_min_cleanable_ratio,
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        backoff_ms=config.log_cleaner_backoff_ms,
        max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )
