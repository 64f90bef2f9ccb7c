"""`make_vec`: many copies of an environment as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from ..errors import ConfigError
from ..types import PoolConfig
from .arguments import Arguments
from .chooser import Chooser
from .config import ProcessConfig, deal
from .contract import EnvFailure, VecSpec
from .describe import EnvDescription, describe
from .factory import construct, make_cell, nearest, unsendable
from .merge import merge
from .serial import Serial, explained
from .sources import Source, native_id, plain_name, resolve

__all__ = ["make_vec"]


def make_vec(
    env: Any,
    num_envs: int | None = None,
    *,
    layout: Literal["flat", "dict", "stacked", "list"] | None = None,
    backend: Literal["auto", "serial", "process", "native"] = "auto",
    workers: int | None = None,
    isolate: bool = False,
    pool: Literal["auto"] | PoolConfig | ProcessConfig = "auto",
    autoreset: Any = "next_step",
    autoreset_options: Any = None,
    batch_size: int | None = None,
    groups: Any = None,
    dead: Literal["mask", "done_together"] = "mask",
    max_agents: int | None = None,
    render_mode: str | None = None,
    copy: bool = True,
    timeout: float | None = None,
    on_worker_death: Literal["raise", "restart"] = "raise",
    start_method: Literal["forkserver", "spawn", "fork"] | None = None,
    wrappers: Sequence[Callable[[Any], Any]] = (),
    probe: bool = True,
    env_kwargs: Mapping[str, Any] | None = None,
    **more_env_kwargs: Any,
) -> Any:
    """Many copies of an environment, stepped together.

        >>> vec = seer.make_vec(simple_spread_v3, num_envs=8)
        >>> observations, infos = vec.reset(seed=7)
        >>> observations, rewards, terminated, truncated, infos = vec.step(vec.sample_actions())

    With N environments and A agents (groups of A_g) a step returns, by layout:

    ========== ============================== ==================================
    layout     observations, actions          rewards (float64), flags (bool)
    ========== ============================== ==================================
    "dict"     {agent: (N, …)}                {agent: (N,)}
    "stacked"  {group: (N, A_g, …)}           {group: (N, A_g)}
    "list"     N dicts {agent: …}             N dicts {agent: …}
    "flat"     (N · A, …), a Gymnasium        (N · A,)
               ``VectorEnv``
    ========== ============================== ==================================

    ``vec.live`` (N, A) says who must be given an action next, ``vec.acted`` whose step this was
    (a loss mask), ``vec.episode_over`` (N,) which environments ended. Absent agents are filler,
    never old data. Native worlds (``"uav_swarm"``) run on threads in this process; everything
    else is stepped here, or here and in worker processes over shared memory.

    **Exceptions are contained, crashes are not:** by default the caller steps a share of the
    environments itself. An environment's exception is raised here with its index; but an
    environment that exits, crashes or hangs takes the caller with it. With ``isolate=True`` it
    takes a worker, and the caller gets an error; that costs the share that the caller would do.

    Args:
        env: an id of seer or Gymnasium; a class, partial, lambda or function that makes one
            environment (a PettingZoo ``ParallelEnv`` or ``AECEnv``, or a Gymnasium ``Env``); a
            PettingZoo module or its ``parallel_env`` or ``env``; ``"module:attribute"``; or a
            list of such, one for each environment.
        num_envs: N; 1 by default, and the length of a list.
        layout: by default "flat" for Gymnasium environments, "dict" for multi-agent ones.
        backend: "serial": the caller steps all; "process": workers take part; "native": worlds
            on the engine; "auto": native where there is a model, else what `probe` says is
            faster.
        workers: exactly so many worker processes; implies `isolate`.
        isolate: keep every environment in a worker.
        pool: "auto", a `seer.PoolConfig` for native worlds, or a `seer.vector.ProcessConfig`.
        autoreset: "next_step" (the step after an episode's last resets), "same_step" (the last
            step resets, and ``infos["final_obs"]`` has the last observation), or "disabled";
            also the members of `gymnasium.vector.AutoresetMode`, and as ``autoreset_mode``.
        autoreset_options: of automatic resets: None, "last" (those of the last manual reset), a
            dict, or a callable (index of the environment, episode) -> dict.
        batch_size: how many environments ``vec.recv()`` waits for; smaller than N it makes the
            vector asynchronous (``async_reset``, ``send``, ``recv``).
        groups: which agents share arrays: by name without its trailing number (None), "spaces",
            "all", "each", a dict from group to agents, or a callable agent -> group.
        dead: flat rows of agents whose environment goes on: "mask": flagged at their own end;
            "done_together": flagged when it ends.
        max_agents: slots for agents that appear without having been announced.
        render_mode: passed to the factory.
        copy: False: results are read-only arrays, valid until the next step, recv or reset.
        timeout: how long a step or reset may take, s; implies `isolate`.
        on_worker_death: "raise" a `WorkerDiedError`, or "restart" the worker with new episodes;
            that implies `isolate`.
        start_method: of workers: "forkserver" (default), "spawn" or "fork".
        wrappers: callables env -> env, applied to each environment in order.
        probe: make one extra instance, step it at most 50 times or 200 ms and close it, to
            choose the backend and to deal out the environments by what they cost.
        env_kwargs: for the factory; needed where a name is one of make_vec's own.
        **more_env_kwargs: the same.

    Returns:
        A `DictVectorEnv`, `StackedVectorEnv`, `ListVectorEnv` or `FlatVectorEnv`. Use it in a
        ``with`` statement, or call its ``close()``; ``vec.pool.explain()`` says how it runs and
        why.

    Raises:
        UnknownIdError: there is no such id; names the nearest.
        ConfigError: an argument is illegal or excludes another; a keyword is unknown; the
            factory makes no environment, or the same object twice; spaces can't be put into
            arrays together.
        WorkerDiedError: a worker ended while it made its environments.
        StepTimeoutError: making them took longer than a minute, or `timeout` if that is longer.
        Exception: whatever a factory raises, with a note that names the environment.
    """
    if "autoreset_mode" in more_env_kwargs:
        mode = more_env_kwargs.pop("autoreset_mode")
        if autoreset != "next_step":
            raise ConfigError(
                f"make_vec(autoreset={autoreset!r}, autoreset_mode={mode!r}): these are two names "
                "of one argument; leave one out"
            )
        autoreset = mode
    arguments = Arguments(
        num_envs=num_envs, layout=layout, backend=backend, workers=workers, isolate=isolate,
        pool=pool, autoreset=autoreset, autoreset_options=autoreset_options,
        batch_size=batch_size, groups=groups, dead=dead, max_agents=max_agents,
        render_mode=render_mode, copy=copy, timeout=timeout, on_worker_death=on_worker_death,
        start_method=start_method, wrappers=wrappers, probe=probe,
        env_kwargs=_merged(env_kwargs, more_env_kwargs),
    )  # fmt: skip
    if _is_native(env, arguments):
        return _shown(_native(env, arguments), arguments)
    source = resolve(
        env, arguments.num_envs, arguments.env_kwargs, arguments.wrappers, arguments.render_mode,
        OWN,
    )  # fmt: skip
    return _wrapped(source, arguments)


OWN = tuple(
    name
    for name, p in inspect.signature(make_vec).parameters.items()
    if p.kind is not p.VAR_KEYWORD and name != "env"
)
"""make_vec's own keywords."""


def _merged(given: Any, more: dict[str, Any]) -> Any:
    """env_kwargs and the keywords that make_vec doesn't know."""
    if given is None or not isinstance(given, Mapping):
        return more if given is None else given
    for name in given:
        if name in more:
            raise ConfigError(f"make_vec: the keyword {name!r} is given twice, also in env_kwargs")
    return {**given, **more}


# ---- native worlds -----------------------------------------------------------------------


def _is_native(env: Any, arguments: Arguments) -> bool:
    """Whether these are worlds of an engine rather than wrapped environments."""
    native = native_id(env)
    if not native or arguments.backend in ("serial", "process") or arguments.wrappers:
        if arguments.backend == "native":
            why = "wrappers go around single environments" if native else (
                f"{env!r} is no model of the engine")  # fmt: skip
            raise ConfigError(
                f"make_vec(backend='native'): {why}; the backends 'serial' and 'process' step "
                "wrapped environments"
            )
        if isinstance(arguments.pool, PoolConfig):
            raise ConfigError(
                "make_vec(pool=PoolConfig(…)) is for native worlds; wrapped environments take a "
                "seer.vector.ProcessConfig"
            )
        return False
    wanted = arguments.process_wishes()
    if wanted:
        raise ConfigError(
            f"make_vec: {env!r} runs as native worlds, on threads of this process, where "
            f"{wanted[0]} means nothing; pool=seer.PoolConfig(threads=…) chooses the threads, "
            "backend='process' runs each world as an environment in worker processes"
        )
    return True


def _native(env: Any, arguments: Arguments) -> Any:
    if arguments.max_agents is not None:
        raise ConfigError(
            f"make_vec(max_agents={arguments.max_agents}): the agents of native worlds are all "
            "announced; leave max_agents out"
        )
    _check_batch(arguments, arguments.num_envs or 1)
    from .native import native_backend

    try:
        return native_backend(env, arguments)
    except ConfigError as error:
        for name in arguments.env_kwargs:
            near = nearest(name, OWN)
            if near and f"no parameter {name!r} (" in str(error):  # and none that is like it
                raise ConfigError(
                    f"make_vec: unknown keyword {name!r}; did you mean {near!r}? {error}"
                ) from None
        raise


# ---- wrapped environments ----------------------------------------------------------------


def _wrapped(source: Source, arguments: Arguments) -> Any:
    _check_batch(arguments, len(source.factories))
    chooser = Chooser(source, arguments)
    config, costs = chooser.config()
    maker = _Maker(source, arguments, chooser)
    if config.workers == 0:
        backend = maker.serial(config)
    else:
        backend = maker.process(config, costs)
    return _shown(backend, arguments)


def _check_batch(arguments: Arguments, count: int) -> None:
    if arguments.batch_size is not None and arguments.batch_size > count:
        raise ConfigError(
            f"make_vec(batch_size={arguments.batch_size}): there are only {count} environments"
        )


def _shown(backend: Any, arguments: Arguments) -> Any:
    """The backend's object of the layout; a backend that can't be shown is closed."""
    try:
        return _facade(backend, arguments)
    except BaseException:
        with suppress(Exception):  # the first error is what matters
            backend.close()
        raise


def _facade(backend: Any, arguments: Arguments) -> Any:
    """The object of the layout over a backend."""
    from .layouts import DictVectorEnv, ListVectorEnv, StackedVectorEnv

    spec: VecSpec = backend.spec
    layout = arguments.layout or ("flat" if spec.kind == "gymnasium" else "dict")
    given: dict[str, Any] = {"copy": arguments.copy, "batch_size": arguments.batch_size}
    if layout == "flat":
        from .flat import flat_env

        return flat_env(backend, dead=arguments.dead, **given)
    if arguments.dead != "mask":
        raise ConfigError(
            f"make_vec(dead={arguments.dead!r}): only layout='flat' needs it; elsewhere vec.live "
            "says who is dead"
        )
    layouts = {"dict": DictVectorEnv, "stacked": StackedVectorEnv, "list": ListVectorEnv}
    return layouts[layout](backend, **given)


class _Maker:
    """Makes backends; what was made is closed again where something fails."""

    def __init__(self, source: Source, arguments: Arguments, chooser: Chooser) -> None:
        self._source, self._arguments, self._chooser = source, arguments, chooser

    def serial(self, config: ProcessConfig) -> Serial:
        """All environments in this process."""
        failure = None
        try:
            envs = construct(self._source.factories)
        except EnvFailure as error:
            failure = error
        if failure is not None:
            raise explained(failure) from failure.error.__cause__
        try:
            descriptions = [describe(env, f"environment {k}") for k, env in enumerate(envs)]
            spec = self.spec(descriptions)
            cells = [make_cell(env, spec, k) for k, env in enumerate(envs)]
            return Serial(spec, cells, copy=self._arguments.copy, pool=config)
        except BaseException:
            for env in envs:
                with suppress(Exception):
                    env.close()
            raise

    def process(self, config: ProcessConfig, costs: list[float] | None) -> Any:
        """Environments in workers, and in this process as far as it has a share."""
        from .process import Process

        a = self._arguments
        why = "" if a.start_method == "fork" else unsendable(self._source.factories)
        if why:
            raise ConfigError(
                f"make_vec: {why}; make what can't be pickled inside the factory, or use "
                "backend='serial'"
            )
        return Process(
            self._source.factories,
            deal(len(self._source.factories), config, costs),
            self.spec,
            pool=config,
            copy=a.copy,
            timeout=a.timeout,
            on_worker_death=a.on_worker_death,
            start_method=a.start_method,
        )

    def spec(self, descriptions: list[EnvDescription]) -> VecSpec:
        """What the vector is made of, by what its environments say of themselves."""
        a = self._arguments
        if any(d.agents is None for d in descriptions):
            known = self._chooser.description()
            if known is not None and known.agents is not None:
                descriptions = [known if d.agents is None else d for d in descriptions]
        if a.render_mode is not None and not self._source.given_mode:
            mode = descriptions[0].render_mode
            if mode != a.render_mode:
                raise ConfigError(
                    f"make_vec(render_mode={a.render_mode!r}): {self._source.name} takes no "
                    f"render_mode, and its environments have {mode!r}; set it where they are made"
                )
        layout = a.layout or ("flat" if descriptions[0].kind == "gymnasium" else "dict")
        flat = layout == "flat"
        if flat and a.groups is not None:
            raise ConfigError(
                "make_vec(groups=…): a Gymnasium environment has the layout 'flat' by default, "
                "whose rows know no groups; use layout='stacked'"
            )
        try:
            return merge(
                descriptions,
                mode=a.autoreset,
                options=a.autoreset_options,
                groups="all" if flat else a.groups,
                max_agents=a.max_agents,
                open_names=layout == "list",
                name=plain_name(self._source.name, descriptions[0].metadata),
            )
        except ConfigError as error:
            if flat and str(error).startswith("groups:"):
                raise ConfigError(
                    "make_vec(layout='flat'): all agents need equal spaces, as rows of one array; "
                    f"use layout='stacked' or 'dict', or pad them ({str(error)[8:]})"
                ) from None
            raise
