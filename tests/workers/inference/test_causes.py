"""The cause of an engine's death, found in what vLLM 0.32.0 printed when it was really given too little, or nonsense.

Recorded on a machine without a GPU; only the paths in the logs were shortened.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.inference.causes import DEFAULT_HINT, cause_of, hint_for

LOGS = Path(__file__).parent / "vllm_logs"
RECORDED = {
    "too_little_memory": (
        "ValueError: Available memory on node 0",
        "--gpu-memory-utilization, --kv-cache-memory-bytes or --max-model-len",
    ),
    "small_cache": ("ValueError: No available memory for the cache blocks", "--kv-cache-memory-bytes"),
    "max_model_len": (
        "ValidationError: 1 validation error for ModelConfig Value error, User-specified max_model_len (100000) is",
        "lower --max-model-len",
    ),
    "no_weights": ("RuntimeError: Cannot find any model weights with `/models/tiny`", "import the model again"),
    "no_directory": ("HFValidationError: Repo id must be in the form", "import the model again"),
    "bad_flag": ("unrecognized arguments: --no-such-flag", "correct WORKER_VLLM_ARGUMENTS"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_root_exception_is_found_and_says_what_to_do(name: str) -> None:
    expected, hint = RECORDED[name]
    cause = cause_of((LOGS / f"{name}.log").read_text().splitlines())
    assert cause.startswith(expected)
    assert hint in hint_for(cause)


def test_the_processes_that_only_point_to_the_cause_are_passed_over() -> None:
    lines = (LOGS / "no_weights.log").read_text().splitlines()
    last = next(line for line in reversed(lines) if "Error: " in line)
    assert "Engine core initialization failed" in last
    assert "Engine core" not in cause_of(lines)


def test_tracebacks_that_two_processes_print_into_each_other_are_told_apart() -> None:
    first, second = "(EngineCore pid=7) ERROR 11-22 00:38:32 [core.py:1] ", "(APIServer pid=5) "
    lines = [
        f"{first}Traceback (most recent call last):",
        f"{second}Traceback (most recent call last):",
        f'{first}  File "a.py", line 1, in f',
        f"{second}RuntimeError: Engine core initialization failed. See root cause above.",
        f"{first}ValueError: No available memory for the cache blocks.",
    ]
    assert cause_of(lines) == "ValueError: No available memory for the cache blocks."


@pytest.mark.parametrize(
    "cause",
    [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update",
        "AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_a_driver_that_is_too_old_is_not_the_models_fault(cause: str) -> None:
    assert "update the driver" in hint_for(cause)


def test_words_that_only_look_like_an_exception_are_no_cause() -> None:
    assert (
        cause_of(["INFO: ready", "Error: this is a log line", "WARNING 11-22 00:44:25 [x.py:1] OSError: [Errno 24]"])
        == ""
    )
    assert hint_for("") == DEFAULT_HINT
