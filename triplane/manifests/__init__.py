"""Settings to Kubernetes objects: pure functions, one file a layer, each returning complete manifests as plain dicts.

`fleet` puts the layers together; `nodes`, `queues`, `replicas` and `workloads` write them; `labels` holds the keys
that tie them to one another; `drift` and `capacity` say what a change or a pool means for running nodes.
"""
