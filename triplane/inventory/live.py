"""A live cluster as resources: read-only, page by page, and only kinds that some rule looks at.

Nothing is watched and nothing is written. Secrets are not asked for. A kind that may not be listed is told as not read,
so that what depends on it is not taken for absent.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from triplane.documents import Position
from triplane.inventory import kinds
from triplane.inventory.files import Sources
from triplane.inventory.resource import NotRead, Origin, Resource

PAGE = 500
"""Objects a request: what kubectl asks for too."""
TIMEOUT_SECONDS = 30

# Read for relations between objects, beside the kinds that rules judge.
_ALSO = frozenset(value for name, value in vars(kinds).items() if name.isupper())
_NEVER = frozenset(("Secret",))
# Objects that a controller makes of others on the list: judging them would say everything twice.
_DERIVED = frozenset(("Pod", "ReplicaSet.apps", "ControllerRevision.apps", "NodeClaim.karpenter.sh"))


class LiveError(ValueError):
    """The cluster cannot be reached or asked. `str()` is a whole sentence with what to do."""


@dataclass(frozen=True)
class Cluster:
    """A connection. `name` says which one, for a person to check before anything is read."""

    context: str
    server: str
    get: Callable[[str, Mapping[str, Any]], Any] = field(repr=False)
    """The JSON answer to a path and a query. Raises `Refused`, LiveError."""

    def __str__(self) -> str:
        return f"context {self.context}, server {self.server}"


class Refused(Exception):
    """The server's answer to one path was no."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """A connection by kubeconfig (left out: $KUBECONFIG, then ~/.kube/config). Raises LiveError."""
    try:
        client, config, dynamic = (import_module(f"kubernetes{part}") for part in (".client", ".config", ".dynamic"))
    except ModuleNotFoundError:
        raise LiveError("reading a cluster needs the Kubernetes client: pip install 'triplane[live]'") from None
    try:
        entries, current = config.list_kube_config_contexts(config_file=kubeconfig)
        names = [entry["name"] for entry in entries]
        chosen = context or current["name"]
        if chosen not in names:
            raise LiveError(_no_context(chosen, names))
        configuration = client.Configuration()
        config.load_kube_config(config_file=kubeconfig, context=chosen, client_configuration=configuration)
    except (config.ConfigException, OSError, KeyError, TypeError) as error:
        raise LiveError(f"the kubeconfig cannot be used: {error}") from error
    configuration.retries = 2
    # Its own discovery would ask for every group there is and keep a file; the few paths needed are asked for here.
    requests = dynamic.DynamicClient(client.ApiClient(configuration), discoverer=lambda *_: None)
    return Cluster(chosen, configuration.host, _getter(requests, configuration.host))


def _getter(requests: Any, server: str) -> Callable[[str, Mapping[str, Any]], Any]:
    ApiException = import_module("kubernetes.client").ApiException
    HTTPError = import_module("urllib3.exceptions").HTTPError

    def get(path: str, query: Mapping[str, Any]) -> Any:
        pairs = [(key, value) for key, value in query.items() if value]
        try:
            answer = requests.request(
                "get", path, query_params=pairs, serialize=False, _request_timeout=TIMEOUT_SECONDS
            )
            return json.loads(answer.data)
        except ApiException as error:
            raise Refused(int(error.status or 0), str(error.reason or "no reason given")) from error
        except (HTTPError, OSError) as error:
            raise LiveError(f"{server} cannot be reached: {_root_cause(error)}") from error
        except ValueError as error:
            raise LiveError(f"{server}{path} answers something that is no JSON: is it a Kubernetes API?") from error

    return get


def _no_context(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    there = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(names)) or 'none'}"
    return f"the kubeconfig has no context {name}: {there}"


def _root_cause(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    return " ".join(str(reason if reason is not None else error).split())


def read_cluster(cluster: Cluster, wanted: Iterable[str], told: Callable[[int], None] | None = None) -> Sources:
    """Every object of the wanted kinds (`NodePool.karpenter.sh`) that the cluster serves and the user may list.

    A kind that is not served is absent; one that may not be listed, or whose group does not answer, is not read.
    Raises LiveError where the cluster cannot be reached at all.
    """
    sources = Sources()
    groups: dict[str, set[str]] = {}
    for kind in {*wanted, *_ALSO} - _NEVER - _DERIVED:
        name, _, group = kind.partition(".")
        groups.setdefault(group, set()).add(name)
    served = _groups(cluster)
    for group in sorted(groups):
        if group and group not in served:
            continue
        root = f"/apis/{group}/{served[group]}" if group else "/api/v1"
        try:
            offered = cluster.get(root, {}).get("resources", ())
        except Refused as refused:
            sources.not_read.append(_not_read(cluster, root, refused))
            continue
        for entry in offered:
            # A name with a slash is a subresource.
            if entry["kind"] in groups[group] and "/" not in entry["name"] and "list" in entry.get("verbs", ()):
                _read_kind(cluster, root, entry, sources)
                if told:
                    told(len(sources.resources))
    sources.files = 1
    return sources


def _groups(cluster: Cluster) -> dict[str, str]:
    """Each API group that is served, with the version the server prefers."""
    try:
        answer = cluster.get("/apis", {})
    except Refused as refused:
        raise LiveError(f"{cluster.server} refuses to list its API groups: {refused.status} {refused.reason}") from None
    return {group["name"]: group["preferredVersion"]["version"] for group in answer.get("groups", ())}


def _read_kind(cluster: Cluster, root: str, entry: Mapping[str, Any], sources: Sources) -> None:
    path, api_version = f"{root}/{entry['name']}", root.removeprefix("/apis/").removeprefix("/api/")
    found: list[Resource] = []
    following = ""
    while True:
        try:
            page = cluster.get(path, {"limit": PAGE, "continue": following})
        except Refused as refused:
            if refused.status == _GONE and following:
                # The list was too long under way. What it held at the start is gone, so it begins anew, in one piece.
                found.clear()
                following = ""
                continue
            sources.not_read.append(_not_read(cluster, path, refused))
            return
        found += (_resource(item, api_version, entry["kind"], cluster) for item in page.get("items") or ())
        following = page.get("metadata", {}).get("continue") or ""
        if not following:
            break
    sources.resources += [resource for resource in found if not _is_owned(resource)]


_GONE = 410
"""The page token has expired (after five minutes by default)."""


def _resource(item: dict[str, Any], api_version: str, kind: str, cluster: Cluster) -> Resource:
    # The items of a list carry no apiVersion and kind; what the server keeps for itself says nothing to a rule.
    metadata = {key: value for key, value in item.get("metadata", {}).items() if key != "managedFields"}
    data = {"apiVersion": api_version, "kind": kind, **item, "metadata": metadata}
    return Resource(data, Origin(urn=f"{cluster.context}:{api_version}"))


def _is_owned(resource: Resource) -> bool:
    """Whether a controller makes it from another object of the cluster, where the fault would be mended."""
    owners = resource.data["metadata"].get("ownerReferences") or ()
    return resource.kind_name in _MADE_BY_OTHERS and any(owner.get("controller") for owner in owners)


_MADE_BY_OTHERS = frozenset(("Job", "PodGroup", "HorizontalPodAutoscaler"))
"""Of a CronJob, of KAI's pod grouper, of KEDA."""


def _not_read(cluster: Cluster, path: str, refused: Refused) -> NotRead:
    what = path.rpartition("/")[2]
    hint = f": grant the verb list on {what}" if refused.status == 403 else ""
    return NotRead(Position(f"{cluster.context}{path}"), f"{refused.status} {refused.reason}{hint}")
