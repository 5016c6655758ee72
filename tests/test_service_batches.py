"""The queue of a bundle drops what nobody waits for."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from reglue_runtime.service.batching import Batcher
from tests.tiny_service import SECONDS


def test_work_that_nobody_waits_for_stops_between_two_parts() -> None:
    began, given_up, parts = threading.Event(), threading.Event(), []

    def predict(examples: Sequence[Any], advance: Callable[[int], None]) -> list[dict[str, Any]]:
        for part in range(3):
            parts.append(part)
            began.set()
            assert given_up.wait(SECONDS) or len(examples) == 1
            advance(1)
        return [{}] * len(examples)

    async def work() -> list[dict[str, Any]]:
        batcher = Batcher(predict, max_batch=9, max_wait=0, max_queue=9, observe=lambda *_: None)
        left = batcher.submit(["a", "b"], 1)
        await asyncio.to_thread(began.wait, SECONDS)
        left.cancel()
        given_up.set()
        found = await batcher.submit(["c"], 1)
        await batcher.close()
        return found

    assert asyncio.run(work()) == [{}]
    assert parts == [0, 0, 1, 2]
