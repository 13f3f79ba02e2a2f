//! What a tokenizer costs beside its graph: the time until it is ready, and what it holds.

use std::{path::Path, time::Instant};

use crate::{
    folder::{Folder, TokenizerKind, table},
    support::{Outcome, TemporaryFolder, process::resident, server::Start, spread::Spread},
};

/// Tokenizers of BERT's, RoBERTa's and multilingual models, and the most MiB of each; the last has no goal.
const TOKENIZERS: [(TokenizerKind, u64, f64); 3] = [
    (TokenizerKind::WordPiece, 30_522, 35.0),
    (TokenizerKind::Bpe, 50_265, 35.0),
    (TokenizerKind::Bpe, 250_002, f64::INFINITY),
];

/// Most milliseconds until a folder is ready, beside its graph; not those of the largest.
const MOST_MILLISECONDS: f64 = 150.0;

/// As few instances as there can be, and several: a tokenizer is there once.
const INSTANCES: [&str; 2] = ["1", "4"];

/// Prints a table; the goals that are missed.
pub fn measure(rounds: usize) -> Outcome<Vec<String>> {
    println!(
        "\n| Tokenizer | Tokens | Instances | Graph: ms, MiB | Folder: ms, MiB | Beside it: ms, MiB | Goal |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let mut missed = Vec::new();
    for (kind, tokens, most) in TOKENIZERS {
        let folders = TemporaryFolder::new()?;
        let [with, without] = ["with", "without"].map(|it| folders.path().join(it));
        let folder = Folder::install(table(tokens), &with)?;
        folder.enlarge(kind, usize::try_from(tokens)?)?;
        folder.install_graph(&without)?;
        for instances in INSTANCES {
            let (mut times, mut sizes) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                times.push([start(&without, instances)?, start(&with, instances)?]);
            }
            for at in [0, 1] {
                let median = |pick: fn(&(f64, f64)) -> f64| {
                    Spread::new(times.iter().map(|it| pick(&it[at]))).median
                };
                sizes.push((median(|it| it.0), median(|it| it.1)));
            }
            let ((time, size), (graph_time, graph_size)) = (sizes[1], sizes[0]);
            let (more_time, more_size) = (time - graph_time, size - graph_size);
            let (goal, is_missed) = match most.is_finite() {
                true => (
                    format!("{MOST_MILLISECONDS} ms, {most} MiB"),
                    more_time > MOST_MILLISECONDS || more_size > most,
                ),
                false => (String::new(), false),
            };
            let name = kind.name();
            println!(
                "| {name} | {tokens} | {instances} | {graph_time:.0}, {graph_size:.0} | {time:.0}, {size:.0} | \
                 {more_time:.0}, {more_size:.0} | {goal} |"
            );
            if is_missed {
                missed.push(format!(
                    "{name} of {tokens} tokens: {more_time:.0} ms, {more_size:.0} MiB"
                ));
            }
        }
    }
    Ok(missed)
}

/// Milliseconds until a server of that repository is ready, and the MiB that it holds then.
fn start(repository: &Path, instances: &str) -> Outcome<(f64, f64)> {
    let flags = ["--default-instance-count", instances, "--eager-instances=true"];
    let begin = Instant::now();
    let server = Start { flags: &flags, ..Start::new(repository) }.start()?;
    let time = begin.elapsed().as_secs_f64() * 1e3;
    let size = resident(server.pid())?;
    server.stop()?;
    Ok((time, size))
}
