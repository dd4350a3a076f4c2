"""Chromium without a display, by WebDriver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from netfw.testing.lab.wait import wait_until

SCREENSHOTS: Final = "NETFW_SCREENSHOTS"
"""Environment variable with the directory for pictures; unset: none are taken."""
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root, in namespaces of their own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--window-size=1280,800",
)


class Browser:
    """A page in a browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that match a CSS selector now."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def wait_for(self, selector: str, text: str = "") -> WebElement:
        """Wait until an element matches, and has *text* in it; return it."""
        found: list[WebElement] = []

        def is_there() -> bool:
            found[:] = [each for each in self.all(selector) if text in self.text_of(each)]
            return bool(found)

        wait_until(is_there)
        return found[0]

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait for *condition*; elements may be replaced meanwhile."""

        def is_met() -> bool:
            try:
                return bool(condition())
            except StaleElementReferenceException:
                return False

        wait_until(is_met)

    def text_of(self, element: WebElement) -> str:
        """Return the text of an element; empty when the page has replaced it meanwhile."""
        try:
            return str(element.get_property("textContent"))
        except StaleElementReferenceException:
            return ""

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that match, at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return [str(text) for text in self.run(script, selector)]

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """Return what the page wrote into the console as an error, refusals of policy too."""
        entries: list[dict[str, Any]] = self.driver.get_log("browser")
        return [str(each["message"]) for each in entries if each["level"] == "SEVERE"]

    def take_screenshot(self, name: str) -> None:
        """Write a picture of the page, if pictures are wanted."""
        if folder := os.environ.get(SCREENSHOTS):
            self.driver.save_screenshot(str(Path(folder) / name))


@contextmanager
def open_browser(profile: Path, *, dark: bool = False) -> Iterator[Browser]:
    """Run a browser until the end of the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(executable_path="/usr/bin/chromedriver", log_output=str(profile) + ".log")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
