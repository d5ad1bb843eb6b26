"""The real Pulumi engine and a real Kubernetes API server, built from package registries, for the tests.

`python -m tools.engine build` builds what is missing, `python -m tools.engine status` says what is there.
"""
