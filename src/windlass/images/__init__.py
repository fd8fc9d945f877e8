"""image-sync: the same images on every node, over ssh, from cron or by hand. Needs no server.

In the order of a run: `lock` → `config` → `logs` → `ssh` (a `Shell` per node) → `runtimes` (what is there) →
`core.distribution` (what is missing) → `pulls` and `peers` (get it) → `report`. `sync` is that order; `command` is the
command line. `status`, `pruning` and `copying` are the other verbs, on the same parts.
"""
