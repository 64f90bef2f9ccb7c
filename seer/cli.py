"""The command ``seer``. Every command also takes ``--json``: one JSON document on stdout.

Exit status: 0 for success; 1 when what was asked for failed (a model's fault, a check that found
a difference); 2 for a mistake in the request, told in one sentence.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from . import errors
from .errors import ConfigError, SeerError

__all__ = ["app", "main"]

app = typer.Typer(
    name="seer",
    help="An event engine for multi-agent reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bench_app = typer.Typer(no_args_is_help=True, help="Measure, beside baselines in the same run.")
app.add_typer(bench_app, name="bench")

#: Mistakes of the one who asks; other errors of seer are failures of what was asked for.
_MISTAKES = (
    ConfigError,
    errors.ActionError,
    errors.MissingDependencyError,
    errors.UnknownAgentError,
    errors.UnknownIdError,
)


class PolicyName(str, Enum):
    """Policies that `seer run` knows."""

    random = "random"
    heuristic = "heuristic"


Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter (see `seer envs ID`); may be repeated."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, help="World i gets seed + i.")]
EnvId = Annotated[str, typer.Argument(metavar="ID", help="An id (see `seer envs`).")]
Drones = Annotated[int | None, typer.Option(help="Short for --set drones=N.")]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit status."""
    if os.getcwd() not in sys.path and not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd())  # as with `python -m seer`: a model may lie here
    try:
        app(args=list(args) if args is not None else None, prog_name="seer")
    except _MISTAKES as error:
        _fail(error, 2)
    except SeerError as error:
        _fail(error, 1)
    except BrokenPipeError:  # `seer ... | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a full disk behind stdout, for one
        _fail(error, 1)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(error: Exception, status: int) -> None:
    print(f"seer: {error}", file=sys.stderr)
    sys.exit(status)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"seer {__version__}")
        raise typer.Exit


@app.callback()
def _seer(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """An event engine for multi-agent reinforcement learning."""


# ---- run -----------------------------------------------------------------------


@app.command()
def run(
    env: EnvId = "uav_swarm",
    drones: Drones = None,
    worlds: Annotated[int, typer.Option(min=1, help="Copies that step together.")] = 1,
    steps: Annotated[int, typer.Option(min=1, help="Steps to fly.")] = 1000,
    seed: Seed = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; left out: automatic.")] = None,
    policy: Annotated[PolicyName, typer.Option(help="Who flies.")] = PolicyName.random,
    render: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw world 0 into a .gif or .png.")
    ] = None,
    sets: Set = [],  # noqa: B006  typer copies it
    as_json: Json = False,
) -> None:
    """Fly an environment and say how it went."""
    from . import show
    from .flight import Preparation

    options = _options(sets, drones)
    prepared = Preparation(
        env, options, policy.value, worlds=worlds, seed=seed, threads=threads, picture=render
    )
    with show.preparing(prepared.title, quiet=as_json):
        flight = prepared.take_off()
    try:
        with show.flying(flight, steps, quiet=as_json) as tick:
            for _ in range(steps):
                flight.step()
                prepared.look(steps)
                tick()
        report = prepared.land()
    finally:
        prepared.close()
    if as_json:
        _print_json(report.as_dict())
    else:
        show.report(report)


# ---- looking around ------------------------------------------------------------


@app.command()
def envs(
    env: Annotated[str, typer.Argument(metavar="[ID|MODULE:CLASS]")] = "",
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """List the environments, or the parameters of one."""
    from . import registry, show

    if env:
        from .flight import model_of

        parameters = model_of(env, _options(sets, None)).describe()
        if as_json:
            _print_json(parameters)
        else:
            show.parameters(parameters)
        return
    entries = [registry.find(name) for name in registry.list()]
    if as_json:
        _print_json([{"id": e.id, "summary": e.summary, "env": e.env} for e in entries])
    else:
        show.environments(entries)


@app.command()
def info(as_json: Json = False) -> None:
    """Show the machine, the build and the versions."""
    from . import show
    from .inquiry import facts

    found = facts()
    if as_json:
        _print_json(found)
    else:
        show.facts(found)


# ---- checks and scores -----------------------------------------------------------


@app.command()
def verify(
    model: Annotated[str, typer.Argument(metavar="ID|MODULE:CLASS")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 20,
    worlds: Annotated[int, typer.Option(min=1, help="Copies in each run.")] = 3,
    seed: Seed = 0,
    drones: Drones = None,
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Check that a model gives the same bits on every pool."""
    from . import show
    from .flight import model_of
    from .verify import verify as check

    with show.preparing(f"verify {model}", quiet=as_json):
        result = check(
            model_of(model, _options(sets, drones)), steps=steps, worlds=worlds, seed=seed
        )
    if as_json:
        _print_json({"ok": bool(result), **asdict(result)})
    else:
        print(result)
    if not result:
        sys.exit(1)


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="MODULE:FACTORY|ID")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the run compared with.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Longest episode.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the first reset.")] = 0,
    as_json: Json = False,
) -> None:
    """Say what is wrong with an environment of your own, and what to do."""
    from . import show
    from .check import check as examine

    with show.preparing(f"check {env}", quiet=as_json):
        result = examine(env, episodes=episodes, steps=steps, seed=seed)
    if as_json:
        _print_json(result.as_dict())
    else:
        print(result)
    if not result:
        sys.exit(1)


@app.command()
def evaluate(
    env: EnvId,
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="random, heuristic or module:function.")
    ],
    episodes: Annotated[int, typer.Option(min=1)] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of the first episode.")] = 1_000_000,
    drones: Drones = None,
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Score a policy by the environment's protocol."""
    from . import registry, show
    from .evaluate import evaluate as score

    options = _options(sets, drones)
    with show.preparing(f"evaluate {policy} on {env}", quiet=as_json):
        made = registry.make(env, **options)
        try:
            act = registry.load(policy) if ":" in policy else policy
            found = score(made, act, episodes, seed).as_dict()
        finally:
            made.close()
    if as_json:
        _print_json(found)
    else:
        show.scores(found)


@app.command()
def record(
    env: EnvId,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="A .gif or .png.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps to fly.")] = 300,
    seed: Seed = 0,
    policy: Annotated[PolicyName, typer.Option(help="Who flies.")] = PolicyName.heuristic,
    drones: Drones = None,
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Draw an environment into a file."""
    run(
        env=env, drones=drones, worlds=1, steps=steps, seed=seed, threads=None, policy=policy,
        render=out, sets=sets, as_json=as_json,
    )  # fmt: skip


BenchFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the rows here.")
]
Quick = Annotated[bool, typer.Option(help="Fewer rounds: a glance, no figure to quote.")]


@bench_app.command()
def engine(json_path: BenchFile = None, quick: Quick = False) -> None:
    """Measure the engine: PHOLD, threads, hand-over, the swarm."""
    _bench("engine", json_path, quick)


@bench_app.command()
def vec(json_path: BenchFile = None, quick: Quick = False) -> None:
    """Measure make_vec beside the libraries that are installed.

    A library in an interpreter of its own is named by SEER_RLLIB_PYTHON, SEER_PUFFERLIB_PYTHON
    and so on; SEER_VEC_PYTHON names one with mpe2 and pettingzoo[butterfly].
    """
    _bench("vec", json_path, quick)


def _bench(suite: str, json_path: Path | None, quick: bool) -> None:
    from .bench import main as bench

    if json_path is not None and (json_path.is_dir() or not json_path.parent.is_dir()):
        raise ConfigError(f"--json {str(json_path)!r}: expected a file in a folder that exists")
    sys.exit(bench(suite, json_path=json_path, quick=quick))


# ---- what commands share -----------------------------------------------------------


def _options(sets: Sequence[str], drones: int | None) -> dict[str, Any]:
    """``["a=1", "b=x"]`` as ``{"a": 1, "b": "x"}``, with ``--drones`` added."""
    options: dict[str, Any] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"--set {text!r}: expected NAME=VALUE, as in --set radius=60")
        name = name.strip()
        if name in options:
            raise ConfigError(f"--set {text!r}: {name!r} was set already, to {options[name]!r}")
        options[name] = _value(value.strip())
    if drones is not None:
        if "drones" in options:
            raise ConfigError("give --drones or --set drones=N, not both")
        options["drones"] = drones
    return options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
