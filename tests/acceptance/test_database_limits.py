"""A role with short timeouts sees nothing of a long load (LJ-01); rows that others hold cost time, and no request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy

from tests.acceptance.cluster import Cluster, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


def test_lj_01_a_load_of_twenty_seconds_under_a_statement_timeout_of_two(cluster: Cluster) -> None:
    cluster.servers()
    url = cluster.variables["LOCALAI_AUTH_DATABASE_URL"]
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg2://"))
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER ROLE CURRENT_USER SET statement_timeout = '2s'")
        connection.exec_driver_sql("ALTER ROLE CURRENT_USER SET lock_timeout = '1s'")
    frontends = [cluster.frontend("one"), cluster.frontend("two")]
    worker = cluster.worker("worker", *frontends)
    frontends[0].wait_for_nodes(1)
    cluster.model("long", "fault", "load_delay:20s")
    for frontend in frontends:
        frontend.wait_for_model("long")
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda number: frontends[number % 2].chat("long"), range(6)))
    assert {response.status_code for response in responses} <= {200, 503}
    for response in responses:
        assert "SQL" not in response.text and "timeout" not in response.text
    assert len(frontends[0].jobs(kind="model.load", subject="long")) == 1
    with engine.connect() as connection:
        idle = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%' "
            "AND clock_timestamp() - state_change > interval '1 second'"
        ).scalar_one()
        locks = connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").scalar_one()
    engine.dispose()
    assert (idle, locks) == (0, 0)
    for log in [worker.log, *(log for frontend in frontends for log in frontend.logs.glob("*.log"))]:
        text = log.read_text(errors="replace")
        for word in ("QueryCanceled", "LockNotAvailable", "statement timeout", "psycopg2.errors"):
            assert word not in text, (log, word)


@pytest.mark.long
def test_first_requests_outlive_somebody_who_holds_the_rows_for_longer_than_a_lock_is_waited_for(
    cluster: Cluster,
) -> None:
    cluster.servers()
    frontends = [cluster.frontend("one"), cluster.frontend("hasty", LOCALAI_MODEL_LOAD_WAIT="1s")]
    cluster.worker("worker", *frontends)
    frontends[0].wait_for_nodes(1)
    cluster.model("held", "fault", "load_delay:4s")
    for frontend in frontends:
        frontend.wait_for_model("held")
    url = cluster.variables["LOCALAI_AUTH_DATABASE_URL"]
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg2://"))
    with ThreadPoolExecutor(20) as pool:
        with engine.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE subjects IN EXCLUSIVE MODE")
            asked = [pool.submit(frontends[number % 2].chat, "held") for number in range(20)]
            for frontend in frontends:
                wait_for("a second try", lambda logs=frontend.logs: _says(logs, "rows are held by others"))  # type: ignore[misc]
        responses = [answer.result() for answer in asked]
    engine.dispose()
    assert {response.status_code for response in responses[::2]} == {200}, [answer.text for answer in responses]
    codes = {response.json()["error"]["code"] for response in responses[1::2] if response.status_code != 200}
    assert codes == {"model_loading"}, "its second was over before there was a row; it waited for one"
    assert len(frontends[0].jobs(kind="model.load", subject="held")) == 1


def _says(logs: Path, text: str) -> bool:
    return any(text in log.read_text(errors="replace") for log in logs.glob("web*.log"))
