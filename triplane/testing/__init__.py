"""For tests of your own stacks and programs: run one offline and look at what it declares.

    from triplane.testing import run_stack

    def test_production_never_buys_more_than_ten_nodes() -> None:
        prod = run_stack("prod")
        nodes = [pool["spec"]["limits"]["nodes"] for pool in prod.objects("NodePool")]
        assert sum(int(count) for count in nodes) <= 10

    def test_a_bigger_pool_needs_no_other_change() -> None:
        assert run_stack("prod", set={"pools.serving.nodes.max": 8}).object("NodePool", "serving")

Needs `pip install 'triplane[pulumi]'`, and no Pulumi CLI, cluster or account.
"""

from triplane.testing.stacks import StackRun, run_components, run_stack

__all__ = ["StackRun", "run_components", "run_stack"]
