"""Step 3: the network itself, on the device the job asked for, and never on another one in silence."""

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from infer.failures import Exit, Failure
from infer.weights import CLASSES

CUDA: Final = "CUDAExecutionProvider"
CPU: Final = "CPUExecutionProvider"
INPUT_SHAPE: Final = (1, 3, 224, 224)
OUTPUT_SHAPE: Final = (1, CLASSES)
ERRORS_ONLY: Final = 3  # the library's own warnings would bury the one line that matters


@dataclass(frozen=True, kw_only=True)
class Network:
    """A loaded network with the right door in and the right door out.

    A door is the library's input or output: a name, an element type, a shape.
    """

    session: Any
    device: str
    why_no_gpu: str
    """Empty if it runs on one, or none was wanted."""
    input_name: str
    output_name: str


def load(content: bytes, *, gpu: int | None, allow_cpu: bool, threads: int) -> Network:
    """The network on the GPU if one is wanted and works, else on the CPU if that is allowed, else a Failure."""
    ort.set_default_logger_severity(ERRORS_ONLY)
    session, why_no_gpu = _open_on_gpu(content, threads) if gpu != 0 else (None, "")
    device = "cpu" if session is None else "cuda:0"
    # On the CPU also where it is not allowed: weights that load nowhere are to be called that, not a missing GPU.
    session = session or _open_on_cpu(content, threads)
    if device == "cpu" and not allow_cpu:
        raise _gpu_missing(gpu, why_no_gpu)
    return Network(
        session=session,
        device=device,
        why_no_gpu=why_no_gpu,
        input_name=_door("input", session.get_inputs(), INPUT_SHAPE),
        output_name=_door("output", session.get_outputs(), OUTPUT_SHAPE),
    )


def infer(network: Network, tensor: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """The logits, and how many milliseconds the network took for them (decoding and loading are not in it)."""
    began = perf_counter_ns()
    try:
        (logits,) = network.session.run([network.output_name], {network.input_name: tensor})
    except Exception as error:  # the library's exceptions share no base but this
        raise _inference_failed(f"stopped on {network.device} ({error})") from error
    elapsed_ms = (perf_counter_ns() - began) / 1e6
    if logits.shape != OUTPUT_SHAPE:  # a dimension left open in the file shows its size only now
        raise _wrong_shape("output", f"came out as {_dimensions(logits.shape)}", OUTPUT_SHAPE)
    if not np.isfinite(logits).all():
        raise _inference_failed("gave logits that are not finite numbers")
    return logits[0], elapsed_ms


def _open_on_gpu(content: bytes, threads: int) -> tuple[Any | None, str]:
    """A session on the first GPU, or the reason why there is none."""
    ort.preload_dlls()  # CUDA and cuDNN from the wheels of requirements-gpu.txt; nothing in a build without CUDA
    if CUDA not in ort.get_available_providers():
        return None, "this onnxruntime is built without CUDA"
    try:
        session = _open(content, [CUDA, CPU], threads)
    except Exception as error:  # no driver, no device, no memory on it, …; a network at fault fails on the CPU as well
        return None, str(error)
    # Being available means being built in. Only the session knows what it got.
    if CUDA not in session.get_providers():
        return None, "CUDA could not be loaded"
    return session, ""


def _open_on_cpu(content: bytes, threads: int) -> Any:
    try:
        return _open(content, [CPU], threads)
    except Exception as error:  # the library's exceptions share no base but this
        raise Failure(
            Exit.WEIGHTS_UNLOADABLE,
            wrong=f"the weights are no network this program can load ({error})",
            expected="an ONNX model in a single file (no external data)",
            remedy="export it again, as the README shows",
        ) from error


def _open(content: bytes, providers: list[str], threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A model may name further files for its weights, and the library would take them from the working directory: bytes
    # that no digest covers. Under /dev/null there is never a file, so such a model does not load.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", "/dev/null")
    # Without this the library goes over to the CPU by itself, even in the middle of a run, and we would name the wrong device.
    return ort.InferenceSession(content, options, providers=providers, enable_fallback=0)


def _door(which: str, doors: list[Any], expected: tuple[int, ...]) -> str:
    """The name of the network's only input or output, if it has the expected type and shape."""
    if len(doors) != 1:
        raise _wrong_shape(which, f"is not one but {len(doors)}", expected)
    (door,) = doors
    if door.type != "tensor(float)":
        raise _wrong_shape(which, f"is a {door.type}", expected)
    # A dimension left open (a name or None in place of a number) takes whatever it is given.
    fits = len(door.shape) == len(expected) and all(
        not isinstance(size, int) or size == wanted for size, wanted in zip(door.shape, expected, strict=True)
    )
    if not fits:
        raise _wrong_shape(which, f"is {_dimensions(door.shape)}", expected)
    return str(door.name)


def _wrong_shape(which: str, fault: str, expected: tuple[int, ...]) -> Failure:
    return Failure(
        Exit.WEIGHTS_WRONG_SHAPE,
        wrong=f"the network's {which} {fault}",
        expected=f"one float32 tensor of {_dimensions(expected)}",
        remedy="export the model for one picture and ImageNet's classes, as the README shows",
    )


def _dimensions(shape: Any) -> str:
    return " x ".join(str(size) for size in shape) or "a single number"


def _gpu_missing(gpu: int | None, why: str) -> Failure:
    return Failure(
        Exit.GPU_MISSING,
        wrong=f"GPUs asked for: {'any' if gpu is None else gpu}; none is usable here ({why}), and the CPU is not allowed",
        expected="a GPU in this container, and an image with onnxruntime-gpu",
        remedy="run where there is one, ask for none (--gpu 0), or set WINDLASS_ALLOW_CPU=1",
    )


def _inference_failed(fault: str) -> Failure:
    return Failure(
        Exit.INFERENCE_FAILED,
        wrong=f"the network {fault}",
        expected=f"{CLASSES} finite logits",
        remedy="give the job more memory if it ran out, else check how the weights were exported",
    )
