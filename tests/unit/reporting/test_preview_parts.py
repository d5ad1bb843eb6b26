"""The parts of a preview that say something of their own: notices and costs."""

from pathlib import Path
from typing import Any

import pytest

from triplane.manifests.fleet import fleet_manifests
from triplane.reporting.notices import notices
from triplane.reporting.pool_costs import pool_costs
from triplane.settings import StackSettings
from triplane.settings.overrides import Override, override
from triplane.settings.source import read_stack
from triplane.settings.validation import validate

ROOT = Path(__file__).parents[3]


def stack(name: str, **changes: Any) -> StackSettings:
    changed = [Override.of(path.replace("__", "."), value) for path, value in changes.items()]
    return validate(override(read_stack(name, ROOT), changed))


def told(settings: StackSettings, extra: tuple[dict[str, Any], ...] = ()) -> str:
    return "\n".join(notices(settings, fleet_manifests(settings, extra)))


@pytest.mark.parametrize(
    ("settings", "said", "unsaid"),
    [
        (("dev", {}), ["must exist before: chat."], ["KAI", "Karpenter", "generates none"]),
        (("prod", {}), ["KAI 0.16.8: a gang whose first pods succeed", "dashboards and observability.alerts"], []),
        (("prod", {"platform__kai__version": "0.16.1"}), [], ["a gang whose first pods succeed"]),
        (("prod", {}), ["Karpenter 1.14.1: pods may wait although a fallback exists"], ["Karpenter 1.15"]),
        (("prod", {"platform__karpenter__version": "1.15.1"}), [], ["pods may wait although a fallback"]),
        (("prod", {"observability__alerts": False}), ["observability.dashboards: accepted"], ["alerts"]),
        (
            ("dev", {"freeze": {"since": "2026-12-01T03:10Z", "reason": "P99"}}),
            ["frozen since 2026-12-01 03:10 UTC: P99."],
            [],
        ),
    ],
    ids=["dev", "prod", "kai without the fault", "karpenter", "karpenter without", "dashboards only", "frozen"],
)
def test_notices(settings: tuple[str, dict[str, Any]], said: list[str], unsaid: list[str]) -> None:
    text = told(stack(settings[0], **settings[1]))
    assert [line for line in said if line not in text] == []
    assert [line for line in unsaid if line in text] == []


def test_a_namespace_that_is_declared_need_not_exist() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "chat"}}
    assert "must exist" not in told(stack("dev"), (namespace,))


def test_costs_are_for_what_must_run_and_what_may() -> None:
    """prod: prefill 2 x 2 and decode 2 x 4 GPUs need two nodes of eight; six nodes are the limit."""
    rows = {line.split()[0]: line.split()[-4:] for line in pool_costs(stack("prod")) if "  " in line}
    low, high = (float(price.replace(",", "")) for price in rows["serving"][2:])
    assert rows["serving"][:2] == ["16", "48"]
    assert low * 3 == pytest.approx(high)
    assert rows["training"][:3] == ["0", "32", "0.00"]
    assert rows["all"][:2] == ["16", "80"]


def test_an_unknown_price_is_never_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from triplane import catalog
    from triplane.manifests import capacity

    known = catalog.instance_types

    def without_price(accelerator: str, gpus: int) -> Any:
        return tuple(replace(one, price_usd_hour=None) for one in known(accelerator, gpus))

    monkeypatch.setattr(capacity.catalog, "instance_types", without_price)
    lines = list(pool_costs(stack("dev")))
    assert lines[1].split() == ["l4", "L4", "2", "3", "price", "unknown"]
