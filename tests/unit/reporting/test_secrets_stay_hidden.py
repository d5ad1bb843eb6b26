"""Values of Secrets, environment variables, trigger authentication and kubeconfigs show in no format."""

from collections.abc import Callable

import pytest

from triplane.documents import read_documents
from triplane.inventory.secrets import is_secret, masked
from triplane.reporting.findings import outcome_text
from triplane.reporting.github import annotations
from triplane.reporting.gitlab import code_quality
from triplane.reporting.json_report import json_report
from triplane.reporting.junit import junit
from triplane.reporting.outcome import Outcome
from triplane.reporting.places import discreet_lines
from triplane.reporting.sarif import sarif

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
        - {name: vllm, image: "vllm/vllm-openai:latest", args: ["--api-key=hunter2", "--tensor-parallel-size=3"], env: [{name: HF, value: hunter2}], resources: {limits: {nvidia.com/gpu: 8}}}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: t, annotations: {karpenter.sh/do-not-evict: hunter2-not-shown-since-this-is-a-value}}
spec: {env: [{parameter: x, name: hunter2}], hashiCorpVault: {credential: {token: hunter2}}}
"""  # noqa: E501 - one line, so that the excerpt has everything


def test_no_format_shows_one(outcome_of: Callable[[str], Outcome]) -> None:
    outcome = outcome_of(WORKLOAD)
    assert outcome.report.findings
    shown = "\n".join(
        (
            *outcome_text(outcome),
            json_report(outcome),
            sarif(outcome),
            junit(outcome, tuple(outcome.sources.resources)),
            *annotations(outcome),
            code_quality(outcome),
        )
    )
    assert "--tensor-parallel-size=3" in shown, "the line itself is shown"
    assert "hunter2" not in shown.replace("hunter2-not-shown-since-this-is-a-value", "")


LINES = """\
apiVersion: v1
kind: Secret
metadata: {name: s}
data:
  a: aHVudGVyMg==
  b: |
    hunter2
    hunter2
stringData: {c: hunter2}
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Secret
    data: {d: hunter2}
  - {apiVersion: v1, kind: Pod, spec: {containers: [{env: [{name: A, value: "hunter2"}, {name: B, value: hunter2}]}]}}
---
apiVersion: v1
kind: ConfigMap
data:
  config: |
    kind: Config
    users: [{user: {client-key-data: hunter2}}]
  password: hunter2
  url: http://me:hunter2@example.com/x
"""


def test_lines_are_masked_by_what_the_document_says() -> None:
    lines = discreet_lines(LINES, read_documents(LINES, "x.yaml"))
    assert len(lines) == len(LINES.splitlines())
    text = "\n".join(lines)
    assert "hunter2" not in text and "aHVudGVyMg" not in text
    assert lines[2] == "metadata: {name: s}"
    assert lines[16].startswith("  - {apiVersion: v1, kind: Pod, spec: {containers: [{env: [{name: A, value: ***")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  password: hunter2", "  password: ***"),
        ('  "apiToken": "hunter2",', '  "apiToken": ***'),
        ("args: [--api-key=hunter2, --x=1]", "args: [--api-key=***, --x=1]"),
        ("secretName: tls", "secretName: tls"),
        ("  secretKeyRef: {name: a}", "  secretKeyRef: {name: a}"),
        ("tokens: 4", "tokens: ***"),
        ("image: x", "image: x"),
    ],
)
def test_a_line_is_masked_by_its_own_words(line: str, shown: str) -> None:
    assert masked(line) == shown


@pytest.mark.parametrize(
    ("kind", "path", "secret"),
    [
        ("Secret", ("data", "a"), True),
        ("Secret", ("metadata", "name"), False),
        ("TriggerAuthentication", ("spec", "podIdentity"), True),
        ("Deployment", ("spec", "template", "spec", "containers", 0, "env", 1, "value"), True),
        ("Deployment", ("spec", "template", "spec", "containers", 0, "env", 1, "name"), False),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "authToken"), True),
        ("ScaledObject", ("spec", "triggers", 0, "authenticationRef", "name"), False),
    ],
)
def test_paths_of_secrets(kind: str, path: tuple[str | int, ...], secret: bool) -> None:
    assert is_secret(kind, path) is secret
