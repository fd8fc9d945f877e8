"""Pictures for the tests. PNG is written here, by hand; JPEG by Pillow in a process that has it."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

Rgb = tuple[int, int, int]


def framed_png(size: tuple[int, int], inner: tuple[int, int], colour: Rgb, frame: Rgb) -> bytes:
    """`colour` over the `inner` width and height about the centre, `frame` around it."""
    (width, height), (inner_width, inner_height) = size, inner
    side = (width - inner_width) // 2
    above = (height - inner_height) // 2
    plain = bytes(frame) * width
    crossing = bytes(frame) * side + bytes(colour) * inner_width + bytes(frame) * (width - inner_width - side)
    rows = [plain] * above + [crossing] * inner_height + [plain] * (height - inner_height - above)
    return png(size, b"".join(b"\0" + row for row in rows))


def png(size: tuple[int, int], scanlines: bytes) -> bytes:
    """A PNG that says it is of `size`, whatever it holds: the bombs of the failure table lie here."""
    header = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(scanlines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def write_jpeg(
    path: Path, packages: Path, size: tuple[int, int], inner: tuple[int, int], colour: Rgb, frame: Rgb
) -> None:
    """The same picture as a real JPEG. Edges on multiples of 8 and full colour resolution keep plain areas plain."""
    source = path.with_suffix(".png")
    source.write_bytes(framed_png(size, inner, colour, frame))
    script = "import sys; from PIL import Image; Image.open(sys.argv[1]).save(sys.argv[2], 'JPEG', quality=100, subsampling=0)"
    subprocess.run(
        [sys.executable, "-c", script, source, path], check=True, timeout=240, env={"PYTHONPATH": str(packages)}
    )
    source.unlink()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
