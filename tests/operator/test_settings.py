"""The operator's settings: one reader for the process and for what installs it, and nothing is taken that it would not read."""

import pytest
from click.testing import CliRunner

from windlass.boot.operator import command
from windlass.core.errors import Invalid
from windlass.operator.settings import load, variables


@pytest.mark.parametrize("verb", ["manifest", "install"])
@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("nosuch=1", "nosuch: is no setting; there are gpu_resource, "),
        ("workers=abc", "workers: expected a whole number"),
        ("gpu-resource=bad res!", "gpu_resource: expected domain/name, such as nvidia.com/gpu"),
        ("node_selector=foo", "node_selector: expected key=value each"),
        ("namespaces=a,B_", "namespaces: expected"),
        ("pull_secrets=a b", "pull_secrets: expected a name"),
    ],
)
def test_what_the_operator_would_not_read_is_not_installed(verb: str, given: str, fault: str) -> None:
    done = CliRunner().invoke(command, [verb, "--set", given])
    assert isinstance(done.exception, Invalid)
    assert fault in str([f"{one.field}: {one.message}" for one in done.exception.faults])
    assert done.stdout == ""


@pytest.mark.parametrize("verb", ["manifest", "install"])
@pytest.mark.parametrize("again", ["gpu_resource=b/c", "gpu-resource=a/b", "GPU_RESOURCE="])
def test_a_setting_that_is_given_twice_is_refused_by_its_name(verb: str, again: str) -> None:
    done = CliRunner().invoke(command, [verb, "--set", "gpu_resource=a/b", "--set", "workers=3", "--set", again])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "gpu_resource is given more than once" in done.stderr


@pytest.mark.parametrize("verb", ["manifest", "install"])
@pytest.mark.parametrize("image", ["", " ", "Not An Image", "--privileged"])
def test_an_image_that_is_none_is_not_installed(verb: str, image: str) -> None:
    done = CliRunner().invoke(command, [verb, f"--image={image}"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--image" in done.stderr


@pytest.mark.parametrize("name", ["preset-image", "preset_image", "PRESET_IMAGE"])
def test_a_name_may_have_dashes(name: str) -> None:
    assert (
        "name: WINDLASS_OPERATOR_PRESET_IMAGE" in CliRunner().invoke(command, ["manifest", "--set", f"{name}=x"]).stdout
    )


def test_a_variable_that_nobody_reads_is_refused_with_those_that_are() -> None:
    with pytest.raises(Invalid) as refused:
        load({"WINDLASS_OPERATOR_WORKER": "1", "WINDLASS_OPERATOR_USER": "0", "HOME": "/"})
    assert [one.field for one in refused.value.faults] == ["WINDLASS_OPERATOR_WORKER", "WINDLASS_OPERATOR_USER"]
    assert "workers" in refused.value.faults[0].message


def test_what_kubernetes_adds_for_a_service_of_that_name_is_not_a_setting() -> None:
    added = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8086_TCP", "PORT_8086_TCP_ADDR")
    environ = {f"WINDLASS_OPERATOR_{more}{name}": "x" for more in ("", "METRICS_") for name in added}
    assert load(environ) == load({})


def test_what_is_written_for_a_deployment_reads_the_same() -> None:
    given = {"node-selector": "disk=fast,zone=a", "gpu_tolerations": "gpu", "run_as_root": "true"}
    assert load(variables(given)).node_selector == ("disk=fast", "zone=a")
