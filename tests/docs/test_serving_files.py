"""Files of engine groups on the pages: the launcher reads them, and refuses those alone that a page calls not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slime.config import Config
from slime.config.serving_groups import serving_groups
from slime.config.validate.serving import check_groups_run

DOCS = Path(__file__).resolve().parents[2] / "docs" / "en"
FILES = [
    (path.relative_to(DOCS), block)
    for path in sorted(DOCS.rglob("*.md"))
    for block in re.findall(r"(?ms)^```yaml\n(sglang:.*?)^```", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "block"), FILES, ids=[str(page) for page, _ in FILES])
def test_the_launcher_reads_the_groups_of_a_page(page: Path, block: str, tmp_path: Path) -> None:
    judge = tmp_path / "judge"
    judge.mkdir()
    (judge / "config.json").write_text("{}")
    file = tmp_path / "sglang.yaml"
    file.write_text(block.replace("/data/judge", str(judge)))
    gpus = sum(map(int, re.findall(r"num_gpus: (\d+)", block)))
    config = Config(device="cuda", hf_checkpoint=str(tmp_path), rollout_num_gpus=gpus, sglang_config=str(file))
    assert sum(group.gpus for group in serving_groups(config)) == gpus
    refused = "\n".join(found.message for found in check_groups_run(config))
    assert bool(refused) == ("prefill" in block), refused
    assert not refused or "**Not run yet.**" in (DOCS / page).read_text(encoding="utf-8")
