"""Step 2: the network's bytes and its labels. Nothing is loaded whose digest was not checked.

The bytes that were hashed are the bytes that are loaded: a file changed between the two would go unseen otherwise.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Final

from infer.failures import Exit, Failure

CLASSES: Final = 1000  # ImageNet's
SHA256: Final = re.compile("[0-9a-f]{64}")


def read(path: Path, expected_sha256: str | None) -> bytes:
    """The file's bytes, if they are the ones expected."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Failure(
            Exit.WEIGHTS_MISSING,
            wrong=f"the weights {path} could not be read ({error.strerror or error})",
            expected="a readable ONNX file",
            remedy="upload it with the project or set WINDLASS_WEIGHTS; the README says where to get one",
        ) from error
    expected = _digest(path, expected_sha256)
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise Failure(
            Exit.DIGEST_MISMATCH,
            wrong=f"the weights {path} have sha256 {actual}",
            expected=expected,
            remedy="they were not loaded: fetch them again, or correct the digest if they were meant to change",
        )
    return content


def read_labels(given: Path | None, weights: Path) -> tuple[str, ...]:
    """A name for each class: from the file given, else from one beside the weights, else `class_<n>`."""
    path = given or _labels_beside(weights)
    if path is None:
        return tuple(f"class_{n}" for n in range(CLASSES))
    try:
        text = path.read_text(encoding="utf-8")
        labels = _parse_labels(text)
    except (OSError, ValueError, RecursionError) as error:
        raise _labels_unusable(path, f"could not be read ({type(error).__name__}: {error})") from error
    if len(labels) != CLASSES:
        raise _labels_unusable(path, f"have {len(labels)} entries")
    return labels


def _digest(path: Path, given: str | None) -> str:
    """The digest asked for, else the first word of `<weights>.sha256`, so that sha256sum's own output will do."""
    beside = path.with_name(f"{path.name}.sha256")
    if given is None:
        try:
            given = (beside.read_text(encoding="ascii").split() or [""])[0]
        except (OSError, ValueError) as error:
            raise Failure(
                Exit.DIGEST_MISSING,
                wrong=f"no digest for the weights {path}",
                expected=f"WINDLASS_WEIGHTS_SHA256 or a readable {beside}",
                remedy=f"write it where the weights come from: sha256sum {path.name} > {beside.name}",
            ) from error
    digest = given.strip().lower().removeprefix("sha256:")
    if not SHA256.fullmatch(digest):
        raise Failure(
            Exit.DIGEST_MISSING,
            wrong=f"{given[:80]!r} is not a sha256",
            expected="64 hexadecimal digits",
            remedy=f"set WINDLASS_WEIGHTS_SHA256 or write it anew: sha256sum {path.name} > {beside.name}",
        )
    return digest


def _labels_beside(weights: Path) -> Path | None:
    candidates = (weights.with_suffix(".labels.txt"), weights.with_name("labels.txt"), weights.with_name("labels.json"))
    return next((path for path in candidates if path.is_file()), None)


def _parse_labels(text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return tuple(line.strip() for line in text.strip().splitlines())
    labels = json.loads(text)
    if not all(isinstance(label, str) for label in labels):
        raise ValueError("a JSON list of labels holds strings only")
    return tuple(labels)


def _labels_unusable(path: Path, fault: str) -> Failure:
    return Failure(
        Exit.LABELS_UNUSABLE,
        wrong=f"the labels {path} {fault}",
        expected=f"{CLASSES} names, a line each or one JSON list of strings",
        remedy="correct the file, or remove it to have class_0, class_1, …",
    )
