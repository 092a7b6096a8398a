"""Lint grows with the number of objects, not with the number of their pairs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from podrail.planning.lint import lint
from tests.lint.test_joins import bundle, net, policy


def _pod(name: str, network: str, resource: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "training",
            "annotations": {"k8s.v1.cni.cncf.io/networks": network},
        },
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": name},
            "containers": [{
                "name": "trainer", "image": "trainer:1",
                "resources": {"limits": {f"openshift.io/{resource}": 1}},
            }],
        },
    }  # fmt: skip


def _ipam(number: int) -> dict[str, Any]:
    return {"type": "whereabouts", "range": f"10.{number // 250}.{number % 250}.0/24"}


def rails(count: int) -> list[dict[str, Any]]:
    """Each policy with a PF, a network and a pod of its own."""
    made: list[dict[str, Any]] = []
    for n in range(count):
        made += [
            policy(f"r{n}", {"pfNames": [f"ens{n}f0"]}),
            net(f"r{n}", _ipam(n)),
            _pod(f"pod-{n}", f"r{n}", f"r{n}"),
        ]
    return made


def nodes(count: int) -> list[dict[str, Any]]:
    """One rail, with a policy for each node, and a network for each tenant."""
    made: list[dict[str, Any]] = []
    for n in range(count):
        one = {"kubernetes.io/hostname": f"pod-{n}"}
        made += [
            policy(f"p{n}", {"pfNames": ["ens1f0"]}, resource="rail", nodeSelector=one),
            net(f"n{n}", _ipam(0), resource="rail"),
            _pod(f"pod-{n}", f"n{n}", "rail"),
        ]
    return made


def _seconds(made: list[dict[str, Any]]) -> float:
    """The best of three: other work on the machine only adds."""
    best = float("inf")
    for _ in range(3):
        judged = bundle(*made)
        start = time.process_time()
        lint(judged)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("shape", [rails, nodes])
def test_four_times_the_objects(shape: Callable[[int], list[dict[str, Any]]]) -> None:
    small, large = _seconds(shape(60)), _seconds(shape(240))
    assert large < 8 * small
