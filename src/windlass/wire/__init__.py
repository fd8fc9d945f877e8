"""Everything that crosses a process boundary: strict readers, the one validator, and manifests in both directions.

A document passes `documents` (bytes to plain data), then `job` (plain data to a Submission); on the way out `render` makes a
manifest of what the read model knows. Nothing here does I/O, so that the command line may use the same door as the server.
"""
