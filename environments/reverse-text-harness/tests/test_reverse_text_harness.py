from reverse_text_harness import ReverseTaskset, ReverseTasksetConfig


def test_rows_are_reversed_words():
    for row in ReverseTaskset(ReverseTasksetConfig(num_eval=5)).load_eval_tasks():
        assert row["prompt"][0]["content"] == f"reverse: {row['answer'][::-1]}"
