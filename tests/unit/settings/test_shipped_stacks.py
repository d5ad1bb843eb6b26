"""The three stacks that are shipped: valid, and what they are there to show."""

from pathlib import Path

import pytest

from triplane.documents import Dialect, read_documents
from triplane.settings import StackSettings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_valid(name: str) -> None:
    assert StackSettings.load(name, ROOT).pools


def test_dev_needs_no_cloud() -> None:
    dev = StackSettings.load("dev", ROOT)
    assert dev.cluster.cloud == "existing"
    assert {pool.accelerator for pool in dev.pools.values()} == {"L4"}
    assert not any((dev.platform.karpenter.install, dev.platform.kai.install, dev.platform.keda.install))


def test_staging_has_one_h100_node_and_spot_for_batch() -> None:
    staging = StackSettings.load("staging", ROOT)
    assert staging.pools["serving"].gpus == 8
    assert staging.pools["batch"].capacity.fallback == "spot"
    assert set(staging.models["chat"].roles) == {"prefill", "decode"}


def test_prod_fills_its_quotas_and_stays_within_its_pools() -> None:
    prod = StackSettings.load("prod", ROOT)
    queues = {**prod.queues["assistants"].children, **prod.queues["research"].children}
    for name, role in prod.models["chat"].roles.items():
        assert queues[f"chat-{name}"].gpus.quota == role.replicas.max * role.gpus_per_replica
    quotas = [queue.gpus.quota for queue in prod.queues.values() if queue.gpus.quota != "unlimited"]
    assert sum(quotas) == 72
    assert sum(pool.gpus for pool in prod.pools.values()) == 80


def test_the_project_declares_every_key_but_freeze() -> None:
    (project,) = read_documents((ROOT / "Pulumi.yaml").read_text(), "Pulumi.yaml", Dialect.PULUMI)
    keys = {field.alias or name for name, field in StackSettings.model_fields.items()}
    schema = project.value["config"]
    assert set(schema) == keys - {"freeze"}
    assert {key for key, entry in schema.items() if "default" not in entry} == {"cluster", "pools"}
    assert all(entry["description"] for entry in schema.values())
    assert project.value["runtime"] == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert project.value["stackConfigDir"] == "stacks"
