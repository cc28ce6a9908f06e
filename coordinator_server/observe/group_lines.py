"""Writes observations of groups to the server's log."""

import logging
from typing import Final

from coordinator_server.group.rebalance_events import (
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    RebalanceEvent,
    RebalanceStarted,
    Refused,
)
from coordinator_server.observe.forms import (
    offsets_removed_form,
    rebalance_form,
    refused_form,
    removal_form,
    started_form,
)
from coordinator_server.observe.log import get_logger, json_lines
from coordinator_server.observe.rebalance_lines import rebalance_line

MAX_LISTED: Final = 20
"""Most members in one line; the JSON API lists all."""


class GroupLines:
    """Writes a line for each observation.

    The constructor reads the settings, so that lines do not.
    """

    def __init__(self, level: str | None = None) -> None:
        """`level`: see `log.get_logger`."""
        self.set_level(level)
        self._json_lines = json_lines()

    def set_level(self, level: str | None) -> None:
        """Write lines from this level on."""
        self._logger = get_logger(level).bind()
        self._logs_debug = self._logger.is_enabled_for(logging.DEBUG)
        self._logs_info = self._logger.is_enabled_for(logging.INFO)

    def observe(self, observation: Observation) -> None:
        """Write the line of an observation; an observer of the fan-out."""
        match observation:
            case RebalanceEvent():
                self._rebalance(observation)
            case MemberRemoved():
                self._logger.info("member_removed", **removal_form(observation))
            case OffsetsRemoved():
                self._logger.info("offsets_removed", **offsets_removed_form(observation))
            case RebalanceStarted() if self._logs_debug:
                self._logger.debug("rebalance_started", **started_form(observation))
            case Refused() if self._logs_debug:
                self._logger.debug("refused", **refused_form(observation))

    def _rebalance(self, event: RebalanceEvent) -> None:
        if not self._logs_info:
            return
        if self._json_lines is None:
            self._logger.info("rebalance", **rebalance_form(event, MAX_LISTED))
            return
        writer, node_id = self._json_lines
        writer.write(rebalance_line(event, MAX_LISTED, node_id))
