from mixed import load_environment, shortest_of_group


def test_only_the_shortest_right_rollouts_of_a_group_score():
    said = [[{"content": text}] for text in ("7", "it is 7", "8", "7")]
    assert shortest_of_group(said, ["7"] * 4) == [1.0, 0.0, 0.0, 1.0]


def test_both_members_are_there():
    assert len(load_environment(num_eval=3).get_eval_dataset()) == 6
