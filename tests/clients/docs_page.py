"""What a person does on the page `/docs`, in a browser.

    docs_page.py CHROMIUM HTTP [--guarded HTTP TOKEN] [--pictures FOLDER]

The server has the sample models, and models of the pipelines' fixtures. A guarded one has the token. Pictures of the
page come into the folder, to be looked at.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import playwright
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/pipelines"
STAR = ROOT / "model_repository/shapes/star.jpg"
NODE = pathlib.Path(playwright.__file__).parent / "driver/node"
MOST_BYTES = 120_000
# Milliseconds: where processors are busy, a browser takes seconds for what takes none elsewhere.
PATIENCE = 60_000

# A payment that is a fraud, and a scanned 2: those of the models' READMEs.
FRAUD = (
    "3459,-3.56776,3.4845,-0.488183,-3.94953,-2.58541,2.66459,-2.02788,-0.642994,-1.84692,2.2315,-2.0684,2.90866,2.46665,"
    "-1.37282,-1.03672,0.054394,-1.73791,1.6325,1.62341,2.30861,-1.50191,0.030167,1.39899,-0.16141,-1.00294,0.903519,"
    "0.676794,0.623659,515.72"
)
TWO = """0 0 7 16 14 3 0 0
0 0 9 14 11 15 0 0
0 0 1 5 0 15 5 0
0 0 0 0 0 16 5 0
0 0 0 0 3 16 4 0
0 0 0 1 12 14 1 0
0 0 5 12 16 16 14 1
0 0 8 16 14 10 13 3"""

# What a browser writes by itself when a reply is an error.
BY_ITSELF = re.compile(r"^Failed to load resource: the server responded with a status of 4\d\d")


def read(address, method="GET", **headers):
    """The status, headers and body of a reply."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method, headers=headers)) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def the_page_is_one_file_and_asks_for_nothing_else(server):
    status, headers, body = read(f"{server}/docs")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8", (status, headers)
    assert len(body) <= MOST_BYTES, f"{len(body)} bytes"
    text = body.decode()
    found = set(re.findall(r"https?://[^\s\"'<>`)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert not found, f"addresses of others: {found}"
    digests = {}
    for kind, element in (("style", r"<style>(.*?)</style>"), ("script", r'<script type="module">(.*?)</script>')):
        (inside,) = re.findall(element, text, re.DOTALL)
        digests[kind] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data: blob:",
        "media-src": "blob:",
        "style-src": f"'sha256-{digests['style']}'",
        "script-src": f"'sha256-{digests['script']}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }, policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer", headers
    assert headers["cache-control"] == "no-cache", headers

    status, again, nothing = read(f"{server}/docs/", "HEAD")
    assert (status, nothing, again["content-length"]) == (200, b"", str(len(body))), (status, again)
    status, again, nothing = read(f"{server}/docs", **{"If-None-Match": headers["etag"]})
    assert (status, nothing, again["etag"]) == (304, b"", headers["etag"]), (status, again)
    assert read(f"{server}/docs", **{"If-None-Match": '"another"'})[0] == 200
    assert read(f"{server}/docs", "POST")[0] == 405


class Visit:
    """A page that is open, and what its console has said."""

    def __init__(self, browser, server, width=1600, **options):
        self.context = browser.new_context(viewport={"width": width, "height": 950}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.said = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("requestfailed", lambda it: self.said.append(f"{it.url}: {it.failure}"))
        self.foreign = []
        self.page.on("request", lambda it: self.foreign.append(it.url) if not it.url.startswith((server, "blob:")) else 0)
        self.page.goto(f"{server}/docs")

    def choose(self, model):
        self.page.get_by_role("radio", name=re.compile(rf"^{re.escape(model)}\b")).check()
        expect(self.page.get_by_role("heading", name=f"Request to {model}", exact=True)).to_be_visible()

    def send(self):
        """Sends the form; the sentence that says the answer."""
        self.page.get_by_role("button", name="Send", exact=True).click()
        said = self.page.locator("#said")
        expect(said).to_have_text(re.compile(r"( ms| s), |There is no answer"))
        assert "no answer" not in said.inner_text(), self.page.locator("#answer").inner_text()
        return said.inner_text()

    def answer(self):
        """The whole answer, as the page shows it."""
        return json.loads(self.page.locator("#answer > details pre").text_content())

    def close(self, may_say=None):
        said = [it for it in self.said if not (may_say and may_say.match(it))]
        assert not said, f"the console says {said}"
        assert not self.foreign, f"it asks others: {self.foreign}"
        self.context.close()


def fill_in(visit, model):
    """Chooses a sample model, and gives it what it knows."""
    page = visit.page
    visit.choose(model)
    if model == "digits":
        page.get_by_label(re.compile("^image ")).fill(TWO)
    elif model == "fraud":
        page.get_by_label(re.compile("^input ")).fill(FRAUD)
    elif model == "listing_price":
        for name, value in [("neighbourhood", "Hillside"), ("rooms", "5"), ("features", "134.7, 2, 4.3, 4.82")]:
            page.get_by_label(re.compile(f"^{name} ")).fill(value)
    elif model in MADE_OF_TEXT:
        page.get_by_label(re.compile("^payment ")).fill(FRAUD)
    elif model == "sentiment":
        page.get_by_label("Text", exact=True).fill("What a sad day!")
    elif model == "shapes":
        page.get_by_label("Picture: choose a file").set_input_files(STAR)
        expect(page.locator(".drop img")).to_be_visible()


# The samples in Python. They take no empty text, which their form begins with.
MADE_OF_TEXT = ("payment", "payment_row")

# What each sample model says to that.
SAMPLES = {
    "digits": "two, 0.9966. ",
    "fraud": "probability 0.97",
    "listing_price": "price 76.646; band luxury; bucket 3. ",
    "payment": "probability 0.97",
    "payment_row": "row 1 × 30",
    "sentiment": "NEGATIVE, 0.9",
    "shapes": "star, 0.99",
}


def every_model_answers(visit):
    for model, answer in SAMPLES.items():
        # What the form begins with is an example: it is answered, too.
        visit.choose(model)
        if model == "shapes":
            visit.page.get_by_role("button", name="Draw one").click()
            expect(visit.page.locator(".drop")).to_contain_text("drawn.png")
        if model not in MADE_OF_TEXT:
            visit.send()
        fill_in(visit, model)
        said = visit.send()
        assert said.startswith(answer), f"{model}: {said}"


def rows_are_pasted_and_checked(visit):
    page = visit.page
    visit.choose("fraud")
    values = page.get_by_label(re.compile("^input "))
    row = FRAUD
    values.fill(f"{row}\n{row}")
    assert "2 × 1" in visit.send()
    # Names in front are passed over, an empty cell is NaN, and brackets are those of JSON.
    names = ",".join(f"V{it}" for it in range(30))
    values.fill(f"{names}\n,{row.split(',', 1)[1]}")
    expect(page.locator("#code")).to_contain_text("[NaN, -3.56776")
    visit.send()
    values.fill(f"[[{row}],\n [{row}]]")
    assert "2 × 1" in visit.send()
    values.fill("1, 2, three")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#mistake")).to_have_text("Line 1, value 3: “three” is not a number.")
    expect(values).to_have_attribute("aria-invalid", "true")
    expect(values).to_be_focused()
    values.fill("1, 2, 3")
    expect(page.locator("#inputs .mistake")).to_have_text("each row takes 30 values; there are 3 in all.")
    page.get_by_role("button", name="Example values for input").click()
    visit.send()
    visit.choose("listing_price")
    rooms = page.get_by_label(re.compile("^rooms "))
    rooms.fill("9223372036854775807")
    expect(page.locator("#code")).to_contain_text("9223372036854775807")
    visit.send()
    rooms.fill("99999999999999999999")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="The request failed.")).to_contain_text("400: ")


def the_same_call_works_as_a_program(visit, folder):
    page = visit.page
    (folder / STAR.name).write_bytes(STAR.read_bytes())
    # Of a long row the page shows the beginning.
    for model in SAMPLES.keys() - {"payment_row"}:
        fill_in(visit, model)
        visit.send()
        expected = visit.answer()
        for language in ["curl", "Python", "JavaScript"]:
            page.get_by_role("tab", name=language).click()
            expect(page.get_by_role("tab", name=language)).to_have_attribute("aria-selected", "true")
            code = page.locator("#code").text_content()
            answered = program(language, code, folder)
            assert answered == expected, f"{model}, {language}:\n{code}\n{answered}\nis not\n{expected}"


def program(language, code, folder, **variables):
    """What such a program answers."""
    if language == "curl":
        command = ["sh", "-c", code]
    elif language == "Python":
        command = [sys.executable, "-c", code.replace("print(json.load(reply))", "print(reply.read().decode())")]
    else:
        said = code.replace("console.log(await reply.json())", "console.log(await reply.text())")
        command = [NODE, "--input-type=module", "-e", said]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return json.loads(done.stdout)


def time_is_split(visit):
    visit.choose("digits")
    with visit.page.expect_response(re.compile("/infer$")) as reply:
        visit.send()
    said = visit.page.locator("#time").inner_text()
    found = dict(re.findall(r"(Queue|Run|Rest|All) ([\d.]+|n/a)", said))
    assert list(found) == ["Queue", "Run", "Rest", "All"], said
    if "server-timing" in reply.value.headers:
        queue, run, rest, whole = map(float, found.values())
        assert run > 0 and abs(queue + run + rest - whole) < 0.2, said
    else:
        assert list(found.values())[:3] == ["n/a"] * 3 and "did not say" in said, said


def charts_show_what_was_asked(visit):
    page = visit.page
    visit.choose("digits")
    visit.send()
    chart = page.get_by_role("img", name=re.compile("^Rate"))
    expect(chart).to_have_attribute("aria-label", re.compile(r"requests 0\.\d|requests [1-9]"))
    expect(page.get_by_role("img", name=re.compile("^Latency"))).to_have_attribute("aria-label", re.compile(r"p50 \d"))
    expect(page.get_by_role("img", name=re.compile("^Batch sizes"))).to_have_attribute("aria-label", re.compile(r"mean 1,"))
    expect(page.get_by_role("img", name=re.compile("^Queue"))).to_have_attribute("aria-label", re.compile(r"waiting \d"))
    page.get_by_label("Charts of").select_option("digits")
    errors = page.get_by_role("img", name=re.compile("^Errors"))
    expect(errors).to_have_attribute("aria-label", re.compile("refused 0, given up 0, failed 0"))
    page.get_by_label("Charts of").select_option("")
    page.get_by_text("The same as a table").click()
    page.wait_for_function("document.querySelectorAll('#readings tbody tr').length >= 2")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Go on")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("The same as a table").click()


def texts_of_each_task_are_asked(visit):
    page = visit.page
    for model, form in {
        "question-answering": r"^The answer: ",
        "ner": r"B-|I-|Nothing",
        "zero-shot": r"^(technology|cooking|politics), 0\.",
        "rerank": r"^(A panda is a bear|Paris is a city)\., 0\.",
        "st-6": r"^\d+ numbers\.",
    }.items():
        visit.choose(model)
        said = visit.send()
        assert re.search(form, said), f"{model}: {said}"
    visit.choose("fill-mask")
    page.get_by_label("Text with the mask token").fill("the [MASK] is here")
    assert ", 0." in visit.send()


def files_are_dropped_and_pasted(visit):
    """Files that come by events, as a desktop sends them."""
    visit.choose("shapes")
    star = base64.b64encode(STAR.read_bytes()).decode()
    give = """([kind, selector, name, data]) => {
        const files = new DataTransfer();
        files.items.add(new File([Uint8Array.from(atob(data), (it) => it.charCodeAt(0))], name, { type: "image/jpeg" }));
        const options = { bubbles: true, cancelable: true, dataTransfer: files, clipboardData: files };
        const event = kind === "drop" ? new DragEvent(kind, options) : new ClipboardEvent(kind, options);
        document.querySelector(selector).dispatchEvent(event);
    }"""
    for kind, selector in [("drop", ".drop input"), ("paste", "body")]:
        visit.page.evaluate(give, [kind, selector, f"{kind}.jpg", star])
        expect(visit.page.locator(".drop")).to_contain_text(f"{kind}.jpg")
        said = visit.send()
        assert said.startswith(SAMPLES["shapes"]), said


def boxes_lie_over_the_picture(visit):
    page = visit.page
    visit.choose("detr")
    page.get_by_label("Picture: choose a file").set_input_files(FIXTURES / "pictures/96x64.png")
    assert "objects: " in visit.send()
    found = page.locator("#answer table tbody tr").count()
    assert found > 0
    expect(page.locator("#answer .picture rect")).to_have_count(found)
    expect(page.locator("#answer .picture svg")).to_have_attribute("viewBox", "0 0 96 64")
    visit.choose("clip")
    page.get_by_label("Picture: choose a file").set_input_files(FIXTURES / "pictures/64x64.png")
    page.get_by_label("Labels").fill("a cat\na dog")
    assert re.match(r"a (cat|dog), ", visit.send())


def sounds_are_sent_and_recorded(visit):
    page = visit.page
    visit.choose("speech")
    page.get_by_label("Sound: choose a file").set_input_files(FIXTURES / "speech/0.wav")
    assert visit.send().startswith("It says: <s> E"), visit.send()
    visit.choose("audio-classification")
    page.get_by_role("button", name="Use a tone").click()
    expect(page.locator(".drop")).to_contain_text("tone.wav")
    visit.send()
    page.get_by_role("button", name="Record", exact=True).click()
    stop = page.get_by_role("button", name="Stop recording")
    expect(stop).to_have_attribute("aria-pressed", "true")
    # The microphone of the browser beeps: so the meter moves once there is something to hear.
    expect(page.locator("meter")).to_be_visible()
    page.wait_for_timeout(400)
    stop.click()
    expect(page.locator(".drop")).to_contain_text("recording.wav")
    visit.send()
    expect(page.get_by_role("link", name="save recording.wav")).to_be_visible()


def the_keyboard_is_enough(browser, server):
    visit = Visit(browser, server)
    page = visit.page
    expect(page.get_by_role("radio").first).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the request")).to_be_focused()
    focused = []
    for _ in range(12):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.type ?? document.activeElement.tagName"))
        if focused[-1] == "radio":
            break
    assert focused[-1] == "radio", focused
    names = page.get_by_role("radio").evaluate_all("all => all.map((it) => it.value)")
    for _ in range(names.index("sentiment")):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("heading", name="Request to sentiment")).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TEXTAREA":
            break
    page.keyboard.press("Control+A")
    page.keyboard.type("I am super happy right now.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#said")).to_have_text(re.compile("^POSITIVE, 0.99"))
    expect(page.get_by_role("textbox", name="Text", exact=True)).to_be_focused()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "tab":
            break
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Python")).to_be_focused()
    expect(page.locator("#code")).to_contain_text("urllib.request")
    visit.close()


def it_is_accessible_in_each_form(browser, server, pictures):
    """Looks at two models in each theme and width, and at each model in both themes and both widths: a look at all that
    a page has takes seconds."""
    for theme in ["light", "dark"]:
        for width in [400, 1600]:
            visit = Visit(browser, server, width, color_scheme=theme, reduced_motion="reduce")
            page = visit.page
            is_even = (theme == "light") == (width == 400)
            for model in ["digits", "detr"] if is_even else ["listing_price", "sentiment"]:
                fill_in(visit, model)
                if model == "detr":
                    page.get_by_label("Picture: choose a file").set_input_files(FIXTURES / "pictures/96x64.png")
                visit.send()
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{wide} columns of {width} at {model}"
                if pictures:
                    page.screenshot(path=pictures / f"{model}-{theme}-{width}.png", full_page=True)
                found = Axe().run(page)
                wrong = [f"{it['id']}: {it['nodes'][0]['html']}" for it in found.response["violations"]]
                assert not wrong, f"{theme}, {width}, {model}: {wrong}"
            visit.close()


def themes_are_switched(visit):
    page = visit.page
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Theme: auto").click()
    assert page.evaluate(colour) == light
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(colour) != light
    page.get_by_role("button", name="Theme: dark").click()
    assert page.evaluate(colour) == light


def a_token_is_asked_for_and_kept_in_the_tab_alone(browser, server, token, folder):
    visit = Visit(browser, server)
    page = visit.page
    expect(page.locator("#health")).to_have_text("needs a token")
    field = page.get_by_label("Token", exact=True)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("type", "password")
    field.fill("wrong-token-of-nobody")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#health")).to_have_text("needs a token")
    field.fill(token)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#health")).to_have_text("connected")
    visit.choose("sentiment")
    assert visit.send().startswith("POSITIVE")
    for language in ["curl", "Python", "JavaScript"]:
        page.get_by_role("tab", name=language).click()
        code = page.locator("#code").text_content()
        assert program(language, code, folder, MUSTER_TOKEN=token)[0][0]["label"] == "POSITIVE", code
    expect(page.get_by_role("img", name=re.compile("^Queue"))).to_have_attribute("aria-label", re.compile(r"waiting \d"))
    stored = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])"
    kept = lambda: page.evaluate(stored) + page.content()
    assert token not in kept()
    page.reload()
    expect(page.locator("#health")).to_have_text("needs a token")
    field.fill(token)
    page.get_by_label("Keep it until this tab is closed").check()
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#health")).to_have_text("connected")
    assert page.evaluate("Object.values(sessionStorage)") == [token]
    assert token not in page.evaluate("JSON.stringify([{...localStorage}, document.cookie, location.href])")
    page.reload()
    expect(page.locator("#health")).to_have_text("connected")
    page.get_by_role("button", name="Token").click()
    page.get_by_role("button", name="Forget it").click()
    expect(page.locator("#health")).to_have_text("needs a token")
    assert token not in kept()
    visit.close(may_say=BY_ITSELF)


def a_server_that_is_gone_is_said(browser, server):
    visit = Visit(browser, server)
    visit.choose("sentiment")
    visit.context.set_offline(True)
    visit.page.get_by_role("button", name="Send", exact=True).click()
    failed = visit.page.get_by_role("alert").filter(has_text="The request failed.")
    expect(failed).to_contain_text("The server cannot be reached.")
    expect(visit.page.locator("#live-state")).to_contain_text("cannot be read")
    visit.context.set_offline(False)
    visit.send()
    visit.close(may_say=re.compile("Failed to load resource|.*ERR_INTERNET_DISCONNECTED"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("chromium")
    parser.add_argument("server")
    parser.add_argument("--guarded", nargs=2)
    parser.add_argument("--pictures", type=pathlib.Path)
    given = parser.parse_args()
    expect.set_options(timeout=PATIENCE)
    the_page_is_one_file_and_asks_for_nothing_else(given.server)
    switches = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=given.chromium, args=switches)
        visit = Visit(browser, given.server)
        every_model_answers(visit)
        the_same_call_works_as_a_program(visit, folder)
        time_is_split(visit)
        charts_show_what_was_asked(visit)
        texts_of_each_task_are_asked(visit)
        files_are_dropped_and_pasted(visit)
        boxes_lie_over_the_picture(visit)
        sounds_are_sent_and_recorded(visit)
        themes_are_switched(visit)
        visit.close()
        visit = Visit(browser, given.server)
        rows_are_pasted_and_checked(visit)
        visit.close(may_say=BY_ITSELF)
        the_keyboard_is_enough(browser, given.server)
        it_is_accessible_in_each_form(browser, given.server, given.pictures)
        a_server_that_is_gone_is_said(browser, given.server)
        if given.guarded:
            a_token_is_asked_for_and_kept_in_the_tab_alone(browser, *given.guarded, folder)
        browser.close()
    print("the page does what it says")


if __name__ == "__main__":
    main()
