"""Do what `vllm serve --headless` does: that command itself needs the metadata of a package with the name vllm."""

from __future__ import annotations

from vllm.entrypoints.cli.serve import run_headless
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    cli_env_setup()
    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args()
    arguments.api_server_count = 0
    run_headless(arguments)
