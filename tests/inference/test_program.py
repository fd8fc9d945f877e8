"""The program as a plain process: the answer is the one the formula gives, and the file is what E5 promises."""

import hashlib
import json
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.inference.expected import assert_answers, read_strictly, through_jpeg
from tests.inference.pictures import framed_png, png, write_jpeg
from tests.inference.workbench import GREEN, RED, Workbench


@pytest.mark.parametrize("model", ["resnet50", "mobilenet_v3_small"])
def test_a_red_picture_is_answered_as_the_formula_says(bench: Workbench, model: str) -> None:
    bench.variables["WINDLASS_MODEL"] = model
    done = bench.run()
    assert (done.returncode, done.stderr) == (0, "")
    answer = read_strictly(bench.output.read_bytes())
    assert list(answer) == ["model", "top5", "elapsed_ms", "device", "timestamp"]
    assert (answer["model"], answer["device"]) == (model, "cpu")
    assert answer["elapsed_ms"] >= 0
    assert datetime.fromisoformat(answer["timestamp"]).utcoffset() == timedelta(0)
    assert_answers(answer, RED)


def test_a_real_jpeg_is_decoded(bench: Workbench, packages: Path) -> None:
    write_jpeg(bench.input, packages, (448, 256), (240, 240), RED, GREEN)
    assert bench.input.read_bytes().startswith(b"\xff\xd8")
    assert bench.run().returncode == 0
    assert_answers(read_strictly(bench.output.read_bytes()), through_jpeg(RED))


@pytest.mark.parametrize(("size", "inner"), [((448, 256), (224, 224)), ((256, 700), (224, 224))])
def test_only_the_centre_of_the_picture_counts(bench: Workbench, size: tuple[int, int], inner: tuple[int, int]) -> None:
    bench.input.write_bytes(framed_png(size, inner, RED, GREEN))
    assert bench.run().returncode == 0
    assert_answers(read_strictly(bench.output.read_bytes()), RED)


def test_a_large_picture_is_scaled_bilinearly_over_all_its_pixels(bench: Workbench) -> None:
    # Halved, each of the outermost rows and columns of the crop takes an eighth from beyond the edge: a triangle two
    # pixels wide to each side. Nearest, bicubic, and bilinear without antialiasing all take another share. Differences
    # of 64 keep every step a whole number, so nothing is lost to rounding.
    colour, frame = (200, 72, 140), (72, 200, 76)
    bench.input.write_bytes(framed_png((512, 512), (448, 448), colour, frame))
    assert bench.run().returncode == 0
    share = (223.75 / 224) ** 2
    red, green, blue = (share * c + (1 - share) * f for c, f in zip(colour, frame, strict=True))
    assert_answers(read_strictly(bench.output.read_bytes()), (red, green, blue))


def test_the_network_sees_channels_first_then_rows_then_columns(bench: Workbench) -> None:
    # An average cannot tell rows from columns; the tensor itself can.
    colours = {(r, c): (40 + 150 * r, 60 + 120 * c, 250 - 90 * r - 70 * c) for r in (0, 1) for c in (0, 1)}
    rows = [b"\0" + b"".join(bytes(colours[r, c]) * 128 for c in (0, 1)) for r in (0, 1)]
    bench.input.write_bytes(png((256, 256), rows[0] * 128 + rows[1] * 128))
    script = (
        "import json, pathlib, sys; from infer import picture\n"
        "tensor = picture.load(pathlib.Path(sys.argv[1]), picture.Recipe())\n"
        "print(json.dumps([tensor.shape, str(tensor.dtype), tensor[0, :, 10::200, 10::200].tolist()]))"
    )
    done = bench.python("-c", script, str(bench.input))
    shape, kind, corners = json.loads(done.stdout)
    assert (shape, kind) == ([1, 3, 224, 224], "float32")
    for channel, (mean, deviation) in enumerate([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]):
        for (row, column), colour in colours.items():
            expected = (colour[channel] / 255 - mean) / deviation
            assert corners[channel][row][column] == pytest.approx(expected, abs=1e-5)


def test_stdout_says_which_device_was_used(bench: Workbench) -> None:
    assert "running resnet50 on device cpu\n" in bench.run().stdout


def test_the_cpu_stands_in_for_a_missing_gpu_where_the_job_allows_it_and_says_so(bench: Workbench) -> None:
    bench.variables |= {"WINDLASS_GPU": "1", "WINDLASS_ALLOW_CPU": "1"}
    done = bench.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "on device cpu, in place of the GPU that was asked for" in done.stdout


def test_nobody_having_said_anything_about_gpus_the_cpu_is_fine(bench: Workbench) -> None:
    del bench.variables["WINDLASS_GPU"]
    assert bench.run().returncode == 0


def test_a_flag_wins_over_the_variable_of_the_same_name(bench: Workbench) -> None:
    other = bench.volume / "other.json"
    bench.flags = ["--output", str(other), "--model", "mobilenet_v3_small"]
    assert bench.run().returncode == 0
    assert read_strictly(other.read_bytes())["model"] == "mobilenet_v3_small"
    assert not bench.output.exists()


def test_the_digest_may_come_from_the_job_and_then_wins_over_the_one_beside(bench: Workbench) -> None:
    digest = hashlib.sha256(bench.weights.read_bytes()).hexdigest()
    bench.digest.write_text("0" * 64)
    bench.variables["WINDLASS_WEIGHTS_SHA256"] = f"sha256:{digest.upper()}"
    assert bench.run().returncode == 0


def test_labels_are_a_json_list_just_as_well(bench: Workbench) -> None:
    names = bench.labels.read_text().splitlines()
    bench.labels.unlink()
    (bench.volume / "labels.json").write_text(json.dumps(names))
    assert bench.run().returncode == 0
    assert_answers(read_strictly(bench.output.read_bytes()), RED)


def test_without_labels_a_class_is_called_by_its_number(bench: Workbench) -> None:
    bench.labels.unlink()
    assert bench.run().returncode == 0
    # 226/255, 31/255 and 58/255 of nine levels: 8, 1 and 2.
    assert read_strictly(bench.output.read_bytes())["top5"][0]["label"] == "class_812"


def test_an_earlier_answer_is_replaced_whole_and_nothing_is_left_beside_it(bench: Workbench) -> None:
    bench.output.write_text("an earlier answer")
    earlier = bench.output.stat().st_ino
    before = {path.name for path in bench.volume.iterdir()}
    assert bench.run().returncode == 0
    assert bench.output.stat().st_ino != earlier  # renamed over, not written into: a reader never sees half
    assert stat.S_IMODE(bench.output.stat().st_mode) & 0o044 == 0o044  # whoever collects it may be another user
    assert {path.name for path in bench.volume.iterdir()} == before


def test_the_network_library_keeps_no_identifier_and_reports_to_nobody(bench: Workbench) -> None:
    home = bench.volume / "home"
    home.mkdir()
    bench.variables["HOME"] = str(home)
    bench.variables["ORT_DISABLE_TELEMETRY"] = "0"
    assert bench.run().returncode == 0
    assert not list(home.rglob("*"))  # where its identifier and its queue of events would lie


def test_a_link_in_place_of_the_answer_is_replaced_and_not_followed(bench: Workbench) -> None:
    victim = bench.volume / "victim"
    victim.write_text("untouched")
    bench.output.symlink_to(victim)
    assert bench.run().returncode == 0
    assert victim.read_text() == "untouched"
    assert not bench.output.is_symlink()
