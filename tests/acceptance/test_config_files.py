"""Config files that change, break or disappear under real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cluster import Cluster, Frontend, wait_for

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def servers(shared_cluster: Cluster) -> Cluster:
    shared_cluster.servers()
    return shared_cluster


class Site:
    """A frontend that can be started again under its address, and its worker."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.frontend = cluster.frontend("f")
        cluster.worker("w", self.frontend)
        self.frontend.wait_for_nodes(1)

    def restart(self, **variables: str) -> None:
        port = int(self.frontend.url.rpartition(":")[2])
        self.frontend = self.cluster.frontend("f", port=port, **variables)

    def serve(self, name: str, **keys: Any) -> str:
        """A loaded model; its revision."""
        self.cluster.model(name, **keys)
        wait_for(f"every web process knows {name}", lambda: self._known_everywhere(name))
        assert self.frontend.chat_until_answered(name).status_code == 200
        return self.revision(name) or ""

    def _known_everywhere(self, name: str) -> bool:
        """Each answer may come from another process of the frontend."""
        return all(self.frontend.get(f"/v1/models/{name}").status_code == 200 for _ in range(10))

    def model(self, name: str) -> dict[str, Any]:
        found = self.frontend.get("/api/models").json()["models"]
        return next((one for one in found if one["name"] == name), {"replicas": []})

    def revision(self, name: str) -> str | None:
        """The revision of the one replica that serves."""
        replicas = self.model(name)["replicas"]
        return replicas[0]["config_revision"] if len(replicas) == 1 else None

    def problems(self) -> dict[str, str]:
        return {one["file"]: one["error"] for one in self.frontend.get("/api/models").json()["problems"]}

    def file(self, name: str) -> Path:
        return self.cluster.models / f"{name}.yaml"


@pytest.fixture(scope="module")
def site(servers: Cluster) -> Iterator[Site]:
    site = Site(servers)
    # No rename of the folder is left to the next test.
    folder = servers.models
    yield site
    assert folder.is_dir()


def test_an_edit_made_while_no_frontend_ran_is_in_force_at_the_next_start(site: Site) -> None:
    before = site.serve("edited")
    wait_for("the frontend remembers the config", lambda: before in _remembered(site, "edited"))
    site.frontend.process.stop()
    site.cluster.model("edited", threads=2)
    site.restart()
    site.frontend.wait_for_nodes(1)
    wait_for("the old replica is drained", lambda: site.revision("edited") != before)
    assert site.frontend.chat_until_answered("edited").status_code == 200
    after = site.revision("edited")
    assert after not in (None, before)
    assert after == site.model("edited")["config_revision"]


def _remembered(site: Site, name: str) -> str:
    """The revision that the state folder keeps of a model's file."""
    from localai.models.memory import ConfigMemory

    kept = ConfigMemory(site.cluster.folder / "f" / "model-configs.json", site.cluster.models).read()
    return " ".join(config.revision for configs in kept.files.values() for config in configs if config.name == name)


@pytest.mark.long
def test_a_frontend_with_an_older_file_changes_nothing_however_often_it_starts(site: Site) -> None:
    newer = site.serve("shared", threads=2)
    folder = site.cluster.folder / "older-models"
    folder.mkdir()
    older = folder / "shared.yaml"
    older.write_text("name: shared\nbackend: fault\nthreads: 1\n")
    hour_ago = older.stat().st_mtime - 3600
    os.utime(older, (hour_ago, hour_ago))
    for start in ("first", "next"):
        second = site.cluster.frontend("second", LOCALAI_MODELS_PATH=str(folder))
        wait_for("the older file is named", lambda at=second: "another revision" in _problem(at, "shared"))
        assert second.chat("shared").status_code == 200
        assert site.revision("shared") == newer
        if start == "first":
            second.process.stop()
    os.utime(older)
    wait_for("the file that was written last is in force", lambda: site.revision("shared") != newer)
    second.process.stop()


def _problem(frontend: Frontend, file: str) -> str:
    problems = frontend.get("/api/models").json()["problems"]
    return " ".join(str(one["error"]) for one in problems if one["file"] == file)


def test_a_file_that_is_cut_short_takes_its_serving_model_away_at_no_time(site: Site) -> None:
    before = site.serve("cut", description="a model whose file is written slowly")
    text = site.file("cut").read_text()
    for content in ("", text[: len(text) // 2], "name: ["):
        site.file("cut").write_text(content)
        for _ in range(5):
            assert site.frontend.chat("cut").status_code == 200
    wait_for("the problem is shown", lambda: "stays in force" in site.problems().get("cut.yaml", ""))
    assert site.revision("cut") == before
    site.file("cut").write_text(text)
    wait_for("the problem is over", lambda: "cut.yaml" not in site.problems())
    assert site.frontend.chat("cut").status_code == 200
    assert site.revision("cut") == before, "a revision that nobody wrote was loaded"
    assert [job["state"] for job in site.frontend.jobs(kind="model.load", subject="cut")] == ["succeeded"]


@pytest.mark.long
def test_a_deleted_config_unloads_its_model(site: Site) -> None:
    site.serve("deleted")
    site.serve("beside")
    site.file("deleted").unlink()
    wait_for("the model is unloaded", lambda: _unloaded(site, "deleted"))
    assert site.frontend.chat("deleted").status_code == 404
    assert site.frontend.chat("beside").status_code == 200
    assert site.frontend.jobs(kind="model.unload", subject="beside") == []


def _unloaded(site: Site, model: str) -> bool:
    (node,) = site.frontend.nodes()
    held = site.frontend.get(f"/api/nodes/{node['id']}/models").json()
    return all(replica["model_name"] != model for replica in held)


def test_a_models_folder_that_is_away_stops_no_warm_model(site: Site) -> None:
    site.serve("warm")
    site.cluster.model("cold", parameters={"model": "weights.bin"})
    (site.cluster.models / "weights.bin").write_bytes(b"weights")
    wait_for("the frontend remembers the config", lambda: _remembered(site, "cold"))
    listed = site.frontend.get("/v1/models").json()
    folder = str(site.cluster.models)
    away = site.cluster.models.rename(site.cluster.models.with_name("away"))
    try:
        wait_for("the problem is shown", lambda: "cannot be listed" in site.problems().get(folder, ""))
        assert site.frontend.chat("warm").status_code == 200
        assert site.frontend.get("/v1/models").json() == listed
        for model, code in (("cold", "model_load_failed"), ("unknown", "models_folder_unavailable")):
            refused = site.frontend.chat(model)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, code), refused.text
            assert "the models folder" in refused.json()["error"]["message"]
        assert not site.cluster.models.exists(), "the server made an empty folder in its place"
        # A frontend that starts now knows the models from its state folder.
        site.frontend.process.stop()
        site.restart()
        assert site.frontend.chat("warm").status_code == 200
        assert site.frontend.get("/v1/models").json() == listed
    finally:
        away.rename(site.cluster.models)
    wait_for("the problem is over", lambda: folder not in site.problems())
    assert site.frontend.chat("unknown").status_code == 404
    assert site.frontend.chat_until_answered("cold").status_code == 200
    assert site.frontend.jobs(kind="model.unload", subject="warm") == []


def test_a_link_to_another_disk_is_staged_as_the_file_it_leads_to(site: Site) -> None:
    disk = site.cluster.folder / "disk"
    disk.mkdir()
    (disk / "big.bin").write_bytes(b"weights" * 1000)
    (site.cluster.models / "linked.bin").symlink_to(disk / "big.bin")
    site.serve("linked", parameters={"model": "linked.bin"})
    staged = site.cluster.folder / "w-data" / "models" / "linked" / "linked.bin"
    assert staged.read_bytes() == (disk / "big.bin").read_bytes()
    assert not staged.is_symlink()


@pytest.mark.long
def test_a_link_that_leads_nowhere_is_named_before_anything_is_placed(site: Site) -> None:
    link = site.cluster.models / "dangling.bin"
    link.symlink_to("nowhere.bin")
    site.cluster.model("dangling", parameters={"model": "dangling.bin"})
    site.frontend.wait_for_model("dangling")
    refused = site.frontend.chat("dangling")
    assert refused.status_code == 503
    assert f"{link} is a link to nowhere.bin, which cannot be reached" in refused.json()["error"]["message"]
    (job,) = site.frontend.jobs(kind="model.load", subject="dangling")
    assert (job["error_cause"], job["node_id"]) == ("file_missing", None)


def test_a_hub_id_goes_to_the_backend_as_it_is_and_stages_nothing(site: Site) -> None:
    site.serve("hub", parameters={"model": "organisation/model-1.5b"})
    assert site.frontend.jobs(kind="model.install", subject="hub") == []
    assert not any((site.cluster.folder / "w-data" / "models" / "hub").rglob("*"))
    site.cluster.model("file", parameters={"model": "organisation/model.gguf"})
    site.frontend.wait_for_model("file")
    assert "organisation/model.gguf, which is not in" in site.frontend.chat("file").json()["error"]["message"]


def test_a_backend_that_only_the_worker_has_is_used(site: Site) -> None:
    own = site.cluster.folder / "w-data" / "backends" / "of-my-own"
    site.serve("first-install")  # installs the fault backend, whose folder is copied
    shutil.copytree(own.with_name("fault"), own)
    (own / "metadata.json").unlink()
    site.serve("mine", backend="of-my-own")
    site.cluster.model("nobodys", backend="of-nobody")
    site.frontend.wait_for_model("nobodys")
    refused = site.frontend.chat("nobodys")
    assert refused.status_code == 503
    assert "no backend is named 'of-nobody'" in refused.json()["error"]["message"]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder on a read-only mount; for an account that may not mount, a folder without the right to write."""
    mounted = os.geteuid() == 0
    if mounted:
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    else:
        folder.chmod(0o555)
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
        else:
            folder.chmod(0o755)


@pytest.mark.long
def test_a_read_only_models_folder_and_a_fresh_state_folder_serve(cluster: Cluster, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "weights.bin").write_bytes(b"weights")
    (models / "m.yaml").write_text("name: m\nbackend: fault\nparameters: {model: weights.bin}\n")
    with read_only(models):
        up = cluster.up(LOCALAI_MODELS_PATH=str(models))
        up.wait_for_nodes(1)
        response = up.chat("m")
        assert response.status_code == 200, response.text
        jobs = [job for kind in ("model.load", "model.install") for job in up.jobs(kind=kind)]
        assert {job["state"] for job in jobs} == {"succeeded"}
        assert up.process.text().count("the sample configs are not written") == 1
        assert "weights.bin" in (cluster.state_dir / "digests.json").read_text()
        assert up.logs.joinpath("control.log").read_text().count("digests of model files are not kept in") == 1
        assert sorted(path.name for path in models.iterdir()) == ["m.yaml", "weights.bin"]
        up.process.stop()
