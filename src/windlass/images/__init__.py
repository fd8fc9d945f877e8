"""image-sync: the same images on every node, over ssh, from cron or by hand. Needs no server.

In the order of a run: `config` → `lock` → `logs` → `ssh` (a `Shell` per node) → `runtimes` (what is there) →
`core.distribution` (what is missing) → `pulls` and `peers` (get it) → `report`, told by `render` to people and by `journal`
to the logs. `sync` is that order; `command` is the command line. `status`, `pruning` and `copying` are the other verbs, on
the same parts.
"""
