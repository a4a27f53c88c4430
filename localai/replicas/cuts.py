"""How long requests in flight may keep an unloading replica from its stop."""

from __future__ import annotations

from dataclasses import dataclass

from localai.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CutWindows:
    """Windows, in seconds. The database clock judges them."""

    #: From the mark of a replica until its requests are cut; None never cuts. A forced stop does not wait for it.
    after_s: float | None = 300.0
    #: From the cut until the process is stopped although a frontend has not acknowledged the end of its requests.
    grace_s: float = 5.0
    #: Frontends judge the first window only if a sweep noted the time within this one. After a longer gap the next
    #: sweep first adds the gap to the time of the mark. None: they always judge.
    gap_s: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> CutWindows:
        return cls(
            after_s=settings.unload_timeout_s or None,
            grace_s=settings.cut_grace_s,
            gap_s=settings.observation_gap_s,
        )

    def named(self) -> dict[str, float | None]:
        """The parameters of the statements that judge the windows."""
        return {"cut_after": self.after_s, "cut_grace": self.grace_s}
