"""Steps a vector by the neutral contract, and knows who must be given an action."""

import functools

from cases import make_vec


class Pilot:
    """Remembers who is alive: all of a new episode, else who was reported and isn't done.

    Args:
        factories: of one environment each.
        **options: for `cases.make_vec`.
    """

    def __init__(self, factories, **options):
        self.vec = make_vec(factories, **options)
        self.alive = []

    def reset(self, seed=0, **options):
        observations, infos = self.vec.reset(seed=seed, **options)
        self.alive = [list(row) for row in observations]
        return observations, infos

    def step(self, action=1, times=1):
        """Everybody alive does the same; the last of so many results.

        Args:
            action: or a function of the environment's number.
            times: steps.
        """
        for _ in range(times):
            chosen = [action(k) if callable(action) else action for k in range(len(self.alive))]
            result = self.vec.step(
                [dict.fromkeys(names, a) for names, a in zip(self.alive, chosen, strict=True)]
            )
            observations, _, ended, cut, _ = result
            self.alive = [
                list(seen)
                if final is not None
                else [agent for agent in seen if not (e.get(agent) or c.get(agent))]
                for seen, e, c, final in zip(observations, ended, cut, self.vec.final, strict=True)
            ]
        return result

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.vec.close()


def copies(kind, count=1, **options):
    """Factories of environments that differ in their tag."""
    return [functools.partial(kind, tag=k, **options) for k in range(count)]
