"""What a submission is refused for, and what a run is given."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone
from envhub.protocol.data import DataFile, DataRequest
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import RunState
from envhub.protocol.training.runs import TrainingRequest

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.core.errors import Conflict, HubError, Invalid, NotFound
from hub.data.services import add
from hub.registry.models import Version
from hub.runs.models import Run
from hub.runs.placing.waiting import waiting_reasons
from hub.secrets.services import set_secret
from hub.training.models import TrainingRun
from hub.training.payload import train_payload
from hub.training.services import create_training, resume_training
from hub.training.wire import training_views
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.registry import create_ready_version, push_version
from tests.factories.runs import make_worker
from tests.factories.storage import make_blob
from tests.factories.training_runs import (
    SHAPE,
    adapter_report,
    checkpoint_report,
    create_run,
    create_trainable,
    report,
    start,
    training_request,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_ready_version(user)
    create_trainable(user.owner)
    return user


def submit(user: User, toml: str = "", model: str = "base", **fields: object) -> TrainingRun:
    request = training_request(toml, **fields)
    changed = request.model_copy(update={"toml": request.toml.replace('"base"', f'"{model}"')})
    return create_training(user=user, owner=user.owner, request=changed)


def payload_of(training: TrainingRun):  # type: ignore[no-untyped-def]
    return train_payload(Run.objects.get(pk=training.run_id))


def test_the_worker_gets_model_lock_and_configuration(alice: User) -> None:
    payload = payload_of(submit(alice))
    (target,) = payload.environments
    assert (target.label, target.environment, target.module) == ("tiny-env", "alice/tiny-env@0.1.0", "tiny_env")
    assert target.lock.wheels[0].url
    assert payload.model.base is not None
    assert set(payload.model.base.urls) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert (payload.config.max_steps, payload.resume, payload.reported_steps) == (3, None, 0)


def test_a_model_whose_files_are_replaced_is_not_trained_on(alice: User) -> None:
    training = submit(alice)
    with pytest.raises(Conflict, match="while a training run uses them"):
        create_trainable(alice.owner)  # other files under the same name
    TrainingRun.objects.filter(pk=training.pk).update(finished_at=timezone.now(), state=RunState.FAILED.value)
    create_trainable(alice.owner)
    for again in (lambda: payload_of(training), lambda: resume_training(user=alice, training=training)):
        training.refresh_from_db()
        with pytest.raises(Conflict, match="have been replaced") as caught:
            again()
        assert caught.value.code == "model_changed"


def test_an_environment_that_is_built_again_keeps_its_lock_for_a_run_that_waits(alice: User) -> None:
    training = submit(alice)
    Version.objects.update(state=VersionState.BUILDING.value)
    assert payload_of(training).environments[0].lock.wheels[0].url


@pytest.mark.parametrize(
    ("model", "error"),
    [("nobody/nothing", NotFound), ("Qwen/Qwen3-0.6B", NotFound), ("alice/stub", Invalid), ("bob/secret", NotFound)],
)
def test_a_model_that_cannot_be_trained_is_refused(alice: User, model: str, error: type[HubError]) -> None:
    create_endpoint(alice)
    create_trainable(make_user("bob").owner, "secret")
    with pytest.raises(error) as caught:
        submit(alice, model=model)
    assert "hub model list" in caught.value.hint


def test_an_environment_must_be_built(alice: User) -> None:
    push_version(alice, "raw-env")
    with pytest.raises(Conflict, match="still being built"):
        create_training(user=alice, owner=alice.owner, request=training_request(environment="raw-env"))


def test_somebody_elses_private_environment_does_not_exist(alice: User) -> None:
    bob = make_user("bob")
    version = create_ready_version(bob, "hidden")
    version.environment.visibility = "private"
    version.environment.save()
    with pytest.raises(NotFound):
        create_training(user=alice, owner=alice.owner, request=training_request(environment="bob/hidden"))


def test_a_missing_secret_or_judge_and_a_foreign_host_are_refused(alice: User) -> None:
    with pytest.raises(Invalid, match="TOOL_KEY"):
        submit(alice, 'secrets = ["TOOL_KEY"]\n')
    with pytest.raises(NotFound):
        submit(alice, 'judges = { "gpt-4.1" = "alice/none" }\n')
    with pytest.raises(Invalid, match="is not allowed"):
        submit(alice, 'allow_hosts = ["example.org:443"]\n')


def test_secrets_reach_the_box_they_were_granted_to_and_the_trainers_reach_none(alice: User) -> None:
    set_secret(owner=alice.owner, name="TOOL_KEY", value="stored", user=alice)
    create_ready_version(alice, "other-env")
    second = 'secrets = ["TOOL_KEY"]\n[[env]]\nid = "other-env"\n'
    training = submit(alice, second, env={"SENT": "sent", "WANDB_API_KEY": "w"})
    payload = payload_of(training)
    assert [target.secrets for target in payload.environments] == [
        {"SENT": "sent", "TOOL_KEY": "stored"},
        {"SENT": "sent"},
    ]
    assert payload.secrets == {"WANDB_API_KEY": "w"}
    assert "sent" not in json.dumps(training.config)


def test_a_sent_secret_wins_over_a_stored_one(alice: User) -> None:
    set_secret(owner=alice.owner, name="TOOL_KEY", value="stored", user=alice)
    payload = payload_of(submit(alice, 'secrets = ["TOOL_KEY"]\n', env={"TOOL_KEY": "sent"}))
    assert payload.environments[0].secrets == {"TOOL_KEY": "sent"}


def test_a_secret_that_was_deleted_fails_the_claim_with_its_name(alice: User) -> None:
    secret, _ = set_secret(owner=alice.owner, name="TOOL_KEY", value="x", user=alice)
    training = submit(alice, 'secrets = ["TOOL_KEY"]\n')
    secret.delete()
    with pytest.raises(Invalid, match="TOOL_KEY"):
        payload_of(training)


def test_small_models_wait_for_a_train_worker_and_large_ones_for_a_gpu(alice: User) -> None:
    create_trainable(alice.owner, "large", hidden_size=2048, num_hidden_layers=28, vocab_size=150_000)
    runs = [Run.objects.get(pk=submit(alice, model=model).run_id) for model in ("base", "large")]
    assert [run.queue for run in runs] == ["train", "gpu"]
    assert waiting_reasons(runs, now=timezone.now())[runs[1].pk] == "no GPU worker is online"
    make_worker(queues=("gpu",))
    assert Run.objects.get(pk=submit(alice).run_id).queue == "gpu"


def test_a_repository_of_the_cache_is_trained_at_its_pinned_revision(alice: User) -> None:
    blobs = {"config.json": make_blob(json.dumps(SHAPE).encode()), "model.safetensors": make_blob()}
    files = tuple(DataFile(path=path, sha256=blob.sha256, size=blob.size) for path, blob in blobs.items())
    request = DataRequest(files=files)
    snapshot = add(kind="model", repository="Org/Model-Tiny", request=request, holder=alice.owner.pk)
    training = submit(alice, model="Org/Model-Tiny")
    target = payload_of(training).model
    assert (target.base, target.repository, target.revision) == (None, "Org/Model-Tiny", snapshot.revision)
    assert target.engine == "torch"
    start(training)
    adapter = report(training, adapter_report(final=True))
    base = Model.objects.select_related("base__owner").get(pk=adapter.model_id).base
    assert base is not None
    assert (base.owner.slug, base.files.count()) == ("hub", 2)


def test_training_goes_on_from_an_adapter_of_the_same_rank(alice: User) -> None:
    first = submit(alice)
    start(first)
    report(first, adapter_report(final=True))
    again = payload_of(submit(alice, model="alice/sort"))
    assert again.model.adapter is not None
    assert set(again.model.adapter.files) == {"adapter_config.json", "adapter_model.safetensors"}
    assert again.model.base is not None
    with pytest.raises(Invalid, match="rank 16"):
        submit(alice, "[trainer]\nrank = 8\n", model="alice/sort")
    with pytest.raises(Invalid, match="alpha 32"):
        submit(alice, "[trainer]\nalpha = 32\n", model="alice/sort")
    with pytest.raises(Invalid, match=r'has target_modules .*"up_proj"'):
        submit(alice, '[trainer]\ntarget_modules = ["q_proj"]\n', model="alice/sort")
    with pytest.raises(Invalid, match="whole model"):
        submit(alice, '[trainer]\nmode = "full"\n', model="alice/sort")


@pytest.mark.parametrize(
    ("trainer", "wrong", "hint"),
    [
        ("rank = 8", {"rank", "alpha"}, "rank = 16, alpha = 16"),
        ("alpha = 32", {"alpha"}, "alpha = 16"),
        ('target_modules = ["q_proj", "v_proj"]', {"target_modules"}, 'target_modules = ["down_proj", "gate_proj", '),
    ],
)
def test_a_checkpoint_of_another_adapter_is_refused_at_once(
    alice: User, trainer: str, wrong: set[str], hint: str
) -> None:
    first = submit(alice)
    start(first)
    head = f'checkpoint_id = "{report(first, checkpoint_report(1)).pk}"\nmodel = "base"\n'
    env = '[[env]]\nid = "tiny-env"\n'
    assert create_training(user=alice, owner=alice.owner, request=TrainingRequest(toml=head + env)).warm_start
    request = TrainingRequest(toml=f"{head}{env}[trainer]\n{trainer}\n")
    with pytest.raises(Invalid, match="the checkpoint has") as refused:
        create_training(user=alice, owner=alice.owner, request=request)
    assert refused.value.fields.keys() == {f"trainer.{name}" for name in wrong}
    assert hint in refused.value.hint


def test_the_order_of_target_modules_does_not_matter(alice: User) -> None:
    first = submit(alice, '[trainer]\ntarget_modules = ["q_proj", "v_proj"]\n')
    start(first)
    again = f'checkpoint_id = "{report(first, checkpoint_report(1)).pk}"\nmodel = "base"\n[[env]]\nid = "tiny-env"\n'
    request = TrainingRequest(toml=f'{again}[trainer]\ntarget_modules = ["v_proj", "q_proj"]\n')
    assert create_training(user=alice, owner=alice.owner, request=request).warm_start


def test_two_runs_of_one_name_make_two_names_for_adapters(alice: User) -> None:
    assert [submit(alice).adapter_name for _ in range(2)] == ["sort", "sort-2"]
    assert submit(alice, name="").adapter_name == "base-tiny-env"
    assert submit(alice, name="Ünïcode & more").adapter_name == "n-code-more"


def test_a_table_of_sampling_keeps_what_it_does_not_say(alice: User) -> None:
    toml = "sampling = { temperature = 0.7 }\n[sampling]\nmax_tokens = 8\n"
    config = payload_of(submit(alice, toml)).config
    sampling = config.sampling_of(config.env[0])
    assert (sampling.max_tokens, sampling.temperature) == (8, 0.7)


def test_a_configuration_may_come_as_json(alice: User) -> None:
    request = training_request().model_copy(
        update={"toml": "", "config": {"model": "alice/base", "env": [{"id": "alice/tiny-env"}]}}
    )
    training = create_training(user=alice, owner=alice.owner, request=request)
    assert (training.state, training.max_steps) == (RunState.QUEUED, 100)


def test_create_run_of_the_factories_brings_what_it_needs() -> None:
    assert create_run().versions.count() == 1


def test_an_environment_in_several_tables_is_named_once() -> None:
    training = create_run(request=training_request('name = "a"\n[[env]]\nid = "tiny-env"\nname = "b"'))
    (view,) = training_views([training], now=timezone.now())
    (name,) = view.environments
    assert Run.objects.get(pk=training.run_id).subject == f"sort: base on {name}"
