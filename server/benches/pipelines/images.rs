//! A photograph to boxes: what it costs as JPEG, and what it costs as the tensor that is made of it.

use std::{sync::Arc, time::Duration};

use loadgen::{
    Check, CheckedReply, DataType, Input, Plan as LoadPlan, Request, invocations, kserve_binary,
};

use crate::{
    detector::{self, FOUND},
    support::{
        Outcome, TemporaryFolder, micros, process::Threads, server::Start, spread::Spread,
        workload::answered,
    },
};

const CONNECTIONS: usize = 4;
const MODEL: &str = "detector";

/// One way to ask for boxes.
struct Way {
    title: &'static str,
    takes_images: bool,
    request: Request,
    is_answer: fn(&[u8]) -> bool,
    /// Processor time of a request in the client, beside sending and reading.
    of_client: Duration,
}

/// Prints a table; there is no goal without a peer.
pub fn measure(block: Duration, rounds: usize) -> Outcome<Vec<String>> {
    let photograph = detector::photograph()?;
    let pixels = detector::pixels(&photograph)?;
    let bytes = pixels.iter().flat_map(|it| it.to_le_bytes()).collect();
    let tensor = Input::raw("images", DataType::Fp32, &[1, 3, 640, 640], bytes)?;
    let ways = [
        Way {
            title: "JPEG",
            takes_images: true,
            is_answer: |body| body.windows(8).filter(|it| it == b"\"label\":").count() == FOUND,
            of_client: Duration::ZERO,
            request: invocations("image/jpeg", photograph.clone())?,
        },
        Way {
            title: "tensor",
            takes_images: false,
            is_answer: |body| body.len() > 84 * 8_400 * 4,
            of_client: detector::cost_of_client(&photograph)?,
            request: kserve_binary(MODEL, &[tensor])?,
        },
    ];
    println!(
        "\n| A photograph of 1920 × 1080 as | kB there | kB back | Requests/s | p50 | Server CPU | Of its run | Beside it | Client CPU: sending, reading | Preparing, finding boxes |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for way in ways {
        eprintln!("a photograph as {} ..", way.title);
        row(way, &pixels, (block, rounds))?;
    }
    Ok(Vec::new())
}

/// Prints a row.
fn row(way: Way, pixels: &[f32], (block, rounds): (Duration, usize)) -> Outcome<()> {
    let Way { title, takes_images, request, is_answer, of_client } = way;
    let repository = TemporaryFolder::new()?;
    detector::install(MODEL, repository.path(), takes_images)?;
    let file = repository.path().join(MODEL).join("1/model.onnx");
    let server = Start::new(repository.path()).start()?;
    let is_right = move |it: &CheckedReply<'_>| is_answer(it.body);
    let load = LoadPlan {
        connections: CONNECTIONS,
        warm_up: block.div_f64(4.0),
        duration: Some(block),
        pid: Some(server.pid()),
        check: Check::FirstReply(Arc::new(is_right)),
        ..LoadPlan::new(server.address().into(), vec![request])
    };
    let (mut reports, mut all, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (counts, before) = (server.counts(MODEL)?, Threads::read(server.pid())?);
        reports.push(answered(title, &load)?);
        let cpu = Threads::read(server.pid())?.total_since(&before).cpu;
        // The warm-up is in both.
        all.push(micros(cpu) / server.counts(MODEL)?.rows_since(&counts).max(1.0));
        run.push(micros(detector::cost_of_run(&file, pixels.to_vec())?));
    }
    server.stop()?;
    let beside = Spread::new(all.iter().zip(&run).map(|(all, run)| all - run)).median;
    let of = |value: fn(&loadgen::Report) -> f64| Spread::new(reports.iter().map(value)).median;
    let [all, run] = [all, run].map(|it| Spread::new(it).median);
    println!(
        "| {title} | {:.0} | {:.1} | {:.0} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms | {:.2} ms | {:.1} ms |",
        of(|it| it.bytes_sent as f64 / it.requests.max(1) as f64) / 1e3,
        of(|it| it.bytes_received as f64 / it.requests.max(1) as f64) / 1e3,
        of(|it| it.throughput),
        of(|it| it.latency.p50.as_secs_f64() * 1e3),
        all / 1e3,
        run / 1e3,
        beside / 1e3,
        of(|it| it.generator.cpu.as_secs_f64() * 1e3 / it.requests.max(1) as f64),
        of_client.as_secs_f64() * 1e3,
    );
    Ok(())
}
