"""The inference workload's entry: settings, picture, weights, network, answer, in this order.

It runs inside a job's container and knows nothing of the platform but the variables it is given and the volume at
`/artifacts`. Cheap checks come first, so that a job with a missing input does not wait for a GPU library to load.
"""

import os
import sys
import time

from infer import settings as job
from infer.failures import Exit, Failure


def main() -> int:
    """Exit code of the process; a failure is one line on stderr."""
    try:
        run(job.read(sys.argv[1:], os.environ))
    except Failure as failure:
        print(f"infer: {failure.line}", file=sys.stderr)
        return failure.code
    return 0


def run(settings: job.Settings) -> None:
    """One picture in, one answer out."""
    try:
        # Not at the top: a missing package is to be a clear line too, and not a traceback.
        from infer import picture, weights

        tensor = picture.load(settings.input, picture.RECIPES[settings.model])
        content = weights.read(settings.weights, settings.weights_sha256)
        labels = weights.read_labels(settings.labels, settings.weights)

        # The library's official builds report their use to its maker, and keep an identifier of the machine for it in
        # the user's home, unless told not to before they are loaded. A job's doings are nobody else's business.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        from infer import answer, network
    except ImportError as error:
        raise Failure(
            Exit.DEPENDENCY_MISSING,
            wrong=f"a package is missing or broken ({error})",
            expected="what requirements.txt names",
            remedy="build the image from the Dockerfile, or pip install --require-hashes -r requirements.txt",
        ) from error

    net = network.load(content, gpu=settings.gpu, allow_cpu=settings.allow_cpu, threads=settings.threads)
    note = f", in place of the GPU that was asked for: {net.why_no_gpu}" if settings.gpu and net.why_no_gpu else ""
    print(f"infer: running {settings.model} on device {net.device}{note}", flush=True)
    logits, elapsed_ms = network.infer(net, tensor)
    top = answer.top5(logits, labels)
    answer.write(
        settings.output,
        answer.compose(model=settings.model, top=top, elapsed_ms=elapsed_ms, device=net.device, at=time.time()),
    )
    best = top[0]
    print(
        f"infer: {best['label']} ({best['probability']:.1%}) in {elapsed_ms:.1f} ms; wrote {settings.output}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
