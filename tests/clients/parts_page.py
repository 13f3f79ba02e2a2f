"""A page in a browser reads an answer in parts by `fetch` with a reader, and events of the page's own kind of body.

Usage: parts_page.py CHROMIUM URL      of a server whose only model is decoupled, as `parts.py` has it.
"""

import sys

from playwright.sync_api import sync_playwright

# Reads so many events, and gives the rest up.
READ = """
async ([path, parts, most]) => {
    const body = JSON.stringify({INPUT0: [1, 2, 3, 4], parts});
    const control = new AbortController();
    const reply = await fetch(path, {method: "POST", body, signal: control.signal});
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const events = [];
    while (events.length < most) {
        const {value, done} = await reader.read();
        if (done) break;
        text += value;
        const whole = text.split("\\n\\n");
        text = whole.pop();
        events.push(...whole.map(it => JSON.parse(it.slice("data: ".length)).OUTPUT0));
    }
    control.abort();
    return [reply.headers.get("content-type"), events.slice(0, most)];
}
"""


def main():
    chromium, url = sys.argv[1:3]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{url}/docs")
        path = "/v2/models/m/generate_stream"
        # The second answer has no end: each part comes before the last is sent.
        for parts, most in ((3, 100), (2**40, 5)):
            kind, events = page.evaluate(READ, [path, parts, most])
            assert kind.startswith("text/event-stream"), kind
            assert events == [[1, 2, 3, 4]] * min(parts, most), events
        browser.close()
    print("a page reads parts as they come")


if __name__ == "__main__":
    main()
