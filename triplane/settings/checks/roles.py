"""Roles: what they refer to exists, and what they ask for fits a GPU, a node, a pool."""

from collections import defaultdict
from collections.abc import Iterator

from triplane import catalog
from triplane.settings.declared import Declared, Role
from triplane.settings.models import DynamoTarget, ObjectTarget
from triplane.settings.pools import PoolSettings
from triplane.settings.values import format_duration, quantity_value, version_key
from triplane.settings.wording import Finding, did_you_mean

# vLLM takes this share of a GPU's memory by default (gpu_memory_utilization); what weights leave of it is KV cache.
ENGINE_MEMORY_SHARE = 0.9
# What a replica should at least hold at once: 16 requests, llm-d's own target for running requests, of 2,048 tokens.
LEAST_REQUESTS, TOKENS_OF_A_REQUEST = 16, 2_048


def roles_make_a_model(declared: Declared) -> Iterator[Finding]:
    """A model is served disaggregated or not: a lone prefill produces nothing, a lone decode receives nothing."""
    for name, model in declared.models.items():
        written = declared.written(("models", name, "roles"))
        roles = set(written if isinstance(written, dict) else model.roles)
        if roles <= {"prefill", "decode", "aggregated"} and roles not in ({"prefill", "decode"}, {"aggregated"}):
            message = f"has {' and '.join(sorted(roles))}. Set prefill and decode together, or aggregated alone"
            yield Finding(("models", name, "roles"), message, at_key=True)


def pool_and_queue_exist(declared: Declared) -> Iterator[Finding]:
    """A role names a pool, and a leaf of the queue tree: KAI skips workloads of any other queue without a word."""
    for role in declared.roles:
        pools = list(_keys(declared, "pools"))
        if role.settings.pool not in pools:
            yield _missing(role, "pool", role.settings.pool, pools)
        queue = declared.queues_by_name.get(role.settings.queue)
        if queue is None:
            leaves = [queue.name for queue in declared.queues if queue.is_leaf]
            if not _is_broken_queue(declared, role.settings.queue):
                yield _missing(role, "queue", role.settings.queue, leaves)
        elif not queue.is_leaf:
            leaves = [leaf.name for leaf in declared.queues if leaf.is_leaf and queue in leaf.line_up]
            message = f"{queue.name} has children, and only leaves take workloads. Set queue: {' or '.join(leaves)}"
            yield Finding((*role.path, "queue"), message)


def _missing(role: Role, key: str, name: str, known: list[str]) -> Finding:
    hint = did_you_mean(name, known)
    listed = f" Declared: {', '.join(known)}" if known else f" Declare it under {key}s:"
    return Finding((*role.path, key), f"there is no {key} {name}.{hint}{listed}")


def _keys(declared: Declared, key: str) -> Iterator[str]:
    value = declared.written((key,))
    yield from value if isinstance(value, dict) else ()


def _is_broken_queue(declared: Declared, name: str) -> bool:
    return any(path[-1] == name for path in declared.broken if path[0] == "queues")


def queue_and_pool_share_a_shard(declared: Declared) -> Iterator[Finding]:
    """KAI places a pod of a shard's queue on that shard's nodes only."""
    for role, pool in _placed(declared):
        queue = declared.queues_by_name.get(role.settings.queue)
        if queue is not None and queue.shard != pool.shard:
            message = f"{queue.name} is in {_shard(queue.shard)}, pool {role.settings.pool} in {_shard(pool.shard)}"
            yield Finding((*role.path, "queue"), f"{message}. Give both the same shard")


def _shard(name: str | None) -> str:
    return f"shard {name}" if name else "the default shard"


def objective_needs_steady_nodes(declared: Declared) -> Iterator[Finding]:
    """A latency objective cannot be met on nodes that leave at two minutes' notice."""
    for role, pool in _placed(declared):
        if role.model.slo is not None and pool.capacity.fallback == "spot":
            message = f"pool {role.settings.pool} is spot, and this model has an SLO. Use a pool of purpose serving"
            yield Finding((*role.path, "pool"), message)


def pods_divide_the_node(declared: Declared) -> Iterator[Finding]:
    """Pods that do not divide a node leave GPUs that nobody can use."""
    for role, pool in _placed(declared):
        gpus, node = role.settings.gpus, pool.gpus_per_node
        divisors = ", ".join(str(n) for n in range(1, node + 1) if node % n == 0)
        if gpus > node:
            message = (
                f"{gpus} GPUs are more than a node of pool {role.settings.pool} has, {node}. Set {divisors}, and hosts"
            )
            yield Finding((*role.path, "gpus"), message)
        elif node % gpus:
            message = f"{gpus} does not divide the {node} GPUs of a node of pool {role.settings.pool}"
            yield Finding((*role.path, "gpus"), f"{message}: {node % gpus} would idle. Set {divisors}")


def gang_fits_one_domain(declared: Declared) -> Iterator[Finding]:
    """A replica over several hosts is one gang: it needs that many nodes of one pool at once, in one zone."""
    for role, pool in _placed(declared):
        if role.settings.hosts == 1:
            continue
        per_node = pool.gpus_per_node // role.settings.gpus
        nodes = -(-role.settings.hosts // per_node) if per_node else 0
        if nodes > pool.nodes.max:
            where = declared.line(("pools", role.settings.pool, "nodes", "max"))
            message = (
                f"{role.settings.hosts} hosts need {nodes} nodes, and pool {role.settings.pool} has {pool.nodes.max}"
            )
            yield Finding(
                (*role.path, "hosts"),
                f"{message} at most{where}. Set hosts: {pool.nodes.max * per_node}, or max: {nodes}",
            )
        if len(pool.zones) != 1 and "zone" not in pool.topology:
            message = f"pool {role.settings.pool} may spread {role.settings.hosts} hosts over zones. Give it one zone"
            yield Finding((*role.path, "hosts"), f"{message}, or topology: [zone, host]")


def pool_holds_its_roles(declared: Declared) -> Iterator[Finding]:
    """At their ceilings, all roles of a pool together must fit its nodes."""
    roles: dict[str, list[Role]] = defaultdict(list)
    for role, _ in _placed(declared):
        roles[role.settings.pool].append(role)
    for name, inside in roles.items():
        pool, need = declared.pools[name], sum(role.most_gpus for role in inside)
        if need > pool.gpus:
            parts = " + ".join(f"{role.most_gpus} ({role.label})" for role in inside)
            nodes = -(-need // pool.gpus_per_node)
            message = f"{pool.nodes.max} x {pool.gpus_per_node} = {pool.gpus} GPUs do not hold its roles at max"
            yield Finding(
                ("pools", name, "nodes", "max"), f"{message}: {parts} = {need}. Set max: {nodes}, or lower a role's max"
            )


def replica_range(declared: Declared) -> Iterator[Finding]:
    """A floor at or below the ceiling, and above 0 where requests must be answered or nothing would wake the role."""
    for role in declared.roles:
        least, most, signal = role.settings.replicas.min, role.settings.replicas.max, role.settings.signal
        path = (*role.path, "replicas", "min")
        if least > most:
            yield Finding(path, f"{least} is above max: {most}. Set min: {most} or less")
        if least > 0:
            continue
        kubernetes = declared.cluster.kubernetes if declared.cluster else None
        if role.model.slo is not None:
            wait = format_duration(role.model.cold_start)
            message = f"from 0 replicas the first request waits {wait}, and this model has an SLO"
            yield Finding(path, f"{message}. Set min: 1 or more, or remove slo")
        elif signal.flow_control_queue is None and signal.wva is None:
            message = "from 0 replicas nothing wakes this role: only running replicas report its signal"
            yield Finding(path, f"{message}. Set min: 1, or signal: {{flowControlQueue: ..., inferencePool: ...}}")
        elif role.settings.autoscaler == "hpa" and kubernetes and not _scales_to_zero(kubernetes):
            since = catalog.feature("kubernetes", "hpa-scale-to-zero").since
            yield Finding(path, f"an HPA scales to 0 from Kubernetes {since} on. Set min: 1, or autoscaler: keda")


def _scales_to_zero(kubernetes: str) -> bool:
    return catalog.supports("kubernetes", kubernetes, "hpa-scale-to-zero")


def target_can_be_scaled(declared: Declared) -> Iterator[Finding]:
    """One owner of a workload, one autoscaler of a target, and a kind that starts a gang together."""
    taken: dict[tuple[str, str, str], Role] = {}
    for role in declared.roles:
        target, path = role.settings.target, (*role.path, "target")
        if target is not None and role.settings.workload is not None:
            yield Finding(
                path, "names what somebody else declares, and workload is declared here. Remove one", at_key=True
            )
        if (
            role.settings.hosts > 1
            and isinstance(target, ObjectTarget)
            and target.kind in ("Deployment", "StatefulSet")
        ):
            message = f"KAI makes no gang of a {target.kind}: its {role.settings.hosts} hosts would start one by one"
            yield Finding(
                (*path, "kind"), f"{message}. Set kind: LeaderWorkerSet, apiVersion: leaderworkerset.x-k8s.io/v1"
            )
        key = (role.model.namespace, *_target_key(role))
        if key in taken:
            message = (
                f"{taken[key].label} scales {key[1]} {key[2]} too. One target has one autoscaler: give each its own"
            )
            yield Finding(path if target else role.path, message, at_key=True)
        taken.setdefault(key, role)


def _target_key(role: Role) -> tuple[str, str]:
    target = role.settings.target
    if isinstance(target, DynamoTarget):
        return "component", f"{target.deployment}/{target.component}"
    if isinstance(target, ObjectTarget):
        return target.kind, target.name
    return "workload", f"{role.model_name}-{role.name}"


def engine_can_be_started(declared: Declared) -> Iterator[Finding]:
    """What a workload of this stack can be started with by arguments alone."""
    for role in declared.roles:
        workload, engine = role.settings.workload, role.model.engine
        if workload is None:
            continue
        path = (*role.path, "workload")
        elsewhere = "Declare it elsewhere, and name it under target"
        if any(argument == "--port" or argument.startswith("--port=") for argument in workload.args):
            yield Finding((*path, "args"), "--port would part from the probes. Set port: instead")
        if engine.name == "trtllm" and (role.name != "aggregated" or role.settings.hosts > 1):
            message = (
                f"trtllm-serve runs {role.name} on {role.settings.hosts} host(s) with a configuration file or MPI only"
            )
            yield Finding(path, f"{message}. {elsewhere}", at_key=True)
        if engine.name == "vllm" and role.settings.hosts > 1 and version_key(engine.version) < (0, 12, 0):
            message = f"vLLM {engine.version} spans hosts only with a Ray cluster of one's own. Use 0.12 or later"
            yield Finding((*role.path, "hosts"), f"{message}, or declare it elsewhere and name it under target")


def drain_fits_the_node(declared: Declared) -> Iterator[Finding]:
    """A pod that asks for a longer drain than its node's is deleted when the drain starts."""
    for role, pool in _placed(declared):
        wanted = role.settings.workload.termination_grace if role.settings.workload else None
        longest = pool.disruption.termination_grace_period
        if wanted is not None and longest is not None and wanted > longest:
            where = declared.line(("pools", role.settings.pool, "disruption", "terminationGracePeriod"))
            most = format_duration(longest)
            message = f"{format_duration(wanted)} is longer than the pool's terminationGracePeriod, {most}{where}"
            yield Finding((*role.path, "workload", "terminationGrace"), f"{message}. Set {most} or less")


def pods_fit_the_node(declared: Declared) -> Iterator[Finding]:
    """CPU and memory for as many pods as the node has GPUs for: else GPUs idle, or the pod never starts."""
    for role, pool in _placed(declared):
        workload = role.settings.workload
        types = _types(pool)
        if workload is None or not types or role.settings.gpus > pool.gpus_per_node:
            continue
        pods = pool.gpus_per_node // role.settings.gpus
        room = {
            "cpu": (quantity_value(workload.cpu) * 1000, max(it.allocatable_cpu_millis for it in types), "millicores"),
            "memory": (quantity_value(workload.memory) / 2**20, max(it.allocatable_memory_mib for it in types), "MiB"),
        }
        for key, (asked, held, unit) in room.items():
            if asked * pods > held:
                message = (
                    f"{pods} pods a node ask for {float(asked * pods):,.0f} {unit}, of which a node gives {held:,}"
                )
                most = f"{held // pods // 1000}" if key == "cpu" else f"{held // pods // 1024}Gi"
                yield Finding((*role.path, "workload", key), f"{message}. Set {key}: {most} or less", at_key=True)


def efa_divides(declared: Declared) -> Iterator[Finding]:
    """A pod gets its share of the node's EFA devices, which must be at least one."""
    for role, pool in _placed(declared):
        devices = min((it.efa for it in _types(pool) if it.efa), default=0)
        if pool.efa and devices and devices * role.settings.gpus // pool.gpus_per_node == 0:
            message = (
                f"{role.settings.gpus} of {pool.gpus_per_node} GPUs get none of the node's {devices} EFA device(s)"
            )
            yield Finding((*role.path, "gpus"), f"{message}. Remove efa from pool {role.settings.pool}, or raise gpus")


def weights_leave_room_for_cache(declared: Declared) -> Iterator[Finding]:
    """Weights and KV cache share the GPU's memory: a replica that fits only its weights serves nobody."""
    for role, pool in _placed(declared):
        shape = catalog.model_shape(role.model.model)
        if shape is None or not _types(pool):
            continue
        memory = catalog.accelerator(pool.accelerator).memory_gib
        gpus = role.settings.gpus_per_replica
        weights = shape.weights_gib / gpus
        room = memory * ENGINE_MEMORY_SHARE - weights
        tokens = max(int(room * gpus * 2**30 / shape.kv_bytes_per_token), 0)
        traffic = role.model.traffic
        each = traffic.input_tokens + traffic.output_tokens if traffic else TOKENS_OF_A_REQUEST
        if tokens >= LEAST_REQUESTS * each:
            continue
        needed = shape.weights_gib + LEAST_REQUESTS * each * shape.kv_bytes_per_token / 2**30
        enough = next((n for n in range(1, 1025) if memory * ENGINE_MEMORY_SHARE * n >= needed), None)
        share = f"{ENGINE_MEMORY_SHARE} x {memory:g} = {memory * ENGINE_MEMORY_SHARE:.1f} GiB"
        message = (
            f"{role.model.model} has {weights:.1f} GiB of weights a GPU, and {pool.accelerator} gives an engine "
            f"{share}: {room:.1f} GiB are left for KV cache, {tokens:,} tokens, of at least "
            f"{LEAST_REQUESTS} x {each:,} = {LEAST_REQUESTS * each:,}"
        )
        yield Finding((*role.path, "gpus"), f"{message}. Set gpus: {_tensor_parallel(enough, pool)}")


def _tensor_parallel(enough: int | None, pool: PoolSettings) -> str:
    """The number of GPUs to write: a divisor of the node that is enough, or all of it on several hosts."""
    fitting = [n for n in range(1, pool.gpus_per_node + 1) if pool.gpus_per_node % n == 0 and enough and n >= enough]
    if fitting:
        return str(fitting[0])
    return f"{pool.gpus_per_node} and hosts: {-(-(enough or 1) // pool.gpus_per_node)}, or use a larger accelerator"


def _placed(declared: Declared) -> Iterator[tuple[Role, PoolSettings]]:
    """Each role whose pool is declared and valid."""
    for role in declared.roles:
        pool = declared.pools.get(role.settings.pool)
        if pool is not None:
            yield role, pool


def _types(pool: PoolSettings) -> tuple[catalog.InstanceType, ...]:
    try:
        return catalog.instance_types(pool.accelerator, pool.gpus_per_node)
    except catalog.UnknownName:
        return ()


CHECKS = (
    roles_make_a_model,
    pool_and_queue_exist,
    queue_and_pool_share_a_shard,
    objective_needs_steady_nodes,
    pods_divide_the_node,
    gang_fits_one_domain,
    pool_holds_its_roles,
    replica_range,
    target_can_be_scaled,
    engine_can_be_started,
    drain_fits_the_node,
    pods_fit_the_node,
    efa_divides,
    weights_leave_room_for_cache,
)
