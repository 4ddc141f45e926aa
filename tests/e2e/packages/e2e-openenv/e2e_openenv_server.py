"""The OpenEnv server: count up to a number. Started by the environment, on loopback."""

import sys

import uvicorn
from openenv.core import Action, Environment, Observation, State, create_fastapi_app


class Count(Action):
    number: int


class Heard(Observation):
    text: str = ""


class Counting(Environment[Count, Heard, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id="0", step_count=0)

    def reset(self, seed=None, episode_id=None, **kwargs) -> Heard:
        self._state = State(episode_id=episode_id or "0", step_count=0)
        return Heard(text="count from 1 to 3", done=False, reward=0.0)

    def step(self, action: Count, timeout_s=None, **kwargs) -> Heard:
        self._state.step_count += 1
        right = action.number == self._state.step_count
        done = not right or action.number == 3
        return Heard(text="go on" if right else "wrong", done=done, reward=float(right) / 3)

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Counting, Count, Heard, max_concurrent_envs=16)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
