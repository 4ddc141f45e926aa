from reverse_text import exact_match, letters_in_place, load_environment, make_rows

SAID = [{"role": "assistant", "content": " dcba "}]


def test_a_right_answer_scores_one():
    assert exact_match(SAID, "dcba") == 1.0
    assert letters_in_place(SAID, "dcba") == 1.0


def test_extra_letters_cost():
    assert letters_in_place([{"role": "assistant", "content": "dcbaaaaa"}], "dcba") == 0.5


def test_the_splits_are_different_and_repeatable():
    assert make_rows(5, 4, 0) == make_rows(5, 4, 0) != make_rows(5, 4, 1)


def test_it_loads():
    assert len(load_environment(num_eval=7).get_eval_dataset()) == 7
