"""A stand-in for onnxruntime with CUDA, put before the real one on the path: no test machine has a GPU.

It has what the program uses of the library, behaves as PRETEND_CUDA says, and gives the logits of class 7.
"""

import os
from types import SimpleNamespace
from typing import Any

import numpy as np

CUDA = os.environ["PRETEND_CUDA"]  # works, is dropped, fails to open, fails to run


class SessionOptions:
    def add_session_config_entry(self, key: str, value: str) -> None:
        pass


class InferenceSession:
    def __init__(self, content: bytes, options: SessionOptions, providers: list[str], enable_fallback: int) -> None:
        assert not enable_fallback, "the real one would change devices by itself"
        self._on_gpu = "CUDAExecutionProvider" in providers
        if self._on_gpu and CUDA == "fails to open":
            raise RuntimeError("CUDA failure 100: no CUDA-capable device is detected")
        self._providers = [name for name in providers if not (CUDA == "is dropped" and name.startswith("CUDA"))]

    def get_providers(self) -> list[str]:
        return self._providers

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="picture", type="tensor(float)", shape=[1, 3, 224, 224])]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="logits", type="tensor(float)", shape=["batch", 1000])]

    def run(self, outputs: list[str], inputs: dict[str, Any]) -> list[Any]:
        if self._on_gpu and CUDA == "fails to run":
            raise RuntimeError("CUDA failure 2: out of memory")
        logits = np.zeros((1, 1000), dtype=np.float32)
        logits[0, 7] = 50
        return [logits]


def preload_dlls() -> None:
    pass


def set_default_logger_severity(level: int) -> None:
    pass


def get_available_providers() -> list[str]:
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]
