"""``slime hooks``: what hooks there are, and whether a function of yours fits one."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from slime.config import REGISTRY, Config
from slime.config.groups.algorithm import names_own_function
from slime.rollout.errors import RolloutError, SetupError
from slime.rollout.hook import Hook
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_trial import Trial
from slime.rollout.hooks import HOOKS, hook_named
from slime.rollout.setup import load_tokenizer
from slime.rollout.text import TextTools, text_tools


def add_parser(subparsers: Any) -> None:
    """Add ``hooks`` to the subcommands of an argparse parser."""
    parser = subparsers.add_parser("hooks", help="list hooks and check functions of yours against them")
    commands = parser.add_subparsers(dest="action", required=True)
    listing = commands.add_parser("list", help="all hooks, or one with its example")
    listing.add_argument("name", nargs="?", help="name or flag of a hook")
    listing.add_argument("--json", action="store_true", help="print JSON")
    checking = commands.add_parser("check", help="load functions and try them on a made-up group")
    fields = dict.fromkeys(hook.field for hook in HOOKS)
    for field in fields:
        flag = REGISTRY.by_field(field)
        checking.add_argument(flag.name, nargs="+" if flag.many else None, metavar="PATH", help=flag.help.en)
    checking.add_argument("--group-rm", action="store_true", help="the reward function grades whole groups")
    checking.add_argument("--reward-key", help="key of the reward when it is a mapping")
    checking.add_argument("--n-samples-per-prompt", type=_count, default=4, help="samples of a group (4)")
    checking.add_argument("--rollout-max-response-len", type=_count, default=256, help="tokens of a response (256)")
    checking.add_argument("--hook-timeout", type=_seconds, default=60.0, help="seconds that one call may take (60)")
    checking.add_argument("--hf-checkpoint", help="folder whose tokenizer is used; without, a character is a token")
    checking.add_argument("--prompt", default="1+1=", help="prompt of the samples (1+1=)")
    checking.add_argument("--label", default="2", help="reference answer (2)")
    checking.add_argument("--response", default="2", help="what the engine answers to every request (2)")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no time limit; use seconds above 0, at most 86400")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; use 1 to 1000000")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run ``slime hooks``; the exit status: 0 all fit, 1 one does not, 2 not understood."""
    return _list(args.name, args.json) if args.action == "list" else _check(args)


def _list(name: str | None, as_json: bool) -> int:
    try:
        hooks = [hook_named(name)] if name else list(HOOKS)
    except KeyError as error:
        print(f"slime hooks list: {error.args[0]}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps([_as_dict(hook) for hook in hooks], ensure_ascii=False, indent=2))
        return 0
    for hook in hooks:
        print(f"{hook.flag}{'' if REGISTRY.by_field(hook.field).runs else '   (planned)'}")
        print(f"    {hook.signature(hook.name.replace('-', '_'))}")
        print(f"    {hook.purpose}")
        if name:
            print("\n" + hook.example, end="")
    return 0


def _as_dict(hook: Hook) -> dict[str, Any]:
    return {
        "name": hook.name,
        "flag": hook.flag,
        "signature": hook.signature(),
        "purpose": hook.purpose,
        "runs": REGISTRY.by_field(hook.field).runs,
        "example": hook.example,
    }


def _check(args: argparse.Namespace) -> int:
    unused = "custom-rm" if args.group_rm else "custom-rm-group"
    wanted: list[tuple[Hook, str]] = []
    for hook in HOOKS:
        given = getattr(args, hook.field) if hook.name != unused else None
        wanted += [(hook, path) for path in ([given] if isinstance(given, str) else given or ())]
    if not wanted:
        print("slime hooks check: name at least one hook, e.g. --custom-rm-path my_module.reward", file=sys.stderr)
        return 2
    try:
        trial = _trial(args)
    except SetupError as error:
        print(f"slime hooks check: {error}", file=sys.stderr)
        return 2
    return _in_a_process_of_its_own(lambda: _try_all(trial, wanted, args.hook_timeout))


def _in_a_process_of_its_own(work: Callable[[], int]) -> int:
    """The status that `work` returns; 1, with a line that says so, when a function ended the process before."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = work()
        sys.stdout.flush()
        os.write(writer, bytes([status]))
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    _, ended = os.waitpid(child, 0)
    if answer:
        return answer[0]
    how = os.waitstatus_to_exitcode(ended)
    print(f"no  the function that was tried last ended the process, with exit status {how}.", file=sys.stderr)
    return 1


def _try_all(trial: Trial, wanted: list[tuple[Hook, str]], timeout: float) -> int:
    failed = 0
    for hook, path in wanted:
        print(f"try {hook.flag} {path}", file=sys.stderr, flush=True)
        if names_own_function(REGISTRY.by_field(hook.field), path):
            print(f"ok  {hook.flag} {path}: the runtime's own, there is nothing to try")
            continue
        try:
            print(f"ok  {hook.flag} {path}: {trial.run(HookFunction(hook, path, timeout))}")
        except (SetupError, RolloutError, ValueError) as error:
            failed += 1
            print(f"no  {error}", file=sys.stderr)
    print(f"slime hooks check: {len(wanted) - failed} of {len(wanted)} hooks fit")
    return 1 if failed else 0


def _trial(args: argparse.Namespace) -> Trial:
    config = Config(
        group_rm=args.group_rm,
        reward_key=args.reward_key,
        n_samples_per_prompt=args.n_samples_per_prompt,
        rollout_max_response_len=args.rollout_max_response_len,
        hook_timeout=args.hook_timeout,
        hf_checkpoint=args.hf_checkpoint,
    )
    text = characters() if args.hf_checkpoint is None else text_tools(load_tokenizer(config), False, ())
    return Trial(config, text, args.prompt, args.label, args.response)


def characters() -> TextTools:
    """A tokenizer of UTF-8 bytes, for checks without a model."""
    return TextTools(lambda text: list(text.encode()), lambda ids: bytes(ids).decode(errors="replace"))
