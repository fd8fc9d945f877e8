"""Plain processes on one machine. `runtime` is the server's side; `executor` and what it imports is the detached side.

server                 detached, one per node directory                     one per run (reused)
runtime ── link ── socket ── doors ── keeper (starts once) ── crew ── fork ── shim ── spawn ── the workload
   ├─ session ───────────────┴─ visit (exec, debug) ──── relay ──── terminal ─┤                   │
   └─ follow ──── journal (order, started, running, exit) ────────────────────┴─ stdout, stderr ──┘

Whoever dies, the rest goes on: a server finds its executor, an executor its shims, and an end is in the run's journal.

This file stays empty of imports: the executor is started as `python -m windlass.adapters.runtime.process.executor` and must
come up in a blink and stay small, so nothing on its import path may pull in more than the standard library.
"""
