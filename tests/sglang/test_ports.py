"""A port is free, or the refusal says which flag to change and what is free instead."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from slime.ports import PortBusyError, bind_error, free_port, require_free


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_chosen_port_can_be_bound() -> None:
    port = free_port()
    assert bind_error("127.0.0.1", port) is None


def test_the_search_skips_ports_in_use(busy: int) -> None:
    assert free_port(start=busy) > busy


def test_a_search_without_result_names_the_span(busy: int) -> None:
    with pytest.raises(PortBusyError, match=f"between {busy} and {busy}"):
        free_port(start=busy, span=1)


def test_a_free_port_is_returned_as_asked() -> None:
    port = free_port()
    assert require_free("127.0.0.1", port, "--sglang-port") == port


def test_a_busy_port_is_refused_with_a_free_one(busy: int) -> None:
    with pytest.raises(PortBusyError) as caught:
        require_free("127.0.0.1", busy, "--sglang-port")
    assert f"--sglang-port {busy}" in str(caught.value)
    assert "another process listens there" in str(caught.value)
    suggestion = re.search(r"or take (\d+)", str(caught.value))
    assert suggestion is not None
    assert bind_error("127.0.0.1", int(suggestion[1])) is None


def test_the_cause_is_named_when_it_is_another() -> None:
    """An address that is not of this machine cannot be bound either, and nobody listens there."""
    with pytest.raises(PortBusyError, match=r"Cannot assign requested address|no free port"):
        require_free("203.0.113.7", 20000, "--sglang-port")
