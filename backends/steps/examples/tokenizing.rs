//! What it costs to make rows of a folder's texts: `tokenizing DIR TEXT...`, microseconds for each text.

use std::time::Instant;

use backend::{DataType, ModelSpec, TensorSpec};
use backend_steps::{Dir, Folder, Input, Opened, Overrides, Parameters, Pipeline, Step};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("the first argument is a folder")?;
    let folder = Folder::read(&Dir::alone(dir.as_ref()), &Overrides::default())?;
    let spec = |name: &str, dtype, rank| TensorSpec {
        name: name.into(),
        dtype,
        dims: vec![None; rank],
        any_rank: false,
        optional: false,
    };
    let spec = ModelSpec {
        inputs: ["input_ids", "attention_mask"].map(|it| spec(it, DataType::Int64, 2)).to_vec(),
        outputs: vec![
            spec("logits", DataType::Fp32, 2),
            spec("last_hidden_state", DataType::Fp32, 3),
        ],
        ..ModelSpec::default()
    };
    let start = Instant::now();
    let opened = Pipeline::open(&folder, &spec)?;
    let pipeline = match opened {
        Opened::Pipeline(pipeline) => pipeline,
        Opened::Tensors(reason) => return Err(reason.into()),
    };
    println!("{} (opened in {:?})", pipeline.describe(), start.elapsed());
    let parameters = Parameters { truncate: Some(true), ..Parameters::default() };
    let task = pipeline.task();
    for text in arguments {
        let run = || pipeline.prepare(task, &Input::Text(&text), &parameters);
        let tokens = run()?.tokens();
        let mut least = f64::INFINITY;
        for _ in 0..50 {
            let start = Instant::now();
            for _ in 0..20 {
                run()?;
            }
            least = least.min(start.elapsed().as_secs_f64() / 20.0 * 1e6);
        }
        println!("{tokens:5} tokens, {least:8.1} µs");
    }
    Ok(())
}
