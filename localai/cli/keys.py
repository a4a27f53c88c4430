"""Admin keys with which a server does not start, and variables that look like them and are not used."""

from __future__ import annotations

from localai.cli.say import say
from localai.settings import Settings, check_key_lengths


def check(settings: Settings) -> None:
    """Refuse given keys that are too short; report a like-named variable that is not used. Raises BadSetting."""
    check_key_lengths(settings.api_key, "LOCALAI_API_KEY")
    if not settings.api_key:
        for name in Settings.unused():
            say(f"WARNING: {name} is set and is not used, because other programs use that name; set LOCALAI_API_KEY")
