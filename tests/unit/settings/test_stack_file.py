"""The file: project, prefixes, defaults, the engine's own keys, and every way to be unreadable."""

from pathlib import Path

import pytest
from changed_stack import BASE_TEXT

from triplane.settings import SettingsError, StackSettings, stack_file, stack_names
from triplane.settings.source import read_stack

PROJECT = """\
name: triplane
stackConfigDir: stacks
config:
  platform: {type: object, default: {keda: {version: "2.19.0"}}}
  triplane:policy: {type: object, default: {profile: all}}
  aws:region: {value: us-east-1}
  observability: {type: object}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    (tmp_path / "stacks").mkdir()
    for name in ("dev", "prod"):
        (tmp_path / "stacks" / f"Pulumi.{name}.yaml").write_text(BASE_TEXT)
    return tmp_path


def written(project: Path, text: str | bytes) -> str:
    """What reading a stack of this text says."""
    path = project / "stacks" / "Pulumi.test.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as error:
        StackSettings.load("test", project)
    return str(error.value)


def test_the_project_is_found_from_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "stacks")
    assert StackSettings.load("prod").cluster.name == "prod-use1"
    assert stack_names() == ("dev", "prod")
    assert stack_file("prod") == project / "stacks" / "Pulumi.prod.yaml"


def test_defaults_fill_whole_keys_only(project: Path) -> None:
    text = BASE_TEXT.replace("  observability: {dashboards: true, alerts: true}\n", "").replace(
        "  policy: {profile: core}\n", ""
    )
    (project / "stacks" / "Pulumi.test.yaml").write_text(text)
    stack = StackSettings.load("test", project)
    assert stack.policy.profile == "all"
    assert stack.platform.keda.version == "2.20.2"  # the stack sets platform, so none of its default applies
    assert not stack.observability.dashboards
    assert set(read_stack("test", project).values) >= {"policy", "platform"}


def test_a_default_that_is_wrong_is_named_where_it_stands(project: Path) -> None:
    (project / "Pulumi.yaml").write_text(PROJECT.replace("profile: all", "profile: most"))
    text = BASE_TEXT.replace("  policy: {profile: core}\n", "")
    message = written(project, text)
    assert message.startswith("Pulumi.yaml:5:54  policy.profile: must be core, recommended or all")


def test_prefixed_and_plain_keys_are_the_same(project: Path) -> None:
    (project / "stacks" / "Pulumi.test.yaml").write_text(BASE_TEXT.replace("  pools:", "  triplane:pools:"))
    assert StackSettings.load("test", project) == StackSettings.load("prod", project)


def test_both_spellings_at_once(project: Path) -> None:
    assert (
        written(project, BASE_TEXT + "\n  triplane:cluster: {}\n")
        .splitlines()[0]
        .endswith("cluster: triplane:cluster and cluster (line 2) are the same key: keep one")
    )


def test_keys_of_the_engine_and_of_providers_are_not_ours(project: Path) -> None:
    text = (
        "encryptionsalt: v1:x\nsecretsprovider: passphrase\nencryptedkey: x\nenvironment: [a]\n"
        + BASE_TEXT
        + '\n  kubernetes:context: x\n  aws:region: x\n  pulumi:disable-default-providers: ["*"]\n'
        + "  other:key: {secure: v1:x}\n"
    )
    (project / "stacks" / "Pulumi.test.yaml").write_text(text)
    assert StackSettings.load("test", project) == StackSettings.load("prod", project)


FAULTS = {
    "empty": ("", "stacks/Pulumi.test.yaml:1:1  the file is empty"),
    "only a comment": ("# nothing\n", "stacks/Pulumi.test.yaml:1:1  the file is empty"),
    "empty config": ("config:\n", "stacks/Pulumi.test.yaml:1:1  config: is empty"),
    "no config": ("encryptionsalt: x\n", "stacks/Pulumi.test.yaml:1:1  config: is empty"),
    "a list": ("- a\n", "stacks/Pulumi.test.yaml:1:1  must be a mapping with the key config:"),
    "config a list": ("config: [a]\n", "stacks/Pulumi.test.yaml:1:9  config: must be a mapping"),
    "tab": ("config:\n\tcluster: {}\n", "stacks/Pulumi.test.yaml:2:1  a tab stands where YAML allows spaces only"),
    "duplicate": ("config:\n  a: 1\n  a: 2\n", "stacks/Pulumi.test.yaml:3:3  key a stands twice; first on line 2"),
    "two pools": (
        BASE_TEXT.replace("    training:\n", "    serving:\n"),
        "key serving stands twice; first on line 16",
    ),
    "not UTF-8": (b"config:\n  a: \xff\n", "stacks/Pulumi.test.yaml:2:6  byte 0xff is not UTF-8"),
    "UTF-16": ("config: {}".encode("utf-16"), "this is UTF-16: save the file as UTF-8"),
    "two documents": (
        BASE_TEXT + "\n---\nconfig: {}\n",
        "a second document starts here: the engine reads the first only",
    ),
    "misplaced": ("pools: {}\n", 'stacks/Pulumi.test.yaml:1:1  unknown key "pools". Settings stand under config:.'),
    "misspelt": ("confg: {}\n", 'unknown key "confg". Did you mean config? Allowed here: secretsprovider'),
    "three colons": ("config:\n  a:b:c: 1\n", 'stacks/Pulumi.test.yaml:2:3  ["a:b:c"]: is no key for the engine'),
    "infinity": ("config:\n  pools: .inf\n", ".inf has no form in JSON"),
    "queue cycle": (
        BASE_TEXT.replace("    research:\n", "    research: &loop\n").replace(
            "        pretrain:", "        loop: *loop\n        pretrain:"
        ),
        "an alias points at a value that contains it: this can never end",
    ),
}


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_text_that_cannot_be_used(project: Path, text: str | bytes, message: str) -> None:
    assert message in written(project, text)


def test_missing_stack_names_the_nearest_and_all(project: Path) -> None:
    with pytest.raises(SettingsError) as error:
        StackSettings.load("prd", project)
    assert str(error.value) == "stacks/Pulumi.prd.yaml  there is no stack 'prd'. Did you mean prod? Stacks: dev, prod"


def test_no_project_and_no_stacks(tmp_path: Path, project: Path) -> None:
    for path in (project / "stacks").iterdir():
        path.unlink()
    with pytest.raises(SettingsError, match="there is no stack 'prod', and no other"):
        StackSettings.load("prod", project)
    (project / "Pulumi.yaml").unlink()
    with pytest.raises(SettingsError, match=r"no Pulumi.yaml in this folder or above it"):
        StackSettings.load("prod", project)


def test_a_project_without_a_name(project: Path) -> None:
    (project / "Pulumi.yaml").write_text("stackConfigDir: stacks\n")
    with pytest.raises(SettingsError, match=r"Pulumi\.yaml:1:1  a project needs a name"):
        StackSettings.load("prod", project)


def test_a_stack_that_is_a_folder(project: Path) -> None:
    (project / "stacks" / "Pulumi.folder.yaml").mkdir()
    with pytest.raises(SettingsError, match="there is no stack 'folder'"):
        StackSettings.load("folder", project)
