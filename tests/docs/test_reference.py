"""The reference pages say all there is to say, and nothing that is not so: each is compared with the code it describes."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from click import Context
from pydantic import BaseModel

from tests.docs.markdown import ROOT, rows
from tests.e2e.server import WindlassServer
from windlass.api.plan import PLANNED_MAX
from windlass.boot import up
from windlass.boot.settings import PREFIX, KubernetesSettings, Settings
from windlass.cli.app import build
from windlass.control.leadership import LEADER_KEY
from windlass.core.model.run import TAKEN_DOWN
from windlass.core.world.records import KEPT, NUMBER_KEY, Table, store_key
from windlass.core.world.spending import BUDGET_EXCEEDED, COST_EXCEEDED
from windlass.observe import answered, metrics, pools
from windlass.wire.identity import OidcIssuer
from windlass.wire.job import JobDocument
from windlass.wire.quantities import write_bytes, write_cpu, write_seconds
from windlass.wire.tenant import TenantDocument, read_tenant, tenant_spec

GUIDES = ROOT / "docs" / "guides"
PACKAGE = ROOT / "src" / "windlass"
SOURCES = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("testing", "images")]
OF_THE_SERVER = {"metadata.uid", "metadata.creationTimestamp", "status"}
WRITTEN = {
    "spec.resources.cpu": write_cpu,
    "spec.resources.memory": write_bytes,
    "spec.lostAfter": write_seconds,
    "spec.pvcSize": write_bytes,
}

IDLE = {
    "spec.onLostNode": "on_lost_node",
    "spec.lostAfter": "lost_after_ms",
    "spec.collect": "collect",
    "spec.storageClass": "storage_class",
    "spec.queueName": "queue_name",
}
"""Kept for other homes, with what each is called inside."""
DECIDING = ("admission", "fairness", "placement", "world")


def code(cell: str) -> str:
    return cell.strip("`")


# — the manifest —


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each field's path, with its default as the page writes it."""
    for field in model.model_fields.values():
        path = f"{prefix}{field.alias}"
        inner = _model_of(field.annotation)
        if inner is not None:
            yield from fields(inner, f"{path}.")
        elif path not in OF_THE_SERVER:
            is_required = field.is_required() and path != "spec.webhook.url"  # required only within a webhook
            yield path, "required" if is_required else _default(path, field)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if getattr(annotation, "__origin__", None) is dict:  # by names of the writer's own choice
        return None
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _default(path: str, field: Any) -> str:
    value = field.get_default(call_default_factory=True) if not field.is_required() else None
    if value is None:
        return "–"
    written = WRITTEN.get(path, lambda it: str(it).lower() if isinstance(it, bool) else it)(value)
    return f"`{written}`"


def test_every_field_of_the_manifest_is_described_with_its_default() -> None:
    described = {code(row[0]): row[1] for row in rows(GUIDES / "jobs.md", "field")}
    assert described == dict(fields(JobDocument))


def test_fields_called_without_effect_are_the_ones_listed_so() -> None:
    marked = {code(row[0]) for row in rows(GUIDES / "jobs.md", "field") if "without effect here" in row[2]}
    listed = re.search(
        r"### Fields without effect.*?\n\n(.*?) are validated", (GUIDES / "jobs.md").read_text(), re.DOTALL
    )
    assert listed is not None
    assert {f"spec.{name}" for name in re.findall(r"`(\w+)`", listed[1])} == marked


def test_no_field_that_the_world_decides_by_is_called_without_effect() -> None:
    marked = {code(row[0]) for row in rows(GUIDES / "jobs.md", "field") if "without effect here" in row[2]}
    assert marked == IDLE.keys()
    deciding = [
        path for part in DECIDING for path in (PACKAGE / "core" / part).rglob("*.py") if path.name != "submit.py"
    ]
    read = {name for path in deciding for name in re.findall(r"\.(\w+)", path.read_text())}
    assert "cost_max" in read, "what is read of a job is found in this way"
    assert not read & set(IDLE.values())


def test_every_reason_an_end_can_have_is_described() -> None:
    described = {code(row[0]) for row in rows(GUIDES / "jobs.md", "reason")}
    verdicts = (PACKAGE / "agent/verdict.py").read_text()
    given = set(re.findall(r'"([A-Z][A-Za-z]+)"', verdicts))
    assert described == given | {COST_EXCEEDED, BUDGET_EXCEEDED, TAKEN_DOWN}


def test_every_field_of_a_tenant_is_described_with_its_default() -> None:
    described = {code(row[0]): code(row[1]) for row in rows(GUIDES / "tenants.md", "tenant field")}
    names = {path for path, _ in fields(TenantDocument) if path not in ("apiVersion", "kind")}
    bare = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "x"}}
    bare |= {"spec": {"budget": {"perMonth": 1}, "rate": {}}}
    made = tenant_spec(read_tenant(bare, pools=()))
    said = {"metadata.name": "required", "spec.budget.perMonth": "required", "spec.weight": "–"}
    assert set(described) == names
    for name in names - said.keys():
        value: Any = made
        for part in name.split(".")[1:]:
            value = value[part]
        said[name] = "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    assert described == said


def test_every_setting_of_an_issuer_is_described() -> None:
    described = {code(row[0]) for row in rows(GUIDES / "tenants.md", "issuer's setting")}
    assert described == set(OidcIssuer.model_fields)


# — settings —


def test_every_setting_is_described_with_its_variable_flag_and_default() -> None:
    described = {code(row[0]): [code(cell) for cell in row[1:4]] for row in rows(GUIDES / "settings.md", "setting")}
    flags = {name: f"--{name.replace('_', '-')}" for name in _flags()}
    expected = {
        name: [flags.get(name, "–"), f"{PREFIX}{name.upper()}", _shown(name, field)]
        for name, field in Settings.model_fields.items()
    }
    assert described == expected


def test_every_setting_of_a_cluster_is_described_with_its_default() -> None:
    described = {code(row[0]): code(row[1]) for row in rows(GUIDES / "kubernetes.md", "kubernetes setting")}
    assert described == {name: _shown(name, field) for name, field in KubernetesSettings.model_fields.items()}


def _flags() -> set[str]:
    return {str(parameter.name) for parameter in up.command.get_params(Context(up.command))}


def _shown(name: str, field: Any) -> str:
    if name == "data_dir":
        return "$XDG_DATA_HOME/windlass`, else `~/.local/share/windlass"
    if field.default in (None, ""):
        return "–"
    return "[]" if field.default == () else str(field.default)


# — the API —


def test_every_route_is_described_and_every_described_route_is_there(process_server: WindlassServer) -> None:
    described = {code(row[0]) for row in rows(GUIDES / "api.md", "route")}
    document = process_server.client()._transport.call("GET", "/openapi.json").json()
    served = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert described == served


def test_how_many_manifests_a_plan_takes_is_said_where_one_looks() -> None:
    verb = build({}).get_command(Context(build({})), "plan")
    assert verb is not None
    for said in ((GUIDES / "foresight.md").read_text(), " ".join((verb.help or "").split())):
        assert f"{PLANNED_MAX} documents at most" in said


def test_every_error_code_has_a_next_step() -> None:
    described = re.findall(r"`([a-z0-9-]+)`", " ".join(row[0] for row in rows(GUIDES / "operations.md", "code")))
    given = {found for path in SOURCES for found in _codes(path.read_text())}
    assert len(described) == len(set(described)), "a code is described twice"
    assert set(described) == given


def _codes(source: str) -> set[str]:
    named = re.findall(r'\bcode="([a-z0-9-]+)"|default_code(?:: ClassVar\[str\])? = "([a-z0-9-]+)"', source)
    mapped = re.findall(r'^    \d{3}: \("([a-z0-9-]+)", "', source, re.MULTILINE)
    return {code for pair in named for code in pair if code} | set(mapped) | _constants(source)


@cache
def _named_codes() -> frozenset[str]:
    pattern = re.compile(r"\bcode(?:=| == | != )(?:\w+\.)?([A-Z_]+)\b")
    return frozenset(name for path in SOURCES for name in pattern.findall(path.read_text()))


def _constants(source: str) -> set[str]:
    """Of the names that some module gives or compares as a code, those that this one defines."""
    given = _named_codes()
    defined = re.findall(r'^([A-Z_]+)(?:: Final)? = "([a-z0-9-]+)"', source, re.MULTILINE)
    return {value for name, value in defined if name in given}


def test_every_metric_is_described() -> None:
    described = {code(row[0]) for row in rows(GUIDES / "operations.md", "metric")}
    assert described == set(re.findall(r'"(windlass_\w+)"', _source(answered) + _source(metrics) + _source(pools)))


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__) as file:
        return file.read()


# — the architecture —


def test_every_part_of_the_tree_is_named_in_the_architecture() -> None:
    said = (ROOT / "ARCHITECTURE.md").read_text()
    parts = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    inside = [path for path in (PACKAGE / "core").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    named = [str(path.relative_to(PACKAGE)) for path in (*parts, *inside) if path.name != "__init__.py"]
    assert [name for name in named if f"{name}/" not in said and f"{name}`" not in said] == []


def test_every_guide_is_found_from_the_readme_and_every_verb_in_its_guide() -> None:
    readme, guide = (ROOT / "README.md").read_text(), (GUIDES / "cli.md").read_text()
    assert [page.name for page in GUIDES.glob("*.md") if f"docs/guides/{page.name}" not in readme] == []
    verbs = build({}).list_commands(Context(build({})))
    assert [verb for verb in verbs if not re.search(rf"\b{re.escape(verb)}\b", guide)] == []


def test_every_failpoint_is_listed() -> None:
    listed = {code(row[0]) for row in rows(ROOT / "ARCHITECTURE.md", "failpoint")}
    reached = {name for path in SOURCES for name in re.findall(r'(?:reach\(|failpoint=)"([a-z_.]+)"', path.read_text())}
    assert listed == reached


def test_every_key_of_the_store_is_listed() -> None:
    table = {code(row[0]).split("<")[0]: row[2] for row in rows(ROOT / "ARCHITECTURE.md", "key")}
    kept = {store_key(table, ""): "yes" if table in KEPT else "" for table in Table}
    assert table == {LEADER_KEY: "", NUMBER_KEY: "", **kept}


def test_the_diagrams_are_what_the_tables_say() -> None:
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "docs" / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    diagrams = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(diagrams)
    assert diagrams.PAGE.read_text() == diagrams.page(), "run docs/diagrams.py"
    assert set(diagrams.JOB_NOTES) == set(diagrams.JobState)
    assert set(diagrams.RUN_NOTES) == set(diagrams.RunState)


@pytest.mark.parametrize("promise", rows(ROOT / "ARCHITECTURE.md", "promise"), ids=lambda row: row[0][:50])
def test_the_test_that_proves_a_promise_exists(promise: list[str]) -> None:
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", promise[2])
    assert named
    for path, test in named:
        assert (ROOT / path).exists()
        assert not test or re.search(rf"^(async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE), test
