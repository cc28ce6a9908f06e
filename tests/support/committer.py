"""Commits as fast as it can and remembers what was acknowledged."""

import threading
from collections.abc import Iterator

from tests.support.wire import RawConnection, committed


class Committer:
    """Commits rising offsets for a group without members, one request at a time."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, partitions: int, heard: threading.Semaphore
    ) -> None:
        """Nothing is sent before `run`; `heard` is released for every acknowledgement."""
        self.acknowledged = dict.fromkeys(range(partitions), -1)
        self.sent = dict.fromkeys(range(partitions), -1)
        self.refused: list[str] = []
        self._bootstrap = bootstrap
        self._group = group
        self._topic = topic
        self._heard = heard
        self._next = 0

    def run(self) -> None:
        """Commit until the connection breaks, or a commit is refused."""
        try:
            with RawConnection(self._bootstrap) as connection:
                while not self.refused:
                    self._commit(connection)
        except OSError:
            return

    def _commit(self, connection: RawConnection) -> None:
        offset = self._next
        self._next += 1
        partition = offset % len(self.sent)
        self.sent[partition] = offset
        place = {"partition_index": partition, "committed_offset": offset}
        reply = connection.call(
            "OffsetCommit",
            7,
            group_id=self._group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": self._topic, "partitions": [{**place, "committed_metadata": ""}]}],
        )
        (answer,) = reply["topics"][0]["partitions"]
        if answer["error_code"] == "NONE":
            self.acknowledged[partition] = offset
            self._heard.release()
        elif "COORDINATOR" not in answer["error_code"]:
            self.refused.append(f"{self._group}: commit of {place}: {answer['error_code']}")

    def problems(self) -> Iterator[str]:
        """What the server lost or invented, in words."""
        yield from self.refused
        # It may go on meanwhile: what is acknowledged from now on need not be there.
        acknowledged = dict(self.acknowledged)
        there = committed(self._bootstrap, self._group, self._topic, len(self.sent))
        for partition, offset in acknowledged.items():
            if not offset <= there.get(partition, -1) <= self.sent[partition]:
                yield (
                    f"{self._group} partition {partition}: {offset} was acknowledged, "
                    f"{self.sent[partition]} sent, {there.get(partition)} is there"
                )
