"""What a server's run becomes on a cluster."""

import pytest
from msgspec.structs import replace
from tests.process.nodes import an_assignment

from windlass.adapters.runtime.kubernetes.objects import Owner, run_object
from windlass.core.model.ids import Millis
from windlass.core.model.job import OnLostNode
from windlass.core.model.resources import Resources
from windlass.core.model.secret import Handed
from windlass.operator.reconcile import read_wish
from windlass.wire.kube.pod import NOT_READY, PodPolicy, run_pod

SMALL = Resources(cpu_millis=100, memory_bytes=64 << 20)


@pytest.mark.parametrize(("wish", "seconds"), [("wait", None), ("move", 45), ("duplicate", 45)])
def test_a_lost_node_of_the_cluster_is_met_as_the_job_wishes(wish: str, seconds: int | None) -> None:
    asked = replace(
        an_assignment("r-1", "true", image="x/y:1", needs=SMALL),
        on_lost_node=OnLostNode(wish),
        lost_after_ms=Millis(44_500),
    )
    made = run_object(asked, Owner(installation="home", node="n"), Handed())
    assert (made["spec"]["onLostNode"], made["spec"].get("retries", 0)) == (wish, 0)
    read, submission = read_wish(made, "")
    assert (read.fault, read.on_lost_node) == ("", OnLostNode(wish))
    borne = run_pod("r-1", "uid", 1, submission, PodPolicy())["spec"]["tolerations"]
    assert {one["key"]: one.get("tolerationSeconds") for one in borne} == dict.fromkeys(NOT_READY, seconds)


def test_input_of_a_run_ends_with_whoever_is_attached_unless_it_has_a_terminal() -> None:
    def container(**wishes: bool) -> dict[str, object]:
        asked = an_assignment("r-1", "cat", image="x/y:1", needs=SMALL, **wishes)
        made = run_object(asked, Owner(installation="home", node="n"), Handed())
        _, submission = read_wish(made, "")
        (only,) = run_pod("r-1", "uid", 1, submission, PodPolicy())["spec"]["containers"]
        return {key: only[key] for key in ("stdin", "stdinOnce", "tty") if key in only}

    assert container() == {}
    assert container(wants_input=True) == {"stdin": True, "stdinOnce": True}
    assert container(wants_terminal=True) == {"stdin": True, "tty": True}
