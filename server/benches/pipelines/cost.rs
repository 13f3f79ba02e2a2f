//! Processor time of a request beside that of its run: reading, tokenizing, queueing, the head, the reply.

use std::{path::Path, sync::Arc, time::Duration};

use loadgen::{Check, Plan as LoadPlan, TextRoute};

use crate::{
    bare::{BareLoop, Packing},
    folder::{Folder, LOOK_UP},
    support::{
        Outcome, TemporaryFolder, micros,
        process::Threads,
        server::{Server, Start},
        spread::Spread,
        workload::answered,
    },
    texts::Mix,
};

/// Connections, as many as the goals speak of.
const CONNECTIONS: usize = 64;

/// What writes a folder, and what is asked of its model.
type Asked = (fn(&Path) -> Outcome<Folder>, &'static [Case]);

/// The route, what it is called, and the most processor time beside the run.
type Case = (TextRoute, &'static str, f64);

const ASKED: [Asked; 2] = [
    (
        |repository| Folder::install(LOOK_UP, repository),
        &[
            (TextRoute::HfInvocations, "`/invocations`, 384 floats as JSON", 45.0),
            (TextRoute::OpenaiEmbeddings, "`/v1/embeddings`, base64", 30.0),
            (TextRoute::TeiEmbed, "`/embed`, 384 floats as JSON", 45.0),
        ],
    ),
    (Folder::classifier, &[(TextRoute::HfInvocations, "`/invocations`, label and score", 25.0)]),
];

/// Prints a table; the goals that are missed.
pub fn measure(block: Duration, rounds: usize) -> Outcome<Vec<String>> {
    println!(
        "\n| One text of nine tokens | Requests/s | CPU of a request | Of its run | Beside it | Goal |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    let mut missed = Vec::new();
    for (install, cases) in ASKED {
        // The only model of its server: the routes name none.
        let repository = TemporaryFolder::new()?;
        let folder = install(repository.path())?;
        let server = Start::new(repository.path()).start()?;
        for asked in cases {
            let (_, title, goal) = asked;
            eprintln!("{title} ..");
            let beside = case(&server, &folder, asked, (block, rounds))?;
            if beside > *goal {
                missed
                    .push(format!("{title}: {beside:.0} µs beside the run, the goal is {goal} µs"));
            }
        }
        server.stop()?;
    }
    Ok(missed)
}

/// Prints a row; microseconds beside the run.
fn case(
    server: &Server,
    folder: &Folder,
    &(route, title, goal): &Case,
    (block, rounds): (Duration, usize),
) -> Outcome<f64> {
    let name = folder.name;
    let lengths = Mix::Sentence.lengths(1);
    let text = folder.writer()?.text(lengths[0]);
    let load = LoadPlan {
        connections: CONNECTIONS,
        warm_up: block.div_f64(4.0),
        duration: Some(block),
        pid: Some(server.pid()),
        check: Check::FirstReply(Arc::new(move |it| route.is_answer(it.body))),
        ..LoadPlan::new(server.address().into(), vec![route.request(Some(name), &text)?])
    };
    let plan = server.plan(name)?;
    let mut bare = BareLoop::new(folder, plan.instances, plan.threads)?;
    let (mut all, mut run, mut throughput) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (counts, before) = (server.counts(name)?, Threads::read(server.pid())?);
        let report = answered(title, &load)?;
        let cpu = Threads::read(server.pid())?.total_since(&before).cpu;
        // The warm-up is in both.
        let requests = server.counts(name)?.rows_since(&counts);
        all.push(micros(cpu) / requests.max(1.0));
        let rows = server.counts(name)?.rows_per_run_since(&counts).round() as usize;
        let pace = bare.run(
            plan.instances,
            Packing::ArrivalOrder,
            &vec![lengths[0]; rows.clamp(1, 8)],
            block,
        )?;
        run.push(micros(pace.cpu_per_text));
        throughput.push(report.throughput);
    }
    let beside = Spread::new(all.iter().zip(&run).map(|(all, run)| all - run)).median;
    let [all, run, throughput] = [all, run, throughput].map(|it| Spread::new(it).median);
    println!(
        "| {title} | {throughput:.0} | {all:.1} µs | {run:.1} µs | {beside:.1} µs | {goal} µs |"
    );
    Ok(beside)
}
