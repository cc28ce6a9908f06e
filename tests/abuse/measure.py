"""Samples a server process: memory, waiting for a processor, and whether its HTTP answers."""

import http.client
import os
import threading
import time
from pathlib import Path
from typing import Final, Self

SAMPLE_SECONDS: Final = 0.02
HEALTH_SECONDS: Final = 0.25
HEALTH_PATIENCE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 0.5
IDLE_SHARE: Final = 0.25
"""Of a processor; the observers alone take less."""


def resident_bytes(pid: int) -> int:
    """Return the memory a process occupies, 0 if it is gone."""
    return _status(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """Return the most memory a process has occupied, 0 if it is gone."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    found = [line for line in lines if line.startswith(name + ":")]
    return int(found[0].split()[1]) * 1024 if found else 0


def processor_wait_ms(pid: int) -> float:
    """Return how long a process's first thread was runnable without a processor, in all."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    except OSError:
        return 0.0
    return int(fields[1]) / 1e6


def processor_ms(pid: int) -> float:
    """Return the processor time of all threads of a process, 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def await_idle(pid: int, within: float) -> None:
    """Wait until a process does little, or the time is over."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        before = processor_ms(pid)
        time.sleep(IDLE_SECONDS)
        if processor_ms(pid) - before < IDLE_SHARE * IDLE_SECONDS * 1000:
            return


class Watch:
    """Samples memory and health in threads; kills a server that exceeds a ceiling."""

    def __init__(self, pid: int, http_port: int, ceiling_bytes: int, kill: threading.Event) -> None:
        self.peak = 0
        self.health_ms: list[float] = []
        self.unhealthy = 0
        """Polls that were not answered 200 in time."""
        self._pid = pid
        self._http_port = http_port
        self._ceiling = ceiling_bytes
        self._kill = kill
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._sample, self._poll)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, peak_bytes(self._pid))
            if self.peak > self._ceiling:
                self._kill.set()
                return

    def _poll(self) -> None:
        while not self._ended.wait(HEALTH_SECONDS) and not self._kill.is_set():
            began = time.monotonic()
            if not self._healthy():
                self.unhealthy += 1
            self.health_ms.append((time.monotonic() - began) * 1e3)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._http_port, timeout=HEALTH_PATIENCE_SECONDS
        )
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
