"""`make_vec` by a neutral contract, so that one program can be run on any library.

    vec = make_vec(env_fns, workers=0, **opts)   # 0: all in this process; k: in k worker processes
    obs, infos = vec.reset(seed=None | int | list, options=None)
    obs, rewards, terminations, truncations, infos = vec.step(actions)   # one dict an environment
    vec.final                                    # None, or {"obs": …, "infos": …} where one ended
    vec.render(); vec.render_mode; vec.num_envs; vec.close()

Resets come in the same step, with the options of the last reset that was asked for.
"""

import seer

ELSEWHERE = frozenset({"daemon", "shared_memory"})
"""Options of other libraries that say what always holds here: workers may have children."""

OF_WORKERS = frozenset({"isolate", "on_worker_death", "start_method", "timeout"})


def make_vec(env_fns, workers=0, **opts):
    """The layout list of `seer.make_vec`.

    Args:
        env_fns: factories of one environment each.
        workers: 0: the caller steps all of them; k: exactly k processes do, or as many as there
            are environments.
        **opts: for `seer.make_vec`; those about workers are left out where there are none.
    """
    left_out = ELSEWHERE if workers else ELSEWHERE | OF_WORKERS
    given = {name: value for name, value in opts.items() if name not in left_out}
    count = min(workers, len(env_fns))
    where = {"backend": "process", "workers": count} if count else {"backend": "serial"}
    defaults = {"layout": "list", "autoreset": "same_step", "autoreset_options": "last"}
    return seer.make_vec(list(env_fns), **{**defaults, **where, **given})
