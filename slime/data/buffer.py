"""Groups that wait to be generated again: unfinished ones, and those that a failed round gave back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slime.data.sample import Sample

Group = list[Sample]
BufferFilter = Callable[[list[Group], int], list[Group]]
"""Takes at most n groups out of the buffer and returns them: ``filter(buffer, n)``.

What it removes without returning it is gone; that is how stale groups are dropped (``--buffer-filter-path``).
"""
FRESH = 2**63 - 1
"""Staleness of a group of which nothing was generated yet."""


class GroupBufferError(ValueError):
    """The buffer, or the filter on it, breaks its contract; the message names the group."""


def oldest_first(buffer: list[Group], count: int) -> list[Group]:
    """The default filter: groups in the order in which the data source made them."""
    taken, buffer[:] = buffer[:count], buffer[count:]
    return taken


def stalest_first(buffer: list[Group], count: int) -> list[Group]:
    """``--buffer-sort-by-staleness``: groups that hold tokens of the oldest weights first; ties keep their order."""
    buffer.sort(key=staleness)
    return oldest_first(buffer, count)


def staleness(group: Group) -> int:
    """The oldest weight version that generated a token of the group; `FRESH` without one."""
    versions = [int(version) for sample in group for version in sample.weight_versions if version.isdecimal()]
    return min(versions, default=FRESH)


class GroupBuffer:
    """Waiting groups. They are kept in the order of their `group_index`, whatever order they come back in.

    Groups finish in an order that depends on the machine. With this order the next round does not, so that a run that
    was resumed sees the prompts of one that was not interrupted.

    Attributes:
        groups: the waiting groups.
        dropped: groups that the filter removed without returning them.
    """

    def __init__(self, group_size: int, buffer_filter: BufferFilter = oldest_first) -> None:
        """
        Args:
            group_size: samples of a group, ``--n-samples-per-prompt``.
            buffer_filter: chooses what `take` returns.
        """
        self.group_size = group_size
        self.groups: list[Group] = []
        self.dropped = 0
        self._filter = buffer_filter

    def __len__(self) -> int:
        return len(self.groups)

    def put(self, groups: Iterable[Group]) -> None:
        """Add groups.

        Raises:
            GroupBufferError: a group of another size (a short one would shift its advantages), one without a number, or
                one that is waiting already. Nothing is added then.
        """
        added = list(groups)
        numbers = {_number(group) for group in self.groups}
        for group in added:
            if len(group) != self.group_size:
                raise GroupBufferError(
                    f"group {group[0].group_index if group else '?'} has {len(group)} samples; "
                    f"a group holds {self.group_size} (--n-samples-per-prompt)."
                )
            number = _number(group)
            if number in numbers:
                raise GroupBufferError(f"group {number} is in the buffer twice; it would be trained twice.")
            numbers.add(number)
        self.groups = sorted([*self.groups, *added], key=_number)

    def restore(self, groups: Iterable[Group]) -> None:
        """Hold `groups` instead of what it holds now; raises as `put` does, and changes nothing then."""
        earlier, self.groups = self.groups, []
        try:
            self.put(groups)
        except GroupBufferError:
            self.groups = earlier
            raise

    def take(self, count: int) -> list[Group]:
        """At most `count` groups, chosen by the filter.

        Raises:
            GroupBufferError: the filter returned more groups than asked for, one that was not waiting, or one that it
                left in the buffer.
        """
        if not self.groups or count < 1:
            return []
        before = {id(group): group for group in self.groups}
        taken = self._filter(self.groups, count)
        left = {id(group) for group in self.groups}
        if len(taken) > count:
            raise GroupBufferError(
                f"--buffer-filter-path returned {len(taken)} groups; at most {count} were asked for."
            )
        for group in taken:
            if id(group) not in before:
                raise GroupBufferError("--buffer-filter-path returned a group that was not in the buffer.")
            if id(group) in left:
                raise GroupBufferError(
                    f"--buffer-filter-path returned group {_number(group)} and left it in the buffer; "
                    "remove what you return, or it is trained twice."
                )
        if len({id(group) for group in taken}) != len(taken):
            raise GroupBufferError("--buffer-filter-path returned one group twice.")
        self.dropped += len(before) - len(left) - len(taken)
        return taken


def _number(group: Group) -> int:
    number = group[0].group_index if group else None
    if number is None:
        raise GroupBufferError("a group without group_index cannot wait in the buffer; the data source numbers groups.")
    return number
