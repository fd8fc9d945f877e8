"""An event loop in a thread, and a signal that comes while it begins."""

import subprocess
import sys

INTERRUPTED = """
import os, signal, time
from anyio import from_thread
from windlass.client.kube.portal import open_portal

begin = from_thread.run_eventloop

def begin_late(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)  # so that whoever waits for the loop hears of it before
    return begin(*arguments, **options)

from_thread.run_eventloop = begin_late
try:
    with open_portal():
        print("entered")
except KeyboardInterrupt:
    print("heard")
"""


def test_a_signal_that_comes_while_it_begins_is_heard() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("heard\n", "")
