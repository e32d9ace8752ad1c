"""What a server is told besides "generate": pause, load weights, flush, continue, check.

Servers differ by generation: newer ones want `begin_weight_update` and `end_weight_update` around an update, older ones
do not know them. The server is asked which routes it has; versions are never compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp

from slime.sglang.http import RequestError, request_json

UPDATE_TIMEOUT_SECONDS = 600.0
FLUSH_ATTEMPTS = 60


class EngineControl:
    """Controls one server. All methods raise `RequestError` when the server refuses or does not answer."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        """
        Args:
            session: an open HTTP session; its owner closes it.
            url: base URL of the server.
        """
        self.session = session
        self.url = url
        self._routes: frozenset[str] | None = None

    async def routes(self) -> frozenset[str]:
        """The paths that this server has, from its own OpenAPI description; asked once."""
        if self._routes is None:
            description = await request_json(self.session, "GET", f"{self.url}/openapi.json")
            self._routes = frozenset(description["paths"])
        return self._routes

    async def weight_version(self) -> str:
        """The version label of the weights that the server holds now."""
        path = "/model_info" if "/model_info" in await self.routes() else "/get_model_info"
        return str((await request_json(self.session, "GET", self.url + path))["weight_version"])

    async def pause(self) -> None:
        """Stop generating, and end what is in flight; callers get what their requests generated so far.

        SGLang's mode "abort" is the only one after which its cache may be flushed: in its other modes requests stay
        queued, and a flush beside them ends the server.
        """
        await self._post("/pause_generation", mode="abort")

    async def resume(self) -> None:
        """Generate again."""
        # Emptying the allocator's cache takes longer than the update of a small model, and frees nothing worth having.
        await self._post("/continue_generation", torch_empty_cache=False)

    async def flush_cache(self) -> None:
        """Drop cached prefixes. Retried while requests are still being wound up."""
        for attempt in range(FLUSH_ATTEMPTS):
            try:
                await self._post("/flush_cache")
                return
            except RequestError as error:
                if error.status != 400 or attempt == FLUSH_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.5)

    async def begin_update(self) -> None:
        """Open an update, on servers that want to be told. One that was left open by an earlier failure is closed."""
        if "/begin_weight_update" not in await self.routes():
            return
        try:
            await self._post("/begin_weight_update")
        except RequestError as error:
            if error.status != 400:
                raise
            await self.end_update()
            await self._post("/begin_weight_update")

    async def load_bucket(self, payloads: Sequence[str], load_format: str, version: str | None) -> None:
        """Load one bucket of weights from memory that the trainer shares; the server must be paused.

        Args:
            payloads: one per tensor-parallel rank of the engine.
            load_format: how the payloads are laid out.
            version: label that the server reports from now on; given with the last bucket only, so that a failed update
                leaves the old label. With it, cached prefixes are dropped: they belong to the old weights.
        """
        last = version is not None
        fields: dict[str, Any] = {"weight_version": version} if last else {}
        await self._post(
            "/update_weights_from_tensor",
            serialized_named_tensors=list(payloads),
            load_format=load_format,
            flush_cache=last,
            **fields,
        )

    async def join_group(
        self, name: str, address: str, port: int, rank_offset: int, world_size: int, backend: str
    ) -> None:
        """Join a process group in which a trainer broadcasts weights; returns when all members have joined.

        Args:
            name: of the group; one that this server was not in before.
            address, port: where the trainer listens.
            rank_offset: rank of the server's first process in the group; the others follow.
            world_size: processes of the group.
            backend: "nccl" or "gloo".
        """
        await self._post(
            "/init_weights_update_group",
            master_address=address,
            master_port=port,
            rank_offset=rank_offset,
            world_size=world_size,
            group_name=name,
            backend=backend,
        )

    async def leave_group(self, name: str) -> None:
        """Leave a process group; harmless when the server is in none of that name."""
        try:
            await self._post("/destroy_weights_update_group", group_name=name)
        except RequestError as error:
            if error.status != 400:
                raise

    async def receive_bucket(
        self, group: str, names: Sequence[str], dtypes: Sequence[str], shapes: Sequence[Sequence[int]],
        load_format: str, version: str | None,
    ) -> None:  # fmt: skip
        """Receive a bucket that the trainer broadcasts in `group`, and load it; the server must be paused.

        Args:
            group: which the server has joined.
            names, dtypes, shapes: of the tensors, in the order of the broadcast.
            load_format: how they are laid out.
            version: as in `load_bucket`.
        """
        last = version is not None
        fields: dict[str, Any] = {"weight_version": version} if last else {}
        await self._post(
            "/update_weights_from_distributed",
            names=list(names),
            dtypes=list(dtypes),
            shapes=[list(shape) for shape in shapes],
            group_name=group,
            load_format=load_format,
            flush_cache=last,
            **fields,
        )

    async def end_update(self) -> None:
        """Close an update, on servers that want to be told."""
        if "/end_weight_update" in await self.routes():
            await self._post("/end_weight_update")

    async def update_from_disk(self, model_path: str, version: str) -> None:
        """Load a complete Hugging Face checkpoint from a directory that the server can read; it must be paused."""
        # Named, because a server that was started with random weights would make up others.
        fields = {"model_path": model_path, "load_format": "auto", "weight_version": version}
        await self._post("/update_weights_from_disk", **fields, flush_cache=True)

    async def checksums(self) -> dict[str, str]:
        """A hash of every tensor that the server holds, by its name inside the server (and its rank)."""
        answer = await self._post("/weights_checker", action="checksum")
        return {
            f"rank {number}: {name}": value
            for number, rank in enumerate(answer["ranks"])
            for name, value in rank["checksums"].items()
        }

    async def scramble(self) -> None:
        """Overwrite the server's weights with noise. Used to show that an update replaces all of them."""
        await self._post("/weights_checker", action="reset_tensors")

    async def abort_all(self) -> None:
        """Abort every request of the server; what they generated so far is returned to their callers."""
        await self._post("/abort_request", abort_all=True)

    async def _post(self, path: str, **fields: Any) -> Any:
        return await request_json(self.session, "POST", self.url + path, fields, UPDATE_TIMEOUT_SECONDS)
