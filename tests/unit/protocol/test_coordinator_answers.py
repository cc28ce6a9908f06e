"""The answer with one coordinator is what the encoder of the message writes."""

import pytest

from coordinator_protocol.codec import response_encoder
from coordinator_protocol.coordinator_answers import coordinator_found
from coordinator_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("key", ["", "g", "\u00e9", "x" * 126, "x" * 127, "x" * 5_000])
@pytest.mark.parametrize(
    "node", [(1, "127.0.0.1", 9092), (2**31 - 1, "", 0), (2, "h" * 300, 65_535)]
)
def test_a_coordinator_is_told_as_the_encoder_tells_it(
    version: int, key: str, node: tuple[int, str, int]
) -> None:
    told = FindCoordinatorResponse(coordinators=[Coordinator(key, *node, 0, "")])
    assert coordinator_found(version, key, *node) == response_encoder(10, version)(told)
