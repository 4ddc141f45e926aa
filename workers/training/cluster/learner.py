"""`python -m workers.training.cluster.learner RUN_DIR`: a learner whose processes are on several hosts.

To whoever started it, it is a learner: what the processes say, and the exit status of the one that failed first. Only
the first process, on this host, reads the run's directory and writes to it; the others have the model and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from envhub.protocol.training.cluster_need import ClusterSplit
from ray.exceptions import RayError

from workers.training.cluster.head import end_without_head, wait_for_head
from workers.training.cluster.keeper import Ended
from workers.training.cluster.plan import ClusterPlan, read_plan
from workers.training.cluster.share import Actor, Share, connect
from workers.training.learner.__main__ import die_with_parent
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir

HOST_LOST = 75  # EX_TEMPFAIL: restart the learner
HEAD_S = 60.0  # how long to wait for a lost head; the driver, which does not wait, gives the run back meanwhile
ADAPTER = "adapter"


@dataclass
class Rank:
    """One process of the learner: its number, its keeper, and its run directory on that host."""

    number: int
    actor: Actor
    root: str


async def ranks_of(share: Share) -> list[Rank]:
    """Return a keeper for each process, with everything it needs on its host. Raises RayError, OSError."""
    split = share.plan.split
    wanted = [host for host in range(split.hosts) for _ in range(split.ranks_per_host)]
    actors = await asyncio.gather(*(share.actor(host, gpus=share.plan.rank_gpus) for host in wanted))
    by_node = {actor.here.node: actor for actor in actors}  # one actor per host fetches the files that all of them need
    roots = {node: await prepared(share, actor) for node, actor in by_node.items()}
    return [Rank(number, actor, roots[actor.here.node]) for number, actor in enumerate(actors)]


async def prepared(share: Share, actor: Actor) -> str:
    """Prepare a run's directory on an actor's host (model, configuration, initial adapter) and return it."""
    run = share.run
    if actor.here.node == share.home:
        return str(run.root)
    await share.bring(run.base, run.base.name, actor)
    config = LearnerConfig.model_validate_json(run.config.read_bytes())
    root = Path(actor.here.root)
    if config.initial_adapter is not None:
        adapter = await share.bring(config.initial_adapter, ADAPTER, actor)
        config = config.model_copy(update={"initial_adapter": adapter})
    await actor.handle.write.remote(str(root / run.config.name), config.model_dump_json().encode())
    return str(root)


def variables(split: ClusterSplit, rank: Rank, first: Actor) -> dict[str, str]:
    """Return the variables that torchrun would set. A process sees only the GPU that Ray gave its keeper."""
    return {
        "RANK": str(rank.number),
        "WORLD_SIZE": str(split.ranks),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": str(split.ranks_per_host),
        "MASTER_ADDR": first.here.ip,
        "MASTER_PORT": str(first.here.port),
    }


async def learn(plan: ClusterPlan, run: RunDir) -> int:
    """Run all processes once and return the exit status. Raises RayError, OSError, ValueError."""
    share = await Share.find(plan, run)
    ranks = await ranks_of(share)
    first = ranks[0].actor
    starting = (
        rank.actor.handle.start_learner.remote(rank.root, variables(share.plan.split, rank, first)) for rank in ranks
    )
    await asyncio.gather(*starting)
    reading = [asyncio.create_task(read(rank)) for rank in ranks]
    ending = {asyncio.create_task(ended(rank)) for rank in ranks}
    try:
        for following in asyncio.as_completed(ending):
            rank, end = await following
            if end.status:
                return await failed(share, rank, end, reading)
        await asyncio.wait(reading, timeout=5.0)
        return 0
    finally:
        for task in reading:
            task.cancel()
        for other in ending:
            other.cancel()
        for rank in ranks:
            rank.actor.kill()


async def ended(rank: Rank) -> tuple[Rank, Ended]:
    """Wait for a process's end. Raises RayError if its host is lost."""
    return rank, await rank.actor.handle.learner_ended.remote(rank.root)


async def failed(share: Share, rank: Rank, end: Ended, reading: list[asyncio.Task[None]]) -> int:
    """Handle the failure of a process: its reason becomes the learner's. Returns the exit status."""
    await asyncio.wait([reading[rank.number]], timeout=2.0)
    if end.error and not share.run.error.exists():
        share.run.error.write_bytes(end.error)
    return end.status if end.status > 0 else 128 - end.status


async def read(rank: Rank) -> None:
    """Print a process's output; all but the first process's is prefixed with its number."""
    prefix = f"[{rank.number}] " if rank.number else ""
    while said := await rank.actor.handle.lines.remote():
        for line in said:
            sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()


def main() -> int:
    """Run the launcher as a program."""
    parser = argparse.ArgumentParser(prog="python -m workers.training.cluster.learner", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    run = RunDir(parser.parse_args().run_dir.absolute())
    die_with_parent()
    run.error.unlink(missing_ok=True)
    plan = read_plan(run)
    try:
        wait_for_head(plan.address, HEAD_S)
        end_without_head(plan.address, connect(plan))
        return asyncio.run(learn(plan, run))
    except (RayError, OSError, ValueError) as error:
        sys.stdout.write(f"a host of the learner was lost: {type(error).__name__}: {str(error)[:500]}\n")
        return HOST_LOST


if __name__ == "__main__":
    sys.exit(main())
