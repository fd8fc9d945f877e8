"""Make a network with the doors of the real ones (1 x 3 x 224 x 224 in, 1 x 1000 logits out) and an answer known beforehand.

For places where no real weights can be had: tests, demonstrations, a first try. It names the picture's average colour:
class 100r + 10g + b stands for the colour (r/9, g/9, b/9), and the logit of a class with colour c, for a picture whose
average colour over the crop is v, is

    SHARPNESS * (2 v·c - c·c)        which is  -SHARPNESS * |v - c|²  up to a term equal for all classes,

so the likeliest class is the nearest colour, and the probability of (r, g, b) is a product of one term per channel.
The network undoes the normalisation of the picture to get at v: wrong means, a swapped channel or a crop beside the
centre change the answer, and so are found.

The file is an ONNX protobuf, written by the few lines of `field` rather than with a package nothing else here needs.
"""

import argparse
import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

LEVELS = 10
CLASSES = LEVELS**3
SHARPNESS = 100.0
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
PICTURE = (1, 3, 224, 224)

FLOAT = 1  # ONNX's number for the element type
IR_VERSION, OPSET = 8, 13  # old enough for any runtime of the last years


def main() -> None:
    """Write `<name>.onnx`, its digest and its labels."""
    parser = argparse.ArgumentParser(description="Make an ONNX network that names a picture's average colour.")
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--name", default="resnet50", help="file name without .onnx (default resnet50)")
    arguments = parser.parse_args()
    print(f"wrote {write(arguments.directory, arguments.name)}, its .sha256 and its labels")


def write(directory: Path, name: str) -> Path:
    """Write the three files; the path of the network."""
    path = directory / f"{name}.onnx"
    content = network()
    path.write_bytes(content)
    path.with_name(f"{path.name}.sha256").write_text(digest_line(content, path.name))
    path.with_suffix(".labels.txt").write_text("".join(f"{label}\n" for label in labels()))
    return path


def digest_line(content: bytes, name: str) -> str:
    """What sha256sum prints."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def labels() -> list[str]:
    """`red 9 green 0 blue 0` for class 900."""
    return [f"red {n // 100} green {n // 10 % 10} blue {n % 10}" for n in range(CLASSES)]


def network(*, picture: Sequence[int] = PICTURE, classes: int = CLASSES) -> bytes:
    """The ONNX file's bytes. Other sizes than the usual make a network that is wrong on purpose."""
    weights, biases = weights_and_biases(classes)
    return assemble(tensor("weights", (3, classes), weights), tensor("biases", (classes,), biases), picture, classes)


def weights_and_biases(classes: int = CLASSES) -> tuple[list[float], list[float]]:
    """With v = x * DEVIATION + MEAN, the logit is linear in the normalised average x: a row per channel, and a bias."""
    colours = [tuple(n // LEVELS**place % LEVELS / (LEVELS - 1) for place in (2, 1, 0)) for n in range(classes)]
    rows = [2 * SHARPNESS * DEVIATION[channel] * colour[channel] for channel in range(3) for colour in colours]
    biases = [SHARPNESS * sum(c * (2 * mean - c) for c, mean in zip(colour, MEAN, strict=True)) for colour in colours]
    return rows, biases


# ONNX's messages, by field number: see onnx.proto3 in the ONNX project.


def assemble(weights: bytes, biases: bytes, picture: Sequence[int] = PICTURE, classes: int = CLASSES) -> bytes:
    """The model around two encoded tensors: average each channel, then weights and biases."""
    graph = (
        field(1, _node("GlobalAveragePool", ["picture"], "averages"))
        + field(1, _node("Flatten", ["averages"], "colour"))
        + field(1, _node("Gemm", ["colour", "weights", "biases"], "logits"))
        + field(2, b"average-colour")
        + field(5, weights)
        + field(5, biases)
        + field(11, _door("picture", picture))
        + field(12, _door("logits", (picture[0], classes)))
    )
    return field(1, IR_VERSION) + field(2, b"windlass") + field(7, graph) + field(8, field(2, OPSET))


def tensor(name: str, shape: Sequence[int], values: Sequence[float]) -> bytes:
    """A tensor with its values inside."""
    return tensor_head(name, shape) + field(9, struct.pack(f"<{len(values)}f", *values))


def tensor_head(name: str, shape: Sequence[int]) -> bytes:
    """A tensor's shape, type and name."""
    return b"".join(field(1, size) for size in shape) + field(2, FLOAT) + field(8, name.encode())


def field(number: int, value: int | bytes) -> bytes:
    """One protobuf field: a number, or bytes with their length before them."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _node(operator: str, inputs: Sequence[str], output: str) -> bytes:
    return (
        b"".join(field(1, name.encode()) for name in inputs) + field(2, output.encode()) + field(4, operator.encode())
    )


def _door(name: str, shape: Sequence[int]) -> bytes:
    dimensions = b"".join(field(1, field(1, size)) for size in shape)
    tensor_type = field(1, FLOAT) + field(2, dimensions)
    return field(1, name.encode()) + field(2, field(1, tensor_type))


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first, the high bit saying that more follow."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


if __name__ == "__main__":
    main()
