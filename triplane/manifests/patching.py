"""The two ways past the generators: patches of generated objects, and further manifests beside them.

Both change what is deployed and neither is exempt: a patched or an added object is judged as every other.
"""

import difflib
import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triplane.documents import Document, DocumentError, read_documents
from triplane.documents.reading import MAX_FILE_BYTES
from triplane.manifests.identity import Identity, ManifestError, identify
from triplane.settings.stack import PatchSettings

Manifest = dict[str, Any]


def apply_patches(
    objects: Sequence[Manifest], patches: Sequence[PatchSettings]
) -> tuple[list[Manifest], frozenset[Identity]]:
    """`objects` in the same order with each patch merged in, and the identities of those that a patch names.

    Patches apply in their order. Raises ManifestError, one line a patch, for a target that does not exist or is not one
    object, and for a patch that would make its target another object.
    """
    result = list(objects)
    identities = [identify(manifest) for manifest in result]
    patched: set[Identity] = set()
    errors: list[str] = []
    for index, patch in enumerate(patches):
        try:
            at = _target(patch, identities)
            result[at] = _patched(result[at], patch)
            patched.add(identities[at])
        except ManifestError as error:
            errors.append(f"patches[{index}]: {error}")
    if errors:
        raise ManifestError("\n".join(errors))
    return result, frozenset(patched)


def merge(value: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): mappings merge key by key, null removes a key, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), change)
    return merged


def _target(patch: PatchSettings, identities: Sequence[Identity]) -> int:
    wanted = patch.target
    named = [at for at, found in enumerate(identities) if (found.kind, found.name) == (wanted.kind, wanted.name)]
    matches = [at for at in named if wanted.namespace in (None, identities[at].namespace)]
    if len(matches) == 1:
        return matches[0]
    label = f"{wanted.kind} {wanted.namespace}/{wanted.name}" if wanted.namespace else f"{wanted.kind} {wanted.name}"
    if matches:
        found = ", ".join(f"{identities[at]} ({identities[at].api_version})" for at in matches)
        remedy = (
            "" if wanted.namespace else ". Add target.namespace" if _one_group(identities[at] for at in matches) else ""
        )
        raise ManifestError(f"{label} is {len(matches)} objects: {found}{remedy}")
    raise ManifestError(f"the stack declares no {label}. {_what_exists(label, wanted.kind, identities)}")


def _one_group(identities: Iterator[Identity]) -> bool:
    return len({identity.group for identity in identities}) == 1


def _what_exists(label: str, kind: str, identities: Sequence[Identity]) -> str:
    """`Nearest: NodePool serving. NodePools here: serving, training` in a few words."""
    texts = [str(identity) for identity in identities]
    nearest = difflib.get_close_matches(label, texts, n=1, cutoff=0.5)
    same_kind = [text for text, identity in zip(texts, identities, strict=True) if identity.kind == kind]
    kinds = sorted({identity.kind for identity in identities})
    exists = (
        f"Of this kind: {', '.join(same_kind)}" if same_kind else f"Kinds it declares: {', '.join(kinds) or 'none'}"
    )
    return f"Nearest: {nearest[0]}. {exists}" if nearest else exists


def _patched(manifest: Manifest, patch: PatchSettings) -> Manifest:
    before = identify(manifest)
    merged: Manifest = merge(manifest, patch.merge)
    try:
        after = identify(merged)
    except ManifestError as error:
        raise ManifestError(f"{before} would no longer be an object: {error}") from None
    if after != before:
        raise ManifestError(
            f"a patch keeps its target's apiVersion, kind, metadata.name and metadata.namespace, and this one makes "
            f"{before} ({before.api_version}) into {after} ({after.api_version}). Add an object of its own to manifests"
        )
    if isinstance(manifest.get("spec"), Mapping) and not (isinstance(merged.get("spec"), Mapping) and merged["spec"]):
        raise ManifestError(f"a patch takes the whole spec of {before} away. To be rid of the object, change the stack")
    return merged


def extra_manifests(patterns: Sequence[str], root: Path) -> list[Manifest]:
    """The Kubernetes objects in the files that `patterns` match, relative to `root`.

    Files in the order of their patterns, then of their names, each once; a List is its items. Raises ManifestError, one
    line a fault with its file and line: a pattern that matches no file, a file that cannot be read, a document that is
    no Kubernetes object.
    """
    errors: list[str] = []
    objects: list[Manifest] = []
    files: dict[Path, None] = {}
    for pattern in patterns:
        matches = [root / match for match in sorted(glob.glob(pattern, root_dir=root, recursive=True))]  # noqa: PTH207 - takes absolute patterns
        found = [path for path in matches if path.is_file()]
        if not found:
            what = (
                "is a folder: write the files, such as " + pattern.rstrip("/") + "/*.yaml"
                if matches
                else "matches no file"
            )
            errors.append(f"manifests: {pattern} {what} (relative to {root})")
        files.update(dict.fromkeys(found))
    for path in files:
        try:
            objects += _objects_of(path, root)
        except (ManifestError, DocumentError) as error:
            errors += str(error).splitlines()
        except UnicodeDecodeError as error:
            errors.append(f"{_shown(path, root)}: not UTF-8 (byte {error.start})")
        except OSError as error:
            errors.append(f"{_shown(path, root)}: cannot be read: {error.strerror}")
    if errors:
        raise ManifestError("\n".join(errors))
    return objects


def _objects_of(path: Path, root: Path) -> list[Manifest]:
    if path.stat().st_size > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 2**20
        raise ManifestError(f"{_shown(path, root)}: larger than {limit} MiB, which no set of manifests is: split it")
    documents = list(read_documents(path.read_text(encoding="utf-8-sig"), _shown(path, root)))
    if not documents:
        raise ManifestError(f"{_shown(path, root)}: holds no Kubernetes object")
    errors: list[str] = []
    objects: list[Manifest] = []
    for document in documents:
        for place, value in _items(document):
            try:
                identify(value if isinstance(value, Mapping) else {})
            except ManifestError as error:
                errors.append(
                    f"{place}  {error}" if isinstance(value, Mapping) else f"{place}  a Kubernetes object is a mapping"
                )
            else:
                objects.append(value)
    if errors:
        raise ManifestError("\n".join(errors))
    return objects


def _items(document: Document) -> Iterator[tuple[str, Any]]:
    value = document.value
    if isinstance(value, Mapping) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield str(document.position(("items", index))), item
    else:
        yield str(document.start), value


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
