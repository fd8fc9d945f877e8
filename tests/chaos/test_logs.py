"""What a container prints is kept whole over a server that dies again and again: no line lost, none doubled."""

import random
import time

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for

KILLS = 5
LINES = 3000
SCRIPT = f"""i=0
while [ $i -lt {LINES} ]; do
  echo out $i; echo err $i >&2; i=$((i+1))
  [ $((i%100)) -eq 0 ] && sleep 0.3
done
exit 0"""


def test_no_line_is_lost_or_doubled_over_kills(docker_engine: DockerEngine) -> None:
    chance = random.Random(7)
    with WindlassServer(docker_host=docker_engine.host) as server:
        server.cli("run", "--detach", "--name", "chatty", IMAGE, "--", "sh", "-c", SCRIPT)
        wait_for(lambda: server.cli("logs", "chatty", "--tail", "1", check=False).out, 120, "the first line")
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.6))  # the moment of the kill is the chance under test
            server.kill()
            server.start()
        followed = server.cli("logs", "-f", "chatty", timeout=120)
        assert followed.out.splitlines() == [f"out {n}" for n in range(LINES)]
        assert followed.err.splitlines() == [f"err {n}" for n in range(LINES)]
        uid = server.client().job("chatty")["metadata"]["uid"]
        wait_for(lambda: uid not in str(docker_engine.containers()), 120, "the container to go")
        again = server.cli("logs", "chatty")
        assert (again.out, again.err) == (followed.out, followed.err)
