"""Runs a golden scenario: rounds of the cycle on a small cluster, with what happens between two rounds."""

from collections import Counter
from dataclasses import replace
from typing import Any

from triplane.simulation.fair_share import Queue, Triple
from triplane.simulation.kai.cycle import schedule
from triplane.simulation.kai.settings import Settings
from triplane.simulation.scheduling import (
    Cluster,
    Constraint,
    Decisions,
    Group,
    Job,
    Node,
    PodSet,
    Task,
    Topology,
    gang,
)

# What the tables were taken with: any number of moved victims, no grace for stale gangs, every job tried.
SETTINGS = Settings(max_consolidation_victims=None, staleness_grace_s=0, skip_no_easier=False)
FIELDS = ("gpu", "cpu_millicores", "memory_bytes")


def _triple(given: dict[str, Any], field: str) -> Triple:
    gpu, cpu, memory = (float(given[name][field]) for name in FIELDS)
    return (gpu, cpu, memory)


def _constraint(given: dict[str, Any] | None) -> Constraint | None:
    if given is None:
        return None
    return Constraint(given["topology"], given["required_level"], given["preferred_level"])


def _group(given: dict[str, Any], tasks: list[dict[str, Any]], name: str = "") -> Group:
    members: list[Group | PodSet] = [_group(one, [], f"group-{index}") for index, one in enumerate(given["groups"])]
    members += [PodSet(one["name"], one["min_members"], _constraint(one["topology"])) for one in given["pod_sets"]]
    loose = [task for task in tasks if not task.get("pod_set")]
    if loose:  # tasks of no set form one of their own, of which all must run
        members.append(PodSet("", len(tasks)))
    return Group(name, tuple(members), given["min_subgroups"], _constraint(given["topology"]))


def _job(given: dict[str, Any]) -> Job:
    request = (
        float(given["gpus_per_task"]),
        float(given["cpu_millicores_per_task"]),
        float(given["memory_bytes_per_task"]),
    )
    tasks = tuple(
        Task(
            name=f"{given['name']}-{index}",
            request=request,
            status=task["state"],
            node=task["node"],
            pod_set=task.get("pod_set") or "",
            priority=task.get("task_priority"),
        )
        for index, task in enumerate(given["tasks"])
    )
    root = _group(given["subgroups"], given["tasks"]) if given.get("subgroups") else gang(given["min_members"])
    age = given["age_minutes"]
    return Job(given["name"], given["queue"], tasks, root, given["priority"], given["preemptible"], created=-60 * age)


def cluster(given: dict[str, Any]) -> Cluster:
    nodes = tuple(
        Node(one["name"], (one["gpus"], one["cpu_millicores"], one["memory_bytes"]), one.get("topology_labels") or {})
        for one in given["nodes"]
    )
    queues = tuple(
        Queue(
            one["name"],
            one["parent"],
            _triple(one, "quota"),
            _triple(one, "limit"),
            _triple(one, "over_quota_weight"),
            one["priority"],
            one["created"],
        )
        for one in given["queues"]
    )
    topologies = tuple(Topology(one["name"], tuple(one["levels"])) for one in given.get("topologies") or [])
    return Cluster(nodes, queues, tuple(map(_job, given["jobs"])), topologies)


def after(view: Cluster, decisions: Decisions) -> Cluster:
    """The view of the next round: what started runs, what was evicted or was leaving waits again."""

    def next_task(job: Job, task: Task) -> Task:
        started = decisions.bound.get(job.name, {}).get(task.name)
        if started is not None:
            return replace(task, status="running", node=started)
        evicted = any(eviction.task == task.name for eviction in decisions.evicted.get(job.name, ()))
        if evicted or task.status == "releasing":
            return replace(task, status="pending", node=None)
        return task

    jobs = (replace(job, tasks=tuple(next_task(job, task) for task in job.tasks)) for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def outcomes(given: dict[str, Any]) -> list[Cluster]:
    """The cluster after the rounds of the case, then after each further round in which nothing may change."""
    view = cluster(given)
    seen = []
    for number in range(1, given["rounds"] + given["stable_rounds"] + 1):
        view = after(view, schedule(view, 0.0, SETTINGS))
        if number >= given["rounds"]:
            seen.append(view)
    return seen


def running(view: Cluster) -> dict[str, int]:
    """Running tasks per job."""
    return {job.name: sum(task.status == "running" for task in job.tasks) for job in view.jobs}


def differences(case: dict[str, Any]) -> list[str]:
    """Where the outcome is not the expected one, in words; empty if it is.

    The original's own tests assert jobs and their nodes, or single tasks; its further runs give totals, and there equal
    jobs may have swapped roles.
    """
    given, expected = case["input"], case["expected"]
    before = cluster(given)
    found = []
    for number, view in enumerate(outcomes(given)):
        where = f"round {given['rounds'] + number}"
        now = running(view)
        if "evicted_tasks" in expected:
            was = {task.name: task.status == "running" for job in before.jobs for task in job.tasks}
            runs = {task.name: task.status == "running" for job in view.jobs for task in job.tasks}
            totals = Counter("evicted" if was[name] else "placed" for name in was if was[name] != runs[name])
            for kind in ("evicted", "placed"):
                if totals[kind] != expected[f"{kind}_tasks"]:
                    found.append(f"{where}: {totals[kind]} {kind}, expected {expected[f'{kind}_tasks']}")
            if now != expected["running_tasks"] and not _equal_jobs_swapped(before, now, expected["running_tasks"]):
                found.append(f"{where}: {now}, expected {expected['running_tasks']}")
            continue
        for name, outcome in expected["jobs"].items():
            job = next(job for job in view.jobs if job.name == name)
            for task in job.tasks:
                if (task.status == "running") != (outcome["status"] == "running"):
                    found.append(f"{where}: {task.name} is {task.status}, expected {outcome['status']}")
                elif outcome.get("node") not in (None, task.node):
                    found.append(f"{where}: {task.name} on {task.node}, expected {outcome['node']}")
        for outcome in expected.get("tasks", []):
            job = next(job for job in view.jobs if job.name == outcome["job"])
            task = job.tasks[outcome["task"]]
            if (task.status == "running") != (outcome["status"] == "running"):
                found.append(f"{where}: {task.name} is {task.status}, expected {outcome['status']}")
        if now != expected["running_tasks"]:
            found.append(f"{where}: {now}, expected {expected['running_tasks']}")
    return found


def _equal_jobs_swapped(before: Cluster, found: dict[str, int], expected: dict[str, int]) -> bool:
    def kind(job: Job) -> tuple[Any, ...]:
        sizes = tuple((task.request, task.status) for task in job.tasks)
        return (job.queue, job.priority, job.preemptible, job.root, sizes)

    def by_kind(counts: dict[str, int]) -> Counter[Any]:
        return Counter((kind(job), counts[job.name]) for job in before.jobs)

    return by_kind(found) == by_kind(expected)
