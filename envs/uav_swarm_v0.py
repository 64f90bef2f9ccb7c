"""Version 0 of the swarm. Its trajectories, rewards and spaces stay as they are."""

from seer.envs.uav_swarm import env, parallel_env, raw_env

__all__ = ["env", "parallel_env", "raw_env"]
