"""An API server that refuses a third of what it is asked, writes, lists and watches, and does some of it all the same."""

import secrets
from collections.abc import Callable

from tests.kube.faulting import FaultingProxy
from tests.kube.lab import DEADLINE, ENDS, Lab
from tests.kube.lives import LIVES, end_of, is_clean, said_so_far
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for
from windlass.client.kube.api import JOBS

EACH = 3


def test_jobs_all_end_right_once_and_leave_nothing_however_often_the_api_server_refuses(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    with FaultingProxy(lab.cluster.server, lab.cluster.authority, seed=seed, share=0.3) as proxy:
        operator = own_operator(server=proxy.url).start()
        jobs = {f"{life}-{n}": LIVES[life] for n in range(EACH) for life in LIVES}
        for name, life in jobs.items():
            life.begin(lab, name)
        for name, life in jobs.items():
            if life.is_cancelled:
                wait_for(
                    lambda name=name, life=life: said_so_far(lab, name) == life.said,
                    DEADLINE,
                    f"{name} to say its line",
                )  # type: ignore[misc]
                cancel = {"metadata": {"annotations": {"windlass.dev/cancel": "true"}}}
                lab.door.merge(JOBS, name, cancel, lab.namespace)
        for name in jobs:
            wait_for(lambda name=name: lab.status(name).get("phase") in ENDS, DEADLINE, f"{name} to end")  # type: ignore[misc]
            wait_for(lambda name=name: is_clean(lab, name), DEADLINE, f"nothing but its log to be left of {name}")  # type: ignore[misc]
        assert {name: end_of(lab, name) for name in jobs} == {name: life.end for name, life in jobs.items()}
        assert not proxy.untried
        assert operator.is_running
