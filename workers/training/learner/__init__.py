"""The learner: policy-gradient steps on packed tokens. A process: `python -m workers.training.learner RUN_DIR`.

`config`, `reports`, `run_dir` and `errors` are free of torch: the coordinator writes and reads what they describe.
Everything else imports torch and is imported here only. Files in and out are listed in `run_dir`.
"""
