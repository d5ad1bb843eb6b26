"""Values that are never shown: which paths of an object hold one, and what a line of text gives away."""

import re
from typing import Any

from triplane.documents import Path

MASK = "***"

_SECRET_WORDS = (
    r"password|passwd|secret|token|credential|api[-_]?key|private[-_]?key|access[-_]?key|client[-_]?key|kubeconfig"
)
_SECRET_KEY = re.compile(rf"(?i)({_SECRET_WORDS})")
# References to a secret by its name are no secret: secretKeyRef, secretName, tokenSecretRef, imagePullSecrets; nor is
# httpTokens, which says whether EC2 metadata asks for a token.
_REFERENCE_KEY = re.compile(
    r"(?i)(ref|refs|name|names|namespace|class|path|file|mountpath|optional|pullsecrets|httptokens)$"
)
_SECRET_LINE = re.compile(rf"(?i)^(\s*-?\s*[\"']?([\w.-]*(?:{_SECRET_WORDS})[\w.-]*)[\"']?\s*:\s*)(\S.*)$")
_INLINE = re.compile(
    rf"(?i)((?:--?|\b)[\w.-]*(?:{_SECRET_WORDS})[\w.-]*[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)([^\s\"',}}\]]+)"
)
_KUBECONFIG = re.compile(r"(client-key-data|client-certificate-data|certificate-authority-data)")
_BASIC = re.compile(r"(?i)(://[^/\s:@]+:)([^@/\s]+)(@)")

_SECRET_SPECS = frozenset(("TriggerAuthentication", "ClusterTriggerAuthentication"))


def is_secret(kind: str, path: Path, value: Any = None) -> bool:
    """Whether what stands at that path of an object of that kind (`Secret`) must not be shown."""
    if kind == "Secret" and path[:1] in (("data",), ("stringData",)):
        return True
    if kind in _SECRET_SPECS and path[:1] == ("spec",):
        return True
    for index, part in enumerate(path):
        if part == "env" and path[index + 2 : index + 3] == ("value",):
            return True
        if isinstance(part, str) and _SECRET_KEY.search(part) and not _REFERENCE_KEY.search(part):
            return True
    return isinstance(value, str) and _KUBECONFIG.search(value) is not None


def masked(text: str) -> str:
    """A line of text without what its own words call secret: `--api-key=***`, `password: ***`."""
    if _SECRET_KEY.search(text):  # most lines hold none of the words, and the searches for them in place take long
        if (match := _SECRET_LINE.match(text)) and not _REFERENCE_KEY.search(match[2]):
            return f"{match[1]}{MASK}"
        text = _INLINE.sub(_masked_word, text)
    return _BASIC.sub(rf"\1{MASK}\3", text) if "://" in text else text


def _masked_word(match: re.Match[str]) -> str:
    key = match[1].rstrip("\"'=: \t")
    return match[0] if _REFERENCE_KEY.search(key) else f"{match[1]}{MASK}"
