from reasoning_tasks import load_environment


def test_every_task_has_an_answer():
    rows = load_environment(num_train=5, num_eval=5).get_eval_dataset()
    assert len(rows) == 5
    assert all(row["answer"] for row in rows)
