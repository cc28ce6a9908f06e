"""`healthcheck`, against servers that answer all kinds of things."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.commandline import closed_port, invoke

Serve = Callable[..., int]


@pytest.fixture
def kafka() -> Iterator[Serve]:
    """Starts a server of so many connections: on each it gives some answers, then closes it."""
    threads: list[threading.Thread] = []

    def serve(*conversations: list[bytes]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def converse() -> None:
            with listener:
                for answers in conversations:
                    with listener.accept()[0] as connection:
                        for answer in answers:
                            connection.recv(1 << 16)
                            connection.sendall(answer)

        threads.append(threading.Thread(target=converse))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield serve
    for thread in threads:
        thread.join()


def answer(error: int = 0, correlation_id: int = 1) -> bytes:
    body = struct.pack(">ihih", correlation_id, error, 1, 4) + b"host" + struct.pack(">i", 9092)
    return struct.pack(">i", len(body)) + body


def test_a_server_that_names_a_coordinator_is_healthy(kafka: Serve) -> None:
    port = kafka([answer()])
    assert invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}") == (
        0,
        "coordinator at host:9092\n",
        "",
    )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer(error=15), "error 15"),
        (answer(correlation_id=2), "something that is not a Kafka response"),
        (answer()[:9], "closed"),
        (struct.pack(">i", 3) + b"abc", "something that is not a Kafka response"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "so this is not a Kafka listener"),
        (b"", "closed"),
    ],
)
def test_any_other_answer_is_unhealthy(kafka: Serve, reply: bytes, message: str) -> None:
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{kafka([reply])}")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_server_that_never_answers_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, _, err = invoke(
            "healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--timeout", "0.05"
        )
    assert (code, err) == (1, f"error: 127.0.0.1:{port} did not answer within 0.05 s\n")


def test_nobody_listening_is_unhealthy() -> None:
    port = closed_port()
    code, _, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}")
    assert (code, err) == (1, f"error: 127.0.0.1:{port}: Connection refused\n")


def test_an_address_that_is_none_is_a_wrong_argument() -> None:
    code, _, err = invoke("healthcheck", "--bootstrap", "here")
    assert (code, err) == (2, "error: --bootstrap: 'here' is not an address, expected host:port\n")


def listed(error: int = 0) -> bytes:
    body = struct.pack(">ihi", 1, error, 0)
    return struct.pack(">i", len(body)) + body


def nodes(*ports: int) -> bytes:
    """Metadata, which goes on with what nobody reads."""
    places = b"".join(
        struct.pack(">ih", number, 9) + b"127.0.0.1" + struct.pack(">i", port)
        for number, port in enumerate(ports)
    )
    body = struct.pack(">ii", 1, len(ports)) + places + b"topics"
    return struct.pack(">i", len(body)) + body


def test_a_server_is_awaited_until_its_groups_are_loaded(kafka: Serve) -> None:
    loading = [answer()], [nodes(1)], [listed(14)]
    port = kafka([], [answer(15)], *loading, [answer()], [nodes(1)], [listed()])
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--wait", "30")
    assert (code, out, err) == (0, "coordinator at host:9092\n", "")


def test_all_nodes_of_a_server_are_awaited(kafka: Serve) -> None:
    first, second = kafka([listed()], [listed()]), kafka([listed(14)], [listed()])
    port = kafka(*([answer()], [nodes(first, second)]) * 2)
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--wait", "30")
    assert (code, out, err) == (0, "coordinator at host:9092\n", "")


def test_a_server_that_does_not_become_ready_is_told_with_what_it_lacked(kafka: Serve) -> None:
    port = kafka([answer()], [nodes(1)], [listed(14)])
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--wait", "0.05")
    assert (code, out) == (1, "")
    assert err == (
        f"error: the server was not ready within 0.05 s: 127.0.0.1:{port}: "
        "ListGroups was answered with error 14: the server is still loading groups\n"
    )


@pytest.mark.parametrize("option", ["--timeout", "--wait"])
@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none_is_a_wrong_argument(option: str, timeout: str) -> None:
    code, _, err = invoke("healthcheck", option, timeout)
    expected = f"error: {option} {timeout}: expected more than 0, at most 3600\n"
    assert (code, err) == (2, expected)
