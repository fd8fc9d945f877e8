"""What the answer must be, worked out with the formula in make_network's docstring and nothing from the program under test."""

import json
import math
from collections.abc import Mapping
from itertools import product
from typing import Any

from examples.inference.make_network import LEVELS, SHARPNESS

Colour = tuple[float, float, float]


def top5_of(colour: Colour) -> list[tuple[str, float]]:
    """Labels and probabilities for a picture whose average colour over the crop is `colour`, in 0..255."""
    channels = [_levels(value / 255) for value in colour]
    classes = [
        (f"red {r} green {g} blue {b}", channels[0][r] * channels[1][g] * channels[2][b])
        for r, g, b in product(range(LEVELS), repeat=3)
    ]
    return sorted(classes, key=lambda row: -row[1])[:5]


def assert_answers(answer: Mapping[str, Any], colour: Colour, *, within: float = 1e-4) -> None:
    """The five classes of `colour`: the first by name, every one's probability by the formula."""
    wanted = top5_of(colour)
    assert answer["top5"][0]["label"] == wanted[0][0]
    assert [row["label"] for row in answer["top5"]] == [label for label, _ in wanted]
    for row, (label, probability) in zip(answer["top5"], wanted, strict=True):
        assert abs(row["probability"] - probability) < within, f"{label}: {row['probability']}, not {probability}"


def through_jpeg(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """The colour a plain area has after JPEG at full quality: only the rounding of JFIF's colour space remains."""
    red, green, blue = colour
    y = round(0.299 * red + 0.587 * green + 0.114 * blue)
    cb = _byte(128 - 0.168736 * red - 0.331264 * green + 0.5 * blue)
    cr = _byte(128 + 0.5 * red - 0.418688 * green - 0.081312 * blue)
    return (
        _byte(y + 1.402 * (cr - 128)),
        _byte(y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128)),
        _byte(y + 1.772 * (cb - 128)),
    )


def read_strictly(content: bytes | str) -> dict[str, Any]:
    """`output.json`, refused if it holds a number that JSON has not."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in output.json")

    parsed: dict[str, Any] = json.loads(content, parse_constant=refuse)
    return parsed


def _levels(value: float) -> list[float]:
    """One channel's share: a softmax over the distance to each level."""
    terms = [math.exp(-SHARPNESS * (value - level / (LEVELS - 1)) ** 2) for level in range(LEVELS)]
    return [term / sum(terms) for term in terms]


def _byte(value: float) -> int:
    return min(255, max(0, round(value)))
