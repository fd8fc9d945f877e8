"""A place to run the program in as a plain process: a directory like the job's volume, and its environment."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from examples.inference import make_network
from tests.inference.image import EXAMPLE
from tests.inference.pictures import Rgb, framed_png

RED: Rgb = (226, 31, 58)
GREEN: Rgb = (20, 200, 90)


@dataclass(kw_only=True)
class Workbench:
    """One run's surroundings, whole at first; a test spoils what it is about."""

    volume: Path
    packages: Path
    before_packages: Path = EXAMPLE
    """A directory whose modules come before the packages' own."""
    variables: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)

    @property
    def input(self) -> Path:
        return self.volume / "input.jpg"

    @property
    def weights(self) -> Path:
        return self.volume / "resnet50.onnx"

    @property
    def digest(self) -> Path:
        return self.volume / "resnet50.onnx.sha256"

    @property
    def labels(self) -> Path:
        return self.volume / "resnet50.labels.txt"

    @property
    def output(self) -> Path:
        return self.volume / "output.json"

    def furnish(self) -> "Workbench":
        """The picture and the network, and settings that point at them."""
        self.input.write_bytes(framed_png((448, 256), (224, 224), RED, GREEN))
        make_network.write(self.volume, "resnet50")
        self.variables |= {
            "WINDLASS_GPU": "0",
            "WINDLASS_INPUT": str(self.input),
            "WINDLASS_OUTPUT": str(self.output),
            "WINDLASS_WEIGHTS": str(self.weights),
        }
        return self

    def replace_weights(self, content: bytes) -> None:
        """Another network, with the digest that belongs to it."""
        self.weights.write_bytes(content)
        self.digest.write_text(make_network.digest_line(content, self.weights.name))

    def run(self) -> "subprocess.CompletedProcess[str]":
        """The program, as the image starts it."""
        return self.python("-P", "-m", "infer", *self.flags)

    def python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The interpreter with the program and its packages at hand."""
        path = f"{EXAMPLE}:{self.before_packages}:{self.packages}"
        return subprocess.run(
            [sys.executable, *arguments],
            env={**self.variables, "PYTHONPATH": path, "LC_ALL": "C.UTF-8"},
            cwd=self.volume,
            capture_output=True,
            text=True,
            timeout=600,
        )
