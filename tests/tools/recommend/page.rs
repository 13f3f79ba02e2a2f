//! The report as people see it: in a browser, in light and dark, on a narrow screen; and with a GPU.

use std::{fs, path::Path, process::Command};

use super::{recommend, sleeper};
use crate::support::{gpus::driver, root};

#[test]
fn a_gpu_is_in_the_series_and_on_the_page() {
    let repository = sleeper();
    let [html, series] = ["report.html", "series.csv"].map(|it| repository.at(it));
    let args =
        ["--instance=local.gpu.cpu1", "--stairs=2:1:3", "--html", &html, "--series", &series];
    let output = super::command(&repository, &args)
        .env_remove(crate::support::NO_GPUS.0)
        .env("LD_LIBRARY_PATH", driver())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let series = fs::read_to_string(series).unwrap();
    let mut lines = series.lines();
    assert!(lines.next().unwrap().ends_with(",gpu_utilization,gpu_memory_bytes"), "{series}");
    let last: Vec<f64> =
        lines.next().unwrap().rsplit(',').take(2).map(|it| it.parse().unwrap()).collect();
    // 2 and 4 GiB of the two GPUs that the library tells of, of which one is busy for a quarter of the time.
    assert_eq!(last[0], (6u64 << 30) as f64, "{series}");
    assert!(last[1] > 0.0 && last[1] <= 1.0, "{series}");
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("The best setting: Memory of the GPU"), "no chart of the GPU");
}

/// What a browser says of a page: its console, and what the script at the end of the page writes.
fn browse(chromium: &str, page: &Path, width: u32, is_dark: bool, picture: &Path) -> String {
    let profile = picture.with_extension("profile");
    let mut browser = Command::new(chromium);
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000"])
        .args(["--run-all-compositor-stages-before-draw", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},2400"))
        .arg(format!("--screenshot={}", picture.display()));
    if is_dark {
        browser.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = browser.arg(format!("file://{}", page.display())).output().unwrap();
    let _ = fs::remove_dir_all(profile);
    assert!(picture.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Needs Debian's package `chromium`, or `MUSTER_TEST_CHROMIUM`:
/// `cargo test -p muster --test tools -- --ignored --nocapture report_is_read_in_a_browser`. The pictures are for
/// people to look at.
#[test]
#[ignore = "needs a browser"]
fn the_report_is_read_in_a_browser_without_an_error_wide_and_narrow_light_and_dark() {
    let chromium = std::env::var("MUSTER_TEST_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let repository = sleeper();
    let html = repository.at("report.html");
    let args = ["--instance=local.cpu1", "--time-scale=10", "--html", &html];
    let (status, _, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    // A script that says how the page lies in its window, and what a click on a heading does.
    let probe = "<script>addEventListener('load', () => setTimeout(() => {
        const root = document.documentElement;
        const charts = [...document.querySelectorAll('.chart canvas')];
        const heading = document.querySelector('th button');
        heading.click();
        console.log('SEEN ' + JSON.stringify({
            overflow: root.scrollWidth - root.clientWidth,
            charts: charts.filter((it) => it.width > 0).length,
            tooWide: charts.filter((it) => it.getBoundingClientRect().right > root.clientWidth + 1).length,
            sorted: document.querySelectorAll('th[aria-sort]').length,
            paper: getComputedStyle(document.body).backgroundColor,
            small: Math.min(...[...document.querySelectorAll('p, li, td, dd')]
                .map((it) => parseFloat(getComputedStyle(it).fontSize))),
        }));
    }, 500));</script></html>";
    let text = fs::read_to_string(&html).unwrap().replace("</html>", probe);
    fs::write(&html, text).unwrap();
    let folder = root("target/tmp/pages");
    fs::create_dir_all(&folder).unwrap();
    for (width, is_dark) in [(1200, false), (1200, true), (400, false), (400, true)] {
        let name = format!("report-{width}-{}.png", if is_dark { "dark" } else { "light" });
        let said = browse(&chromium, Path::new(&html), width, is_dark, &folder.join(&name));
        println!("{}", folder.join(name).display());
        let console: Vec<&str> = said.lines().filter(|it| it.contains("CONSOLE")).collect();
        let seen = console.iter().find_map(|it| it.split_once("SEEN ")).expect(&said).1;
        let end = seen.rfind('}').unwrap();
        let seen: serde_json::Value =
            serde_json::from_str(&seen[..=end].replace("\\\"", "\"")).unwrap();
        assert_eq!(console.len(), 1, "{console:?}");
        assert!(seen["charts"].as_u64().unwrap() >= 4, "{seen}");
        assert_eq!(seen["sorted"], 1, "{seen}");
        let paper = if is_dark { "rgb(18, 22, 29)" } else { "rgb(255, 255, 255)" };
        assert_eq!(seen["paper"], paper, "{seen}");
        assert!(seen["small"].as_f64().unwrap() >= 13.0, "{seen}");
        assert_eq!((&seen["overflow"], &seen["tooWide"]), (&0.into(), &0.into()), "{seen}");
    }
}
