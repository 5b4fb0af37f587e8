"""One browser for all tests of pages."""

import pytest
from browsers import CHROMIUM, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium not found: install Debian's package chromium to run this")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        browser.start()
        yield browser
    finally:
        browser.close()
