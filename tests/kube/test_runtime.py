"""The runtime contract on a real cluster: every run a pod, by way of the operator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.contracts import runtime_suite as suite
from tests.contracts.runtime_acts import DEADLINE_SECONDS, all_said, started
from tests.contracts.runtime_behaviours import Copy, Exit, Say
from tests.contracts.runtime_suite import Harness, RealClock, Step, Trait, as_shell
from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.parts import busybox
from windlass.adapters.runtime.kubernetes import KubernetesRuntime
from windlass.client.kube.api import KubeApi, read_config
from windlass.ports.runtime import Runtime, Stream

INSTALLATION, NODE = "contract", "cluster"


class ClusterHarness:
    traits = frozenset({Trait.INPUT, Trait.EXECUTE, Trait.DEBUG})
    image = busybox.IMAGE

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.runtime: Runtime

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_shell(steps)

    @asynccontextmanager
    async def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AsyncIterator[Runtime]:
        async with (
            KubeApi(read_config(self._lab.cluster.kubeconfig), manager="windlass") as api,
            KubernetesRuntime.open(
                api,
                namespace=self._lab.namespace,
                installation=installation,
                node=node,
                clock=RealClock(),
                side_image=busybox.IMAGE,
            ) as runtime,
        ):
            yield runtime


class _OnCluster:
    @pytest.fixture
    async def harness(self, lab: Lab, operator: Operator) -> AsyncIterator[Harness]:
        harness = ClusterHarness(lab)
        async with harness.open() as runtime:
            harness.runtime = runtime
            yield harness


@pytest.mark.anyio
class TestTellingParts(_OnCluster):
    """Of the contract, what is most likely to be another thing on a cluster. All of it: below."""

    test_created = suite.Lifecycle.test_a_created_run_has_its_token_and_does_not_run
    test_started_once = suite.Lifecycle.test_many_starts_at_once_start_it_once
    test_not_started_again = suite.Lifecycle.test_what_has_ended_is_not_started_again
    test_no_such_command = suite.Lifecycle.test_a_command_that_does_not_exist_never_succeeds
    test_stopped = suite.Lifecycle.test_stopping_asks_first
    test_handed = suite.Lifecycle.test_a_run_finds_what_it_was_handed_and_is_still_who_it_is
    test_strangers = suite.Ownership.test_strangers_on_the_same_machine_do_not_meet
    test_streams = suite.Logs.test_both_streams_come_in_order_and_apart_where_the_runtime_keeps_them_so
    test_followed = suite.Logs.test_a_follower_sees_lines_while_the_run_goes_on
    test_resumed = suite.Logs.test_resuming_anywhere_gives_exactly_the_rest
    test_files = suite.Volumes.test_files_come_back_byte_for_byte
    test_input_ends = suite.Terminals.test_the_input_of_a_run_ends_with_whoever_gives_it
    test_input_shared = suite.Terminals.test_who_has_no_input_to_give_does_not_end_that_of_another
    test_volume_in_use = suite.Volumes.test_a_volume_goes_when_nothing_uses_it

    async def test_input_without_a_terminal_is_passed_on_and_ends(self, harness: Harness) -> None:
        assignment = await started(harness, "pipe", Copy(), Say(b"oh\n", Stream.STDERR), Exit(6), wants_input=True)
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal:
                await terminal.send(b"hello there\n")
                await terminal.close_input()
                said = await all_said(terminal)
            ended = await harness.runtime.wait(assignment.run)
        assert (said[Stream.STDOUT], ended.exit_code) == (b"hello there\n", 6), "once, and not echoed"


@pytest.mark.anyio
@pytest.mark.soak
class TestWholeContract(_OnCluster, suite.Lifecycle, suite.Ownership, suite.Logs, suite.Volumes, suite.Terminals):
    """With `make test-kube`. All but slices, which are cut from machines and not from clusters."""
