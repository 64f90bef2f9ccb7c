"""What becomes of environments whose worker ends, whenever it does: nothing is hidden or lost."""

import functools
import os
import signal
import time

import numpy as np
import pytest

import seer
from seer._native import lib
from seer.errors import StateError, WorkerDiedError
from seer.vector.config import ProcessConfig

from .test_faults_vector import gone, run_python, step, vector
from .test_process import below
from .troubled import Troubled
from .worlds import Ledger

RESTART = {"on_worker_death": "restart"}


def kill(vec, number):
    """End a worker from outside."""
    pid = vec._backend._links[number].child.pid
    os.kill(pid, signal.SIGKILL)
    assert gone([pid])


def stop(vec, number):
    """Let a worker do nothing more, as if it had no time to."""
    os.kill(vec._backend._links[number].child.pid, signal.SIGSTOP)


def zeros(vec, rows):
    return {agent: np.zeros(rows, int) for agent in vec.agents}


def some(*envs, count=4):
    mask = np.zeros(count, np.bool_)
    mask[list(envs)] = True
    return {"reset_mask": mask}


def receive_all(vec, count=4):
    """Results of environments that come one by one: {env: (infos, observations, truncations)}."""
    out = {}
    for _ in range(count):
        observations, _, _, truncs, infos = vec.recv()
        out[int(infos["env_id"][0])] = infos, observations, truncs
    return out


def sent_and_received(vec):
    vec.send(zeros(vec, vec.num_envs))
    return vec.recv()


# ---- a reset of others hides no death ----------------------------------------------------


def test_a_reset_of_others_tells_of_a_worker_that_ended():
    with vector() as vec:
        vec.reset(seed=0)
        step(vec)
        kill(vec, 1)
        with pytest.raises(WorkerDiedError, match="environments 2, 3"):
            vec.reset(options=some(0))
        with pytest.raises(StateError):
            step(vec)
        vec.reset(seed=5)
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 4


def test_a_reset_of_all_that_a_dead_worker_had_replaces_it():
    with vector() as vec:
        vec.reset(seed=0)
        step(vec)
        kill(vec, 1)
        observations, _ = vec.reset(seed=20, options=some(2, 3))
        assert observations["a_0"][:, 1].tolist() == [0, 1, 22, 23]
        assert step(vec)[1]["a_0"].tolist() == [2.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("flying", [False, True])
def test_an_asynchronous_reset_of_others_tells_of_a_worker_that_ended(flying):
    with vector(options={"batch_size": 1}) as vec:
        vec.async_reset(seed=0)
        receive_all(vec)
        if flying:
            stop(vec, 1)
            vec.send(zeros(vec, 1), [2])
        kill(vec, 1)
        with pytest.raises(WorkerDiedError, match="environments 2, 3"):
            vec.async_reset(options=some(0))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_reset_of_others_cuts_off_with_the_next_step(mode):
    with vector(options={**RESTART, "autoreset": mode}) as vec:
        vec.reset(seed=10)
        step(vec)
        kill(vec, 1)
        observations, _ = vec.reset(seed=30, options=some(0))
        assert observations["a_0"][:, 1].tolist() == [30, 11, 12, 13]
        observations, rewards, terms, truncs, infos = step(vec)
        assert truncs["a_0"].tolist() == [False, False, True, True] and not terms["a_0"].any()
        assert rewards["a_0"].tolist() == [1.0, 2.0, 0.0, 0.0]
        assert infos["_worker_restarted"].tolist() == [False, False, True, True]
        if mode == "next_step":
            observations, *_ = step(vec)
            assert vec.was_reset.tolist() == [False, False, True, True]
        assert observations["a_0"][:, 1].tolist() == [30, 11, 12 + 2**32, 13 + 2**32]
        assert "worker_restarted" not in step(vec)[4]


@pytest.mark.parametrize("flying", [False, True])
def test_an_asynchronous_reset_of_others_cuts_off(flying):
    with vector(options={**RESTART, "batch_size": 1}) as vec:
        vec.async_reset(seed=10)
        receive_all(vec)
        if flying:
            stop(vec, 1)
            vec.send(zeros(vec, 2), [2, 3])
        kill(vec, 1)
        vec.async_reset(seed=30, options=some(0))
        if not flying:
            assert vec.recv()[4]["env_id"].tolist() == [0]
            vec.send(zeros(vec, 2), [2, 3])
        got = receive_all(vec, 3 if flying else 2)
        for env in (2, 3):
            infos, observations, truncs = got[env]
            assert infos["worker_restarted"].tolist() == [1] and truncs["a_0"].tolist() == [True]
            assert observations["a_0"][0, 1] == 10 + env


# ---- deaths in resets --------------------------------------------------------------------


class Dying(Ledger):
    """Ends its process when it begins an episode, seeded or not, unless the file is there."""

    def __init__(self, once, seeded, **options):
        super().__init__(**options)
        self.once, self.seeded = once, seeded

    def reset(self, seed=None, options=None):
        if self.tag == 1 and (seed is not None) == self.seeded and self.episode >= -self.seeded:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return super().reset(seed, options)
            os._exit(3)
        return super().reset(seed, options)


def dying(path, seeded, **options):
    make = [functools.partial(Dying, str(path / "once"), seeded, tag=k) for k in range(2)]
    return seer.make_vec(make, workers=1, probe=False, **RESTART, **options)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_death_in_an_asynchronous_reset_begins_it_anew(mode, tmp_path):
    with dying(tmp_path, True, autoreset=mode) as vec:
        vec.async_reset(seed=5, options={"k": 1})
        observations, *_, infos = vec.recv()
        assert infos["_worker_restarted"][1] and not vec.was_reset.any()
        assert vec.get_attr("seeds")[1] == [6 + 2**32]
        assert vec.get_attr("options")[1] == [{"k": 1}]
        assert observations["a"][:, 3].tolist() == [0, 0]
        # The other's reset had been answered for, so its episode has to be cut off.
        observations, _, _, truncs, infos = sent_and_received(vec)
        assert truncs["a"].tolist() == [True, False] and infos["_worker_restarted"][0]
        assert observations["a"][1, 3] == 1


def test_death_in_a_reset_without_a_seed_goes_on_from_the_last_seed(tmp_path):
    with dying(tmp_path, False) as vec:
        vec.reset(seed=5)
        _, infos = vec.reset()
        assert infos["worker_restarted"].tolist() == [1, 1]
        assert list(vec.get_attr("seeds")) == [[5 + 2**32], [6 + 2**32]]


def test_death_again_and_again_in_a_reset_is_an_error_at_last():
    with vector(on={"reset": "exit"}, at=0, only=3, options=RESTART) as vec:
        with pytest.raises(WorkerDiedError, match="exit code 3"):
            vec.reset(seed=0)
        assert vec._backend._links[1].restarts == 3


# ---- what a restart can't do is told as it is --------------------------------------------


class Spoilt(Troubled):
    """Can't be made, or begin an episode, where the file is."""

    def __init__(self, path, where, **options):
        self.path, self.where = path, where
        if where == "init" and os.path.exists(path):
            raise ValueError("spoilt init")
        super().__init__(**options)

    def reset(self, seed=None, options=None):
        if self.where == "reset" and os.path.exists(self.path):
            raise ValueError("spoilt reset")
        return super().reset(seed, options)


@pytest.mark.parametrize("where", ["init", "reset"])
@pytest.mark.parametrize("way", ["step", "recv", "reset", "async_reset", "send"])
def test_exceptions_of_a_restart_are_the_environments_own(way, where, tmp_path):
    path = tmp_path / "spoilt"
    make = [functools.partial(Spoilt, str(path), where, tag=k) for k in range(2)]
    with seer.make_vec(
        make, workers=1, probe=False, autoreset="same_step", **RESTART,
    ) as vec:  # fmt: skip
        vec.reset(seed=0)
        stop(vec, 0)
        if way == "recv":
            vec.send(zeros(vec, 2))
        kill(vec, 0)
        path.touch()
        acts = {
            "step": lambda: step(vec),
            "reset": lambda: vec.reset(seed=1),
            "async_reset": lambda: (
                vec.async_reset(seed=1),
                vec.recv(),
            ),
            "send": lambda: sent_and_received(vec),
            "recv": vec.recv,
        }
        with pytest.raises(ValueError, match=f"spoilt {where}") as caught:
            acts[way]()
        assert caught.value.env in (0, 1) and "spoilt" in str(caught.value.__cause__)
        path.unlink()
        start = time.monotonic()
        assert vec.reset(seed=9)[0]["a_0"][:, 1].tolist() == [9, 10]
        assert time.monotonic() - start < 10


class Fleeting(Troubled):
    """Ends its process when it is made, where the file is, and takes it along."""

    def __init__(self, path, **options):
        super().__init__(**options)
        if os.path.exists(path):
            os.unlink(path)
            os._exit(3)


@pytest.mark.parametrize("way", ["step", "recv", "reset"])
def test_a_successor_that_dies_while_it_is_made_has_a_successor(way, tmp_path):
    path = tmp_path / "fleeting"
    make = [functools.partial(Fleeting, str(path), tag=k) for k in range(2)]
    with seer.make_vec(make, workers=1, probe=False, **RESTART) as vec:
        vec.reset(seed=0)
        kill(vec, 0)
        path.touch()
        if way == "reset":
            vec.reset(options=some(0, count=2))
        infos = (sent_and_received(vec) if way == "recv" else step(vec))[4]
        assert infos["_worker_restarted"].tolist() == [way != "reset", True]
        assert not path.exists()
        step(vec)
        assert step(vec)[1]["a_1"].tolist() == [3.0 if way == "reset" else 1.0, 1.0]


# ---- fair shares -------------------------------------------------------------------------


def test_the_callers_own_environments_do_not_starve():
    make = [functools.partial(Ledger, tag=k, horizon=10**6) for k in range(4)]
    pool = ProcessConfig(1, caller_share=0.25)
    with seer.make_vec(make, probe=False, pool=pool, batch_size=1) as vec:
        vec.async_reset(seed=0)
        seen = np.zeros(4, int)
        for _ in range(80):
            envs = vec.recv()[4]["env_id"]
            seen[envs] += 1
            vec.send(zeros(vec, 1), envs)
            time.sleep(0.001)  # the worker has always something
        assert seen.min() >= 8, seen


# ---- everything that is sent arrives, or is an error -------------------------------------


class Unloadable:
    """Can be pickled, but not unpickled."""

    def __reduce__(self):
        return (eval, ("1 / 0",))


def test_an_argument_that_cannot_be_loaded_is_an_error_and_no_death():
    with vector(2, {"workers": 1}) as vec:
        vec.reset(seed=0)
        with pytest.raises(ZeroDivisionError):
            vec.set_attr("thing", Unloadable())
        assert step(vec)[1]["a_0"].tolist() == [1.0, 1.0]
        vec.async_reset(options={"thing": Unloadable()})
        with pytest.raises(ZeroDivisionError):
            vec.recv()
        vec.reset(seed=0)
        assert step(vec)[1]["a_0"].tolist() == [1.0, 1.0]


class Exiting(Troubled):
    """Raises what is no `Exception`."""

    def step(self, actions):
        if self.t == 1 and self.tag == 1:
            raise {"exit": SystemExit(7), "generator": GeneratorExit("of its own"),
                   "interrupt": KeyboardInterrupt("of its own")}[self.where]  # fmt: skip
        return super().step(actions)

    def __init__(self, where, **options):
        super().__init__(**options)
        self.where = where


@pytest.mark.parametrize("way", ["step", "recv"])
@pytest.mark.parametrize("what", ["generator", "interrupt"])
def test_other_exceptions_than_exceptions_come_as_they_are(what, way):
    make = [functools.partial(Exiting, what, tag=k) for k in range(2)]
    cls = {"generator": GeneratorExit, "interrupt": KeyboardInterrupt}[what]
    with seer.make_vec(make, workers=1, probe=False) as vec:
        for _ in range(2):
            vec.reset(seed=0)
            step(vec)
            pids = [process.pid for process in below()]
            with pytest.raises(cls, match="of its own") as caught:
                step(vec) if way == "step" else sent_and_received(vec)
            assert "test_restarts.py" in str(caught.value.__cause__)
            assert [process.pid for process in below()] == pids


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_an_exit_of_an_environment_tells_where_it_was_called(method):
    make = [functools.partial(Exiting, "exit", tag=k) for k in range(2)]
    with seer.make_vec(make, workers=1, probe=False, start_method=method) as vec:
        vec.reset(seed=0)
        step(vec)
        with pytest.raises(WorkerDiedError, match="exit code 7") as caught:
            step(vec)
        assert "SystemExit(7)" in str(caught.value.__cause__)


# ---- what was sent has been stepped ------------------------------------------------------


@pytest.mark.parametrize("backend", [
    {"backend": "serial"}, {"workers": 1}, {"pool": ProcessConfig(1)},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("way", ["some", "all"])
def test_a_reset_drains_alike_in_every_backend(way, backend):
    make = [functools.partial(Ledger, tag=k, horizon=50) for k in range(2)]
    with seer.make_vec(make, probe=False, batch_size=1, **backend) as vec:
        vec.reset(seed=0)
        vec.send(zeros(vec, 2))
        options = some(0, count=2) if way == "some" else None
        observations, _ = vec.reset(options=options)
        assert observations["a"][:, 3].tolist() == [0, 1 if way == "some" else 0]
        assert [len(actions) for actions in vec.get_attr("actions")] == [1, 1]


@pytest.mark.parametrize("backend", [{"backend": "serial"}, {"workers": 1}], ids=str)
def test_an_end_in_a_drained_step_is_known(backend):
    make = [functools.partial(Ledger, tag=k, horizon=1) for k in range(2)]
    options = {"probe": False, "batch_size": 1, "autoreset": "disabled"}
    with seer.make_vec(make, **backend, **options) as vec:
        vec.reset(seed=0)
        vec.send(zeros(vec, 2))
        vec.reset(options=some(0, count=2))
        with pytest.raises(StateError, match="environment 1 has ended"):
            vec.send(zeros(vec, 1), [1])
        vec.reset(options=some(1, count=2))  # nothing has failed
        vec.send(zeros(vec, 1), [1])
        assert vec.recv()[0]["a"][:, 3].tolist() == [1]


# ---- strangers and options in a restart --------------------------------------------------


class Hosting(Ledger):
    """Has a guest that it did not announce, from its first step on; ends its process once."""

    def __init__(self, once, **options):
        super().__init__(horizon=20, **options)
        self.once, self.options_seen = once, []
        self.boxes["guest"], self.choices["guest"] = self.boxes["a"], self.choices["a"]
        self.place["guest"] = 7

    def reset(self, seed=None, options=None):
        self.options_seen.append(options)
        return super().reset(seed, options)

    def step(self, actions):
        if self.tag == 1 and self.t == 2:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
                os._exit(3)
            except FileExistsError:
                pass
        self.born = {"guest": 1}
        result = super().step(actions)
        self.born = {}
        return result


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_guests_are_cut_off_with_the_others(mode, tmp_path):
    make = [functools.partial(Hosting, str(tmp_path / "once"), tag=k) for k in range(2)]
    options = {"layout": "list", "probe": False, "autoreset": mode, **RESTART}
    with seer.make_vec(make, workers=1, **options) as vec:
        vec.reset(seed=0)
        acts = [dict.fromkeys("abc", 0) for _ in range(2)]
        vec.step(acts)
        acts = [{**act, "guest": 0} for act in acts]
        vec.step(acts)
        observations, rewards, terms, truncs, _ = vec.step(acts)
        for env in range(2):
            assert truncs[env] == dict.fromkeys(["a", "b", "c", "guest"], True)
            assert rewards[env]["guest"] == 0.0 and terms[env]["guest"] is False
        if mode == "next_step":
            assert observations[1]["guest"].tolist() == [1, 7, 0, 2]
        else:
            assert vec.final[1]["obs"]["guest"].tolist() == [1, 7, 0, 2]
            assert "guest" not in observations[1]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_episodes_are_counted_on_and_last_options_kept(mode, tmp_path):
    for given, expected in (
        (lambda env, episode: {"episode": episode}, {"episode": 2}), ("last", {"mine": 1}),
    ):  # fmt: skip
        once = str(tmp_path / mode / str(expected))
        os.makedirs(os.path.dirname(once), exist_ok=True)
        make = [functools.partial(Hosting, once, tag=k) for k in range(2)]
        options = {"max_agents": 1, "probe": False, "autoreset": mode, **RESTART}
        with seer.make_vec(make, workers=1, autoreset_options=given, **options) as vec:
            vec.reset(seed=0)
            vec.reset(options={"mine": 1})
            for _ in range(4):
                vec.step(vec.sample_actions())
            assert vec.get_attr("options_seen")[1] == [expected]


# ---- rows that a reset leaves alone ------------------------------------------------------


@pytest.mark.parametrize("backend", [{"backend": "serial"}, {"workers": 2}], ids=str)
def test_what_the_caller_writes_into_results_is_not_shown_again(backend):
    make = [functools.partial(Ledger, tag=k, horizon=50) for k in range(2)]
    options = {"probe": False, "autoreset": "disabled"}
    with seer.make_vec(make, **backend, **options) as vec:
        vec.reset(seed=0)
        observations, *_ = vec.step(zeros(vec, 2))
        observations["a"][:] = 77
        observations, _ = vec.reset(options=some(0, count=2))
        assert observations["a"][1].tolist() == [1, 0, 0, 1]
        observations["a"][:] = 77
        observations, _ = vec.reset(options=some(0, count=2))
        assert observations["a"][1].tolist() == [1, 0, 0, 1]


def test_what_the_caller_writes_into_results_is_not_what_a_restart_shows():
    with vector(2, {"workers": 1}, options=RESTART) as vec:
        vec.reset(seed=10)
        observations, *_ = step(vec)
        observations["a_0"][:] = 77
        kill(vec, 0)
        assert step(vec)[0]["a_0"].tolist() == [[0, 10, 0, 1], [1, 11, 0, 1]]


# ---- Ctrl-C at the worst moment ----------------------------------------------------------


def test_an_order_that_was_interrupted_before_its_bell_is_not_waited_for():
    with vector() as vec:
        vec.reset(seed=0)
        backend = vec._backend
        backend._crew.number += 1
        number = backend._owed = backend._crew.number
        start = time.monotonic()
        vec.reset(seed=1)  # nobody was told
        backend._crew.number += 1
        number = backend._owed = backend._crew.number
        backend._wire.orders[:, 1] = 0
        backend._wire.orders[:, 0] = number
        lib.seer_bell_ring(backend._wire.bells[0], number)
        vec.reset(seed=2)  # one of two was
        assert time.monotonic() - start < 5
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 4


def test_an_order_is_not_missed_when_the_bell_is_rung_again():
    with vector(2, {"workers": 1}) as vec:
        vec.reset(seed=0)
        backend = vec._backend
        stop(vec, 0)
        number = backend._order(backend._next())
        asked = backend._crew.ask(backend._links[0], "call", "called", (), {}, [0])
        os.kill(backend._links[0].child.pid, signal.SIGCONT)
        assert backend._crew.reply(backend._links[0], asked, time.monotonic() + 5) == [0]
        word = backend._wire.base + int(backend._wire.answer_where[1])
        until = time.monotonic() + 5
        while lib.seer_word_get(word) != number and time.monotonic() < until:
            time.sleep(0.001)
        assert lib.seer_word_get(word) == number


@pytest.mark.parametrize("sent", [False, True])
def test_a_message_that_was_interrupted_is_not_waited_for(sent):
    with vector(2, {"workers": 1}) as vec:
        vec.reset(seed=0)
        crew, tell = vec._backend._crew, vec._backend._crew._tell

        def interrupted(*args):
            if sent:
                tell(*args)
            raise KeyboardInterrupt

        crew._tell = interrupted
        with pytest.raises(KeyboardInterrupt):
            vec.call("called")
        crew._tell = tell
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 2
        assert vec.call("called", 3) == (0, 3)
        assert step(vec)[1]["a_0"].tolist() == [2.0] * 2


@pytest.mark.parametrize("where", ["caller", "worker"])
def test_a_close_that_was_interrupted_leaves_nobody(where):
    share = "pool=seer.vector.ProcessConfig(1)" if where == "caller" else "workers=2"
    code, out, errors = run_python(
        f"""
        make = [functools.partial(Troubled, tag=k, on={{"close": "sleep:3"}}) for k in range(2)]
        vec = seer.make_vec(make, probe=False, {share})
        vec.reset(seed=0)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        start = time.perf_counter()
        try:
            vec.close(timeout=5)
        except KeyboardInterrupt:
            print("interrupted")
        vec.close()
        print(below())
        """
    )
    assert code == 0 and out.split("\n")[:2] == ["interrupted", "[]"], (out, errors)


# ---- an answer that was announced and never came -----------------------------------------


class Chatty(Troubled):
    """Its infos don't fit beside the arrays from the second step on."""

    def step(self, actions):
        result = super().step(actions)
        if self.t >= 2 and self.episode == 0 and self.seed < 2**32:
            result[4]["a_0"]["text"] = "x" * 3_000_000  # more than a socket holds
        return result


@pytest.mark.parametrize("way", ["step", "recv"])
@pytest.mark.parametrize("restart", [False, True])
def test_death_between_an_answer_and_what_follows_it(restart, way):
    make = [functools.partial(Chatty, tag=k) for k in range(2)]
    options = RESTART if restart else {}
    with seer.make_vec(make, workers=1, probe=False, **options) as vec:
        vec.reset(seed=10)
        step(vec)
        backend = vec._backend
        if way == "step":
            number = backend._order(backend._next())
            where = [backend._wire.answer_where[1]]
        else:
            vec.send(zeros(vec, 2))
            where = [backend._wire.result_where[0]]
            number = int(backend._wanted_of[0])
        until = time.monotonic() + 5
        while lib.seer_word_get(backend._wire.base + int(where[0])) != number:
            assert time.monotonic() < until
        kill(vec, 0)  # it has announced the rest, and can't get rid of it
        if way == "step":
            backend._order = lambda frame: number
        if not restart:
            with pytest.raises(WorkerDiedError):
                step(vec) if way == "step" else vec.recv()
            return
        observations, rewards, _, truncs, infos = step(vec) if way == "step" else vec.recv()
        assert truncs["a_0"].all() and not rewards["a_0"].any()
        assert infos["worker_restarted"].tolist() == [1, 1]
        assert observations["a_0"].tolist() == [[0, 10, 0, 1], [1, 11, 0, 1]]


# ---- the watchdog ------------------------------------------------------------------------


def test_a_watchdog_that_cannot_be_started_says_why():
    _, out, errors = run_python(
        """
        import resource
        from seer._native import lib
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**20,) * 2)
        hogs = []
        try:
            while True:
                thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
                thread.start()
        except RuntimeError:
            pass
        r, w = os.pipe()
        while not (got := lib.seer_watch(-1, r)): pass
        print(os.strerror(got))
        os._exit(0)
        """
    )
    assert out.strip() in ("Resource temporarily unavailable", "Cannot allocate memory"), errors
