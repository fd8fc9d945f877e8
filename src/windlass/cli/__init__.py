"""The command line: it asks through `client` and shows, and never decides.

`app.build` makes the `windlass` command and `egpu.build` the `egpu` command. Each verb is a module of `commands`, imported
only when it is called, because the time to the first line of output is mostly imports.
"""
