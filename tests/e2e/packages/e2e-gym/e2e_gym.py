"""Count to a goal, in the shape of a gym environment."""

import verifiers as vf
from verifiers.envs.experimental.gym_env import GymEnv


class Countdown:
    """Two steps to the goal; a wrong step ends the game."""

    def __init__(self, start: int = 2):
        self.start = start

    def reset(self, seed: int = 0):
        self.left = self.start
        return f"{self.left} steps left", {"seed": seed}

    def step(self, action):
        self.left -= 1
        return f"{self.left} steps left", 1.0, self.left <= 0, False, {"action": str(action)}


def load_environment(n: int = 3, start: int = 2) -> vf.Environment:
    return GymEnv(
        env_cls=Countdown,
        env_kwargs={"start": start},
        action_parser=lambda text: text.strip(),
        num_train_episodes=n,
        num_eval_episodes=n,
    )
