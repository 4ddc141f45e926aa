"""Lineage: what is in it, its edges, and that nothing hidden is."""

from __future__ import annotations

from django.test import Client
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.training.lineage import Lineage, lineage_of_model, lineage_of_run, lineage_of_version
from hub.training.models import Adapter, TrainingRun
from tests.factories.accounts import make_user
from tests.factories.training_showcase import TrainingShowcase


def _titles(found: Lineage) -> list[list[str]]:
    return [[box.title for box in column.boxes] for column in found.columns]


def _adapter(showcase: TrainingShowcase) -> Model:
    return Adapter.objects.filter(training=showcase.ended).latest("step").model


def test_a_run_leads_from_its_versions_to_the_evaluations_of_its_weights(showcase: TrainingShowcase) -> None:
    found = lineage_of_run(showcase.user, showcase.ended)
    assert [len(column) > 0 for column in _titles(found)] == [True] * 5
    assert _titles(found)[1] == ["reverse-lora"]
    assert "tiny" in _titles(found)[0]
    assert found.here == f"run-{showcase.ended.pk}"
    assert len(found.edges[0]) == len(found.columns[0].boxes)  # all of them made this run
    assert found.edges[0][0] == "M0 0.5C50 0.5 50 0.5 100 0.5"


def test_a_model_and_a_version_have_the_same_run_in_theirs(showcase: TrainingShowcase) -> None:
    of_model = lineage_of_model(showcase.user, _adapter(showcase))
    version = next(item.version for item in showcase.ended.versions.all() if item.use == "train")
    of_version = lineage_of_version(showcase.user, version)
    assert _titles(of_model)[1] == ["reverse-lora"]
    assert "reverse-lora" in _titles(of_version)[1]
    assert of_version.columns[0].boxes[0].key == of_version.here


def test_somebody_else_sees_a_public_model_without_what_is_private(showcase: TrainingShowcase) -> None:
    model = _adapter(showcase)
    Model.objects.filter(pk=model.pk).update(visibility=Visibility.PUBLIC.value)
    model.refresh_from_db()
    found = lineage_of_model(make_user("mallory"), model)
    assert _titles(found) == [[], [], [model.name], ["not loaded"], []]


def test_many_runs_are_a_few_boxes(showcase: TrainingShowcase) -> None:
    version = next(item.version for item in showcase.ended.versions.all() if item.use == "train")
    for place in range(8):
        _copy(showcase.ended, showcase.user, f"copy-{place}")
    found = lineage_of_version(showcase.user, version)
    assert (len(found.columns[1].boxes), found.columns[1].more, found.rows) == (6, True, 7)


def _copy(training: TrainingRun, user: User, name: str) -> None:
    uses = list(training.versions.all())
    fields = {"owner": user.owner, "created_by": user, "name": name, "adapter_name": name, "max_steps": 1}
    kept = ("model_name", "engine", "mode", "state", "config")
    fields |= {field: getattr(training, field) for field in kept}
    made = TrainingRun.objects.create(**fields)
    for use in uses:
        made.versions.create(use=use.use, position=use.position, label=use.label, version=use.version)


def test_the_part_of_a_page_is_bare_and_its_own_address_a_page(ada: Client, showcase: TrainingShowcase) -> None:
    address = f"/training/{showcase.ended.pk}/lineage"
    assert "<html" not in ada.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "<h1>Lineage of reverse-lora</h1>" in ada.get(address).content.decode()
