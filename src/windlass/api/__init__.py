"""HTTP: translation only. Requests become wire models, errors become problems, views become manifests; control decides.

`app` puts the parts together, `server` listens. A request passes `envelope` (id, host, metrics, last resort), then `auth`, then
the route of its subject; what is refused on the way becomes a problem in `problems`.
"""
