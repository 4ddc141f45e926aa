"""The coordinator of a training run: examples to groups to batches, weight versions to the engine, steps to the hub.

asyncio, no torch. `loop` is the run itself; workers.training.run starts it beside the engine and the learner.
"""
