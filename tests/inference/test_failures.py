"""Every failure: its own exit code, one line that says what was wrong, expected and to be done, and no answer left."""

import json
import math
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable

import pytest
from examples.inference import make_network
from examples.inference.infer.failures import Exit
from tests.inference.image import EXAMPLE
from tests.inference.pictures import framed_png, png
from tests.inference.workbench import RED, Workbench

Spoil = Callable[[Workbench], object]

GIF = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"  # whole, and one pixel large


def setting(**variables: str) -> Spoil:
    return lambda bench: bench.variables.update({f"WINDLASS_{name}": value for name, value in variables.items()})


def picture(content: bytes) -> Spoil:
    return lambda bench: bench.input.write_bytes(content)


def truncated(bench: Workbench) -> None:
    bench.input.write_bytes(bench.input.read_bytes()[:-40])


def a_directory_as_input(bench: Workbench) -> None:
    bench.input.unlink()
    bench.input.mkdir()


def a_pipe_as_input(bench: Workbench) -> None:
    bench.input.unlink()
    os.mkfifo(bench.input)


def weights(content: bytes) -> Spoil:
    return lambda bench: bench.replace_weights(content)


def weights_changed_after_hashing(bench: Workbench) -> None:
    content = bytearray(bench.weights.read_bytes())
    content[-100] ^= 1
    bench.weights.write_bytes(content)


def weights_in_a_second_file(bench: Workbench) -> None:
    """The second file lies where the library would look, and is right: only the missing digest speaks against it."""
    rows, biases = make_network.weights_and_biases()
    (bench.volume / "second.bin").write_bytes(struct.pack(f"<{len(rows)}f", *rows))
    location = make_network.field(1, b"location") + make_network.field(2, b"second.bin")
    elsewhere = make_network.field(13, location) + make_network.field(14, 1)
    weights = make_network.tensor_head("weights", (3, 1000)) + elsewhere
    bench.replace_weights(make_network.assemble(weights, make_network.tensor("biases", (1000,), biases)))


def weights_not_numbers(bench: Workbench) -> None:
    rows, biases = make_network.weights_and_biases()
    biases[999] = math.nan
    weights = make_network.tensor("weights", (3, 1000), rows)
    bench.replace_weights(make_network.assemble(weights, make_network.tensor("biases", (1000,), biases)))


def labels(text: str | bytes) -> Spoil:
    return lambda bench: bench.labels.write_bytes(text if isinstance(text, bytes) else text.encode())


def output_is_a_directory(bench: Workbench) -> None:
    bench.output.mkdir()


FAILURES: dict[str, tuple[Spoil, Exit, str]] = {
    "a model nobody knows": (setting(MODEL="vgg16"), Exit.SETTINGS, "resnet50 or mobilenet_v3_small"),
    "a negative number of GPUs": (setting(GPU="-1"), Exit.SETTINGS, "WINDLASS_GPU"),
    "a number in other digits": (setting(GPU="१"), Exit.SETTINGS, "WINDLASS_GPU"),
    "a number of 400 digits": (setting(THREADS="9" * 400), Exit.SETTINGS, "WINDLASS_THREADS"),
    "no threads at all": (setting(THREADS="0"), Exit.SETTINGS, "from 1"),
    "a yes that is not 1": (setting(ALLOW_CPU="yes"), Exit.SETTINGS, "0 or 1"),
    "no GPU asked for and no CPU allowed": (setting(GPU="0", ALLOW_CPU="0"), Exit.SETTINGS, "no device"),
    "no input": (lambda bench: bench.input.unlink(), Exit.INPUT_MISSING, "no input file"),
    "a directory as input": (a_directory_as_input, Exit.INPUT_MISSING, "no input file"),
    "a pipe as input": (a_pipe_as_input, Exit.INPUT_MISSING, "no input file"),
    "an empty input": (picture(b""), Exit.INPUT_NOT_A_PICTURE, "JPEG, PNG, WEBP or BMP"),
    "text as input": (picture(b"<html>404</html>"), Exit.INPUT_NOT_A_PICTURE, "could not be decoded"),
    "PostScript, which an interpreter would run": (
        picture(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 256 256\n"),
        Exit.INPUT_NOT_A_PICTURE,
        "could not be decoded",
    ),
    "a picture of a format that is not offered": (picture(GIF), Exit.INPUT_NOT_A_PICTURE, "could not be decoded"),
    "half a picture": (truncated, Exit.INPUT_NOT_A_PICTURE, "could not be decoded"),
    "a picture without its pixels": (picture(png((300, 300), b"")), Exit.INPUT_NOT_A_PICTURE, "could not be decoded"),
    "900 million pixels in a few bytes": (picture(png((30_000, 30_000), b"\0")), Exit.INPUT_TOO_LARGE, "at most"),
    "81 million pixels in a few bytes": (picture(png((9_000, 9_000), b"\0")), Exit.INPUT_TOO_LARGE, "9000 x 9000"),
    "a sliver that scaling would blow up": (
        picture(framed_png((50_000, 1), (2, 1), RED, RED)),
        Exit.INPUT_TOO_LARGE,
        "12800000 x 256",
    ),
    "no weights": (lambda bench: bench.weights.unlink(), Exit.WEIGHTS_MISSING, "WINDLASS_WEIGHTS"),
    "no digest": (lambda bench: bench.digest.unlink(), Exit.DIGEST_MISSING, "sha256sum resnet50.onnx"),
    "an empty digest file": (lambda bench: bench.digest.write_text(""), Exit.DIGEST_MISSING, "64 hexadecimal"),
    "a digest too short": (setting(WEIGHTS_SHA256="abc"), Exit.DIGEST_MISSING, "64 hexadecimal"),
    "another digest": (setting(WEIGHTS_SHA256="0" * 64), Exit.DIGEST_MISMATCH, "not loaded"),
    "weights changed after hashing": (weights_changed_after_hashing, Exit.DIGEST_MISMATCH, "not loaded"),
    "weights that are no network": (weights(b"not a network"), Exit.WEIGHTS_UNLOADABLE, "ONNX"),
    "weights in a second file no digest covers": (weights_in_a_second_file, Exit.WEIGHTS_UNLOADABLE, "single file"),
    "a network for larger pictures": (
        weights(make_network.network(picture=(1, 3, 299, 299))),
        Exit.WEIGHTS_WRONG_SHAPE,
        "input is 1 x 3 x 299 x 299",
    ),
    "a network for two pictures": (
        weights(make_network.network(picture=(2, 3, 224, 224))),
        Exit.WEIGHTS_WRONG_SHAPE,
        "1 x 3 x 224 x 224",
    ),
    "a network of ten classes": (weights(make_network.network(classes=10)), Exit.WEIGHTS_WRONG_SHAPE, "1 x 1000"),
    "labels named that are not there": (setting(LABELS="/nowhere/labels"), Exit.LABELS_UNUSABLE, "/nowhere/labels"),
    "one label too few": (labels("name\n" * 999), Exit.LABELS_UNUSABLE, "999 entries"),
    "labels that are numbers": (labels(json.dumps([1] * 1000)), Exit.LABELS_UNUSABLE, "strings"),
    "labels nested without end": (labels("[" * 100_000), Exit.LABELS_UNUSABLE, "could not be read"),
    "labels that are not text": (labels(b"\xff\xfe" * 1000), Exit.LABELS_UNUSABLE, "could not be read"),
    "a GPU asked for where there is none": (setting(GPU="1"), Exit.GPU_MISSING, "--gpu 0"),
    "no CPU allowed where there is no GPU": (setting(GPU="2", ALLOW_CPU="0"), Exit.GPU_MISSING, "GPUs asked for: 2"),
    "logits that are not numbers": (weights_not_numbers, Exit.INFERENCE_FAILED, "finite"),
    "a directory in place of the output": (output_is_a_directory, Exit.OUTPUT_UNWRITABLE, "WINDLASS_OUTPUT"),
    "an output where nothing can be written": (
        setting(OUTPUT="/proc/output.json"),
        Exit.OUTPUT_UNWRITABLE,
        "/proc/output.json",
    ),
    "an output in no directory": (setting(OUTPUT="/nowhere/output.json"), Exit.OUTPUT_UNWRITABLE, "/nowhere"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_one_clear_line_and_an_exit_code_of_its_own(bench: Workbench, case: str) -> None:
    spoil, code, words = FAILURES[case]
    spoil(bench)
    done = bench.run()
    assert done.returncode == code, done.stderr
    assert re.fullmatch(r"infer: [^\n]+; expected [^\n]+; [^\n]+\n", done.stderr)
    assert words in done.stderr
    assert not bench.output.is_file()
    assert not list(bench.volume.glob(".output*")), "a part of an answer was left behind"


def test_missing_packages_are_a_clear_line_too(bench: Workbench) -> None:
    bench.variables["PYTHONPATH"] = str(EXAMPLE)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "infer"], env=bench.variables, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == Exit.DEPENDENCY_MISSING
    assert "requirements.txt" in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_exit_code_is_reached_by_a_test() -> None:
    assert {code for _, code, _ in FAILURES.values()} | {Exit.DEPENDENCY_MISSING} == set(Exit)


def test_the_readme_documents_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert {int(number): name for number, name in rows} == {code.value: code.name for code in Exit}
