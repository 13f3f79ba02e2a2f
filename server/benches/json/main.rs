//! Processor time of JSON, in and out, beside serde_json's typed path, as Markdown:
//! `cargo bench -p muster --bench json`.

mod measure;
mod numbers;
mod requests;

fn main() {
    println!("Median of {} rounds in turns; CPU time of the thread.\n", measure::ROUNDS);
    numbers::run();
    println!();
    requests::run();
}
