"""`healthcheck`, against servers that answer all kinds of things."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.commandline import closed_port, invoke

Serve = Callable[[bytes | None], int]


@pytest.fixture
def kafka() -> Iterator[Serve]:
    """Starts a server that gives one answer to one request, None for just closing."""
    threads: list[threading.Thread] = []

    def serve(answer: bytes | None) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def answer_one() -> None:
            with listener, listener.accept()[0] as connection:
                connection.recv(1 << 16)
                if answer is not None:
                    connection.sendall(answer)

        threads.append(threading.Thread(target=answer_one))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield serve
    for thread in threads:
        thread.join()


def answer(error: int = 0, correlation_id: int = 1) -> bytes:
    body = struct.pack(">ihih", correlation_id, error, 1, 4) + b"host" + struct.pack(">i", 9092)
    return struct.pack(">i", len(body)) + body


def test_a_server_that_names_a_coordinator_is_healthy(kafka: Serve) -> None:
    port = kafka(answer())
    assert invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}") == (
        0,
        "coordinator at host:9092\n",
        "",
    )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer(error=15), "error 15"),
        (answer(correlation_id=2), "answers no FindCoordinator response"),
        (answer()[:9], "closed"),
        (struct.pack(">i", 3) + b"abc", "answers no FindCoordinator response"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that is no Kafka listener"),
        (None, "closed"),
    ],
)
def test_any_other_answer_is_unhealthy(kafka: Serve, reply: bytes | None, message: str) -> None:
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{kafka(reply)}")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_server_that_never_answers_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, _, err = invoke(
            "healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--timeout", "0.05"
        )
    assert (code, err) == (1, f"error: 127.0.0.1:{port} does not answer within 0.05 s\n")


def test_nobody_listening_is_unhealthy() -> None:
    port = closed_port()
    code, _, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}")
    assert (code, err) == (1, f"error: 127.0.0.1:{port}: Connection refused\n")


def test_an_address_that_is_none_is_a_wrong_argument() -> None:
    code, _, err = invoke("healthcheck", "--bootstrap", "here")
    assert (code, err) == (2, "error: --bootstrap: 'here' is not an address, expected host:port\n")


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none_is_a_wrong_argument(timeout: str) -> None:
    code, _, err = invoke("healthcheck", "--timeout", timeout)
    expected = f"error: --timeout {timeout}: expected more than 0, at most 3600\n"
    assert (code, err) == (2, expected)
