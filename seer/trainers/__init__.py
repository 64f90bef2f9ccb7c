"""Adapters for trainers that do not take a Gymnasium vector environment.

The layout ``"flat"`` of `seer.make_vec` is a Gymnasium ``VectorEnv`` and needs none. Each trainer
has a module of its own, so that nothing is imported that is not used: `seer.trainers.sb3`.
"""
