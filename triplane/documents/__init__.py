"""YAML and JSON text as plain values, with the place of every path.

The lowest room of the house: it knows nothing of Kubernetes or of a stack file. A document keeps the parsed node tree
beside its value, so that a line and a column are only looked up where something is found.
"""

from triplane.documents.paths import Path, render_path
from triplane.documents.reading import Document, DocumentError, Position, decode, read_documents, read_values
from triplane.documents.scalars import Dialect

__all__ = [
    "Dialect",
    "Document",
    "DocumentError",
    "Path",
    "Position",
    "decode",
    "read_documents",
    "read_values",
    "render_path",
]
