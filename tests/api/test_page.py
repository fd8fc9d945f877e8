"""The live page in a real browser: jobs appear and change by themselves, the log is followed, hostile names stay text."""

from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.api.home import manifest
from tests.api.live import LiveHome, live_home
from tests.parts.present import program

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 180_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=program("chromium"), args=FLAGS, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as one:
        yield one


@pytest.fixture
def live(portal: BlockingPortal) -> Iterator[LiveHome]:
    with portal.wrap_async_context_manager(live_home(hosts=("localhost", "127.0.0.1"))) as home:
        yield home


@pytest.fixture
def page(browser: Browser, live: LiveHome) -> Iterator[Page]:
    one = browser.new_page()
    one.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    troubles: list[str] = []
    one.on("pageerror", lambda error: troubles.append(str(error)))
    one.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    yield one
    one.close()
    assert [text for text in troubles if "401" not in text] == []


def test_a_job_appears_runs_and_shows_its_log(page: Page, live: LiveHome, portal: BlockingPortal) -> None:
    page.goto(f"{live.url}/#token={live.api.token()}")
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#first-command")).to_contain_text("windlass run")
    assert "token" not in page.url
    steps = ("do", "print <b>hello</b>", "warn careful", "await go", "print done", "exit 3")
    made = portal.call(lambda: live.api.submit(*steps, name="shown"))
    row = page.locator("#rows tr")
    expect(row).to_have_count(1)
    expect(row.locator(".pill")).to_have_text("running")
    row.click()
    log = page.locator("#log")
    expect(log.locator(".stdout").first).to_have_text("<b>hello</b>")
    expect(log.locator(".stderr")).to_have_text("careful")
    portal.call(_let_go, live)
    expect(row.locator(".pill")).to_have_text("failed")
    expect(log.locator(".stdout").last).to_have_text("done")
    expect(page.locator("#log-state")).to_have_text("complete")
    expect(page.locator("#facts")).to_contain_text(made["metadata"]["uid"])
    page.reload()
    expect(page.locator("#rows tr")).to_have_count(1)


def test_without_a_token_it_asks_for_one_and_takes_it(page: Page, live: LiveHome, portal: BlockingPortal) -> None:
    portal.call(lambda: live.api.submit("true", name="there", suspend=True))
    page.goto(live.url)
    expect(page.locator("#enter")).to_be_visible()
    expect(page.locator("#enter")).to_contain_text("the link that windlass open prints")
    page.fill("#token", "nonsense")
    page.click("#enter button")
    expect(page.locator("#enter-error")).to_contain_text("does not hold")
    page.fill("#token", live.api.token())
    page.click("#enter button")
    expect(page.locator("#rows tr td").first).to_have_text("there")
    expect(page.locator("#rows .pill")).to_have_text("suspended")


def test_markup_in_a_command_stays_text(page: Page, live: LiveHome, portal: BlockingPortal) -> None:
    evil = '<img src=x onerror="document.title=1">'
    portal.call(lambda: live.api.client.post("/api/v1/jobs", json=manifest("print", evil, name="evil", suspend=True)))
    page.goto(f"{live.url}/#token={live.api.token()}")
    expect(page.locator("#rows .what")).to_contain_text(f"print '{evil}'")  # as it would be typed
    page.locator("#rows tr").click()
    expect(page.locator("#facts")).to_contain_text(evil)
    assert page.title() == "Windlass"
    assert page.locator("main img").count() == 0


async def _let_go(live: LiveHome) -> None:
    for folder in live.api.home.machine.volumes.values():
        folder.write("go", b"")
    live.api.home.machine.change()
