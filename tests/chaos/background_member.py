"""Members of groups on different partitions, which report whether a fault affects them."""

import asyncio
from contextlib import suppress

from tests.chaos.requests import FAILING, Client, Problem, Stuck, codes
from tests.crash.ledger import Offsets

PARTITIONS = 3
TOPIC = "t"
PAUSE_SECONDS = 0.06
SESSION_MS = 30_000


class BackgroundMember:
    """The only member of a group: heartbeats and commits all the time, and keeps a ledger."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self.offsets = Offsets(PARTITIONS)
        self.well = 0
        """How often everything it asked in a row was answered well."""
        self.troubled = 0
        """How often something failed that may."""
        self.last_trouble = ""
        self.problems: list[str] = []
        """Observed violations: facts that must never occur."""
        self.acknowledged = 0
        self._client = Client(bootstrap, group)
        self._member_id = ""
        self._generation = -1
        self._next = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ask nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._client.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._ask()
                self.well += 1
            except Problem as problem:
                self.troubled += 1
                self.last_trouble = str(problem)
            except Stuck as problem:
                self.problems.append(str(problem))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self) -> None:
        if not self._member_id:
            await self._join()
        await self._commit()
        reply = await self._client.call(
            "Heartbeat",
            1,
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
        )
        self._checked("Heartbeat", {reply["error_code"]})

    def _checked(self, api: str, found: set[str]) -> None:
        """Raise Problem for what may fail; note what may not."""
        wrong = found - {"NONE"}
        if not wrong:
            return
        what = f"{self.group}: {api}: {', '.join(sorted(wrong))}"
        if wrong - FAILING:
            self.problems.append(f"evicted: {what}")
            self._member_id = ""
        raise Problem(what)

    async def _join(self) -> None:
        reply = await self._client.call(
            "JoinGroup",
            5,
            group_id=self.group,
            # One that was stopped amid a join takes the place of the member it does not know.
            group_instance_id=self.group,
            session_timeout=SESSION_MS,
            rebalance_timeout=SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        )
        if reply["error_code"] != "NONE":
            raise Problem(f"{self.group}: JoinGroup: {reply['error_code']}")
        member_id, generation = reply["member_id"], reply["generation_id"]
        reply = await self._client.call(
            "SyncGroup",
            1,
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            assignments=[{"member_id": member_id, "assignment": b"all"}],
        )
        if reply["error_code"] != "NONE":
            raise Problem(f"{self.group}: SyncGroup: {reply['error_code']}")
        self._member_id, self._generation = member_id, generation

    async def _commit(self) -> None:
        self._next += 1
        change = {self._next % PARTITIONS: (self._next, "")}
        self.offsets.attempt(change)
        places = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": text}
            for index, (offset, text) in change.items()
        ]
        reply = await self._client.call(
            "OffsetCommit",
            7,
            group_id=self.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[{"name": TOPIC, "partitions": places}],
        )
        self._checked("OffsetCommit", codes(reply))
        self.offsets.acknowledge(change)
        self.acknowledged += 1

    # --- what is there ---

    async def lost(self) -> list[str]:
        """Violations in the committed offsets; retries until the partition is loaded."""
        for _ in range(200):
            with suppress(Problem):
                reply = await self._client.call(
                    "OffsetFetch",
                    5,
                    group_id=self.group,
                    topics=[{"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}],
                )
                if codes(reply) == {"NONE"}:
                    there = {
                        each["partition_index"]: (each["committed_offset"], each["metadata"])
                        for topic in reply["topics"]
                        for each in topic["partitions"]
                        if each["committed_offset"] >= 0
                    }
                    return [f"lost: {self.group} {one}" for one in self.offsets.found(there)]
            await asyncio.sleep(0.05)
        return [f"lost: {self.group}: OffsetFetch is never answered well"]
