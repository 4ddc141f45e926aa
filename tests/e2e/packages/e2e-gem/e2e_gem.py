"""Guess the word, in GEM's own game."""

import verifiers as vf
from gem.envs.game_env.wordle import WordleEnv
from verifiers.envs.experimental.gym_env import GymEnv


def load_environment(n: int = 3) -> vf.Environment:
    return GymEnv(env_cls=WordleEnv, num_train_episodes=n, num_eval_episodes=n, max_episode_steps=5)
