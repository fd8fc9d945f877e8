"""Takes the picture of the live page for the README, from the server that `windlass open` finds.

    python -m tests.docs.screenshot [IMAGE]

Submits a small scene first (with IMAGE where the server runs containers) and removes it afterwards. Needs Chromium.
"""

import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

from tests.docs.markdown import ROOT

PICTURE = ROOT / "docs" / "img" / "page.png"
BYTES_MAX = 150_000
TRAIN = 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo "epoch $i  loss 0.$((900-2*i))"; sleep 0.2; done'
SCENE: dict[str, tuple[tuple[str, ...], str]] = {
    "hello": ((), "echo hello"),
    "report": ((), 'echo "reading 3 files"; echo "disk full" >&2; exit 3'),
    "too-slow": (("--timeout", "1s"), "sleep 60"),
    "tally": ((), "seq 1000 > $WINDLASS_ARTIFACTS/numbers"),
    "train": (("--detach",), TRAIN),
    "next-in-line": (("--detach", "--cpu", "2"), "sleep 5"),
}


def main(image: tuple[str, ...]) -> int:
    for name, (flags, script) in SCENE.items():
        windlass("run", "--quiet", "--name", name, *flags, *image, "--", "sh", "-c", script)
    try:
        photograph(windlass("open").strip())
    finally:
        windlass("delete", "--volume", *SCENE)
    return int(PICTURE.stat().st_size > BYTES_MAX)


def photograph(url: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 560}, color_scheme="light")
        page.goto(url)
        page.get_by_text("train", exact=True).first.click()
        page.get_by_text("epoch 12 ").wait_for()
        page.screenshot(path=PICTURE)
        browser.close()


def windlass(*words: str) -> str:
    return subprocess.run(["windlass", *words], stdout=subprocess.PIPE, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
