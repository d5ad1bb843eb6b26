"""A role's engine: measured step times where there are any, else scaled from the nearest measurement and marked so."""

from dataclasses import dataclass, replace

from triplane import catalog
from triplane.settings.models import ModelSettings, RoleSettings
from triplane.settings.pools import PoolSettings
from triplane.simulation.errors import SimulationError
from triplane.simulation.kernel import EngineLimits, StepTimes
from triplane.simulation.profiles import Profile, UnknownProfile, find, profiles
from triplane.simulation.provenance import Coefficient, Kind

_GIB = 2**30


class EngineError(SimulationError):
    """A role whose engine cannot be simulated: says why."""


@dataclass(frozen=True, slots=True)
class _Silicon:
    """Dense TFLOPS at 16 and 8 bits (None: no 8-bit unit), and memory bandwidth in TB/s, as the data sheet has them."""

    flops16: float
    flops8: float | None
    bandwidth: float


# NVIDIA data sheets; those with sparsity are halved.
_SILICON = {
    "T4": _Silicon(65, None, 0.32),
    "A10G": _Silicon(70, None, 0.6),
    "L4": _Silicon(121, 242, 0.3),
    "L40S": _Silicon(362, 733, 0.864),
    "A100-40GB": _Silicon(312, None, 1.555),
    "A100-80GB": _Silicon(312, None, 2.039),
    "H100-SXM5": _Silicon(989, 1979, 3.35),
    "H200-SXM": _Silicon(989, 1979, 4.8),
    "B200": _Silicon(2250, 4500, 7.7),
}
_BANDWIDTH_USED = 0.8
"""Of the data sheet's memory bandwidth, as AIConfigurator 0.12.0 takes it."""
_MEMORY_USED = 0.9
"""vLLM's gpu_memory_utilization, by default."""
_ACTIVATIONS = 0.05
"""Of a GPU's memory, for activations and CUDA graphs: 4 of 80 GiB in the H100 profiles."""
_EFA_BYTES = 50e9
_ETHERNET_BYTES = 12.5e9


@dataclass(frozen=True)
class RoleEngine:
    """What a role's replicas can do, and where that is known from."""

    limits: EngineLimits
    profile: str
    measured: bool
    coefficients: tuple[Coefficient, ...]


def role_engine(model: ModelSettings, role_name: str, role: RoleSettings, pool: PoolSettings) -> RoleEngine:
    """The engine of one role. Raises EngineError where neither a measurement nor the model's shape is known."""
    gpus = role.gpus_per_replica
    accelerator = catalog.accelerator(pool.accelerator).name
    try:
        found = find(model.model, accelerator, gpus)
    except UnknownProfile:
        limits, base, kv_source = _scaled(model.model, accelerator, gpus)
        measured = False
    else:
        limits, base, kv_source = found.engine_limits(), found, found.kv_source
        measured = True
    limits, batching = _with_batching(limits, role_name, role, accelerator)
    limits, transfer = _with_transfer(limits, model, role_name, pool)
    return RoleEngine(
        limits, base.name, measured, (*_rows(role_name, limits, base, measured, kv_source), *batching, *transfer)
    )


def _scaled(model: str, accelerator: str, gpus: int) -> tuple[EngineLimits, Profile, str]:
    """Step times of a measured profile, scaled to other silicon and another model by arithmetic and bytes moved."""
    shape = catalog.model_shape(model)
    silicon = _SILICON.get(accelerator)
    if shape is None or silicon is None:
        known = "; ".join(f"{p.model} on {p.gpus} x {p.accelerator}" for p in profiles())
        missing = f"the shape of {model}" if shape is None else f"the speed of {accelerator}"
        raise EngineError(
            f"no measured step times for {model} on {gpus} x {accelerator}, and {missing} is not known. "
            f"Measured: {known}"
        )
    base = min(profiles(), key=lambda p: (abs(p.gpus - gpus), p.gpus, p.name))
    other, theirs = catalog.model_shape(base.model), _SILICON[base.accelerator]
    assert other is not None
    memory = (
        _MEMORY_USED * catalog.accelerator(accelerator).memory_gib
        - _ACTIVATIONS * catalog.accelerator(accelerator).memory_gib
    )
    kv_tokens = int((memory * gpus - shape.weights_gib) * _GIB / shape.kv_bytes_per_token)
    if kv_tokens < 1024:
        raise EngineError(
            f"{model} needs {shape.weights_gib:.1f} GiB for its weights: no room for a KV cache on {gpus} x "
            f"{accelerator} ({memory * gpus:.1f} GiB usable)"
        )
    arithmetic = (shape.parameters / (gpus * _flops(silicon, shape.bytes_per_parameter))) / (
        other.parameters / (base.gpus * _flops(theirs, other.bytes_per_parameter))
    )
    attention = (shape.layers / (gpus * silicon.flops16)) / (other.layers / (base.gpus * theirs.flops16))
    times = base.times()
    speed, their_speed = (s.bandwidth * 1e12 * _BANDWIDTH_USED for s in (silicon, theirs))
    reading = shape.weights_gib * _GIB / (gpus * speed)
    their_reading = other.weights_gib * _GIB / (base.gpus * their_speed)
    kv = (shape.kv_bytes_per_token / (gpus * speed)) / (other.kv_bytes_per_token / (base.gpus * their_speed))
    # What a step costs besides reading the weights once stays as it is: launches and the engine's own work.
    scaled = StepTimes(
        prefill_base=max(0.0, times.prefill_base - their_reading) + reading,
        prefill_token=times.prefill_token * arithmetic,
        prefill_square=times.prefill_square * attention,
        decode_base=max(0.0, times.decode_base - their_reading) + reading,
        decode_sequence=times.decode_sequence * arithmetic,
        decode_token=times.decode_token * kv,
        graph_batch=times.graph_batch,
        eager_base=times.eager_base,
    )
    limits = EngineLimits(times=scaled, kv_blocks=kv_tokens // 16)
    return limits, base, "derived from memory and the model's shape"


def _flops(silicon: _Silicon, bytes_per_parameter: float) -> float:
    return silicon.flops8 if bytes_per_parameter <= 1 and silicon.flops8 else silicon.flops16


def _with_batching(
    limits: EngineLimits, role_name: str, role: RoleSettings, accelerator: str
) -> tuple[EngineLimits, list[Coefficient]]:
    """Batch limits from the workload's arguments, else vLLM's defaults for an API server on that GPU."""
    large = catalog.accelerator(accelerator).memory_gib >= 70 and not accelerator.startswith("A100")
    rows = []
    values = {}
    for name, flag, default in (
        ("max_num_seqs", "--max-num-seqs", 1024 if large else 256),
        ("max_num_batched_tokens", "--max-num-batched-tokens", 8192 if large else 2048),
    ):
        given = _argument(role.workload.args if role.workload else (), flag)
        values[name] = default if given is None else given
        source = "vLLM's default for an API server on this GPU (arg_utils.py, get_batch_defaults)"
        kind: Kind = "published" if given is None else "declared"
        rows.append(Coefficient(f"{role_name}: {name}", values[name], "", kind, source if given is None else flag))
    try:
        batch, tokens = values["max_num_seqs"], values["max_num_batched_tokens"]
        return replace(limits, max_num_seqs=batch, max_num_batched_tokens=tokens), rows
    except ValueError as error:
        raise EngineError(f"{role_name}: {error}") from None


def _argument(args: tuple[str, ...], flag: str) -> int | None:
    """The number after a flag, as `--flag N` or `--flag=N`."""
    for at, arg in enumerate(args):
        name, _, value = arg.partition("=")
        text = value or (args[at + 1] if name == flag and at + 1 < len(args) else "")
        if name == flag:
            if not text.isdigit():
                raise EngineError(f"{flag} is {text or 'nothing'}: not a number")
            return int(text)
    return None


def _with_transfer(
    limits: EngineLimits, model: ModelSettings, role_name: str, pool: PoolSettings
) -> tuple[EngineLimits, list[Coefficient]]:
    """The prefill role also hands the KV cache on."""
    if role_name != "prefill":
        return limits, []
    shape = catalog.model_shape(model.model)
    if shape is None:
        raise EngineError(f"the KV cache of {model.model} is not known, and its prefill role hands it on")
    link = _EFA_BYTES if pool.efa else _ETHERNET_BYTES
    row = Coefficient(
        "prefill: KV transfer",
        link / 1e9,
        "GB/s",
        "published" if pool.efa else "assumed",
        "EFA of a P5, one GPU's part (AIConfigurator 0.12.0)"
        if pool.efa
        else "100 Gbit/s Ethernet: the pool has no EFA",
    )
    return replace(limits, transfer_seconds_per_token=shape.kv_bytes_per_token / link), [row]


def _rows(role: str, limits: EngineLimits, base: Profile, measured: bool, kv_source: str) -> list[Coefficient]:
    t = limits.times
    origin = f"{base.name}: {base.engine} {base.engine_version}, {base.source}, {base.licence}"
    kind: Kind = "measured" if measured else "derived"
    source = origin if measured else f"scaled by data-sheet FLOPS, bandwidth and bytes from {origin}; not measured"
    values: tuple[tuple[str, float, str], ...] = (
        ("prefill a step", t.prefill_base, "s"),
        ("prefill a token", t.prefill_token, "s"),
        ("prefill a token squared", t.prefill_square, "s"),
        ("decode a step", t.decode_base, "s"),
        ("decode a sequence", t.decode_sequence, "s"),
        ("decode a KV token", t.decode_token, "s"),
    )
    if role == "prefill":
        values = values[:3]  # it never decodes
    rows = [Coefficient(f"{role}: {name}", value, unit, kind, source) for name, value, unit in values]
    rows.append(Coefficient(f"{role}: KV cache", limits.kv_blocks * limits.block_size, "tokens", kind, kv_source))
    band = ", ".join(f"{name} x {low} to {high}" for name, (low, high) in base.band.items())
    if not measured:
        band = "x 0.5 to 2"
    rows.append(
        Coefficient(
            f"{role}: band to try",
            band,
            "factor",
            "published" if measured else "assumed",
            "AIConfigurator 0.12.0 against the fit" if measured else "nobody has published how far scaling is off",
        )
    )
    return rows
