//! How a page of HTML lies in a browser: on narrow and wide screens, with its scripts and without.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{root, say_skipped};

/// Programs that are looked for, in this order, where `MUSTER_TEST_CHROMIUM` names none.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Where nobody has a browser, a test of pages says so and is over.
const NO_BROWSER: &str = "pages in a browser: there is none; install Debian's package chromium, or name a program in \
                          MUSTER_TEST_CHROMIUM";

/// The page in a frame of some width.
#[derive(Debug)]
pub struct Look {
    /// Pixels of the frame.
    pub width: u64,
    /// Do the page's scripts run?
    pub scripts: bool,
    /// Elements that are wider than their box or reach beyond the frame.
    pub wide: Vec<String>,
    /// Charts that were drawn.
    pub charts: u64,
    /// What a reader sees, without the text of charts.
    pub text: String,
    /// The colour behind it.
    pub paper: String,
    /// Pixels of the smallest letters of its text.
    pub small: f64,
    /// Columns that are sorted after a click on each heading of the first table.
    pub sorted: u64,
}

/// Looks at a page at both widths, with its scripts and without. A picture of the wide one is kept in
/// `target/tmp/pages` under this name, for people. `None` where there is no browser, which is said.
#[track_caller]
pub fn look(name: &str, html: &str, is_dark: bool) -> Option<Vec<Look>> {
    let browser = chromium()?;
    let folder = root("target/tmp/pages");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.html"));
    fs::write(&file, html).unwrap();
    let picture = folder.join(format!("{name}.png"));
    browse(&browser, &file, is_dark, &[&format!("--screenshot={}", picture.display())]);
    assert!(picture.is_file(), "{} made no picture of {}", browser.display(), file.display());
    // Data of a script, in which nothing may end it.
    let data = serde_json::to_string(html).unwrap().replace('<', "\\u003c");
    let frames = folder.join(format!("{name}-frames.html"));
    fs::write(&frames, FRAMES.replace("{html}", &data)).unwrap();
    let dom = browse(&browser, &frames, is_dark, &["--dump-dom"]);
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|it| it.1.split_once("</pre>"));
    let seen = seen.unwrap_or_else(|| panic!("the frames were not seen: {dom}")).0;
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let looks: Value = serde_json::from_str(&seen).unwrap();
    Some(looks.as_array().unwrap().iter().map(Look::of).collect())
}

/// The program of a browser: `MUSTER_TEST_CHROMIUM`, or the first that is in `PATH`. Where there is none, that is said.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = env::var_os("MUSTER_TEST_CHROMIUM") {
        return Some(named.into());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&folders).flat_map(|it| BROWSERS.map(|name| it.join(name)));
    let found = places.find(|it| it.is_file());
    if found.is_none() {
        say_skipped(NO_BROWSER);
    }
    found
}

/// What it prints.
fn browse(browser: &Path, page: &Path, is_dark: bool, words: &[&str]) -> String {
    let profile = page.with_extension(format!("{}.profile", std::process::id()));
    let mut command = Command::new(browser);
    command
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--no-first-run", "--virtual-time-budget=8000", "--window-size=1700,2000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(is_dark.then_some("--blink-settings=preferredColorScheme=0"))
        .args(words);
    let output = command.arg(format!("file://{}", page.display())).output().unwrap();
    let _ = fs::remove_dir_all(profile);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Look {
    fn of(seen: &Value) -> Look {
        let number = |name: &str| seen[name].as_f64().unwrap_or_else(|| panic!("{name}: {seen}"));
        let text = |name: &str| seen[name].as_str().unwrap().to_owned();
        let texts = |name: &str| {
            let texts = seen[name].as_array().unwrap().iter();
            texts.map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        Look {
            width: number("width") as u64,
            scripts: seen["scripts"] == true,
            wide: texts("wide"),
            charts: number("charts") as u64,
            text: text("text"),
            paper: text("paper"),
            small: number("small"),
            sorted: number("sorted") as u64,
        }
    }
}

/// A page with frames that hold the other one. A frame without `allow-scripts` runs none of its scripts; what it looks
/// like is read from outside.
const FRAMES: &str = r#"<!doctype html>
<meta charset="utf-8">
<pre id="seen-later"></pre>
<script>
const html = {html};
const seen = [];
const forms = [[400, true], [400, false], [1600, true], [1600, false]];
function look(frame, width, scripts) {
  const page = frame.contentDocument;
  const root = page.documentElement;
  const name = (it) => `${it.tagName} ${it.className} '${it.textContent.slice(0, 40)}'`;
  // What a chart lays over itself is cut at its edges.
  const all = [...page.body.querySelectorAll("*")].filter((it) => !it.closest(".u-wrap, script, style"));
  const isWide = (it) => {
    const right = it.getBoundingClientRect().right;
    return right > root.clientWidth + 1 || (it.clientWidth > 0 && it.scrollWidth > it.clientWidth + 1);
  };
  const canvases = [...page.querySelectorAll(".plot canvas")].filter((it) => it.width > 0);
  const tooWide = canvases.filter((it) => it.getBoundingClientRect().right > root.clientWidth + 1);
  const table = page.querySelector("main > table");
  table?.querySelectorAll("th button").forEach((it) => it.click());
  const sizes = [...page.querySelectorAll("p, li, td, dd, dt, h1, h2")];
  seen.push({
    width, scripts,
    wide: [...all.filter(isWide), ...tooWide].map(name),
    charts: canvases.length,
    text: page.querySelector("main").innerText,
    paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    small: Math.min(...sizes.map((it) => parseFloat(frame.contentWindow.getComputedStyle(it).fontSize))),
    sorted: page.querySelectorAll("th[aria-sort]").length,
  });
}
async function next() {
  if (seen.length === forms.length) {
    const pre = document.getElementById("seen-later");
    pre.textContent = JSON.stringify(seen);
    pre.id = "seen";
    return;
  }
  const [width, scripts] = forms[seen.length];
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 2000;
  frame.sandbox = "allow-same-origin" + (scripts ? " allow-scripts" : "");
  frame.srcdoc = html;
  frame.onload = () => setTimeout(() => {
    look(frame, width, scripts);
    frame.remove();
    next();
  }, 300);
  document.body.append(frame);
}
next();
</script>"#;
