"""infra/compose.yaml holds together: what it names exists, secrets are never written down."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from django.core.management import get_commands

from hub.config.environment import HubEnvironment
from workers.settings import WorkerEnvironment

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "infra/compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)


def test_every_build_has_its_dockerfile() -> None:
    builds = [service["build"] for service in COMPOSE["services"].values() if "build" in service]
    assert builds
    for build in builds:
        assert (ROOT / build["dockerfile"]).is_file()


def test_every_dependency_is_a_service_and_every_volume_is_declared() -> None:
    for service in COMPOSE["services"].values():
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / "infra" / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


def test_every_variable_is_explained_in_the_example() -> None:
    example = (ROOT / "infra/example.env").read_text()
    named = set(re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)", TEXT))
    assert named <= set(re.findall(r"^([A-Z0-9_]+)=", example, re.MULTILINE))


def test_the_hub_gets_every_setting_of_the_env_file_and_the_worker_none_of_its_secrets() -> None:
    services = COMPOSE["services"]
    assert {services[name]["env_file"] for name in ("migrate", "hub", "sweeper")} == {".env"}
    for name in ("worker", "worker-gpu"):
        assert services[name]["env_file"] == [{"path": "worker.env", "required": False}]
    assert "env_file" not in services["proxy"]


def test_every_command_that_operators_are_told_exists() -> None:
    told = "".join(path.read_text() for path in (ROOT / "infra").glob("*.md"))
    named = set(re.findall(r"manage\.py (\w+)", told))
    assert named
    assert named <= set(get_commands())


def test_the_proxy_s_names_and_ports_are_those_of_the_example() -> None:
    proxy = (ROOT / "infra/nginx.conf").read_text()
    for name in re.findall(r"([A-Z0-9_]+)=\S", proxy):
        assert re.search(rf"^{name}=", (ROOT / "infra/example.env").read_text(), re.MULTILINE)
    assert re.findall(r"(?:proxy_pass http://|server )(127\S+);", proxy) == re.findall(r"_PORT=(127\S+)", proxy)


def pins(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9.-]+==\S+)", (ROOT / lock).read_text(), re.MULTILINE))


def test_the_images_hold_what_was_tested_without_the_tools_of_the_tests() -> None:
    hub, worker, everything = (
        pins(lock) for lock in ("infra/docker/hub.lock", "infra/docker/worker.lock", "requirements.lock")
    )
    assert hub < worker < everything
    assert not {pin.split("==")[0] for pin in worker} & {"pytest", "playwright", "moto", "mypy"}


def test_every_setting_exists() -> None:
    known = {f"HUB_{name.upper()}" for name in HubEnvironment.model_fields}
    known |= {f"WORKER_{name.upper()}" for name in WorkerEnvironment.model_fields}
    for service in COMPOSE["services"].values():
        named = {name for name in service.get("environment", ()) if name.startswith(("HUB_", "WORKER_"))}
        assert named <= known


def test_the_hub_accepts_the_address_by_which_the_worker_calls_it() -> None:
    host = urlsplit(COMPOSE["services"]["worker"]["environment"]["WORKER_HUB_URL"]).hostname
    assert host in json.loads(COMPOSE["services"]["hub"]["environment"]["HUB_ALLOWED_HOSTS"])


@pytest.mark.parametrize("name", ["worker", "worker-gpu"])
def test_a_worker_s_orphans_are_reaped_and_it_may_end_its_runs_before_it_is_killed(name: str) -> None:
    worker = COMPOSE["services"][name]
    assert worker["init"] is True
    assert worker["stop_grace_period"] == "1m"
    assert WorkerEnvironment.model_fields["stop_grace_s"].default < 60


def test_all_that_call_the_hub_s_address_can_trust_the_proxy_s_authority() -> None:
    for name in ("hub", "worker", "worker-gpu"):
        assert "./certificates:/certificates:ro" in COMPOSE["services"][name]["volumes"]


def test_the_database_is_migrated_once_before_anything_uses_it() -> None:
    services = COMPOSE["services"]
    assert [name for name, service in services.items() if "migrate" in str(service.get("command"))] == ["migrate"]
    for name in ("hub", "sweeper"):
        assert services[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def test_health_is_asked_where_everything_behind_the_hub_counts() -> None:
    assert "/readyz" in str(COMPOSE["services"]["hub"]["healthcheck"]["test"])
    assert "/readyz" in (ROOT / "infra/docker/hub.Dockerfile").read_text()
    assert COMPOSE["services"]["sweeper"]["healthcheck"] == {"disable": True}


def test_a_container_that_is_made_again_is_the_same_worker_to_the_hub() -> None:
    for name in ("worker", "worker-gpu"):
        service = COMPOSE["services"][name]
        assert service["hostname"] == service["environment"]["WORKER_SERVE_ADDRESS"] == name


def test_a_build_s_target_is_a_stage_of_its_dockerfile() -> None:
    for service in COMPOSE["services"].values():
        build = service.get("build", {})
        stages = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / build["dockerfile"]).read_text(), re.M) if build else []
        assert build.get("target") is None or build["target"] in stages


def test_only_the_proxy_is_reached_from_other_hosts_by_the_example() -> None:
    example = (ROOT / "infra/example.env").read_text()
    assert re.findall(r"^(?:HUB|MINIO)_PORT=(.*)$", example, re.M) == ["127.0.0.1:8000", "127.0.0.1:9000"]
    open_to_all = {name for name, service in COMPOSE["services"].items() if "ports" in service}
    assert open_to_all == {"proxy", "hub", "minio"}
