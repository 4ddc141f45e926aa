from guess_number import load_environment, read_guess, solved, speed


def test_a_guess_is_the_first_number():
    assert read_guess({"content": "is it 42 or 7?"}) == 42
    assert read_guess({"content": "no idea"}) is None


def test_fewer_guesses_score_higher():
    assert speed({"solved": True, "guesses": 1}) > speed({"solved": True, "guesses": 3})
    assert solved({"solved": False}) == speed({"solved": False, "guesses": 2}) == 0.0


def test_it_loads():
    assert len(load_environment(num_eval=7).get_eval_dataset()) == 7
