"""Draws docs/images/dashboard.png: the page of the demo's shop after a minute and a half. `make picture`."""

import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.browser import chromium
from support.pages import sign_in
from support.ports import free_port

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "dashboard.png"
SECONDS, HALF = 90.0, 40.0
WIDTH, HEIGHT = 1200, 1700


def main() -> None:
    port = free_port()
    demo = subprocess.Popen(
        [sys.executable, "-m", "belated.cli", "demo", "--port", str(port), "--half", str(HALF)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    try:
        said = demo.stdout.readline() + demo.stdout.readline()
        (key,) = set(re.findall(r"belated_demo_\w+", said))
        print(f"the shop is open; a picture of it follows in {SECONDS:.0f} seconds")
        time.sleep(SECONDS)
        with chromium() as browser:
            page = browser.new_page(base_url=f"http://127.0.0.1:{port}", viewport={"width": WIDTH, "height": HEIGHT})
            sign_in(page, key)
            page.get_by_role("link", name="landing-page").click()
            page.wait_for_selector('[data-chart="course"] canvas')
            page.wait_for_timeout(1500)
            page.screenshot(path=PICTURE)
    finally:
        demo.terminate()
        demo.wait()
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
