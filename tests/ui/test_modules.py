"""The modules by themselves, in the browser that runs them: no Node is needed to test what needs none to run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.conftest import Open

pytestmark = pytest.mark.ui

_HEAD = """
  const root = document.querySelector('script[type=module]').src.replace('chat/page.js', '');
  const module = (name) => import(root + name);
"""


def run(open_page: Open, body: str, argument: Any = None) -> Any:
    page = open_page("/app/chat").page
    return page.evaluate(f"async (given) => {{ {_HEAD} {body} }}", argument)


def test_a_redraw_gives_what_a_fresh_drawing_gives(open_page: Open) -> None:
    """1,000 steps from one random tree to the next, from a fixed seed."""
    different = run(
        open_page,
        """
        const { h, render } = await module('lib/dom.js');
        let seed = 20260101;
        const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
        const names = ['div', 'p', 'ul', 'span'];
        const tree = (depth) => {
          if (depth === 0 || random(5) === 0) return random(4) === 0 ? null : 'text ' + random(9);
          const props = { class: random(2) ? 'c' + random(3) : null, hidden: random(2) === 1 };
          if (random(3) === 0) props.key = 'k' + random(1000000);
          return h(names[random(4)], props, Array.from({ length: random(5) }, () => tree(depth - 1)));
        };
        const kept = document.createElement('div');
        const different = [];
        for (let step = 0; step < 1000; step += 1) {
          const next = [tree(4), tree(3)];
          const fresh = document.createElement('div');
          render(kept, next);
          render(fresh, next);
          if (!kept.isEqualNode(fresh)) different.push([step, kept.innerHTML, fresh.innerHTML]);
        }
        return different.slice(0, 3);
        """,
    )
    assert different == []


def test_a_redraw_keeps_focus_and_typed_text(open_page: Open) -> None:
    found = run(
        open_page,
        """
        const { h, render } = await module('lib/dom.js');
        const box = document.body.appendChild(document.createElement('div'));
        const rows = (...keys) => keys.map((key) => h('p', { key }, h('input', { id: key })));
        render(box, rows('a', 'b', 'c'));
        const b = document.getElementById('b');
        b.value = 'typed';
        b.focus();
        render(box, rows('c', 'b', 'a'), h('p', null, 'more'));
        render(box, rows('b', 'd'));
        return [document.activeElement === b, b.isConnected, b.value, box.children.length];
        """,
    )
    assert found == [True, True, "typed", 2]


def test_events_are_read_whole_however_they_are_cut(open_page: Open) -> None:
    text = 'data: {"a": "é"}\n\n: comment\n\nevent: x\ndata: 1\ndata: 2\n\ndata: [DONE]\n\n'
    found = run(
        open_page,
        """
        const { blocksOf, dataOf } = await module('lib/sse.js');
        const bytes = new TextEncoder().encode(given);
        const all = [];
        for (let size = 1; size <= bytes.length; size += 1) {
          const body = new ReadableStream({
            start(to) {
              for (let at = 0; at < bytes.length; at += size) to.enqueue(bytes.slice(at, at + size));
              to.close();
            },
          });
          const events = [];
          for await (const block of blocksOf(new Response(body))) events.push(dataOf(block));
          all.push(JSON.stringify(events));
        }
        return [...new Set(all)];
        """,
        text,
    )
    assert found == ['["{\\"a\\": \\"é\\"}","","1\\n2","[DONE]"]']


def test_phases_are_cut_where_events_say_so(open_page: Open) -> None:
    def event(number: int, second: int, state: str, phase: str | None) -> dict[str, Any]:
        return {"id": number, "at": f"2026-01-01T00:00:{second:02}Z", "event": "e", "state": state, "phase": phase}

    events = [
        event(1, 0, "queued", "pending"),
        event(2, 1, "running", "pending"),
        event(3, 1, "running", "pending"),
        event(4, 3, "running", "staging"),
        event(5, 8, "running", "loading"),
    ]
    phases = run(
        open_page,
        """
        const { phasesOf } = await module('job/rules.js');
        const brief = (events) => phasesOf(events, Date.parse('2026-01-01T00:00:20Z')).map(
          (phase) => [phase.name, phase.until - phase.from, phase.live, phase.failed]);
        return given.map(brief);
        """,
        [events, [*events, event(6, 10, "failed", "loading"), event(7, 15, "failed", "loading")], events[:1], []],
    )
    running = [["queued", 1000, False, False], ["pending", 2000, False, False], ["staging", 5000, False, False]]
    assert phases == [
        [*running, ["loading", 12000, True, False]],
        [*running, ["loading", 2000, False, True]],
        [["queued", 20000, True, False]],
        [],
    ]


def test_bytes_are_counted_while_they_move_and_not_while_the_backend_reads_them(open_page: Open) -> None:
    found = run(
        open_page,
        """
        const { bar, figures } = await module('parts/progress.js');
        const load = { model: 'm', progress: 100, bytes_sent: 1024, total_bytes: 1024, eta_seconds: 9, job_id: 'j' };
        return ['staging', 'loading'].map((state) => ({ ...load, state })).map(
          (loading) => [bar(loading).props.value ?? null, figures(loading)]);
        """,
    )
    assert found == [[100, "1 KiB of 1 KiB, 100 %, about 9.0 s left"], [None, "about 9.0 s left"]]


def test_only_a_load_has_phases(open_page: Open) -> None:
    event = {"id": 1, "at": "2026-01-01T00:00:00Z", "event": "taken", "state": "running", "phase": "pending"}
    found = run(
        open_page,
        """
        const { inPhases, phasesOf } = await module('job/rules.js');
        return ['model.load', 'node.drain'].map((kind) => phasesOf(inPhases(kind, [given]), 0)[0].name);
        """,
        event,
    )
    assert found == ["pending", "running"]


def test_figures_are_said_as_people_read_them(open_page: Open) -> None:
    found = run(
        open_page,
        """
        const { bytes, duration, ago } = await module('lib/format.js');
        return [
          [0, 1023, 1024, 98362432, 25276502016, null].map(bytes),
          [0, 15, 999, 4600, 12300, 89000, 300000, 7500000, 200000000].map(duration),
          [['2026-01-01T00:00:00Z', 300], ['2026-01-01T00:00:00Z', 7400], [null, 0]].map(
            ([moment, ms]) => ago(moment, Date.parse('2026-01-01T00:00:00Z') + ms)),
        ];
        """,
    )
    assert found == [
        ["0 B", "1023 B", "1 KiB", "93.8 MiB", "23.5 GiB", "unknown"],
        ["0 ms", "15 ms", "999 ms", "4.6 s", "12 s", "89 s", "5 min", "2 h 5 min", "2 days"],
        ["now", "7 s ago", "never"],
    ]


def test_reads_do_not_overlap_and_back_off_while_they_fail(open_page: Open) -> None:
    found = run(
        open_page,
        """
        const { poll } = await module('lib/poll.js');
        let running = 0, most = 0, reads = 0;
        const times = [];
        await new Promise((resolve) => {
          const reading = poll(
            async () => {
              running += 1;
              most = Math.max(most, running);
              reads += 1;
              times.push(performance.now());
              await new Promise((done) => setTimeout(done, 30));
              running -= 1;
              if (reads > 2) throw new Error('away');
            },
            { every: () => 20, onValue() { reading.now(); }, onError() { if (reads === 6) { reading.stop(); resolve(); } } },
          );
        });
        const gaps = times.slice(1).map((time, at) => time - times[at]);
        return [most, reads, gaps[4] > gaps[3], gaps[3] > gaps[2]];
        """,
    )
    assert found == [1, 6, True, True]
