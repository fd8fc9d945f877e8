"""Step 0: what the job asked for, from the environment the platform sets and from flags of the same names. Flags win."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infer.failures import Exit, Failure

MODELS: Final = ("resnet50", "mobilenet_v3_small")
ARTIFACTS: Final = Path("/artifacts")  # where the platform mounts the job's volume

# One picture does not get faster beyond a few threads, and the library's default is one for every core of the host,
# which a container held to one core pays for in throttling.
THREADS_MAX_BY_DEFAULT: Final = 4


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All this program can be told. There is nothing else it reads from its surroundings."""

    model: str
    input: Path
    output: Path
    weights: Path
    weights_sha256: str | None
    """Expected digest, in hexadecimal. None: it lies in `<weights>.sha256`."""
    labels: Path | None
    """A file that must be there. None: look beside the weights, else `class_<n>`."""
    gpu: int | None
    """GPUs the job asked for. None: nobody said, so one is used if it is there."""
    allow_cpu: bool
    threads: int


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Settings of this run, or a Failure that names the setting at fault."""
    flags = _parser().parse_args(arguments)

    def setting(name: str) -> str | None:
        """An empty variable counts as unset: manifests and shells leave such ones behind."""
        flag: str | None = getattr(flags, name)
        return flag if flag is not None else environ.get(f"WINDLASS_{name.upper()}") or None

    model = _model(setting("model") or MODELS[0])
    gpu = _gpu(setting("gpu"))
    sha256, labels = setting("weights_sha256"), setting("labels")
    return Settings(
        model=model,
        input=Path(setting("input") or ARTIFACTS / "input.jpg"),
        output=Path(setting("output") or ARTIFACTS / "output.json"),
        weights=Path(setting("weights") or ARTIFACTS / f"{model}.onnx"),
        weights_sha256=sha256,
        labels=Path(labels) if labels else None,
        gpu=gpu,
        allow_cpu=_allow_cpu(setting("allow_cpu"), gpu),
        threads=_threads(setting("threads")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="infer",
        description="Classify one picture with an ONNX network. Every flag is also a variable: --input is WINDLASS_INPUT.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", metavar="NAME", help=f"{' or '.join(MODELS)} (default {MODELS[0]})")
    parser.add_argument("--input", metavar="FILE", help="the picture (default /artifacts/input.jpg)")
    parser.add_argument("--output", metavar="FILE", help="the answer (default /artifacts/output.json)")
    parser.add_argument("--weights", metavar="FILE", help="the ONNX network (default /artifacts/<model>.onnx)")
    parser.add_argument("--weights-sha256", metavar="HEX", help="its digest (default: the one in <weights>.sha256)")
    parser.add_argument(
        "--labels", metavar="FILE", help="1000 names, a line each or a JSON list (default: beside the weights)"
    )
    parser.add_argument(
        "--gpu", metavar="N", help="GPUs asked for: 0 keeps to the CPU (default: a GPU if there is one)"
    )
    parser.add_argument(
        "--allow-cpu", metavar="0|1", help="may the CPU stand in for a GPU (default 1, with --gpu 1 or more 0)"
    )
    parser.add_argument(
        "--threads", metavar="N", help=f"CPU threads (default: the cores there are, at most {THREADS_MAX_BY_DEFAULT})"
    )
    return parser


def _model(text: str) -> str:
    if text not in MODELS:
        raise _unusable("WINDLASS_MODEL", text, " or ".join(MODELS))
    return text


def _gpu(text: str | None) -> int | None:
    return None if text is None else _number("WINDLASS_GPU", text, least=0)


def _threads(text: str | None) -> int:
    if text is None:
        return min(len(os.sched_getaffinity(0)), THREADS_MAX_BY_DEFAULT)
    return _number("WINDLASS_THREADS", text, least=1)


def _allow_cpu(text: str | None, gpu: int | None) -> bool:
    if text is None:
        return not gpu
    if text not in ("0", "1"):
        raise _unusable("WINDLASS_ALLOW_CPU", text, "0 or 1")
    if gpu == 0 and text == "0":
        raise Failure(
            Exit.SETTINGS,
            wrong="WINDLASS_GPU=0 and WINDLASS_ALLOW_CPU=0 leave no device to run on",
            expected="a GPU to be asked for or the CPU to be allowed",
            remedy="ask for a GPU (--gpu 1) or set WINDLASS_ALLOW_CPU=1",
        )
    return text == "1"


def _number(name: str, text: str, *, least: int) -> int:
    # Four digits are plenty; isdecimal alone would let other scripts' digits in.
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) >= least):
        raise _unusable(name, text, f"a whole number from {least} to 9999")
    return int(text)


def _unusable(name: str, text: str, expected: str) -> Failure:
    flag = name.removeprefix("WINDLASS_").lower().replace("_", "-")
    return Failure(
        Exit.SETTINGS,
        wrong=f"{name} is {text!r}",
        expected=expected,
        remedy=f"set {name} in the job's env, or --{flag}",
    )
