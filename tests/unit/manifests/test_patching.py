"""Patches of generated objects, and the reader of further manifests."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplane.manifests.identity import Identity, ManifestError
from triplane.manifests.patching import apply_patches, extra_manifests, merge
from triplane.settings.stack import PatchSettings


def manifest(
    kind: str, name: str, namespace: str | None = None, api_version: str = "example.com/v1", **spec: Any
) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def patch(kind: str, name: str, merge: dict[str, Any], namespace: str | None = None) -> PatchSettings:
    return PatchSettings.model_validate(
        {"target": {"kind": kind, "name": name, "namespace": namespace}, "merge": merge}
    )


SERVING = manifest("NodePool", "serving", weight=10, template={"labels": {"a": "1"}})
TRAINING = manifest("NodePool", "training", weight=20)
FLEET = [SERVING, TRAINING, manifest("PodDisruptionBudget", "chat-decode", "chat", maxUnavailable=1)]


class TestMerge:
    """The examples of RFC 7386, appendix A."""

    @pytest.mark.parametrize(
        ("value", "change", "result"),
        [
            ({"a": "b"}, {"a": "c"}, {"a": "c"}),
            ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
            ({"a": "b"}, {"a": None}, {}),
            ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
            ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
            ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
            ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
            ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
            (["a", "b"], ["c", "d"], ["c", "d"]),
            ({"a": "b"}, ["c"], ["c"]),
            ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
            ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
            ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ],
    )
    def test_example(self, value: Any, change: Any, result: Any) -> None:
        assert merge(value, change) == result

    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=8,
    )

    @given(values, values)
    def test_twice_is_once(self, value: Any, change: Any) -> None:
        assert merge(merge(value, change), change) == merge(value, change)


class TestPatches:
    def test_deep_merge_leaves_the_rest_and_the_input_alone(self) -> None:
        objects, patched = apply_patches(
            FLEET, [patch("NodePool", "serving", {"spec": {"template": {"labels": {"b": "2"}}}})]
        )
        assert objects[0]["spec"] == {"weight": 10, "template": {"labels": {"a": "1", "b": "2"}}}
        assert objects[1:] == FLEET[1:]
        assert patched == {Identity("example.com/v1", "NodePool", None, "serving")}
        assert SERVING["spec"]["template"]["labels"] == {"a": "1"}

    def test_patches_apply_in_order(self) -> None:
        changes = [patch("NodePool", "serving", {"spec": {"weight": weight}}) for weight in (30, None, 40)]
        objects, patched = apply_patches(FLEET, changes)
        assert objects[0]["spec"]["weight"] == 40
        assert len(patched) == 1

    def test_null_removes_a_key(self) -> None:
        objects, _ = apply_patches(FLEET, [patch("NodePool", "serving", {"spec": {"weight": None}})])
        assert "weight" not in objects[0]["spec"]

    def test_no_patch_changes_nothing(self) -> None:
        assert apply_patches(FLEET, []) == (FLEET, frozenset())

    def test_repeating_the_identity_is_allowed(self) -> None:
        change = {
            "apiVersion": "example.com/v1",
            "kind": "NodePool",
            "metadata": {"name": "serving", "labels": {"a": "b"}},
        }
        objects, _ = apply_patches(FLEET, [patch("NodePool", "serving", change)])
        assert objects[0]["metadata"] == {"name": "serving", "labels": {"a": "b"}}

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"kind": "NodeClaim"}, "into NodeClaim serving"),
            ({"apiVersion": "example.com/v2"}, "(example.com/v2)"),
            ({"metadata": {"name": "other"}}, "into NodePool other"),
            ({"metadata": {"namespace": "chat"}}, "into NodePool chat/serving"),
            ({"metadata": None}, "needs metadata.name"),
            ({"metadata": {"name": None}}, "needs metadata.name"),
            ({"kind": None}, "needs kind"),
            ({"metadata": "serving"}, "needs metadata.name"),
        ],
    )
    def test_identity_may_not_change(self, change: dict[str, Any], expected: str) -> None:
        with pytest.raises(ManifestError, match=r"^patches\[0\]: ") as error:
            apply_patches(FLEET, [patch("NodePool", "serving", change)])
        assert expected in str(error.value)

    def test_unknown_target_names_the_nearest_and_what_exists(self) -> None:
        with pytest.raises(ManifestError) as error:
            apply_patches(FLEET, [patch("NodePool", "servng", {})])
        assert str(error.value) == (
            "patches[0]: the stack declares no NodePool servng. Nearest: NodePool serving. "
            "Of this kind: NodePool serving, NodePool training"
        )

    def test_unknown_kind_names_the_kinds(self) -> None:
        with pytest.raises(ManifestError, match="Kinds it declares: NodePool, PodDisruptionBudget"):
            apply_patches(FLEET, [patch("Queue", "x", {})])

    def test_wrong_namespace_is_unknown(self) -> None:
        with pytest.raises(ManifestError, match="Nearest: PodDisruptionBudget chat/chat-decode"):
            apply_patches(FLEET, [patch("PodDisruptionBudget", "chat-decode", {}, namespace="chta")])

    def test_two_groups_are_ambiguous(self) -> None:
        objects = [manifest("Queue", "a"), manifest("Queue", "a", api_version="other.io/v1")]
        with pytest.raises(
            ManifestError, match=r"Queue a is 2 objects: Queue a \(example.com/v1\), Queue a \(other.io/v1\)$"
        ):
            apply_patches(objects, [patch("Queue", "a", {})])

    def test_two_namespaces_need_the_namespace(self) -> None:
        objects = [manifest("ScaledObject", "a", "one"), manifest("ScaledObject", "a", "two")]
        with pytest.raises(ManifestError, match=r"Add target\.namespace"):
            apply_patches(objects, [patch("ScaledObject", "a", {})])
        changed, _ = apply_patches(objects, [patch("ScaledObject", "a", {"spec": {"x": 1}}, namespace="two")])
        assert [o["spec"] for o in changed] == [{}, {"x": 1}]

    def test_every_wrong_patch_is_reported(self) -> None:
        with pytest.raises(ManifestError) as error:
            apply_patches(FLEET, [patch("Queue", "a", {}), patch("NodePool", "serving", {}), patch("Queue", "b", {})])
        assert [line.partition(":")[0] for line in str(error.value).splitlines()] == ["patches[0]", "patches[2]"]


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


class TestExtraManifests:
    def write(self, root: Path, name: str, text: str | bytes) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def names(self, root: Path, *patterns: str) -> list[str]:
        return [manifest["metadata"]["name"] for manifest in extra_manifests(patterns, root)]

    def test_files_documents_and_lists_in_order(self, tmp_path: Path) -> None:
        self.write(tmp_path, "extra/b.yaml", CONFIG_MAP % "b1" + "---\n" + CONFIG_MAP % "b2" + "---\n")
        self.write(
            tmp_path,
            "extra/a.yaml",
            "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a1}}\n",
        )
        self.write(tmp_path, "z.json", '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}}')
        assert self.names(tmp_path, "z.json", "extra/*.yaml", "extra/b.yaml") == ["z", "a1", "b1", "b2"]
        assert self.names(tmp_path, "**/*.yaml") == ["a1", "b1", "b2"]
        assert self.names(tmp_path, str(tmp_path / "z.json")) == ["z"]
        assert extra_manifests([], tmp_path) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "kind: ConfigMap\nmetadata: {name: a}\n",
                "x.yaml:1:1  a Kubernetes object needs apiVersion as text, found None",
            ),
            ("apiVersion: v1\nmetadata: {name: a}\n", "x.yaml:1:1  a Kubernetes object needs kind as text"),
            ("apiVersion: v1\nkind: 3\nmetadata: {name: a}\n", "needs kind as text, found 3"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "needs metadata.name as text"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 3}\n", "metadata.namespace must be text"),
            ("- a\n", "x.yaml:1:1  a Kubernetes object is a mapping"),
            ("kind: List\nitems:\n- 1\n", "x.yaml:3:3  a Kubernetes object is a mapping"),
            ("# nothing\n", "x.yaml: holds no Kubernetes object"),
            ("a: [\n", "x.yaml:2:1  not valid YAML"),
            (b"a: \xff\n", "x.yaml: not UTF-8 (byte 3)"),
        ],
    )
    def test_bad_file(self, tmp_path: Path, text: str | bytes, expected: str) -> None:
        self.write(tmp_path, "x.yaml", text)
        with pytest.raises(ManifestError) as error:
            extra_manifests(["x.yaml"], tmp_path)
        assert expected in str(error.value)

    def test_every_fault_is_reported(self, tmp_path: Path) -> None:
        self.write(tmp_path, "x.yaml", "kind: A\n---\nkind: B\n")
        self.write(tmp_path, "folder/y.yaml", CONFIG_MAP % "y")
        with pytest.raises(ManifestError) as error:
            extra_manifests(["x.yaml", "missing/*.yaml", "folder"], tmp_path)
        assert [line.split("  ")[0].split(" (")[0] for line in str(error.value).splitlines()] == [
            "manifests: missing/*.yaml matches no file",
            "manifests: folder is a folder: write the files, such as folder/*.yaml",
            "x.yaml:1:1",
            "x.yaml:3:1",
        ]


@pytest.mark.parametrize("spec", [None, {}, 5, [1]])
def test_a_patch_may_not_take_the_whole_spec(spec: Any) -> None:
    """Without its spec a GPU pool looks like no GPU pool, and no rule of GPU pools would see it."""
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "l4"},
        "spec": {"limits": {"a": 1}},
    }
    change = {"spec": {"limits": None} if spec == {} else spec}
    patch = PatchSettings.model_validate({"target": {"kind": "NodePool", "name": "l4"}, "merge": change})
    with pytest.raises(ManifestError, match="takes the whole spec of NodePool l4 away"):
        apply_patches([pool], [patch])


def test_a_file_of_a_whole_cluster_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(ManifestError, match="larger than 64 MiB"):
        extra_manifests(["big.yaml"], tmp_path)
