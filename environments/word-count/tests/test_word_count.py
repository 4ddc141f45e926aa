from word_count.taskset import WordCountConfig, WordCountTaskset


def test_answers_are_word_counts():
    for task in WordCountTaskset(WordCountConfig(num_tasks=9)).load():
        line = task.data.prompt.removeprefix("count: ")
        assert len(line.split()) == int(task.data.answer)
