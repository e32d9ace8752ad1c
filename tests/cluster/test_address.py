"""Which cluster is joined, and in which authentication mode, is decided from the environment and a note of Ray's."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from slime.cluster import address


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    note = tmp_path / "ray_current_cluster"
    monkeypatch.setattr(address, "CLUSTER_NOTE", note)
    return note


def test_without_a_cluster_there_is_none() -> None:
    assert address.running_cluster() is None


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert address.running_cluster() == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert address.running_cluster() is None


def test_a_note_counts_while_something_listens(nothing_set: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        noted = f"127.0.0.1:{listener.getsockname()[1]}"
        nothing_set.write_text(noted + "\n")
        assert address.running_cluster() == noted
    assert address.running_cluster() is None


@pytest.mark.parametrize("text", ["", "no port", "127.0.0.1:notaport"])
def test_a_broken_note_is_no_cluster(nothing_set: Path, text: str) -> None:
    nothing_set.write_text(text)
    assert address.running_cluster() is None


def test_a_local_cluster_asks_for_a_token() -> None:
    address.settle_authentication()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_the_mode_of_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    address.settle_authentication()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"


def test_a_running_cluster_keeps_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    address.settle_authentication()
    assert "RAY_AUTH_MODE" not in os.environ
