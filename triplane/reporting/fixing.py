"""Makes the edits of findings in the text they were found in."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from triplane.documents import DocumentError, Path
from triplane.documents.editing import EditError, TextEdit, documents_of, remove_value, set_value
from triplane.inventory import Resource
from triplane.inventory.fields import at
from triplane.inventory.files import STDIN, Sources
from triplane.rules import Finding
from triplane.rules.edits import edited
from triplane.rules.verdicts import Edit


@dataclass
class Fixes:
    """New texts by file, and what could not be fixed and why."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    fixed: list[Finding] = field(default_factory=list)
    refused: list[tuple[Finding, str]] = field(default_factory=list)

    def diff(self) -> Iterator[str]:
        """The changes as a unified diff, without line ends."""
        for file, text in self.after.items():
            old, new = self.before[file].splitlines(), text.splitlines()
            yield from difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", lineterm="")

    def write(self) -> None:
        """Writes the files, each whole or not at all. Raises OSError."""
        for file, text in self.after.items():
            path = FilePath(file).resolve()  # through a link, so that the link stays one
            unfinished = path.with_name(f".{path.name}.triplane-new")
            try:
                data = path.read_bytes()
                mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
                unfinished.write_bytes(mark + text.encode())
                unfinished.chmod(path.stat().st_mode)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)


def fixes(findings: Iterable[Finding], sources: Sources) -> Fixes:
    """The edits of all findings that have some, one after the other."""
    made = Fixes()
    for finding in findings:
        if not finding.edits or finding.resource is None:
            continue
        resource = finding.resource
        file = resource.origin.file
        if not file or resource.origin.line or file == STDIN:
            made.refused.append((finding, "it was not read from a file"))
            continue
        try:
            before = made.after.get(file) or sources.text(file)
            after = _edited_text(before, resource, finding.edits)
        except (EditError, DocumentError) as error:
            made.refused.append((finding, str(error)))
            continue
        made.before.setdefault(file, before)
        made.after[file] = after
        made.fixed.append(finding)
    return made


def text_edits(finding: Finding, text: str) -> list[TextEdit]:
    """The edits of one finding as changes of the text it was found in; none where they cannot be made in place."""
    resource = finding.resource
    if resource is None or len(finding.edits) != 1:
        return []
    try:
        document = documents_of(text, resource.origin.file)[resource.origin.document]
        return [_text_edit(text, document, resource.origin.within, finding.edits[0])]
    except (EditError, DocumentError, IndexError):
        return []


def _edited_text(text: str, resource: Resource, edits: Iterable[Edit]) -> str:
    """The text with the edits made, checked by reading it again."""
    origin = resource.origin
    documents = documents_of(text, origin.file)
    wanted = [document.value for document in documents]
    for edit in edits:
        text = _text_edit(text, documents[origin.document], origin.within, edit).applied(text)
        wanted[origin.document] = _edited_within(wanted[origin.document], origin.within, edit)
        documents = documents_of(text, origin.file)
    if [document.value for document in documents] != wanted:
        raise EditError("the way it is written leaves no room for the change: make it by hand")
    return text


def _text_edit(text: str, document: object, within: Path, edit: Edit) -> TextEdit:
    from triplane.documents import Document

    assert isinstance(document, Document)
    path = (*within, *edit.path)
    return remove_value(text, document, path) if edit.remove else set_value(text, document, path, edit.value)


def _edited_within(value: object, within: Path, edit: Edit) -> object:
    whole = {"document": value}
    moved = Edit(("document", *within, *edit.path), edit.value, edit.remove)
    if edit.remove and at(whole, *moved.path[:-1]) is None:
        raise EditError("it is not there any more")
    return edited(whole, [moved])["document"]
