"""What is compiled: the modules a decision passes through. `make test-compiled` runs this directory on them."""

import inspect
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from windlass.core.compiled import IS_COMPILED
from windlass.core.world.world import World

TOOL = Path(__file__).resolve().parents[2] / "tools" / "compile"
PASSED_BY_EVERY_DECISION = (
    *("admission/quota", "admission/usage"),
    *("fairness/lanes", "fairness/ledger", "fairness/order", "fairness/queue", "fairness/standings"),
    *("lifecycle/job", "lifecycle/run", "metering", "model/calendar", "model/ids", "model/naming"),
    *("placement/classes", "placement/nodes", "placement/reservation", "placement/rooms", "placement/shortage"),
    *("world/accounts", "world/facts", "world/finish", "world/gate", "world/journal", "world/offers", "world/place"),
    *("world/spending", "world/submit", "world/tables", "world/timers", "world/world"),
)


def test_no_module_that_every_decision_passes_is_left_out() -> None:
    """One that defines a record is, because the compiler drops `frozen`, `tag` and the like: records have modules of their own."""
    loader = SourceFileLoader("compile_tool", str(TOOL))
    spec = spec_from_loader("compile_tool", loader)
    assert spec is not None
    tool = module_from_spec(spec)
    loader.exec_module(tool)
    compiled = set(tool.deciding())
    assert {f"windlass/core/{name}.py" for name in PASSED_BY_EVERY_DECISION} - compiled == set()
    assert "windlass/core/world/records.py" not in compiled


def test_what_runs_here_knows_whether_it_is_compiled() -> None:
    assert inspect.isfunction(World.__init__) is not IS_COMPILED
