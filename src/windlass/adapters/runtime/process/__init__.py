"""Plain processes on one machine. `runtime` is the server's side; `executor` and what it imports is the detached side.

This file stays empty of imports: the executor is started as `python -m windlass.adapters.runtime.process.executor` and must
come up in a blink and stay small, so nothing on its import path may pull in more than the standard library.

    server                        detached, one per node directory          one per run
    runtime ── link ── unix socket ── executor (journal of starts) ── fork ── shim ── spawn ── the workload
       └─ follow (output files) ─────────────────────────────────────────────────┘ (stdout, stderr, exit.json)
"""
