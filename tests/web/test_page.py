"""The page in a real browser: what it shows, that it stays live, and that everybody can use it."""

import random
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, expect

from coordinator_server.cli.rebalance_folding import fold
from coordinator_server.group.rebalance_events import (
    NOBODY,
    Culprit,
    MemberRemoved,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    Refused,
    RemovalReason,
    Round,
)
from coordinator_server.observe.counters import ClientMemory
from coordinator_server.observe.forms import rebalance_form
from coordinator_server.observe.status import GroupSummary
from tests.support.fake_http_server import (
    ALICE,
    BOB,
    CAROL,
    NOW,
    REFUSED,
    FakeHttpServer,
    rebalance,
)

EVIL = '<img src=x onerror="alert(1)">'
pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "/#/groups/orders"


async def show(page: Page, side: FakeHttpServer, path: str = "/") -> None:
    await page.goto(side.url + path)
    await page.wait_for_selector("main table")


async def rows(page: Page, table: str) -> list[list[str]]:
    """The cells of a table, by its caption."""
    found: list[list[str]] = await page.evaluate(
        """caption => {
            const table = [...document.querySelectorAll('table')].find(
                (each) => each.caption.textContent.startsWith(caption));
            return [...table.tBodies[0].rows].map((row) => [...row.cells].map((c) => c.innerText));
        }""",
        table,
    )
    return found


async def test_groups_are_listed_with_state_and_last_reason(
    page: Page, side: FakeHttpServer
) -> None:
    await show(page, side)
    (row,) = await rows(page, "Groups")
    assert row[0] == "orders"
    assert "Preparing Rebalance" in row[1]
    assert "admin rebalance" in row[3]
    await expect(page.locator("#findings li").first).to_contain_text("made group 'orders'")


async def test_the_memory_for_client_data_is_told(page: Page, side: FakeHttpServer) -> None:
    await show(page, side)
    memory = page.locator("#memory")
    await expect(memory).to_have_text("Client data: 3.0 of 96 MiB")
    side.memory = ClientMemory(96 << 20, 96 << 20, 2)
    await page.reload()
    await expect(memory).to_have_text("Client data: 96 of 96 MiB; 2 connections wait for memory")


async def test_a_time_beyond_the_calendar_is_shown_as_the_nearest(
    page: Page, side: FakeHttpServer
) -> None:
    await show(page, side)
    years = await page.evaluate(
        """async () => {
            const { clock } = await import('/web/dom.js');
            const { day } = await import('/web/formatting.js');
            const times = [9e18, -9e18, undefined, 1_700_000_000_000];
            return times.map((ms) => [clock(ms, 'ago').dateTime.slice(0, 4), day(ms).slice(0, 4)]);
        }"""
    )
    assert years == [["9999", "9999"], ["0001", "0001"], ["1970", "1970"], ["2023", "2023"]]


async def test_the_list_is_searched_and_filtered_by_state(page: Page, side: FakeHttpServer) -> None:
    for name, state in (("billing", "Stable"), ("audit", "Empty")):
        side.status.summaries[name] = GroupSummary(name, state, "consumer", "range", 1, 1)
    await show(page, side)
    await page.fill("#filter", "BILL")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.fill("#filter", "")
    await page.select_option("#states", "Empty")
    assert [row[0] for row in await rows(page, "Groups")] == ["audit"]


async def test_a_long_list_is_shown_in_parts(page: Page, side: FakeHttpServer) -> None:
    for number in range(250):
        name = f"g{number:03}"
        side.status.summaries[name] = GroupSummary(name, "Stable", "consumer", "range", 1, 1)
    await show(page, side)
    await expect(page.locator("tbody tr")).to_have_count(200)
    await page.get_by_role("button", name="Show more groups").click()
    await expect(page.locator("tbody tr")).to_have_count(251)


async def test_the_timeline_draws_every_generation_and_every_member(
    page: Page, side: FakeHttpServer
) -> None:
    await show(page, side, GROUP)
    columns = page.locator("svg.timeline .column")
    await expect(columns).to_have_count(7)
    labels = await page.locator("svg.timeline .reason-label").all_text_contents()
    assert labels == [
        "+ member joined",
        "+ member joined",
        "× session expired",  # noqa: RUF001 - the sign of its family
        "~ metadata changed",
        "− member left",  # noqa: RUF001 - the sign of its family
        "! admin rebalance",
        "+ member joined",
    ]
    assert await page.locator(".lane-names div").all_text_contents() == ["bob", "alice", "carol"]
    assert await page.locator("svg.timeline .mark.evicted").count() == 1
    assert await page.locator("svg.timeline .mark.left").count() == 1
    assert await page.locator("svg.timeline .column.running").count() == 1


async def test_the_table_under_the_picture_has_all_of_it(page: Page, side: FakeHttpServer) -> None:
    await show(page, side, GROUP)
    table = await rows(page, "Rebalances")
    changes = [row[1] for row in table]
    assert changes == ["5 → 6", "4 → 5", "3 → 4", "2 → 3", "1 → 2", "0 → 1"]
    newest, oldest = table[0], table[-1]
    assert "a deploy" in newest[2]
    assert newest[3] == "an operator"
    assert [oldest[4], oldest[5], oldest[6]] == ["40 ms", "20 ms", "0 → 1"]
    second = table[-2]
    assert "rolling upgrade" in second[2]
    assert "alice 35 ms" in second[8]


def flapping() -> list[RebalanceEvent]:
    """Two clients that come and go, the oldest first, and one rebalance of another reason."""
    reasons = (RebalanceReason.MEMBER_LEFT, RebalanceReason.SESSION_EXPIRED)
    story = []
    for number in range(9):
        who, other = (CAROL, BOB)[:: 1 - 2 * (number % 2)]
        who = who._replace(member_id=f"{who.member_id}-{number}")
        reason = RebalanceReason.METADATA_CHANGED if number == 4 else reasons[number % 2]
        rounds = (Round(reason, who, None), Round(RebalanceReason.MEMBER_JOINED, other, None))
        event = rebalance(
            reason, who, NOW - (9 - number) * 20_000, sequence=number, generation_before=number,
            generation_after=number + 1, rounds=rounds,
            client_reason="poll" if number in {0, 1, 2} else None,
        )  # fmt: skip
        story.append(event)
    return story


async def test_rebalances_that_are_alike_are_one_row_until_each_is_asked_for(
    page: Page, side: FakeHttpServer
) -> None:
    side.status.events = flapping()
    await show(page, side, GROUP)
    left, expired, changed = await rows(page, "Rebalances")
    assert left[1:4] == ["0 → 9", left[2], "carol 10.0.0.3"]
    assert left[2].split("\n")[0].startswith("4 × ")  # noqa: RUF001 - times
    assert "poll\nreason given 2 ×\n" in left[2]  # noqa: RUF001 - times
    assert "restarted 4 × by " in left[2]  # noqa: RUF001 - times
    assert left[4] == "160 ms\nin all"
    assert expired[2].startswith("4 × ")  # noqa: RUF001 - times
    assert "metadata changed" in changed[2]
    fold = page.locator("#fold")
    await fold.click()
    await expect(page.locator("#timeline tbody tr")).to_have_count(9)
    assert await page.evaluate("document.activeElement.id") == "fold"
    event = rebalance(RebalanceReason.SYNC_TIMEOUT, ALICE, NOW, sequence=9)
    side.status.events.append(event)
    side.events.observe(event)
    await expect(page.locator("#timeline tbody tr")).to_have_count(10)
    await fold.click()
    await expect(page.locator("#timeline tbody tr")).to_have_count(4)
    await page.locator("#timeline tbody tr").nth(1).hover()
    await expect(page.locator("svg.timeline .column.lit")).to_have_count(4)


async def test_the_page_folds_as_the_command_line_does(page: Page, side: FakeHttpServer) -> None:
    chance = random.Random(7)
    await show(page, side)
    for _ in range(30):
        at, events = NOW, []
        for _ in range(chance.randrange(40)):
            at -= chance.choice([1_000, 1_000, 200_000, 700_000])
            who = [chance.choice([ALICE, BOB, CAROL, NOBODY]) for _ in range(3)]
            reasons = [chance.choice(list(RebalanceReason)[:2]) for _ in who]
            rounds = tuple(map(Round, reasons, who, (None, None, None)))
            outcome = chance.choice([Outcome.COMPLETED, Outcome.EMPTIED])
            words = chance.choice([None, "", "one", "two"])
            events.append(
                rebalance_form(
                    rebalance(
                        reasons[0], who[0], at, rounds=rounds, outcome=outcome, client_reason=words
                    )
                )
            )
        found = await page.evaluate(
            """async events => {
                const { clientReason, fold, restarts } = await import('/web/rebalance_folding.js');
                return fold(events).map((entry) => [entry,
                    restarts(entry).map(({ count, reason, culprit }) => [count, reason, culprit]),
                    clientReason(entry)]);
            }""",
            events,
        )
        assert found == [
            [
                entry.events,
                [list(each) for each in entry.restarts()],
                (reason := entry.client_reason()) and list(reason),
            ]
            for entry in fold(events)
        ]


async def test_refusals_waiting_and_offsets_are_said(page: Page, side: FakeHttpServer) -> None:
    await show(page, side, GROUP)
    (refusal,) = await rows(page, "Refused")
    assert "ILLEGAL_GENERATION" in refusal[2]
    assert refusal[3] == "it sent generation 4, the group is at 5"
    awaited = await rows(page, "Waiting for 2 members")
    assert [row[1] for row in awaited] == ["dynamic", "pending"]
    offsets = await rows(page, "Committed")
    assert offsets[0][2].replace("\u202f", "") == "1234567"
    assert offsets[0][4] == "in use"


async def test_what_all_were_told_and_what_became_of_an_unknown_member_are_said(
    page: Page, side: FakeHttpServer
) -> None:
    side.refusals.observe(replace(REFUSED, of_all=True, rule="rebalance_under_way"))
    side.refusals.observe(MemberRemoved("orders", RemovalReason.SESSION_EXPIRED, CAROL))
    stranger = CAROL._replace(client_id="", client_host="")
    side.refusals.observe(replace(REFUSED, rule="member_unknown", member=stranger))
    await show(page, side, GROUP)
    unknown, told_to_all, _ = await rows(page, "Refused")
    assert told_to_all[1].startswith("several members, first bob")
    assert unknown[1] == "carol 10.0.0.3"
    assert unknown[3].startswith("its session had expired at ")


async def test_what_was_found_is_shown_with_its_end_when_it_is_over(
    page: Page, side: FakeHttpServer
) -> None:
    start = NOW - 2 * 10**9
    side.status.events = [
        rebalance(RebalanceReason.MEMBER_LEFT, BOB, start + number, sequence=number)
        for number in range(8)
    ]
    await show(page, side, GROUP)
    past = page.locator("#findings li").last
    await expect(past).to_have_text(re.compile(r"^until .*: member 'bob-1' made group 'orders'"))


async def test_ages_count_while_nothing_else_happens(page: Page, side: FakeHttpServer) -> None:
    side.status.now = int(time.time() * 1000)
    await show(page, side, GROUP)
    age = page.locator("#waiting time[data-mode=age]").first
    await expect(age).to_have_text(re.compile(r"\d+ s"))
    await expect(age).not_to_have_text(await age.inner_text())


async def test_a_rebalance_is_drawn_as_it_happens(page: Page, side: FakeHttpServer) -> None:
    await show(page, side, GROUP)
    await expect(page.locator("#live-text")).to_have_text("live")
    before = await page.locator("svg.timeline .column").count()
    event = rebalance(RebalanceReason.SYNC_TIMEOUT, ALICE, NOW, sequence=7, generation_after=7)
    side.status.events.append(event)
    side.events.observe(event)
    await expect(page.locator("svg.timeline .column")).to_have_count(before + 1)
    assert "sync timeout" in (await rows(page, "Rebalances"))[0][2]


async def test_focus_and_typed_text_survive_what_happens_meanwhile(
    page: Page, side: FakeHttpServer
) -> None:
    await show(page, side)
    await expect(page.locator("#live-text")).to_have_text("live")
    await page.locator("tbody a").focus()
    event = rebalance(RebalanceReason.SYNC_TIMEOUT, ALICE, NOW, sequence=7)
    side.status.events.append(event)
    side.events.observe(event)
    await expect(page.locator("tbody")).to_contain_text("sync timeout")
    assert await page.evaluate("document.activeElement.textContent") == "orders"


async def test_a_lost_connection_is_said_and_mended(
    page: Page, side: FakeHttpServer, troubles: list[str]
) -> None:
    await show(page, side)
    await expect(page.locator("#live-text")).to_have_text("live")
    side.events.close()
    await expect(page.locator("#live-text")).to_have_text("reconnecting")
    await expect(page.locator("#live-text")).to_have_text("live")


async def test_hostile_ids_and_reasons_are_text(page: Page, side: FakeHttpServer) -> None:
    evil = Culprit(EVIL, EVIL, EVIL, EVIL)
    side.status.summaries[EVIL] = GroupSummary(EVIL, "Stable", EVIL, EVIL, 1, 1)
    event = rebalance(
        RebalanceReason.MEMBER_JOINED, evil, NOW, group_id=EVIL, client_reason=EVIL, joined=(evil,)
    )
    side.status.events.append(event)
    side.refusals.observe(Refused(NOW, EVIL, EVIL, EVIL, EVIL, EVIL, evil))
    await show(page, side)
    await page.get_by_role("link", name=EVIL).click()
    await page.wait_for_selector("svg.timeline")
    assert await page.locator("h1").text_content() == EVIL
    assert await page.locator("main img").count() == 0


async def forget_not_found(page: Page, troubles: list[str]) -> None:
    """The browser itself notes every 404, maybe a moment after the page has shown it."""
    await page.close()
    assert all("404" in each for each in troubles), troubles
    troubles.clear()


async def test_a_group_that_is_not_there_is_said(
    page: Page, side: FakeHttpServer, troubles: list[str]
) -> None:
    await page.goto(f"{side.url}/#/groups/nope")
    await expect(page.get_by_role("alert")).to_have_text("no group 'nope' here")
    await forget_not_found(page, troubles)


async def test_a_group_that_is_gone_shows_what_is_remembered(
    page: Page, side: FakeHttpServer, troubles: list[str]
) -> None:
    side.status.summaries.clear()
    await show(page, side, GROUP)
    await expect(page.locator(".head")).to_contain_text("gone")
    await expect(page.locator("svg.timeline .column")).to_have_count(7)
    await forget_not_found(page, troubles)


async def test_everything_is_reached_with_the_keyboard(page: Page, side: FakeHttpServer) -> None:
    await show(page, side)
    reached = set()
    for _ in range(20):
        await page.keyboard.press("Tab")
        reached.add(await page.evaluate("document.activeElement.id || document.activeElement.href"))
    assert {"filter", "states", f"{side.url}{GROUP}"} <= reached
    await page.locator("tbody a").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("svg.timeline")
    await page.locator(".picture .scroll").focus()
    assert await page.evaluate("document.activeElement.getAttribute('aria-label')") == "Timeline"


LOOKS: list[tuple[int, int, Any]] = [(1280, 800, "light"), (360, 740, "dark")]
NARROW = 360


@pytest.mark.parametrize("path", ["/", GROUP])
async def test_it_is_accessible_wide_and_light_narrow_and_dark(
    browser: Browser, side: FakeHttpServer, path: str
) -> None:
    page = await browser.new_page(bypass_csp=True)
    for width, height, scheme in LOOKS:
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme=scheme)
        await show(page, side, path)
        results = await Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (NARROW, "light")])
async def test_colours_have_contrast_the_other_way_round_too(
    browser: Browser, side: FakeHttpServer, width: int, scheme: Any
) -> None:
    page = await browser.new_page(bypass_csp=True, color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 800})
    await show(page, side, GROUP)
    contrast = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    results = await Axe().run(page, options=contrast)
    assert results.violations_count == 0, results.generate_report()
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.close()


async def test_what_comes_later_moves_nothing_else(page: Page, side: FakeHttpServer) -> None:
    await show(page, side, GROUP)
    await expect(page.locator("#live-text")).to_have_text("live")
    await page.evaluate("""() => {
        window.shifts = 0;
        new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.shifts += entry.value;
        }).observe({ type: 'layout-shift' });
    }""")
    event = rebalance(RebalanceReason.SYNC_TIMEOUT, ALICE, NOW, sequence=7, generation_after=7)
    side.status.events.append(event)
    side.events.observe(event)
    await expect(page.locator("svg.timeline .column")).to_have_count(8)
    assert await page.evaluate("window.shifts") < 0.1
