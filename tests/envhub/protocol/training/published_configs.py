"""Configurations as users of the hosted format write them: every table and key that its documentation shows.

The shapes are the documented ones (taskset/harness packages, the annotated reference in its several releases, a file
of prime-rl itself); names and values are ours.
"""

from __future__ import annotations

GUIDE = """
model = "Qwen/Qwen3-4B-Instruct-2507"
max_steps = 40
batch_size = 64
rollouts_per_example = 8

[sampling]
max_tokens = 1024

[[env]]
id = "acme/library-questions"

[env.harness]
max_turns = 6

[env.taskset]
split = "train"

[env.taskset.toolsets.shelf]
tools = ["library.tools:find"]
objects = { catalog = "library.tools:open_catalog" }
bindings = { "find.catalog" = "objects.catalog" }

[[env.taskset.rewards]]
fn = "library.signals:right_book"
weight = 1.0
priority = 0
"""

PROGRAM = """
model = "m"
[[env]]
id = "a/b"

[env.harness.program]
command = ["agent", "--config", "/tmp/agent.json"]
sandbox = true

[env.harness.program.channels]
mcp = { fn = "library.cli:write_config" }

[env.harness.program.bindings]
"write_config.endpoint" = { fn = "library.cli:endpoint" }
"""

EVAL_FILE = """
model = "openai/some-model"
num_examples = 3

[[eval]]
env_id = "library-questions"

[eval.sampling]
max_tokens = 64
"""

EVERYTHING = """
name = "sort"
model = "Qwen/Qwen3-4B-Instruct-2507"
loss = "rl"
max_steps = 100
batch_size = 256
rollouts_per_example = 8
learning_rate = 1e-4
lora_alpha = 16
oversampling_factor = 2.0
env_files = ["secrets.env"]
checkpoint_id = "0192"

[sampling]
max_tokens = 512
extra_body = { chat_template_kwargs = { enable_thinking = false } }
reasoning_effort = "high"
temp_scheduler = { type = "cosine", start_temperature = 1.2, end_temperature = 0.8, total_steps = 50 }

[[env]]
id = "primeintellect/alphabet-sort@0.1.10"
args = { min_turns = 3, max_turns = 5, power_per_turn = false }
ratio = 2.0
max_retries = 1
group_size = 16
max_turns = 5
max_input_tokens = 2048
max_output_tokens = 512
max_total_tokens = 4096

[[env]]
name = "second"
taskset = { id = "primeintellect/alphabet-sort-v1", min_turns = 3 }
harness = { id = "default", runtime = { type = "subprocess" } }
timeout = { rollout = 120 }
retries = { rollout = 1 }

[wandb]
project = "my-project"
entity = "my-team"
name = "my-run"

[eval]
interval = 100
num_examples = -1
rollouts_per_example = 1
skip_first_step = true

[eval.sampling]
max_tokens = 256
temperature = 0.0

[[eval.env]]
id = "primeintellect/eval-env"
args = { split = "test" }
num_examples = 30
rollouts_per_example = 4

[val]
num_examples = 64
rollouts_per_example = 1
interval = 5

[[pre_batch_filters]]
type = "zero_advantage"
enforce = true

[[post_batch_filters]]
type = "repetition"
window = 1000

[buffer]
easy_threshold = 0.8
hard_threshold = 0.2
online_difficulty_filtering = true

[checkpoints]
interval = 100
keep_cloud = -1

[adapters]
interval = 0
keep_last = 3
"""

RETIRED = """
model = "m"
max_async_level = 2
trajectory_strategy = "interleaved"
env_file = ["secrets.env"]

[[env]]
id = "a/one"
pool = { num_workers = 4 }
multiplex = 128

[[env]]
id = "a/two"

[eval]
eval_base_model = false

[[eval.env]]
id = "a/three"

[buffer]
easy_fraction = 0.0
hard_fraction = 0.0
env_ratios = [0.25, 0.75]
skip_verification = false
seed = 42

[infrastructure]
compute_size = "L"

[inference.model]
tool_call_parser = "hermes"
"""

PRIME_RL = """
max_steps = 500
seq_len = 2048

[model]
name = "Qwen/Qwen3-4B-Instruct-2507"

[trainer.optim]
lr = 1e-5

[orchestrator]
batch_size = 512
rollouts_per_example = 16

[orchestrator.sampling]
max_tokens = 512

[[orchestrator.env]]
id = "primeintellect/wiki-search"

[inference]
"""

VF_RL = """
model = "Qwen/Qwen2.5-1.5B-Instruct"

[env]
id = "gsm8k"

[env.args]
num_train_examples = 100

[inference]
gpus = 1

[inference.args]
enforce_eager = true

[trainer]
gpus = 2

[trainer.args]
run_name = "first-try"
use_lora = true
lora_target_modules = ["q_proj", "v_proj"]
micro_batch_size = 12
rollouts_per_example = 12
batch_size = 144
max_seq_len = 2048
"""
