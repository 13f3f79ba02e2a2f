//! Requests/s of several mixes of lengths, in turns with loops that run the same graph over the same lengths.

use std::time::Duration;

use loadgen::{Plan as LoadPlan, Report};

use crate::{
    bare::{BareLoop, Packing},
    folder::{DISTILBERT, Folder, MINILM},
    support::{
        Outcome, TemporaryFolder,
        machine::Clock,
        server::{Server, Start},
        spread::Spread,
        workload::answered,
    },
    texts::Mix,
};

/// Texts of a mix; they are sent over and over.
const TEXTS: usize = 512;

/// Connections at which there are goals beside batches.
const MANY: usize = 64;

/// The least share of the pace of one row a run, at any number of connections.
const OF_SINGLE: f64 = 0.97;

/// The least shares of the paces of eight rows as they come and of sorted batches.
struct Goals {
    arrival: f64,
    sorted: f64,
}

/// What is measured.
const CASES: [(&str, Mix, &[usize], Option<Goals>); 4] = [
    (MINILM.name, Mix::Queries, &[1, 8, MANY], Some(Goals { arrival: 1.5, sorted: 0.75 })),
    (MINILM.name, Mix::Passages, &[1, 8, MANY], Some(Goals { arrival: 2.2, sorted: 0.85 })),
    (MINILM.name, Mix::Mixed, &[1, 8, MANY], Some(Goals { arrival: 2.8, sorted: 0.82 })),
    (DISTILBERT.name, Mix::Sentence, &[1, 32], None),
];

/// Shares of the paces of loops without a server.
struct Shares {
    single: f64,
    arrival: f64,
    sorted: f64,
}

/// Prints a table; the goals that are missed.
pub fn measure(block: Duration, rounds: usize) -> Outcome<Vec<String>> {
    let repository = TemporaryFolder::new()?;
    let folders = [
        Folder::install(MINILM, repository.path())?,
        Folder::install(DISTILBERT, repository.path())?,
    ];
    let server = Start::new(repository.path()).start()?;
    println!(
        "\n| Model, texts | Connections | Requests/s | p50 | p99 | Rows of a run | CPU of a request | Of one row a run | Of arrival order, 8 | Of sorted batches | Steal |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut missed = Vec::new();
    for (model, mix, connections, goals) in CASES {
        let folder = folders.iter().find(|it| it.name == model).ok_or("no such folder")?;
        for &connections in connections {
            eprintln!("{model}, {mix}, {connections} connections ..");
            let Shares { single, arrival, sorted } =
                compare(&server, folder, mix, connections, (block, rounds))?;
            let goals = goals.iter().filter(|_| connections == MANY);
            let beside_batches = goals.flat_map(|goals| {
                [
                    ("eight rows as they come", arrival, goals.arrival),
                    ("sorted batches", sorted, goals.sorted),
                ]
            });
            let all = std::iter::once(("one row a run", single, OF_SINGLE)).chain(beside_batches);
            missed.extend(all.filter(|(_, share, goal)| share < goal).map(|(pace, share, goal)| {
                format!(
                    "{model}, {mix}, {connections} connections: {:.1} % of the pace of {pace}, the goal is {:.0} %",
                    100.0 * share,
                    100.0 * goal
                )
            }));
        }
    }
    server.stop()?;
    Ok(missed)
}

/// Prints a row; the shares of the paces beside it.
fn compare(
    server: &Server,
    folder: &Folder,
    mix: Mix,
    connections: usize,
    (block, rounds): (Duration, usize),
) -> Outcome<Shares> {
    let (model, lengths) = (folder.name, mix.lengths(TEXTS));
    let load = requests(server, folder, &lengths)?;
    let load = LoadPlan { connections, warm_up: block.div_f64(4.0), duration: Some(block), ..load };
    let plan = server.plan(model)?;
    let mut bare = BareLoop::new(folder, plan.instances, plan.threads)?;
    let loops = plan.instances.min(connections);
    let clock = Clock::read();
    let (mut served, mut rows, mut shares) = (Vec::new(), Vec::new(), [const { Vec::new() }; 3]);
    for _ in 0..rounds {
        let before = server.counts(model)?;
        let report = answered(model, &load)?;
        rows.push(server.counts(model)?.rows_per_run_since(&before));
        for (packing, shares) in
            [Packing::Single, Packing::ArrivalOrder, Packing::Sorted].into_iter().zip(&mut shares)
        {
            let pace = bare.run(loops, packing, &lengths, block)?;
            shares.push(report.throughput / pace.texts);
        }
        served.push(report);
    }
    let of = |value: fn(&Report) -> f64| Spread::new(served.iter().map(value)).median;
    let [single, arrival, sorted] = shares.map(Spread::new);
    println!(
        "| {model}, {mix} | {connections} | {:.0} | {:.1} ms | {:.1} ms | {:.1} | {:.0} µs | {} | {} | {} | {:.1} % |",
        of(|it| it.throughput),
        of(|it| it.latency.p50.as_secs_f64() * 1e3),
        of(|it| it.latency.p99.as_secs_f64() * 1e3),
        Spread::new(rows).median,
        of(|it| it.server.map_or(0.0, |it| it.cpu.per_request.as_secs_f64() * 1e6)),
        single.percent(),
        arrival.percent(),
        sorted.percent(),
        100.0 * Clock::read().steal_since(&clock),
    );
    Ok(Shares { single: single.median, arrival: arrival.median, sorted: sorted.median })
}

/// One request of OpenAI's form for each length.
pub fn requests(server: &Server, folder: &Folder, lengths: &[usize]) -> Outcome<LoadPlan> {
    let mut writer = folder.writer()?;
    let route = loadgen::TextRoute::OpenaiEmbeddings;
    let request = |it: &usize| route.request(Some(folder.name), &writer.text(*it));
    let requests = lengths.iter().map(request).collect::<Result<Vec<_>, _>>()?;
    let check = loadgen::Check::FirstReply(std::sync::Arc::new(move |it| route.is_answer(it.body)));
    let plan = LoadPlan::new(server.address().into(), requests);
    Ok(LoadPlan { pid: Some(server.pid()), check, ..plan })
}
