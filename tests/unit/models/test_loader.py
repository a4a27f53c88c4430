"""The models folder is read as a whole, and a bad file hides its own models only."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from localai.models.loader import Changes, ModelConfigs

pytestmark = pytest.mark.unit


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def names(configs: ModelConfigs) -> list[str]:
    return [config.name for config in configs.all()]


def test_a_folder_that_does_not_exist_has_no_models(tmp_path: Path) -> None:
    configs = ModelConfigs(tmp_path / "none")
    assert not configs.refresh()
    assert configs.all() == []


def test_yaml_files_are_read_and_hidden_or_other_files_are_not(tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", "name: beta\nbackend: fault\n")
    write(tmp_path, "a.yml", "- {name: alpha, backend: fault}\n- {name: gamma, backend: fault}\n")
    write(tmp_path, "._gallery_x.yaml", "name: hidden\nbackend: fault\n")
    write(tmp_path, "notes.txt", "name: text\nbackend: fault\n")
    configs = ModelConfigs(tmp_path, still_s=0)
    assert configs.refresh() == Changes(added=("alpha", "beta", "gamma"))
    assert names(configs) == ["alpha", "beta", "gamma"]
    assert configs.get("beta") is not None
    assert configs.get("hidden") is None


def test_a_refresh_says_what_was_added_changed_and_removed(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "name: alpha\nbackend: fault\n")
    write(tmp_path, "b.yaml", "name: beta\nbackend: fault\n")
    configs = ModelConfigs(tmp_path, still_s=0)
    configs.refresh()
    write(tmp_path, "a.yaml", "# a comment is no change\nbackend: fault\nname: alpha\n")
    assert not configs.refresh()
    write(tmp_path, "a.yaml", "name: alpha\nbackend: fault\nthreads: 2\n")
    write(tmp_path, "c.yaml", "name: gamma\nbackend: fault\n")
    (tmp_path / "b.yaml").unlink()
    assert configs.refresh() == Changes(added=("gamma",), changed=("alpha",), removed=("beta",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [", "cannot be read"),
        ("just a text", "a mapping"),
        ("- text", "a mapping"),
        ("", "a mapping"),
        ("1: 2", "a mapping"),
        ("name: bad\nbackend: fault\nthreads: many\n", "threads"),
        ("backend: fault\n", "name"),
        ("name: good\nbackend: fault\n", "a name no other config has"),
    ],
)
def test_a_bad_file_is_skipped_and_kept_as_a_problem(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "a.yaml", "name: good\nbackend: fault\n")
    write(tmp_path, "bad.yaml", text)
    configs = ModelConfigs(tmp_path, still_s=0)
    configs.refresh()
    assert names(configs) == ["good"]
    assert list(configs.problems) == ["bad.yaml"]
    assert said in configs.problems["bad.yaml"]


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    configs = ModelConfigs(tmp_path, still_s=0)
    configs.refresh()
    assert "bad.yaml" in configs.problems


def test_what_is_no_file_is_a_problem_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nowhere")
    configs = ModelConfigs(tmp_path, still_s=0)
    # Without a limit of its own a regression would hang here.
    reading = threading.Thread(target=configs.refresh, daemon=True)
    reading.start()
    reading.join(10)
    assert not reading.is_alive()
    target = tmp_path / "nowhere"
    assert configs.problems == {
        "dangling.yaml": f"cannot be read: No such file or directory (it is a link to {target})",
        "folder.yaml": "cannot be read: it is not a file",
        "pipe.yaml": "cannot be read: it is not a file",
    }


def test_a_refused_link_is_a_problem_before_any_load(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "gone.bin").symlink_to(tmp_path / "unplugged")
    (models / "around").symlink_to(tmp_path)
    (tmp_path / "other-disk.bin").write_bytes(b"weights")
    (models / "linked.bin").symlink_to(tmp_path / "other-disk.bin")
    for name, path in (("a", "gone.bin"), ("b", "around/secret"), ("c", "linked.bin"), ("d", "not-fetched-yet.bin")):
        (models / f"{name}.yaml").write_text(f"name: {name}\nbackend: fault\nparameters: {{model: {path}}}\n")
    configs = ModelConfigs(models, still_s=0)
    configs.refresh()
    assert configs.problems == {
        "around/secret": f"model b needs this file, but {models / 'around'} is a link to {tmp_path}, "
        "which contains the models folder",
        "gone.bin": f"model a needs this file, but {models / 'gone.bin'} is a link to {tmp_path / 'unplugged'}, "
        "which cannot be reached",
    }
    (tmp_path / "unplugged").write_bytes(b"weights")
    (models / "around").unlink()
    configs.refresh()
    assert configs.problems == {}


def doubling(form: str, levels: int = 40) -> str:
    """A few hundred bytes in which each value is the one before, several times."""
    lines = ["a0: &a0 {first: a text, of: many}"]
    lines += [f"a{n}: &a{n} " + form.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, levels)]
    return "\n".join([*lines, "name: bomb", "backend: fault", ""])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (doubling("[{}]"), "aliases stand for more than"),
        (doubling("{{<<: [{}]}}"), "aliases stand for more than"),
        ("a: &a " + "x" * 500_000 + "\nb: [" + "*a," * 20 + "]\nname: bomb\nbackend: fault\n", "aliases stand for"),
        ("a: &a [*a]\nname: bomb\nbackend: fault\n", "contains itself"),
        ("name: " + "[" * 5000 + "]" * 5000, "cannot be read"),
        ("name: " + "[" * 900 + "]" * 900, "cannot be read"),
        ("name: bomb\nbackend: fault\n#" + "x" * 1024 * 1024, "larger than"),
    ],
    ids=["sequences", "merges", "texts", "itself", "too deep", "deep", "long"],
)
def test_a_file_that_stands_for_more_than_it_is_blocks_nobody(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "a.yaml", "name: good\nbackend: fault\n")
    write(tmp_path, "bomb.yaml", text)
    configs = ModelConfigs(tmp_path, still_s=0)
    # Without a limit of its own a regression would hang here, or take all memory.
    reading = threading.Thread(target=configs.refresh, daemon=True)
    reading.start()
    reading.join(10)
    assert not reading.is_alive()
    assert names(configs) == ["good"]
    assert said in configs.problems["bomb.yaml"]


def test_aliases_and_merges_of_a_usual_size_are_read(tmp_path: Path) -> None:
    text = "- &base {name: alpha, backend: fault, options: &o [a, b]}\n- {<<: *base, name: beta, stopwords: *o}\n"
    write(tmp_path, "a.yaml", text)
    configs = ModelConfigs(tmp_path, still_s=0)
    configs.refresh()
    found = configs.get("beta")
    assert found is not None
    assert (found.options, found.stopwords) == (("a", "b"), ("a", "b"))


def test_one_bad_model_of_a_list_hides_only_itself(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "- {name: alpha, backend: fault}\n- {name: beta, backend: '!'}\n")
    configs = ModelConfigs(tmp_path, still_s=0)
    configs.refresh()
    assert names(configs) == ["alpha"]
    assert list(configs.problems) == ["a.yaml[1]"]


def test_a_problem_is_logged_once_until_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "bad.yaml", "name: [")
    configs = ModelConfigs(tmp_path, still_s=0)
    with caplog.at_level(logging.WARNING):
        configs.refresh()
        configs.refresh()
    assert len(caplog.records) == 1
    write(tmp_path, "bad.yaml", "text")
    with caplog.at_level(logging.WARNING):
        configs.refresh()
    assert len(caplog.records) == 2
