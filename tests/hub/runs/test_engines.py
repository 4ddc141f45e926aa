"""A run that asks a model of the hub's own goes to a worker that can serve it, and says so while there is none."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone
from envhub.protocol.placing.gpus import Gpu
from envhub.protocol.runs import BeatRequest
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.capacity import engine_need
from hub.catalog.models import Model
from hub.catalog.services import register_adapter, register_local
from hub.evals.services import create_evaluation
from hub.inference.services import ensure_deployment
from hub.runs.engines import NO_ENGINE, EngineNeed
from hub.runs.errors import NotClaimable
from hub.runs.models import Run, Worker
from hub.runs.placing.demand import workers_wanted
from hub.runs.placing.waiting import Cause, reasons_of
from hub.runs.services import claim_run, receive_beat
from hub.runs.services.parts import add_parts
from hub.storage.models import Blob
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import make_config
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run, make_run, make_worker, make_worker_token
from tests.factories.storage import make_blob
from tests.factories.training_runs import create_run, training_request
from tests.hub.runs.conftest import Sent

pytestmark = pytest.mark.django_db
NOW = timezone.now()
GB = 1024
BOTH = ("torch", "vllm")


def gpus(*sizes_gb: int) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, uuid=f"GPU-{index}", name="H100", memory_mb=size * GB, free_mb=size * GB)
        for index, size in enumerate(sizes_gb)
    )


def beat(worker: Worker) -> int:
    return receive_beat(worker=worker, beat=BeatRequest(room={"eval": 2}), now=NOW).sent


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def own_model(alice: User, name: str = "large", engine: str = "vllm", **sizes_gb: float) -> Model:
    """Of files with such sizes, which nobody reads."""
    sizes = {"config.json": 0.0, **{path.replace("__", "."): size for path, size in sizes_gb.items()}}
    files = {path: make_blob(f"{name} {path}".encode()).sha256 for path in sizes}
    for path, sha256 in files.items():
        Blob.objects.filter(pk=sha256).update(size=int(sizes[path] * GB * 1024**2))
    return register_local(user=alice, owner=alice.owner, name=name, engine=engine, files=files)


@pytest.mark.parametrize(
    ("facts", "taken"),
    [
        ({"engines": BOTH, "gpus": gpus(80, 80)}, True),
        ({"engines": BOTH, "gpus": gpus(24, 24, 24, 24, 24, 24, 24)}, True),
        ({"engines": BOTH, "gpus": gpus(80)}, False),
        ({"engines": BOTH, "gpus": gpus(80, 24, 24)}, False),  # parts are equal
        ({"engines": BOTH, "gpus": gpus(0)}, True),  # whose memory is not told
        ({"engines": BOTH, "memory_mb": 256 * GB}, True),
        ({"engines": BOTH, "memory_mb": 64 * GB}, False),
        ({"gpus": gpus(80, 80)}, False),
        ({}, False),
    ],
)
def test_it_goes_where_the_engine_is_and_the_weights_fit(
    sent: list[Sent], facts: dict[str, object], taken: bool
) -> None:
    run, plain = make_run(engine="vllm", weights_mb=141 * GB), make_run()
    worker = make_worker(**facts)
    assert beat(worker) == 1 + taken
    assert {UUID(message.run_id) for message in sent} == {plain.pk, *([run.pk] if taken else [])}
    if not taken:
        with pytest.raises(NotClaimable):
            claim_run(run_id=run.pk, worker=worker, now=NOW)


def test_it_says_what_is_lacking_until_nothing_is() -> None:
    run = make_run(engine="vllm", weights_mb=141 * GB)
    make_worker()
    cause, words = reasons_of([run], now=NOW)[run.pk]
    assert cause is Cause.NO_ENGINE
    assert "no online worker of the queue eval has vLLM, which serves the model: set WORKER_VLLM_PYTHON" in words
    make_worker(engines=BOTH, gpus=gpus(80))
    cause, words = reasons_of([run], now=NOW)[run.pk]
    assert (cause, words) == (
        Cause.NO_ENGINE,
        "the model's weights take 141 GB on one worker; the online workers have 1 x 80 GB",
    )
    make_worker(engines=BOTH, gpus=gpus(80, 80))
    assert reasons_of([run], now=NOW)[run.pk].cause is Cause.NO_SLOT


def test_it_says_how_much_memory_there_is_where_no_gpu_is() -> None:
    make_worker(engines=BOTH, memory_mb=64 * GB)
    run = make_run(engine="vllm", weights_mb=141 * GB)
    assert "the online workers have no GPU, and at most 64 GB of memory" in reasons_of([run], now=NOW)[run.pk].words


def test_its_parts_go_there_too(sent: list[Sent]) -> None:
    run = make_run(engine="vllm", weights_mb=GB)
    worker = make_worker(engines=BOTH)
    hold_run(run, worker=worker)
    beat(make_worker())
    assert add_parts(parent=run, parts=4, now=NOW) == 0
    beat(worker)
    assert add_parts(parent=run, parts=4, now=timezone.now() + timedelta(seconds=1)) == 2
    assert set(Run.objects.filter(parent=run).values_list("engine", "weights_mb")) == {("vllm", GB)}


@pytest.mark.parametrize(("sizes", "wanted"), [((), 0), ((80 * GB,), 0), ((80 * GB,) * 2, 1), ((0,), 1)])
def test_a_pool_grows_for_it_where_a_worker_could_serve_it(sizes: tuple[int, ...], wanted: int) -> None:
    make_run(engine="vllm", weights_mb=141 * GB)
    assert workers_wanted(make_worker_token()[1], {"eval": 1}, gpus=sizes, now=NOW).workers == wanted


@pytest.mark.parametrize(
    ("sizes", "weights_mb"),
    [
        ({"model__safetensors": 15}, 15 * GB),
        ({"model-1__safetensors": 7, "model-2__safetensors": 8, "consolidated__safetensors": 15}, 15 * GB),
        ({"consolidated__safetensors": 15}, 15 * GB),
        ({"model__safetensors": 15, "model__fp16__safetensors": 8, "onnx/model__safetensors": 15}, 15 * GB),
        ({"pytorch_model__bin": 15}, 15 * GB),
    ],
)
def test_weights_are_counted_once(alice: User, sizes: dict[str, float], weights_mb: int) -> None:
    assert engine_need([own_model(alice, **sizes)]) == EngineNeed("vllm", weights_mb)


def test_an_adapter_is_as_large_as_its_base_and_small_models_go_anywhere(alice: User) -> None:
    base = own_model(alice, model__safetensors=15)
    adapter = register_adapter(
        owner=base.owner,
        name="tuned",
        base=base,
        visibility=Visibility.PRIVATE,
        files={"adapter_model.safetensors": make_blob(b"a").sha256},
    )
    assert engine_need([adapter]) == EngineNeed("vllm", 15 * GB)
    assert engine_need([own_model(alice, "tiny", "torch", model__safetensors=1)]) == NO_ENGINE
    assert engine_need([base], "torch") == NO_ENGINE


def test_an_evaluation_needs_what_serves_its_model_and_its_judge(alice: User) -> None:
    create_ready_version(alice)
    create_endpoint(alice)
    own_model(alice, model__safetensors=15)
    for changes, found in (
        ({}, ("", 0)),
        ({"model": "alice/large"}, ("vllm", 15 * GB)),
        ({"judges": {"judge": "alice/large"}}, ("vllm", 15 * GB)),
    ):
        config = make_config("alice/tiny-env", "alice/stub").model_copy(update=changes)
        run = create_evaluation(user=alice, owner=alice.owner, config=config).run
        assert run is not None
        assert (run.engine, run.weights_mb) == found


def test_a_deployment_needs_it_too(alice: User) -> None:
    model = own_model(alice, model__safetensors=15)
    run = ensure_deployment(model=model, user=alice).run
    assert run is not None
    assert (run.engine, run.weights_mb) == ("vllm", 15 * GB)


@pytest.mark.parametrize(
    ("toml", "found"),
    [
        ("", ("", 0)),
        ('[trainer]\nengine = "vllm"\n', ("vllm", 0)),
        ('[env.judges]\nmine = "alice/large"\n', ("vllm", 15 * GB)),
        ('[env.judges]\nmine = "alice/large"\n[trainer]\nengine = "vllm"\n', ("vllm", 15 * GB)),
    ],
)
def test_a_training_run_needs_what_serves_its_policy_and_its_judges(
    alice: User, toml: str, found: tuple[str, int]
) -> None:
    own_model(alice, model__safetensors=15)
    run = create_run(alice, training_request(toml)).run
    assert run is not None
    assert (run.engine, run.weights_mb) == found
