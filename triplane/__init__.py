"""Triplane: GPU inference on Kubernetes as code. Nodes, gangs and queues, replicas: declared and judged together."""

__version__ = "0.1.0"
