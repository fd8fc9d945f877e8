"""Step 4: logits to an answer, and the answer to disk: whole or not at all."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from infer.failures import Exit, Failure

TOP: Final = 5


def top5(logits: NDArray[np.float32], labels: Sequence[str]) -> list[dict[str, Any]]:
    """The five likeliest classes, likeliest first; of equals the lower class number first, so that answers repeat."""
    shifted = logits.astype(np.float64) - logits.max()  # so that exp cannot overflow
    probabilities = np.exp(shifted) / np.exp(shifted).sum()
    order = np.argsort(-probabilities, kind="stable")[:TOP]
    return [{"label": labels[n], "probability": float(probabilities[n])} for n in order]


def compose(*, model: str, top: list[dict[str, Any]], elapsed_ms: float, device: str, at: float) -> dict[str, Any]:
    """The whole of `output.json`; `at` is seconds since the epoch."""
    stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "model": model,
        "top5": top,
        "elapsed_ms": round(elapsed_ms, 3),
        "device": device,
        "timestamp": stamp,
    }


def write(path: Path, answer: dict[str, Any]) -> None:
    """Replace `path` by the answer. A reader sees the old file or the new one, a power cut leaves the one or the other."""
    content = json.dumps(answer, indent=2, ensure_ascii=False).encode() + b"\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            _write_durably(beside, content)
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise Failure(
            Exit.OUTPUT_UNWRITABLE,
            wrong=f"the answer could not be written to {path} ({error.strerror or error})",
            expected="a file name in a directory this user may write to, with room left",
            remedy="set WINDLASS_OUTPUT to a place on the volume, or enlarge it",
        ) from error


def _write_durably(path: Path, content: bytes) -> None:
    # Left behind by a killed process of the same number, or planted: either way it is not followed, only replaced.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
