//! The report as people see it: in a browser, in light and dark, on a narrow screen; and with a GPU.

use std::fs;

use super::{recommend, sleeper};
use crate::support::{browser::look, gpus::driver};

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

#[test]
fn the_report_is_read_in_a_browser_wide_and_narrow_light_and_dark_with_scripts_and_without() {
    let repository = sleeper();
    let html = repository.at("report.html");
    let args = [
        "--instance=local.cpu1",
        "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,4",
        "--env=OMP_NUM_THREADS=1,2,3",
        "--max-tests=3",
        "--stairs=2:3:0.5",
        "--latency-ms=1000",
        "--max-invocations=30000",
        "--html",
        &html,
    ];
    let (status, _, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    let html = fs::read_to_string(html).unwrap();
    for is_dark in [false, true] {
        let name = if is_dark { "recommend-dark" } else { "recommend-light" };
        let Some(looks) = look(name, &html, is_dark) else { return };
        assert_eq!(looks.len(), 4);
        for look in &looks {
            assert!(look.wide.is_empty(), "{look:?}");
            assert_eq!(look.paper, if is_dark { "rgb(18, 22, 29)" } else { "rgb(255, 255, 255)" });
            assert!(look.small >= 13.0, "{look:?}");
            for part in ["Serve with instances 4 · threads ", " requests per minute", "recommended"]
            {
                assert!(look.text.contains(part), "{part}: {look:?}");
            }
            let drawn = look.charts >= 4 && look.sorted == 1;
            assert_eq!(drawn, look.scripts, "{look:?}");
        }
    }
}
