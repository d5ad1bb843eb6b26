"""From no node to the first token: how long each piece takes, and how much it varies.

The stack declares the whole as `coldStart`. Its parts follow the only public breakdown of a whole cold start that was
found: KAITO issue #2325 (27B model, vLLM, A100): provision 284 s, node initialization 126 s, image 101 s, engine 195 s.
Of the engine's part, loading weights is what run-ai/model-streamer measured for safetensors on gp3 (48.0 of 66.1 s).
"""

import math
from dataclasses import dataclass

import numpy as np

from triplane.simulation.provenance import Coefficient, Kind

KAITO = "shares of KAITO issue #2325, scaled to the declared cold start"
_SHARES = {"launch": 284.0, "device": 126.0, "image": 101.0, "engine": 195.0}
_WEIGHTS_OF_ENGINE = 48.0 / 66.1

# Spread of a lognormal: standard deviation of the logarithm.
_NODE_SPREAD = 0.25
_NODE_SOURCE = "node delays of BLIS (inference-sim): mean 120 s, deviation 30 s"
_LOAD_SPREAD = math.log(42.0 / 22.7) / 1.2816
_LOAD_SOURCE = "Alibaba GenTD26, swap of base models: p50 22.7 s, p90 42.0 s"


@dataclass(frozen=True, slots=True)
class Delay:
    """A lognormal duration: its median in seconds, and the standard deviation of its logarithm."""

    name: str
    median: float
    spread: float
    kind: Kind
    source: str

    def after(self, normal: float) -> float:
        """Seconds for a standard normal draw."""
        return self.median * math.exp(self.spread * normal)


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The pieces in order. A node needs launch and device, a replica weights and engine, and the image where its node
    has not pulled it yet."""

    launch: Delay
    """From the request to the registered node. No measurement of a p5 was found: assumed."""
    device: Delay
    """Until the device plugin has registered the GPUs and the node is initialized."""
    image: Delay
    weights: Delay
    engine: Delay

    @classmethod
    def of(cls, total_s: float) -> "ColdStart":
        """The pieces whose medians add up to a declared cold start."""
        whole = sum(_SHARES.values())

        def part(name: str) -> float:
            return total_s * _SHARES[name] / whole

        engine = part("engine")
        loading = engine * _WEIGHTS_OF_ENGINE
        return cls(
            launch=Delay("launch to registered", part("launch"), _NODE_SPREAD, "assumed", f"{KAITO}; {_NODE_SOURCE}"),
            device=Delay("device plugin ready", part("device"), _NODE_SPREAD, "assumed", f"{KAITO}; {_NODE_SOURCE}"),
            image=Delay("image pull", part("image"), _NODE_SPREAD, "assumed", f"{KAITO}; spread as of nodes"),
            weights=Delay("weights loaded", loading, _LOAD_SPREAD, "derived", f"{KAITO}; {_LOAD_SOURCE}"),
            engine=Delay("engine initialized", engine - loading, _LOAD_SPREAD, "derived", f"{KAITO}; {_LOAD_SOURCE}"),
        )

    @property
    def pieces(self) -> tuple[Delay, ...]:
        """All pieces in order."""
        return (self.launch, self.device, self.image, self.weights, self.engine)

    def coefficients(self, owner: str) -> list[Coefficient]:
        """Their lines in the provenance table."""
        return [
            Coefficient(
                f"{owner}: {piece.name}",
                round(piece.median, 3),
                f"s, median; x/ {math.exp(piece.spread):.2f}",
                piece.kind,
                piece.source,
            )
            for piece in self.pieces
        ]


class Draws:
    """Independent streams of standard normals, one for each name, from one seed: the n-th node of a pool has the same
    luck under every strategy."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        """The stream of that name."""
        if name not in self._streams:
            key = [self._seed, *name.encode()]
            self._streams[name] = np.random.default_rng(np.random.SeedSequence(key))
        return self._streams[name]

    def seconds(self, stream: str, delay: Delay) -> float:
        """One duration."""
        return delay.after(float(self.stream(stream).standard_normal()))

    def uniform(self, stream: str) -> float:
        """One number from 0 to 1."""
        return float(self.stream(stream).random())
