"""Small stacks and runs for the tests of the world."""

from pathlib import Path
from typing import Any

from triplane.settings import StackSettings
from triplane.simulation.comparison import Setup, run_once, set_up
from triplane.simulation.results import Summary, summarize
from triplane.simulation.scenarios import scenario_of
from triplane.simulation.strategies import strategy
from triplane.simulation.world import RunResult

MODEL = "nvidia/Llama-3.3-70B-Instruct-FP8"


def stack(**changes: Any) -> StackSettings:
    """Prefill TP2 and decode TP4 of a 70B model on 8-GPU nodes; `changes` replace top-level keys."""
    values: dict[str, Any] = {
        "cluster": {"name": "test", "context": "test", "cloud": "existing", "kubernetes": "1.35"},
        "pools": {
            "serving": {
                "purpose": "serving",
                "accelerator": "H100-SXM5",
                "gpusPerNode": 8,
                "nodes": {"max": 6},
                "ami": "al2023@v20261115",
                "efa": True,
                "zones": ["us-east-1b"],
            }
        },
        "queues": {
            "chat": {
                "gpus": {"quota": 40},
                "children": {"chat-prefill": {"gpus": {"quota": 16}}, "chat-decode": {"gpus": {"quota": 24}}},
            }
        },
        "models": {
            "chat": {
                "model": MODEL,
                "engine": {"name": "vllm", "version": "0.12.0"},
                "namespace": "chat",
                "slo": {"ttftP99": "2s", "itlP99": "50ms"},
                "coldStart": "5m",
                "roles": {
                    "prefill": role("chat-prefill", 2, 1, 8, {"backlog": "1s", "tokensPerSecond": 10000}),
                    "decode": role("chat-decode", 4, 1, 6, {"kvUsage": "70%"}),
                },
            }
        },
    }
    return StackSettings.from_config({**values, **changes}, "test")


def role(queue: str, gpus: int, least: int, most: int, signal: dict[str, Any], pool: str = "serving") -> dict[str, Any]:
    """A role's settings."""
    return {"pool": pool, "queue": queue, "gpus": gpus, "replicas": {"min": least, "max": most}, "signal": signal}


def arrivals(shape: str = "constant", rate: float = 2.0, **more: Any) -> dict[str, Any]:
    """Generated arrivals with fixed lengths."""
    return {"shape": shape, "rate": rate, "lengths": {"inputTokens": 1000, "outputTokens": 100}, **more}


def setup(settings: StackSettings | None = None, /, **scenario: Any) -> Setup:
    """A scenario on a small stack: 10 minutes, 2 requests a second, one seed."""
    values = {"arrivals": arrivals(), "horizon": "10m", "seeds": 1, **scenario}
    if "trace" in values:
        del values["arrivals"]
    return set_up(settings or stack(), "test", scenario_of(values, "test"), Path())


def run(made: Setup, name: str = "tripleLayer", seed: int = 0) -> tuple[RunResult, Summary]:
    """One run and its figures."""
    result = run_once(made, strategy(name), seed, compiled=False)
    return result, summarize(result, made.load.horizon, made.objective, list(made.model.roles), made.pools)


def kinds(result: RunResult, kind: str) -> list[tuple[float, str, str]]:
    """Events of a kind as (time, subject, detail)."""
    return [(e.at, e.subject, e.detail) for e in result.events if e.kind == kind]
