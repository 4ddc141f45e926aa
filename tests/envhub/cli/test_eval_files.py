from __future__ import annotations

from pathlib import Path

import pytest
from envhub.cli.evaluations.files import read_eval_file
from envhub.errors import UsageError

GUIDE = """
model = "openai/gpt-5.4-mini"
num_examples = 5
rollouts_per_example = 3

[[eval]]
env_id = "my-v1-env"

[eval.sampling]
max_tokens = 4096

[eval.harness]
max_turns = 4

[eval.taskset.scoring.exact_answer]
weight = 0.5

[[eval]]
env_id = "alice/other@1.0"
num_examples = 9
model = "hub/tiny"
"""


def test_a_file_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    assert read_eval_file(_write(tmp_path, "\ufeff" + GUIDE)) == read_eval_file(_write(tmp_path, GUIDE))


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "eval.toml"
    path.write_text(text)
    return path


def test_the_form_of_the_guide_is_read_with_defaults_and_tables(tmp_path: Path) -> None:
    first, second = read_eval_file(_write(tmp_path, GUIDE)).configs
    assert (first.environment, first.model, first.num_examples, first.rollouts_per_example) == (
        "my-v1-env",
        "openai/gpt-5.4-mini",
        5,
        3,
    )
    assert (first.sampling, first.harness) == ({"max_tokens": 4096}, {"max_turns": 4})
    assert first.taskset == {"scoring": {"exact_answer": {"weight": 0.5}}}
    assert (second.environment, second.model, second.num_examples) == ("alice/other@1.0", "hub/tiny", 9)


@pytest.mark.parametrize(("key", "near"), [("num_example", "num_examples"), ("samplign", "sampling")])
def test_an_unknown_key_names_the_nearest(tmp_path: Path, key: str, near: str) -> None:
    for text in (f'{key} = 1\n[[eval]]\nenv_id = "a"', f'model = "m"\n[[eval]]\nenv_id = "a"\n{key} = 1'):
        with pytest.raises(UsageError) as caught:
            read_eval_file(_write(tmp_path, text))
        assert f"'{near}'" in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("env_id = 5", "env_id"),
        ('id = "a"\nmax_concurrent = "many"', "max_concurrent"),
        ('env_id = "a"\nsampling_args = 5\nmax_tokens = 10', "sampling_args"),
    ],
)
def test_a_wrong_value_is_named_as_the_file_names_it(tmp_path: Path, lines: str, place: str) -> None:
    for text in (f'model = "m"\n[[eval]]\n{lines}', f'{lines}\n[[eval]]\nmodel = "m"'):
        with pytest.raises(UsageError) as caught:
            read_eval_file(_write(tmp_path, text))
        assert list(caught.value.fields) == [place]


def test_verifiers_own_spellings_are_understood(tmp_path: Path) -> None:
    text = (
        'model = "m"\ntemperature = 0.5\nmax_concurrent = 8\nindependent_scoring = true\n'
        '[[eval]]\nid = "a"\nargs = {x = 1}\nsampling_args = {top_p = 0.9}'
    )
    found = read_eval_file(_write(tmp_path, text))
    (config,) = found.configs
    assert config.sampling == {"temperature": 0.5, "top_p": 0.9}
    assert (config.concurrency, config.env_args, found.ignored) == (8, {"x": 1}, ("independent_scoring",))


def test_spellings_of_the_hosted_platform_are_understood(tmp_path: Path) -> None:
    table = '[[eval]]\nenv_id = "a/b"\neval_name = "held out"\ntimeout_minutes = 9\nallow_tunnel_access = true'
    found = read_eval_file(_write(tmp_path, f'model = "m"\n{table}'))
    assert (found.configs[0].name, found.ignored) == ("held out", ("allow_tunnel_access", "timeout_minutes"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "m"', "no .*eval"),
        ('[eval]\nenv_id = "a"', "no .*eval"),
        ('model = "m"\neval = ["a"]', "no .*eval"),
        ('[[eval]]\nenv_id = "a"', "model is missing"),
        ('model = "m"\n[[eval]]\nnum_examples = 1', "env_id is missing"),
        ('model = "m"\n[[eval]]\nid = "a"\nenv_id = "b"', "twice"),
        ('model = "m"\n[[eval]]\nid = "a"\nnum_examples = "many"', "wrong values"),
        ("[[eval", "eval.toml"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_eval_file(_write(tmp_path, text))


def test_a_value_is_complained_about_at_its_place_and_in_the_words_of_toml(tmp_path: Path) -> None:
    table = 'model = "m"\n[[eval]]\nid = "a"\n'
    for text, place, problem in (
        ("sampling = {temperature = nan}", "eval[0].sampling.temperature", "must be a finite number"),
        ('state_columns = "x"', "state_columns", "should be a list"),
        ("rollouts_per_example = 0", "rollouts_per_example", "input should be greater than or equal to 1"),
    ):
        with pytest.raises(UsageError) as caught:
            read_eval_file(_write(tmp_path, table + text))
        assert caught.value.fields == {place: problem}


def test_a_date_reaches_the_package_as_text(tmp_path: Path) -> None:
    text = 'model = "m"\n[[eval]]\nid = "a"\nenv_args = {since = 2026-01-02}'
    assert read_eval_file(_write(tmp_path, text)).configs[0].env_args == {"since": "2026-01-02"}


def test_a_directory_is_no_evaluation_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        read_eval_file(tmp_path)
