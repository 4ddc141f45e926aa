"""Which releases a build tries, in which order, and what uv is told for each."""

from __future__ import annotations

import pytest
from envhub.packaging import constraints
from envhub.packaging.constraints import Candidate
from envhub.protocol.registry.packages import Generation, GenerationEvidence

LEGACY, HARNESS, CURRENT = Generation.LEGACY, Generation.HARNESS, Generation.CURRENT


def candidates(generation: Generation | None, *dependencies: str) -> list[Candidate]:
    wanted = constraints.own_specifier("verifiers", dependencies)
    chosen = constraints.choose(generation, wanted).name if generation else ""
    evidence = GenerationEvidence(generation=generation, specifier=str(wanted), constraint_set=chosen)
    return constraints.candidates(evidence, dependencies)


def releases(generation: Generation | None, *dependencies: str) -> list[str]:
    return [one.release for one in candidates(generation, *dependencies) if not one.overridden]


@pytest.mark.parametrize(
    ("generation", "requirement", "first"),
    [
        (LEGACY, "verifiers>=0.1.8", ["0.1.14", "0.1.15.dev11", "0.4.0", "0.3.1", "0.2.1", "0.1.9", "0.1.8"]),
        (LEGACY, "verifiers", ["0.1.14", "0.1.15.dev11", "0.4.0", "0.3.1", "0.2.1", "0.1.9", "0.1.7", "0.1.12"]),
        (LEGACY, "verifiers>=0.1.10,<0.1.13", ["0.1.12", "0.1.10", "0.1.11"]),
        (LEGACY, "verifiers>=0.1.3,<0.1.8", ["0.1.7", "0.1.3", "0.1.6", "0.1.5", "0.1.4"]),
        (LEGACY, "verifiers>=0.1.5,<0.1.10", ["0.1.9", "0.1.7", "0.1.5", "0.1.8", "0.1.6"]),
        (LEGACY, "verifiers>=0.1.14", ["0.1.14", "0.1.15.dev11", "0.4.0", "0.3.1", "0.2.1"]),
        (LEGACY, "verifiers[rl]>=0.2", ["0.2.1", "0.4.0", "0.3.1"]),
        (HARNESS, "verifiers", ["0.1.15.dev11", "0.1.14", "0.4.0", "0.1.15.dev7", "0.3.1", "0.2.1", "0.1.12"]),
        (HARNESS, "verifiers>=0.1.15.dev2", ["0.1.15.dev11", "0.4.0", "0.1.15.dev7", "0.3.1", "0.2.1"]),
        (CURRENT, "verifiers", ["0.4.0", "0.1.14", "0.1.15.dev11", "0.2.1", "0.3.1", "0.1.15.dev7", "0.1.12"]),
        (CURRENT, "verifiers>=0.3", ["0.4.0", "0.3.1"]),
        (None, "verifiers>=0.1.14", ["0.1.14", "0.1.15.dev11", "0.4.0", "0.3.1", "0.2.1"]),
    ],
)
def test_the_newest_of_each_generation_and_of_each_set_of_the_guess_comes_first_then_the_lowest_asked_for(
    generation: Generation | None, requirement: str, first: list[str]
) -> None:
    assert releases(generation, requirement)[: len(first)] == first


@pytest.mark.parametrize(
    ("generation", "pin", "name"),
    [
        (LEGACY, "0.1.11", "v0"),
        (LEGACY, "0.1.9", "v0-states"),
        (LEGACY, "0.1.5.post0", "v0-pairs"),
        (LEGACY, "0.1.15.dev9", "v0-dev"),
        (HARNESS, "0.1.15.dev443", "harness"),
        (CURRENT, "0.3.1", "current"),
        (LEGACY, "0.9", "current"),
    ],
)
def test_an_exact_pin_is_the_only_candidate_under_the_set_nearest_to_it(
    generation: Generation, pin: str, name: str
) -> None:
    (only,) = candidates(generation, f"verifiers=={pin}")
    assert (only.release, only.entry and only.entry.name) == (pin, name)
    assert constraints.lines_for(only, [f"verifiers=={pin}"])[0] == f"verifiers=={pin}"


def test_a_range_without_a_release_that_we_know_leaves_the_release_to_uv() -> None:
    dependencies = ["verifiers>=0.1.13,<0.1.14"]
    first = candidates(LEGACY, *dependencies)[0]
    assert (first.release, first.entry and first.entry.name) == ("", "v0")
    assert not any(line.startswith("verifiers") for line in constraints.lines_for(first, dependencies))


@pytest.mark.parametrize(("generation", "last"), [(LEGACY, "0.1.14"), (HARNESS, "0.1.15.dev11")])
def test_releases_outside_the_packages_range_come_last_when_it_holds_none_of_the_generation(
    generation: Generation, last: str
) -> None:
    dependencies = ["verifiers[rl]>=0.4"]
    found = candidates(generation, *dependencies)
    assert [one.release for one in found if not one.overridden] == ["0.4.0"]
    first = next(one for one in found if one.overridden)
    assert constraints.overrides_for(first, dependencies) == [f"verifiers[rl]=={last}"]
    assert constraints.lines_for(first, dependencies)[0] == f"verifiers=={last}"


def test_nothing_is_overridden_where_the_range_holds_the_generation_or_is_a_pin() -> None:
    for requirement in ("verifiers>=0.1.8", "verifiers==0.4.0"):
        assert not any(one.overridden for one in candidates(LEGACY, requirement))
    inside = candidates(LEGACY, "verifiers")[0]
    assert constraints.overrides_for(inside, ["verifiers"]) == []


def test_every_release_of_every_set_is_inside_its_range() -> None:
    for entry in constraints.load().values():
        assert all(entry.verifiers.contains(release, prereleases=True) for release in entry.releases), entry.name


def test_a_pin_gives_way_to_what_the_package_itself_asks_for() -> None:
    own = ["prime-sandboxes>=0.5", "datasets>=5"]
    lines = constraints.lines_for(candidates(LEGACY, "verifiers")[0], own)
    assert not any(line.startswith(("prime-sandboxes", "datasets")) for line in lines)


def test_requirements_for_other_systems_are_not_ours() -> None:
    assert not constraints.own_specifier(
        "verifiers", ["verifiers>=0.4; sys_platform == 'win32'", "Verifiers; extra == 'x'"]
    )


def test_a_package_without_verifiers_has_one_candidate_and_no_lines() -> None:
    (only,) = candidates(None, "numpy")
    assert (only.entry, constraints.lines_for(only, ["numpy"])) == (None, [])


def test_a_package_that_imports_verifiers_by_way_of_another_has_all_candidates() -> None:
    assert releases(LEGACY, "numpy")[0] == "0.1.14"


def test_a_package_that_imports_verifiers_without_requiring_it_gets_it_all_the_same() -> None:
    first = candidates(LEGACY, "numpy")[0]
    assert constraints.implied_by(first, ["numpy"]) == ["verifiers"]
    assert constraints.implied_by(first, ["verifiers>=0.1.8"]) == []
    assert constraints.implied_by(candidates(None, "numpy")[0], ["numpy"]) == []
