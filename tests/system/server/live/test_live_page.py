"""The live page in Chromium, before a real server."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind
from netfw.model.values.common_fields import Status
from netfw.testing.lab import sandbox
from tests.system.server.live.browser import Browser, open_browser
from tests.system.server.live.live_site import LiveSite, live_site

pytestmark = pytest.mark.spec("DRV-50")
SCRIPT = "<img src=x onerror=alert(1)><script>document.title='taken'</script>"
REASON = "tap device is missing from br-int"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    sandbox.require()
    with live_site(tmp_path_factory.mktemp("live") / "site") as found:
        found.build()
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if platform.freedesktop_os_release()["ID"] == "ubuntu":
        pytest.skip("Ubuntu has Chromium as a snap only, which cannot run in the sandbox")
    sandbox.require()
    with open_browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


def open_page(browser: Browser, site: LiveSite, who: str = "ops") -> None:
    """Open the page, and give it a token by its dialog."""
    browser.driver.get(site.url)
    browser.run("sessionStorage.clear()")
    browser.driver.refresh()
    dialog = browser.wait_for("dialog[open]", "not authenticated")
    assert "X-Auth-Token" in dialog.text
    browser.all("#token")[0].send_keys(site.tokens[who], Keys.ENTER)
    browser.wait_for("#summary", "ports")
    browser.errors()  # the refusals before the token was given


def port(name: str, state: str = "") -> str:
    selector = f'.port[title^="{name}:"]'
    return f'{selector}[data-state="{state}"]' if state else selector


def test_hosts_networks_routers_and_ports_appear(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    assert browser.texts(".group h3") == ["node1", "node2", "node3"]
    assert sorted(browser.texts(".network b")) == ["back", "front"]
    assert browser.texts(".router b") == ["edge"]
    assert len(browser.all(".port")) == 8
    browser.wait_for("#connection", "live")
    browser.wait(lambda: len(browser.all("#links path")) >= 8)
    assert "8 ports" in browser.texts("#summary")[0]
    browser.take_screenshot("live-page.png")
    assert browser.errors() == []


def test_a_port_that_goes_down_changes_without_a_reload_and_shows_its_reason(
    browser: Browser, site: LiveSite
) -> None:
    open_page(browser, site)
    browser.wait_for("#connection", "live")
    browser.run("window.mark = 1")
    browser.wait_for(port("web2", "ok"))
    id = site.ports["web2"]
    site.report(Kind.PORT, id, Service.L2, Status.DOWN, host="node2", reason=REASON)
    browser.wait_for(port("web2", "down"))
    browser.wait_for("#panel .problems", REASON)
    browser.all(port("web2"))[0].click()
    browser.wait_for("#panel .reasons", f"Its hosts report: node2: {REASON}")
    site.report(Kind.PORT, id, Service.L2, Status.ACTIVE, host="node2")
    browser.wait_for(port("web2", "ok"))
    browser.wait_for("#panel .status", "port is ACTIVE")
    assert browser.run("return window.mark") == 1
    assert browser.errors() == []


def test_two_clicks_trace_a_packet(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    browser.wait_for(port("web1")).click()
    browser.wait_for("#panel .hint", "second port")
    browser.all(port("db3"))[0].click()
    browser.wait_for("#verdict", "Should arrive")
    titles = browser.texts(".steps b")
    assert titles[1] == "egress of port web1: security groups"
    assert "router edge is ACTIVE" in titles
    assert f"netfw trace {site.ports['web1']} {site.ports['db3']}" in browser.texts("#panel code")
    browser.take_screenshot("live-page-trace.png")
    _check_unchanged_trace_stays(browser, site)
    _, found = site.shop.ask("GET", "security-group-rules?direction=ingress")
    for rule in found["security_group_rules"]:
        assert site.shop.ask("DELETE", f"security-group-rules/{rule['id']}")[0] == 204
    browser.wait_for("#verdict", "Should be dropped")  # by an event: nobody asked again
    browser.wait_for(".steps", "no rule allows ingress icmp")
    browser.all("body")[0].send_keys(Keys.ESCAPE)
    browser.wait_for("#panel", "Choose a port")
    assert browser.errors() == []


def _check_unchanged_trace_stays(browser: Browser, site: LiveSite) -> None:
    """Check that an event does not replace a trace that is as before: its text may be selected."""
    asked = (
        "return performance.getEntriesByType('resource').filter((e) => /trace/.test(e.name)).length"
    )
    before = browser.run(asked)
    browser.run("document.querySelector('#panel code').isFormer = true")
    network = site.shop.make("networks", name="elsewhere")["id"]
    browser.wait_for(".network b", "elsewhere")
    browser.wait(lambda: browser.run(asked) > before)
    assert browser.run("return document.querySelector('#panel code').isFormer === true")
    assert site.shop.ask("DELETE", f"networks/{network}")[0] == 204
    browser.wait(lambda: "elsewhere" not in browser.texts(".network b"))


def test_names_of_tenants_are_text(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    network = site.shop.make("networks", name=SCRIPT)["id"]
    id = site.add_port(SCRIPT, network, "node3", works=False)
    site.report(Kind.PORT, id, Service.L2, Status.DOWN, host="node3", reason=SCRIPT)
    browser.wait_for(".network b", SCRIPT)
    browser.wait_for(".problems p", SCRIPT)
    browser.wait_for(f'.port[data-id="{id}"]', SCRIPT).click()
    browser.wait_for("#panel h2", SCRIPT)
    browser.wait_for("#panel .reasons", SCRIPT)
    assert browser.driver.title == "netfw live"
    assert not browser.all("img[src=x]")
    assert len(browser.all("script")) == 1
    assert browser.errors() == []
    assert site.shop.ask("DELETE", f"ports/{id}")[0] == 204
    browser.wait_for("#panel h2", "This port is gone")
    assert site.shop.ask("DELETE", f"networks/{network}")[0] == 204


def test_a_tenant_sees_its_own_and_another_one_nothing(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site, "shop")
    browser.wait_for("#identity", "project shop")
    assert browser.texts("#groups-title") == ["Ports by network"]
    assert "node1" not in browser.driver.page_source
    browser.wait_for(port("web1"))
    open_page(browser, site, "rival")
    browser.wait_for("#identity", "project rival")
    assert not browser.all(".port, .node, .group")
    assert "web1" not in browser.driver.page_source


def test_an_agent_that_lags_behind_is_shown(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    site.beat(lag_seconds=95, degraded=2)
    site.shop.make("networks", name="trigger")  # heartbeats are no events
    browser.wait_for('.agent[data-state="down"]', "95 s behind, 2 degraded")
    browser.wait_for(".problems", "L2 agent on node3")
    site.beat()


def test_the_keyboard_reaches_ports_and_filters(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    browser.wait_for(port("db1"))
    browser.run("document.querySelector(arguments[0]).focus()", port("db1"))
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.wait_for("#panel h2", "db1")
    browser.all("#search")[0].send_keys("web")
    browser.wait(lambda: not browser.all(port("db1")) and len(browser.all(port("web1"))) == 1)


def test_two_hundred_ports_stay_readable_in_the_dark(browser: Browser, site: LiveSite) -> None:
    site.add_many(192, down=7)
    open_page(browser, site)
    browser.wait(lambda: len(browser.all(".port")) >= 200)
    assert browser.all("#groups")[0].get_attribute("data-density") == "small"
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    browser.all("#theme")[0].click()
    browser.wait(lambda: browser.run(background) != light)
    browser.take_screenshot("live-page-many.png")
    overflow = "const b = document.getElementById('board'); return b.scrollWidth - b.clientWidth"
    assert browser.run(overflow) == 0
    assert browser.errors() == []


@pytest.mark.nightly
def test_a_page_without_a_stream_polls(browser: Browser, tmp_path: Path) -> None:
    with live_site(tmp_path / "site", live_streams=0) as site:
        site.build()
        open_page(browser, site)
        browser.wait_for("#connection", "polling")
        id = site.ports["db2"]
        site.report(Kind.PORT, id, Service.L2, Status.DOWN, host="node2", reason=REASON)
        browser.wait_for(port("db2", "down"))
        browser.wait_for("#panel .problems", REASON)


LOSE_ONE_ANSWER = """
const [send, limit] = [window.fetch, AbortSignal.timeout.bind(AbortSignal)];
AbortSignal.timeout = (milliseconds) => limit(milliseconds / 20);
window.fetch = (path, options) => {
  if (window.isLost || !String(path).startsWith("topology")) return send(path, options);
  window.isLost = true;
  return new Promise((_, reject) => {
    options.signal?.addEventListener("abort", () => reject(options.signal.reason));
  });
};
"""
"""Has one request of the page get no answer, as by a connection whose other end is gone."""


def test_a_page_goes_on_after_a_request_without_an_answer(browser: Browser, site: LiveSite) -> None:
    open_page(browser, site)
    browser.wait_for("#connection", "live")
    browser.wait_for(port("web1", "ok"))
    browser.run(LOSE_ONE_ANSWER)
    browser.wait(lambda: browser.run("return window.isLost"))
    id = site.ports["web1"]
    site.report(Kind.PORT, id, Service.L2, Status.DOWN, host="node1", reason=REASON)
    browser.wait_for(port("web1", "down"))
