"""What uv is told: the release a package of each generation resolves to, its fallbacks and its extra pins."""

from __future__ import annotations

import pytest
from envhub.packaging import constraints
from envhub.protocol.packages import Generation, GenerationEvidence


def evidence(generation: Generation, *dependencies: str) -> GenerationEvidence:
    wanted = constraints.own_specifier("verifiers", dependencies)
    chosen = constraints.choose(generation, wanted)
    return GenerationEvidence(generation=generation, specifier=str(wanted), constraint_set=chosen.name)


def first_line(generation: Generation, *dependencies: str) -> str:
    return constraints.lines_for(evidence(generation, *dependencies), dependencies)[0]


@pytest.mark.parametrize(
    ("generation", "requirement", "line"),
    [
        (Generation.LEGACY, "verifiers>=0.1.8", "verifiers==0.1.14"),
        (Generation.LEGACY, "verifiers>=0.1.8,<0.1.13", "verifiers==0.1.12"),
        (Generation.LEGACY, "verifiers==0.1.11", "verifiers==0.1.11"),
        (Generation.LEGACY, "verifiers==0.1.15.dev443", "verifiers==0.1.15.dev443"),
        (Generation.LEGACY, "verifiers>=0.1.15.dev4", "verifiers==0.1.15.dev11"),
        (Generation.LEGACY, "verifiers>=0.1.11,<0.1.12", "verifiers<0.1.15.dev0,>=0.1.10"),
        (Generation.LEGACY, "verifiers[rl]>=0.2", "verifiers==0.2.1"),
        (Generation.HARNESS, "verifiers", "verifiers==0.1.15.dev11"),
        (Generation.HARNESS, "verifiers==0.1.15.dev11", "verifiers==0.1.15.dev11"),
        (Generation.CURRENT, "verifiers", "verifiers==0.4.0"),
        (Generation.CURRENT, "verifiers==0.3.1", "verifiers==0.3.1"),
    ],
)
def test_the_first_line_fixes_the_release(generation: Generation, requirement: str, line: str) -> None:
    assert first_line(generation, requirement) == line


def test_every_release_of_every_set_is_inside_its_range() -> None:
    for entry in constraints.load().values():
        assert all(entry.verifiers.contains(release, prereleases=True) for release in entry.releases), entry.name


def test_fallbacks_go_down_the_releases_that_the_package_allows() -> None:
    assert constraints.fallbacks(evidence(Generation.LEGACY, "verifiers"), ["verifiers"]) == [
        "0.1.14",
        "0.1.12",
        "0.1.10",
    ]
    bounded = ["verifiers>=0.1.11"]
    assert constraints.fallbacks(evidence(Generation.LEGACY, *bounded), bounded) == ["0.1.14", "0.1.12"]


def test_an_exact_pin_has_no_fallback() -> None:
    pinned = ["verifiers==0.1.15.dev11"]
    assert constraints.fallbacks(evidence(Generation.HARNESS, *pinned), pinned) == ["0.1.15.dev11"]


def test_a_fallback_is_what_the_lines_then_say() -> None:
    found = evidence(Generation.LEGACY, "verifiers")
    assert constraints.lines_for(found, ["verifiers"], "0.1.10")[0] == "verifiers==0.1.10"


def test_an_exact_pin_outside_the_supported_range_is_left_to_conflict() -> None:
    dependencies = ["verifiers==0.1.5"]
    assert first_line(Generation.LEGACY, *dependencies) == "verifiers<0.1.15.dev0,>=0.1.10"
    assert constraints.overrides_for(evidence(Generation.LEGACY, *dependencies), dependencies) == []


def test_a_range_without_any_release_of_the_api_is_overridden() -> None:
    dependencies = ["verifiers[rl]>=0.1.15"]
    found = evidence(Generation.HARNESS, *dependencies)
    assert constraints.overrides_for(found, dependencies) == ["verifiers[rl]==0.1.15.dev11"]
    assert constraints.lines_for(found, dependencies)[0] == "verifiers==0.1.15.dev11"


def test_a_pin_gives_way_to_what_the_package_itself_asks_for() -> None:
    lines = constraints.lines_for(evidence(Generation.LEGACY), ["prime-sandboxes>=0.5", "datasets>=5"])
    assert not any(line.startswith(("prime-sandboxes", "datasets")) for line in lines)


def test_requirements_for_other_systems_are_not_ours() -> None:
    assert not constraints.own_specifier(
        "verifiers", ["verifiers>=0.4; sys_platform == 'win32'", "Verifiers; extra == 'x'"]
    )


def test_no_generation_means_no_lines() -> None:
    nothing = GenerationEvidence(generation=None, specifier="", constraint_set="")
    assert constraints.lines_for(nothing, ["numpy"]) == []
    assert constraints.fallbacks(nothing, ["numpy"]) == []
