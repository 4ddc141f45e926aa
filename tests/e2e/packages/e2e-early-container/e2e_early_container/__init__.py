"""Write a file in the container; it is read there."""

import verifiers.v1 as vf

__all__ = ["Notes"]


class Note(vf.Task[vf.TaskData]):
    NEEDS_CONTAINER = True

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await runtime.write("/tmp/answer", b"42\n")

    @vf.reward(weight=1.0)
    async def kept(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        result = await runtime.run(["cat", "/tmp/answer"], {})
        return float(result.stdout.strip() == trace.last_reply)


class Notes(vf.Taskset[Note, vf.TasksetConfig]):
    def load(self) -> list[Note]:
        return [Note(vf.TaskData(idx=0, prompt="What is in /tmp/answer?"), self.config.task)]
