"""The detached side must come up in a blink and stay small."""

import subprocess
import sys

PROBE = """
import sys
import windlass.adapters.runtime.process.executor
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


def test_the_executor_imports_nothing_but_the_standard_library() -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, check=True, env=environment, timeout=240
    )
    ours = {"windlass", "__main__", "sitecustomize", "_distutils_hack", "_virtualenv", "__editables_finder"}
    assert set(found.stdout.split()) <= ours
