"""`rankcast bench zones` and `bench gateway` at their smallest."""

from __future__ import annotations

import shutil

import pytest

from bench.zones import cluster, gateway


def test_the_cluster_is_simulated() -> None:
    text = cluster.run(quick=True, say=lambda line: None).page()
    assert "Uniform subscriptions" in text and "1,000,000,000" in text
    for figure in (14, 17, 20):
        assert f"### Figure {figure}: " in text
    assert "| 1 |" in text and "| 100 |" in text


@pytest.mark.skipif(shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin") is None, reason="no NATS")
def test_gateways_are_measured() -> None:
    text = gateway.run(quick=True, say=lambda line: None).page()
    assert "| two gateways | 200 |" in text and "times the processor time" in text
