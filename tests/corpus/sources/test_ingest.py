"""Files as tasks: none lost, none twice, large ones alone, and no core idle while there is work. Subsets as sources."""

from __future__ import annotations

import random

from corpus.sources.config import SourceConfig
from corpus.sources.files import InputFile
from corpus.sources.ingest import TASK_BYTES, pack, subset_name


def files(*sizes: int) -> list[InputFile]:
    return [InputFile("web", f"/web/{n}.jsonl", f"{n}.jsonl", size, 0, "jsonl") for n, size in enumerate(sizes)]


def test_every_file_is_in_one_task_whatever_the_sizes() -> None:
    draw = random.Random(3)
    for _ in range(50):
        given = files(*(int(10 ** draw.uniform(0, 10)) for _ in range(draw.randint(0, 200))))
        tasks = pack(given, cores=draw.randint(1, 64))
        assert sorted((file for task in tasks for file in task), key=given.index) == given
        assert all(len(task) == 1 or sum(file.size for file in task) <= TASK_BYTES for task in tasks)


def test_a_small_crawl_still_gives_every_core_its_share() -> None:
    small = files(*[1 << 20] * 64)
    assert len(pack(small, cores=1)) <= 4
    assert len(pack(small, cores=8)) >= 8
    assert max(map(len, pack(small, cores=8))) <= 8


def test_a_large_crawl_of_small_files_is_no_flood_of_tasks() -> None:
    assert len(pack(files(*[1 << 20] * 6400), cores=8)) <= 110
    assert len(pack(files(*[0] * 30_000), cores=2)) <= 10


def test_a_subset_keeps_its_name_and_no_two_meet() -> None:
    plain = {"Pile-CC": "pile-cc", "PubMed Abstracts": "pubmed-abstracts", "v1.2_x": "v1.2_x"}
    assert {name: subset_name(name) for name in plain} == plain
    odd = ["中文", "日本語", "Русский", "", "..", "-", "a" * 400, "a" * 401, "Café", "Cafè"]
    names = [subset_name(name) for name in odd]
    assert len(set(names)) == len(odd)
    for name in names:
        assert SourceConfig(name=name, paths=["x"]).name == name
        assert len(name) < 80
