"""The rights of a process that the agent starts, as the launcher takes them."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Folders and files of a system that programs read. No state of services, no mounted secrets, no homes.
SYSTEM = (
    *(
        f"/{name}"
        for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix/store", "gnu/store")
    ),
    *("/proc", "/sys", "/run/opengl-driver", "/run/systemd/resolve", "/run/nvidia-persistenced"),
    *("/System", "/Library"),
)
#: Devices that engines open, as patterns: no disk and no terminal is among them.
DEVICES = (
    *("null", "zero", "full", "random", "urandom", "shm", "nvidia*", "nvidia-caps", "nvhost*", "nvmap", "dri", "kfd"),
    *("accel*", "dxg", "davinci*", "devmm_svm", "hisi_hdc", "infiniband", "apex_*", "mali*"),
)
#: What an install reads beside: settings, credentials and certificates of pip.
PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip", "~/.config/pip", "~/.pip", "~/.netrc")
#: Variables that name a path which a process writes to; a cache that the environment names is one.
WRITTEN = (
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME", "TORCH_HOME"),
    *("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "PIP_CACHE_DIR", "PIP_LOG"),
    "CUDA_MPS_PIPE_DIRECTORY",
)
#: Variables that name a path which a process reads.
READ = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "PIP_CLIENT_CERT"),
    *("NETRC", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "ROCM_HOME", "HIP_PATH", "ONEAPI_ROOT", "LOCALAI_PYTHON"),
)


#: Variables that name indexes of packages, which may be folders of this machine.
INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a process keeps. The default leaves it its account and its files, and takes what only root has."""

    #: uid, gid and further groups; -1 keeps those of the agent.
    account: tuple[int, ...] = (-1, -1)
    #: Version of Landlock; 0 leaves files to the account.
    landlock: int = 0
    umask: int = 0o077
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    #: Added to the environment of the process.
    environ: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """The arguments of the launcher, between the gate and the command."""
        lists = [text for paths in (self.reads, self.writes) for text in (str(len(paths)), *paths)]
        return [str(self.landlock), f"{self.umask:o}", ",".join(map(str, self.account)), *lists]


def readable_to_all(folder: Path) -> list[Path]:
    """As few paths as hold what every account may read below a folder: to root, modes close nothing."""
    try:
        children = [(child, child.stat().st_mode) for child in sorted(folder.iterdir()) if child.exists()]
    except OSError:
        return []
    parts: list[Path] = []
    for child, mode in children:
        if stat.S_ISDIR(mode) and not child.is_symlink():
            parts += readable_to_all(child) if mode & 0o005 == 0o005 else []
        elif mode & 0o004:
            parts.append(child)
    return [folder] if parts == [child for child, _ in children] else parts


def named_by(environ: Mapping[str, str], variables: Iterable[str]) -> list[Path]:
    """The absolute paths that variables of an environment name, each of them a list as that of a search path."""
    texts = (text for variable in variables for text in environ.get(variable, "").split(":"))
    return [Path(text) for text in texts if text.startswith("/")]


def local_indexes(environ: Mapping[str, str]) -> list[Path]:
    """The folders of this machine that packages come from."""
    texts = " ".join(environ.get(variable, "") for variable in INDEXES).split()
    return [Path(text.removeprefix("file://")) for text in texts if text.startswith(("/", "file:///"))]


def without(folder: Path, kept_out: Iterable[Path]) -> list[Path]:
    """A folder, or as much of what it has now as does not lead to a path that is kept out.

    Landlock knows no exception below a folder that is allowed.
    """
    inside = [path for path in kept_out if path.is_relative_to(folder)]
    if not inside:
        return [folder]
    if folder in inside:
        return []
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return []
    return [part for child in children if not child.is_symlink() for part in without(child, inside)]
