"""Hypothesis chooses the steps of the simulator and shrinks those that break a rule."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from tests.simulation.mutants import MUTANTS
from tests.simulation.script import Act, Setup, Step
from tests.simulation.simulator import Broken, Simulator

NUMBERS = st.integers(0, 9_999)
ORDINARY = (Act.DELIVER, Act.RUN, Act.IDLE, Act.DISK, Act.NUDGE)
FAULTS = tuple(act for act in Act if act not in (*ORDINARY, Act.TIME, Act.LIVE, Act.ARRIVE))


class CoordinatorMachine(RuleBasedStateMachine):
    """One simulator; a failing example prints its steps."""

    simulator: Simulator | None = None

    @initialize(
        nodes=st.integers(1, 2),
        groups=st.integers(1, 2),
        delay=st.sampled_from((0, 3_000)),
        mailbox=st.booleans(),
        kinds=st.lists(NUMBERS, min_size=1, max_size=4),
    )
    def begin(self, nodes: int, groups: int, delay: int, mailbox: bool, kinds: list[int]) -> None:
        setup = Setup(
            nodes=nodes,
            groups=groups,
            initial_delay_ms=delay,
            mailbox=mailbox,
            kinds=tuple(kinds),
        )
        self.simulator = Simulator(setup, telling=True).__enter__()

    @rule(act=st.sampled_from(ORDINARY), who=NUMBERS, how=NUMBERS)
    def something_ordinary_happens(self, act: Act, who: int, how: int) -> None:
        self._play(act, who, how)

    @rule(act=st.sampled_from((Act.TIME, Act.LIVE)), who=NUMBERS, how=NUMBERS)
    def time_goes_by(self, act: Act, who: int, how: int) -> None:
        self._play(act, who, how)

    @rule(how=NUMBERS, who=NUMBERS)
    def somebody_arrives(self, who: int, how: int) -> None:
        self._play(Act.ARRIVE, who, how)

    @rule(act=st.sampled_from(FAULTS), who=NUMBERS, how=NUMBERS)
    def something_goes_wrong(self, act: Act, who: int, how: int) -> None:
        self._play(act, who, how)

    def teardown(self) -> None:
        if self.simulator is None:
            return
        simulator, self.simulator = self.simulator, None
        try:
            if not simulator.checker.broken:
                self._tell_if_broken(simulator, simulator.settle)
                self._tell_if_broken(simulator, simulator.restart_all)
        finally:
            simulator.__exit__(None, None, None)

    def _play(self, act: Act, who: int, how: int) -> None:
        simulator = self.simulator
        assert simulator is not None
        self._tell_if_broken(simulator, lambda: simulator.play(Step(act, who, how)))

    def _tell_if_broken(self, simulator: Simulator, step: Callable[[], None]) -> None:
        try:
            step()
        except Broken as broken:
            raise AssertionError("\n".join([str(broken), *simulator.steps])) from None


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=60,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CoordinatorMachine.TestCase.settings = SETTINGS


@pytest.mark.sim
class TestCoordinatorMachine(CoordinatorMachine.TestCase):  # type: ignore[misc, valid-type]
    """The machine as pytest finds it."""


@pytest.mark.sim
def test_the_machine_finds_a_planted_bug_and_prints_the_steps() -> None:
    bug = next(m for m in MUTANTS if m.name == "replies are not held")
    short = settings(SETTINGS, phases=[Phase.generate])
    with bug.plant(), pytest.raises(AssertionError, match=r"(?s)consumer-0 arrives.*BROKEN"):
        run_state_machine_as_test(CoordinatorMachine, settings=short)
