import pytest

import seer
from seer import registry
from seer.errors import ConfigError, UnknownIdError
from seer.registry import Entry


@pytest.fixture
def table(monkeypatch):
    """The real table, restored afterwards."""
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))
    return registry


def made(**kwargs):
    return ("made", kwargs)


def test_list_has_every_id_in_order(table):
    table.register(Entry("zz_v10", "a:b"))
    table.register(Entry("zz_v9", "a:b"))
    assert seer.list()[-2:] == ["zz_v9", "zz_v10"]
    assert "uav_swarm_v0" in seer.list()


def test_find_name_without_version_is_the_newest(table):
    for version in (2, 10, 9):
        table.register(Entry(f"zz_v{version}", f"m:v{version}"))
    assert table.find("zz").id == "zz_v10"
    assert table.find("zz_v9").env == "m:v9"
    assert (table.find("zz").name, table.find("zz").version) == ("zz", 10)


def test_make_calls_the_factory_with_the_keywords(table):
    table.register(Entry("zz_v0", f"{__name__}:made"))
    assert seer.make("zz", drones=3) == ("made", {"drones": 3})
    assert seer.make(f"{__name__}:made", a=1) == ("made", {"a": 1})


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [("uav_swrm", "uav_swarm"), ("uav-swarm", "uav_swarm"), ("UAV_swarm", "uav_swarm")],
)
def test_make_unknown_id_names_the_nearest(asked, nearest):
    with pytest.raises(UnknownIdError, match=f"did you mean '{nearest}'") as caught:
        seer.make(asked)
    assert isinstance(caught.value, KeyError)
    assert (caught.value.name, caught.value.nearest) == (asked, nearest)


def test_make_unknown_version_names_the_versions():
    with pytest.raises(UnknownIdError, match="its versions are uav_swarm_v0"):
        seer.make("uav_swarm_v7")


def test_make_id_that_is_like_nothing_lists_what_there_is():
    with pytest.raises(UnknownIdError, match=r"no environment 'chess' \(known: .*uav_swarm_v0"):
        seer.make("chess")


def test_make_id_of_wrong_type():
    with pytest.raises(ConfigError, match=r"'uav_swarm_v0' or a .*, got int"):
        seer.make(3)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("no_such_module:thing", "there is no module 'no_such_module'"),
        ("seer.no_such_part:thing", r"there is no module 'seer\.no_such_part'"),
        ("seer.types:PoolConfg", "did you mean 'PoolConfig'"),
        ("seer.types:", "expected 'module:attribute'"),
        (":thing", "expected 'module:attribute'"),
    ],
)
def test_load_what_is_not_there(target, text):
    with pytest.raises(ConfigError, match=text):
        registry.load(target)


def test_load_finds_a_module_of_a_package_that_nobody_had_imported(tmp_path, monkeypatch):
    package = tmp_path / "a_package_of_games"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "chess.py").write_text("def make():\n    return 64\n")
    (package / "broken.py").write_text("import no_such_module_at_all\n")
    (package / "wrong.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.load("a_package_of_games:chess.make")() == 64
    with pytest.raises(ConfigError, match="has no attribute 'draughts'"):
        registry.load("a_package_of_games:draughts")
    with pytest.raises(ConfigError, match=r"can't be imported: ModuleNotFoundError: .*at_all"):
        registry.load("a_package_of_games:broken")
    with pytest.raises(ConfigError, match="can't be imported: ZeroDivisionError"):
        registry.load("a_package_of_games:wrong")


def test_load_module_that_lacks_an_import_of_its_own_says_which(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import something_else_entirely\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"ModuleNotFoundError.*something_else_entirely"):
        registry.load("needs_more:thing")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (Entry("noversion", "a:b"), "an id is a name and a version"),
        (Entry("Upper_v0", "a:b"), "an id is a name and a version"),
        (Entry("zz_v0", "a.b"), "expected 'module:attribute', got 'a.b'"),
        (Entry("zz_v0", "a:b", policies=(("p", "q"),)), "expected 'module:attribute', got 'q'"),
        (Entry("uav_swarm_v0", "a:b"), "the id 'uav_swarm_v0' is taken"),
    ],
)
def test_register_refuses(table, entry, text):
    with pytest.raises(ConfigError, match=text):
        table.register(entry)


def test_register_the_same_twice_is_harmless(table):
    table.register(table.find("uav_swarm"))


@pytest.mark.parametrize("name", registry.list())
def test_registered_targets_exist(name):
    entry = registry.find(name)
    targets = [entry.env, *filter(None, [entry.model]), *(t for _, t in entry.policies)]
    assert all(callable(registry.load(target)) for target in targets)
    assert entry.summary


def test_registered_ids_equal_the_modules_in_the_folder():
    from pathlib import Path

    import seer.envs

    folder = Path(seer.envs.__file__).parent
    modules = {path.stem for path in folder.glob("*_v[0-9]*.py")}
    assert modules == set(seer.list())


def test_make_model_class_splits_parameters_from_options(tmp_path, monkeypatch, beacon):
    env = seer.make(f"{beacon}:Beacon", drones=5, horizon=7, compiled=False)
    assert (len(env.possible_agents), env.horizon) == (5, 7)
    env.close()
    with pytest.raises(ConfigError, match="no parameter 'dones'; did you mean 'drones'"):
        seer.make(f"{beacon}:Beacon", dones=5)


def test_make_takes_a_model_or_its_class(beacon):
    model = registry.load(f"{beacon}:Beacon")
    env = seer.make(model, drones=4, horizon=5, compiled=False)
    assert len(env.possible_agents) == 4 and env.horizon == 5
    assert len(seer.make(model(drones=3), compiled=False).possible_agents) == 3
    with pytest.raises(ConfigError, match="drones can't be chosen"):
        seer.make(model(drones=3), drones=4)


@pytest.mark.parametrize(
    ("name", "text"),
    [("os:getcwd", "no seer.EventModel"), ("os:path", "no seer.EventModel"),
     ("../m:X", "expected 'module:attribute'"), ("m:X.", "expected 'module:attribute'"),
     ("m..n:X", "expected 'module:attribute'"), ("raises_on_import:X", "ValueError: boom")],
)  # fmt: skip
def test_make_of_what_is_no_environment(name, text, tmp_path, monkeypatch):
    (tmp_path / "raises_on_import.py").write_text("raise ValueError('boom')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=text):
        seer.make(name, drones=3)
