"""Versions of the controllers and the cluster, and what goes with them."""

from collections.abc import Iterator

from triplane import catalog
from triplane.settings.declared import Declared
from triplane.settings.platform import PlatformSettings
from triplane.settings.values import version_key
from triplane.settings.wording import Finding


def region_for_eks(declared: Declared) -> Iterator[Finding]:
    """The AWS side of Karpenter lives in one region."""
    if declared.cluster and declared.cluster.cloud == "eks" and declared.cluster.region is None:
        yield Finding(("cluster",), "cloud: eks needs a region. Set region: us-east-1, or cloud: existing", at_key=True)


def auto_mode_brings_its_own_karpenter(declared: Declared) -> Iterator[Finding]:
    """EKS Auto Mode runs Karpenter itself: nothing of its AWS side or its release is ours to declare."""
    cluster = declared.cluster
    if cluster is None or cluster.dialect != "eks-auto":
        return
    if cluster.cloud == "eks":
        message = "eks declares what a Karpenter of one's own needs, and Auto Mode runs its own. Set cloud: existing"
        yield Finding(("cluster", "cloud"), message)
    if cluster.aws.node_role is None and any(pool.node_class is None for pool in declared.pools.values()):
        message = "EKS Auto Mode needs the name of its node role. Set aws: {nodeRole: ...}"
        yield Finding(
            ("cluster", "aws") if declared.written(("cluster", "aws")) else ("cluster",), message, at_key=True
        )
    if declared.platform and declared.platform.karpenter.install:
        message = "EKS Auto Mode runs Karpenter itself. Set install: false"
        yield Finding(("platform", "karpenter", "install"), message)


def known_release(declared: Declared) -> Iterator[Finding]:
    """Objects are written for the releases that are known; others may lack a field, or mean something else by it."""
    if declared.platform is None:
        return
    for controller, version in _versions(declared, declared.platform).items():
        path = ("platform", controller, "version")
        retracted = [issue for issue in catalog.known_issues(controller, version) if issue.topic == "retracted"]
        span = catalog.supported_releases(controller)
        if retracted:
            yield Finding(path, f"{controller} {version} was withdrawn: {retracted[0].note}. {_advice(controller)}")
        elif span and not _within(version, span):
            yield Finding(
                path, f"{controller} {version} is not known here: {span[0]} to {span[1]} are. {_advice(controller)}"
            )


def known_kubernetes(declared: Declared) -> Iterator[Finding]:
    """The control plane must be a release that the declared Karpenter runs on."""
    if declared.cluster is None:
        return
    kubernetes, path = declared.cluster.kubernetes, ("cluster", "kubernetes")
    span = catalog.supported_releases("kubernetes")
    if span and not _within(kubernetes, span):
        yield Finding(path, f"Kubernetes {kubernetes} is not known here: {span[0]} to {span[1]} are")
        return
    if declared.platform is None or declared.cluster.dialect != "aws":
        return
    oldest, version = catalog.oldest_for_kubernetes("karpenter", kubernetes), declared.platform.karpenter.version
    if oldest and version_key(version) < version_key(oldest):
        advice = f'Set version: "{oldest}" or later, or kubernetes to what runs there{declared.line(path)}'
        message = f"Karpenter {version} does not run on Kubernetes {kubernetes}, which needs {oldest}. {advice}"
        place = ("platform", "karpenter", "version")
        yield Finding(place if declared.written(place) else path, message)


def gates_exist(declared: Declared) -> Iterator[Finding]:
    """A feature gate that the release does not know stops the controller."""
    if declared.platform is None:
        return
    version = declared.platform.karpenter.version
    for gate in sorted(declared.platform.karpenter.gates):
        gated = [
            feature
            for name in catalog.features("karpenter")
            if (feature := catalog.feature("karpenter", name)).gate == gate
        ]
        if gated and not any(catalog.supports("karpenter", version, feature.name) for feature in gated):
            message = f"gate {gate} is there from Karpenter {gated[0].since} on, and this is {version}. Remove it"
            yield Finding(("platform", "karpenter", "gates"), message)


def one_server_of_external_metrics(declared: Declared) -> Iterator[Finding]:
    """A cluster has one APIService external.metrics.k8s.io: KEDA's and an adapter's would take it from each other."""
    hpa = [role for role in declared.roles if role.settings.autoscaler == "hpa"]
    keda = [role for role in declared.roles if role.settings.autoscaler == "keda"]
    installed = declared.platform is not None and declared.platform.keda.install
    if hpa and (keda or installed):
        owner = f"{keda[0].label} uses KEDA" if keda else "platform.keda.install brings KEDA"
        message = f"hpa reads external metrics from an adapter, and {owner}, which serves the same API. Use one for all"
        yield Finding((*hpa[0].path, "autoscaler"), message)


def _versions(declared: Declared, platform: PlatformSettings) -> dict[str, str]:
    versions = {"kai": platform.kai.version, "keda": platform.keda.version}
    own_karpenter = declared.cluster is None or declared.cluster.dialect == "aws"
    return {"karpenter": platform.karpenter.version, **versions} if own_karpenter else versions


def _within(version: str, span: tuple[str, str]) -> bool:
    return version_key(span[0])[:2] <= version_key(version)[:2] <= version_key(span[1])[:2]


def _advice(controller: str) -> str:
    return f'Set version: "{PlatformSettings.model_fields[controller].default.version}"'


CHECKS = (
    region_for_eks,
    auto_mode_brings_its_own_karpenter,
    known_release,
    known_kubernetes,
    gates_exist,
    one_server_of_external_metrics,
)
