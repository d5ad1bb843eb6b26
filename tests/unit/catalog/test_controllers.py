"""What each release can do, and which have known faults."""

import pytest

from triplane import catalog
from triplane.catalog.data import load


@pytest.mark.parametrize(
    ("controller", "version", "feature", "has_it"),
    [
        ("karpenter", "1.10.0", "network-interfaces", False),
        ("karpenter", "1.11", "network-interfaces", True),
        ("karpenter", "1.14.1", "unhealthy-budget", False),
        ("karpenter", "1.15.0", "unhealthy-budget", True),
        ("karpenter", "1.15.0", "reservation-fall-through", False),
        ("karpenter", "1.15.1", "reservation-fall-through", True),
        # Releases compare as numbers, not as text.
        ("karpenter", "1.9.4", "placement-group", False),
        ("kai", "0.16.8", "preemption-delay", False),
        ("kai", "v0.17.0", "preemption-delay", True),
        ("keda", "2.17.3", "fallback-behavior", False),
        ("keda", "2.20.2", "fallback-behavior", True),
        ("kubernetes", "1.34", "hpa-tolerance", False),
        ("kubernetes", "1.35", "hpa-tolerance", True),
        ("kubernetes", "1.36", "hpa-scale-to-zero", False),
        # An engine without a feature that another engine has is an answer, not a mistake.
        ("sglang", "0.5.1", "waiting-by-reason", False),
    ],
)
def test_supports(controller: str, version: str, feature: str, has_it: bool) -> None:
    assert catalog.supports(controller, version, feature) is has_it


def test_unknown_controllers_and_features() -> None:
    with pytest.raises(catalog.UnknownName, match="did you mean karpenter"):
        catalog.supports("karpentr", "1.14", "balanced")
    with pytest.raises(catalog.UnknownName, match="did you mean network-interfaces"):
        catalog.supports("karpenter", "1.14", "network-interface")
    with pytest.raises(ValueError, match="is no release"):
        catalog.supports("karpenter", "latest", "balanced")


@pytest.mark.parametrize(
    ("version", "topics"),
    [
        ("0.16.1", []),
        ("0.16.2", ["completing-gang"]),
        ("0.16.8", ["completing-gang"]),
        ("0.17.0", ["completing-gang"]),
        ("0.20.1", ["retracted"]),
    ],
)
def test_known_faults_of_kai(version: str, topics: list[str]) -> None:
    assert [issue.topic for issue in catalog.known_issues("kai", version)] == topics


def test_a_full_reservation_cannot_drift_before_1_15() -> None:
    assert "drift" in [issue.topic for issue in catalog.known_issues("karpenter", "1.14.1")]
    assert "drift" not in [issue.topic for issue in catalog.known_issues("karpenter", "1.15.0")]


def test_oldest_karpenter_for_a_kubernetes() -> None:
    assert catalog.oldest_for_kubernetes("karpenter", "1.35") == "1.9"
    assert catalog.oldest_for_kubernetes("karpenter", "1.36.1") == "1.13"
    assert catalog.oldest_for_kubernetes("karpenter", "1.99") is None


def test_every_entry_reads() -> None:
    controllers = [key for key, value in load("controllers").items() if isinstance(value, dict)]
    assert controllers == ["karpenter", "kai", "keda", "kubernetes", "vllm", "sglang", "trtllm"]
    for controller in controllers:
        assert load("controllers")[controller]["source"]
        catalog.supported_releases(controller)
        catalog.known_issues(controller, "0.1")
        catalog.rolling_upgrades(controller)
        for name in catalog.features(controller):
            feature = catalog.feature(controller, name)
            assert catalog.release(feature.since) >= (0, 0, 0)
            assert feature.note
