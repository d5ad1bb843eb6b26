"""One file an object: names that are unique, that any file system takes, and that stay the same."""

from typing import Any

import pytest

from triplane.documents.folders import FolderError
from triplane.program import Recording, Resource
from triplane.program.written import read_written, write_manifests
from triplane.settings import SettingsError


def recording(*manifests: dict[str, Any]) -> Recording:
    resources = [
        Resource(
            urn=f"urn:{number}",
            type=f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}",
            name=manifest["metadata"]["name"],
            inputs=manifest,
            custom=True,
            parent="",
            provider="",
            depends_on=(),
            protect=False,
            retain_on_delete=False,
            options={},
            file="",
            line=0,
        )
        for number, manifest in enumerate(manifests)
    ]
    return Recording("p", "s", tuple(resources), {}, {}, ())


def thing(name: str, kind: str = "Thing", group: str = "a.io/v1", namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": group, "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("manifests", "names"),
    [
        ([thing("a"), thing("a", namespace="n")], ["thing.a.yaml", "thing.n.a.yaml"]),
        ([thing("a"), thing("a", group="b.io/v1")], ["thing.a.io.a.yaml", "thing.b.io.a.yaml"]),
        ([thing("system:foo", "ClusterRole")], ["clusterrole.system%3Afoo.yaml"]),
        ([thing("Upper", "ClusterRole")], ["clusterrole.upper.yaml"]),
    ],
    ids=["namespace", "group", "colon", "case"],
)
def test_names_of_files(manifests: list[dict[str, Any]], names: list[str], tmp_path: Any) -> None:
    assert write_manifests(tmp_path, recording(*manifests), "s", "1.14.1") == []
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == names
    written = read_written(tmp_path)
    assert (written.stack, written.karpenter) == ("s", "1.14.1")
    assert sorted(written.objects, key=str) == sorted(manifests, key=str)


def test_names_that_collide_or_are_too_long_still_make_a_file_each(tmp_path: Any) -> None:
    manifests = [thing("a.b"), thing("b", namespace="a"), thing("x" * 253, namespace="n" * 63), thing("A.b")]
    write_manifests(tmp_path, recording(*manifests), "s", "1.14.1")
    assert sorted(read_written(tmp_path).objects, key=str) == sorted(manifests, key=str)


@pytest.mark.parametrize("lost", [".triplane", "thing.a.yaml"])
def test_a_folder_that_is_not_whole_is_not_compared_with(lost: str, tmp_path: Any) -> None:
    write_manifests(tmp_path, recording(thing("a")), "s", "1.14.1")
    (tmp_path / lost).unlink()
    with pytest.raises((SettingsError, FileNotFoundError)):
        read_written(tmp_path)


def test_a_folder_of_another_stack_is_not_replaced(tmp_path: Any) -> None:
    write_manifests(tmp_path / "out", recording(thing("a")), "dev", "1.14.1")
    with pytest.raises(FolderError, match="holds stack dev, and this is prod"):
        write_manifests(tmp_path / "out", recording(thing("b")), "prod", "1.14.1")
    assert [value["metadata"]["name"] for value in read_written(tmp_path / "out").objects] == ["a"]


@pytest.mark.parametrize("marker", ["", "garbage", "files: 5", "{stack: a, karpenter: 1, files: []}"])
def test_a_damaged_marker_is_told(tmp_path: Any, marker: str) -> None:
    write_manifests(tmp_path / "out", recording(thing("a")), "dev", "1.14.1")
    (tmp_path / "out" / ".triplane").write_text(marker)
    with pytest.raises(SettingsError, match="does not list what was written"):
        read_written(tmp_path / "out")


@pytest.mark.parametrize("text", ["- a list", "kind: 5", "{apiVersion: v1, kind: A}"])
def test_a_damaged_file_is_told(tmp_path: Any, text: str) -> None:
    write_manifests(tmp_path / "out", recording(thing("a")), "dev", "1.14.1")
    (tmp_path / "out" / "thing.a.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"thing\.a\.yaml.*is no Kubernetes object any more"):
        read_written(tmp_path / "out")
