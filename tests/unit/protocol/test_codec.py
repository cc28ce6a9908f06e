"""Codecs by API key and version, and what importing them costs."""

import subprocess
import sys

import pytest

from coordinator_protocol.codec import (
    UnknownApi,
    load_api,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from coordinator_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def test_client_and_server_understand_each_other() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    body = request_encoder(12, 4)(request)
    assert request_decoder(12, 4)(body, 0, len(body)) == request
    response = HeartbeatResponse(throttle_time_ms=5, error_code=27)
    body = response_encoder(12, 4)(response)
    assert body == bytes.fromhex("00000005 001b 00")
    assert response_decoder(12, 4)(body, 0, len(body)) == response


def test_a_codec_is_compiled_once() -> None:
    assert request_decoder(12, 3) is request_decoder(12, 3)
    assert response_encoder(12, 3) is not response_encoder(12, 4)


@pytest.mark.parametrize("key", [4, 93, -1, 71])
def test_an_api_without_messages_is_unknown(key: int) -> None:
    with pytest.raises(UnknownApi, match=f"no messages for API key {key}"):
        load_api(key)


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_does_not_exist_is_unknown(version: int) -> None:
    for codec in (request_decoder, request_encoder, response_decoder, response_encoder):
        with pytest.raises(UnknownApi, match=f"HEARTBEAT v{version}: .* versions 0 to 4"):
            codec(12, version)


def test_a_start_imports_neither_kio_nor_messages_it_does_not_use() -> None:
    script = (
        "import sys; from coordinator_protocol.codec import request_decoder;"
        "request_decoder(12, 4);"
        "print(*sorted(name for name in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules = result.stdout.split()
    messages = [name for name in modules if name.startswith("coordinator_protocol.messages.")]
    assert messages == ["coordinator_protocol.messages.heartbeat"]
    assert not {"kio", "hypothesis", "asyncio", "coordinator_server"} & set(modules)
