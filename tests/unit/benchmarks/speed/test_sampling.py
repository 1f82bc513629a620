from __future__ import annotations

import signal
import time
import types

import bson
import pytest

from benchmarks.speed.sampling import LAYERS, Sampler, layer_of


@pytest.mark.parametrize(
    ("module", "function", "layer"),
    [
        ("bson", "encode", "encode"),
        ("bson", "decode", "decode"),
        ("motorlite._execution.sender", "send", "send: limits, events, cluster time"),
        ("motorlite._execution.executor", "execute", "execute: run, attempt, parse"),
        ("motorlite._executioner", "x", "other"),
        ("asyncio.selector_events", "write", "socket: send"),
        ("asyncio.selector_events", "_add_reader", "event loop"),
        ("asyncio", "run", "event loop"),
        ("struct", "pack", None),
    ],
)
def test_a_function_has_the_layer_of_its_module(module: str, function: str, layer: str | None) -> None:
    assert layer_of(module, function) == layer


def test_no_row_is_hidden_by_an_earlier_one() -> None:
    for number, (module, functions, _) in enumerate(LAYERS):
        for earlier, others, _ in LAYERS[:number]:
            assert others or not f"{module}.".startswith(f"{earlier}."), (module, functions, earlier)


def test_samples_count_for_the_innermost_known_frame() -> None:
    sampler = Sampler()
    inner = types.FunctionType(compile("sample(0, get())", "x", "exec"), {"__name__": "somewhere"})
    import sys

    inner.__globals__.update(sample=sampler._sample, get=lambda: sys._getframe(1))
    outer = types.FunctionType(compile("inner()", "x", "exec"), {"__name__": "motorlite._pool.pool", "inner": inner})
    outer()
    assert sampler.layers == {"selection and check-out": 1}


def test_processor_time_is_sampled_and_the_timer_stopped_afterwards() -> None:
    handler, data = signal.getsignal(signal.SIGPROF), bson.encode({"values": list(range(1000))})
    with Sampler() as sampler:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            for _ in range(10):
                bson.decode(data)
    assert sampler.layers["decode"] > sum(sampler.layers.values()) / 2
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    assert signal.getsignal(signal.SIGPROF) == handler
