"""The limits of calls to a model: unset leaves the setting, zero is no limit."""

from __future__ import annotations

from typing import Any

import pytest

from localai.errors import BadInput
from localai.inference.ports import Limits
from localai.models.config import parse_config
from localai.models.timeouts import Timeouts, limits_of
from localai.settings import Settings

pytestmark = pytest.mark.unit

DEFAULTS = Limits(connect_s=5.0, first_byte_s=1800.0, idle_s=900.0)


def timeouts(**values: Any) -> Timeouts:
    return parse_config({"name": "m", "backend": "fault", "timeouts": values}).timeouts


def test_the_settings_are_the_limits_of_a_model_that_names_none() -> None:
    assert limits_of(Settings()) == DEFAULTS == Limits()
    assert parse_config({"name": "m", "backend": "fault"}).timeouts.limits(DEFAULTS) is DEFAULTS


def test_zero_is_no_limit_in_settings_and_configs() -> None:
    settings = Settings.load(
        {"LOCALAI_CONNECT_TIMEOUT": "0", "LOCALAI_FIRST_BYTE_TIMEOUT": "0", "LOCALAI_IDLE_TIMEOUT": "0"}
    )
    assert limits_of(settings) == Limits(connect_s=None, first_byte_s=None, idle_s=None)
    for zero in (0, "0", "0s"):
        assert timeouts(first_byte=zero).limits(DEFAULTS) == Limits(connect_s=5.0, first_byte_s=None, idle_s=900.0)


def test_a_config_changes_the_limits_that_it_names() -> None:
    own = timeouts(connect="500ms", idle="1m30s")
    assert own.limits(DEFAULTS) == Limits(connect_s=0.5, first_byte_s=1800.0, idle_s=90.0)
    assert own.limits(Limits(first_byte_s=None)).first_byte_s is None
    assert timeouts(first_byte=None) == Timeouts()


@pytest.mark.parametrize("value", [5, 1.5, "5", "-1s", "soon", True, False, [], {}, ""])
def test_a_limit_that_is_no_duration_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(BadInput, match=r"timeouts\.first_byte: .* a duration such as 30s, .* or 0 for no limit"):
        timeouts(first_byte=value)


def test_a_section_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(BadInput, match="timeouts"):
        parse_config({"name": "m", "backend": "fault", "timeouts": "5s"})
