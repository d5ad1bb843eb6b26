"""Accelerators and instance types: the names people write, and exactly the nodes they mean."""

import pytest

from triplane import catalog
from triplane.catalog.data import load


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("H100-SXM5", "H100-SXM5"),
        ("h100-sxm5", "H100-SXM5"),
        ("H100", "H100-SXM5"),
        ("H200-141GB", "H200-SXM"),
        ("a100-40gb", "A100-40GB"),
        ("L4", "L4"),
    ],
)
def test_names_and_aliases(written: str, meant: str) -> None:
    assert catalog.accelerator(written).name == meant


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("H1000", "unknown accelerator 'H1000': did you mean H100-SXM5"),
        ("qqqqq", "unknown accelerator 'qqqqq'"),
        ("A100", "accelerator 'A100' is not supported: there are two: write A100-40GB (p4d) or A100-80GB (p4de)"),
        ("GB200", "ComputeDomains"),
        ("p6e-gb200", "ComputeDomains"),
        ("H100-PCIe", "every H100 there is an H100-SXM5"),
    ],
)
def test_unknown_and_refused_names_say_what_to_write(written: str, sentence: str) -> None:
    with pytest.raises(catalog.UnknownName) as caught:
        catalog.accelerator(written)
    assert sentence in str(caught.value)


def test_a_refused_name_has_a_reason_and_no_guess() -> None:
    with pytest.raises(catalog.UnknownName) as caught:
        catalog.accelerator("GB200")
    assert caught.value.reason
    assert caught.value.nearest == ()


@pytest.mark.parametrize(
    ("accelerator", "count", "names"),
    [
        ("H100-SXM5", 8, ["p5.48xlarge"]),
        ("H100-SXM5", 1, ["p5.4xlarge"]),
        # Both A100s are called a100: their memory tells them apart.
        ("A100-40GB", 8, ["p4d.24xlarge"]),
        ("A100-80GB", 8, ["p4de.24xlarge"]),
        # A type without a known price comes last, never first as if it were free.
        ("H200-SXM", 8, ["p5en.48xlarge", "p5e.48xlarge"]),
        ("L4", 4, ["g6.12xlarge", "g6.24xlarge"]),
        ("L40S", 2, []),
    ],
)
def test_instance_types_cheapest_first(accelerator: str, count: int, names: list[str]) -> None:
    assert [it.name for it in catalog.instance_types(accelerator, count)] == names


def test_what_one_p5_has() -> None:
    (p5,) = catalog.instance_types("H100", 8)
    assert (p5.vcpu, p5.memory_mib, p5.allocatable_cpu_millis, p5.allocatable_memory_mib) == (
        192,
        2097152,
        191450,
        1938410,
    )
    assert (p5.gpu_memory_mib, p5.nvme_gb, p5.efa, p5.network_cards, p5.pods) == (81920, 30400, 32, 32, 100)
    assert (p5.price_usd_hour, p5.price_date, p5.price_region) == (55.04, "2026-07-20", "us-east-1")


def test_a_fractional_gpu_is_no_instance_type_with_one() -> None:
    assert not any(it.name.startswith("g6f.") for it in catalog.instance_types("L4", 1))
    assert "gr6.4xlarge" in [it.name for it in catalog.instance_types("L4", 1)]


def test_every_accelerator_can_be_had_and_every_instance_type_belongs_to_one() -> None:
    reachable = {
        it.name
        for name in catalog.accelerators()
        for count in catalog.gpus_per_node(name)
        for it in catalog.instance_types(name, count)
    }
    assert all(catalog.gpus_per_node(name) for name in catalog.accelerators())
    assert reachable == {row[0] for row in load("instance_types")["rows"]}


def test_figures_are_plausible() -> None:
    for name in catalog.accelerators():
        gpu = catalog.accelerator(name)
        assert abs(gpu.memory_gib - gpu.memory_mib / 1024) < 0.1, name
        for count in catalog.gpus_per_node(name):
            for it in catalog.instance_types(name, count):
                assert 0 < it.allocatable_cpu_millis < it.vcpu * 1000
                assert 0 < it.allocatable_memory_mib < it.memory_mib
                assert it.network_cards - it.efa in (0, 1) or it.network_cards == 1
                assert it.price_usd_hour is None or it.price_usd_hour > 0


def test_instance_type_by_name() -> None:
    assert catalog.instance_type("g6.xlarge").gpu_name == "l4"
    with pytest.raises(catalog.UnknownName, match=r"did you mean p5\.48xlarge"):
        catalog.instance_type("p5.48xlrge")


def test_each_dialect_keeps_to_its_own_domain() -> None:
    for dialect in catalog.dialects().values():
        domain = dialect.gpu_name.partition("/")[0]
        assert dialect.group == domain
        assert dialect.gpu_count.startswith(f"{domain}/")
        assert dialect.gpu_memory is None or dialect.gpu_memory.startswith(f"{domain}/")
