from arithmetic import load_environment, make_rows


def test_rows_are_sums():
    for row in make_rows(20, 9, 3):
        a, b = row["question"].removeprefix("add: ").split("+")
        assert int(a) + int(b) == int(row["answer"])


def test_it_loads():
    assert len(load_environment(num_eval=7).get_eval_dataset()) == 7
