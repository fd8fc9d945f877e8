"""Step 1: the picture as the network wants it. The steps are torchvision's, which both models were trained and measured with.

The file is whatever somebody uploaded, so it is treated as hostile: few formats, a bound on pixels before any is
decoded, and one kind of failure for the many things a decoder may raise.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from infer.failures import Exit, Failure

FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP")  # all decode in this process: EPS, for one, would start Ghostscript
PIXELS_MAX: Final = 64_000_000  # 8000 x 8000; decoded about 190 MB


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model's pictures are prepared. Means and deviations are ImageNet's, per channel, of values in 0..1."""

    shorter_side: int = 256
    crop: int = 224
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)


# Equal today (IMAGENET1K_V1 of both). A model with another recipe gets its own row rather than a condition below.
RECIPES: Final = {"resnet50": Recipe(), "mobilenet_v3_small": Recipe()}


def load(path: Path, recipe: Recipe) -> NDArray[np.float32]:
    """The picture as 1 x 3 x crop x crop."""
    return to_tensor(_decode(path, recipe), recipe)


def to_tensor(picture: Image.Image, recipe: Recipe) -> NDArray[np.float32]:
    """Resize, crop the centre, scale to 0..1, normalise, channels first."""
    cropped = _crop_centre(_resize(picture, recipe.shorter_side), recipe.crop)
    values = np.asarray(cropped, dtype=np.float32) / np.float32(255)
    normal = (values - np.array(recipe.mean, dtype=np.float32)) / np.array(recipe.deviation, dtype=np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[np.newaxis])


def _decode(path: Path, recipe: Recipe) -> Image.Image:
    if not path.is_file():  # a directory, a socket or a pipe that would never end is as good as nothing
        raise Failure(
            Exit.INPUT_MISSING,
            wrong=f"no input file at {path}",
            expected="the picture to classify",
            remedy="upload it with the project (--project-dir) or with copy-file, or set WINDLASS_INPUT",
        )
    try:
        with warnings.catch_warnings():
            # Ours is the stricter bound, checked below; Pillow's warning would be a second line about the same thing.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as picture:
                _refuse_bombs(path, picture.size, recipe)
                return picture.convert("RGB")
    except Failure:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path, str(error)) from error
    except PermissionError as error:
        raise Failure(
            Exit.INPUT_MISSING,
            wrong=f"{path} may not be read by this user",
            expected="a file readable by the container's user",
            remedy="make it readable (chmod a+r) before uploading",
        ) from error
    except Exception as error:  # decoders meet hostile bytes with anything: OSError, SyntaxError, struct.error, …
        raise Failure(
            Exit.INPUT_NOT_A_PICTURE,
            wrong=f"{path} could not be decoded ({type(error).__name__}: {error})",
            expected=f"a whole {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file",
            remedy="check the upload, or convert the picture",
        ) from error


def _refuse_bombs(path: Path, size: tuple[int, int], recipe: Recipe) -> None:
    """Before decoding. A sliver of 1 x 50000 is small, yet would be 256 x 12800000 once its shorter side is scaled."""
    for width, height in (size, _resized(size, recipe.shorter_side)):
        if width * height > PIXELS_MAX:
            raise _too_large(path, f"{width} x {height} pixels")


def _too_large(path: Path, what: str) -> Failure:
    return Failure(
        Exit.INPUT_TOO_LARGE,
        wrong=f"{path} is too large to decode safely ({what})",
        expected=f"at most {PIXELS_MAX} pixels, also once its shorter side is scaled",
        remedy="scale the picture down or crop it: the network sees 224 x 224 of it",
    )


def _resize(picture: Image.Image, shorter_side: int) -> Image.Image:
    size = _resized(picture.size, shorter_side)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.BILINEAR)


def _resized(size: tuple[int, int], shorter_side: int) -> tuple[int, int]:
    width, height = size
    # torchvision truncates the longer side; rounding would move the crop by a pixel.
    longer_side = int(shorter_side * max(size) / min(size))
    return (shorter_side, longer_side) if width <= height else (longer_side, shorter_side)


def _crop_centre(picture: Image.Image, side: int) -> Image.Image:
    width, height = picture.size
    left, top = round((width - side) / 2), round((height - side) / 2)  # half to even, as torchvision's
    return picture.crop((left, top, left + side, top + side))
