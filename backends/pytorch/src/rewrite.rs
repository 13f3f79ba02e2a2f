//! Rewriting a module to be faster, as long as its answers stay what they were.

use std::{path::Path, sync::Arc};

use backend::Tensor;

use crate::{
    compare::{example, is_close},
    error::useful_line,
    native::{Module, Produced},
    options::Rewrite,
    probe::Sample,
    runner::{Runner, take},
};

/// Runs of one example. The executor compiles in the first two runs, so that the third is as fast as any.
const WARM_UP: usize = 3;

/// `module`, or a rewritten form of it that gives the same answers, after some runs. Without a sample that the
/// module takes nothing can be compared, and it stays as it is.
pub(crate) fn faster(
    module: Arc<Module>,
    wanted: Rewrite,
    sample: Option<&[Sample]>,
    runner: &dyn Fn(Arc<Module>) -> Runner,
    path: &Path,
) -> Arc<Module> {
    let Some(sample) = sample else { return module };
    let examples = [example(sample, false), example(sample, true)];
    let run = |module: &Arc<Module>, times| answers(&mut runner(module.clone()), &examples, times);
    // Where not even the module itself takes an example, nothing can be compared.
    let expected = run(&module, 1);
    for (level, name) in [(Rewrite::Inference, "optimised"), (Rewrite::Freeze, "frozen")] {
        let Some(expected) = expected.as_ref().filter(|_| level <= wanted) else { continue };
        let problem = match module.optimize(level == Rewrite::Inference).map(Arc::new) {
            Err(failure) => useful_line(&failure.text),
            Ok(faster) => match run(&faster, WARM_UP) {
                Some(given) if same(expected, &given) => return faster,
                _ => "its answers differ".to_owned(),
            },
        };
        tracing::debug!(model = %path.display(), "the module is not used {name}: {problem}");
    }
    run(&module, WARM_UP);
    module
}

/// All answers to the examples, of which the first is run so many times; `None` where it takes neither.
fn answers(runner: &mut Runner, examples: &[Vec<Tensor>], times: usize) -> Option<Vec<Tensor>> {
    let mut answers = Vec::new();
    for (example, times) in examples.iter().zip([times, 1]) {
        let inputs: Vec<Option<&Tensor>> = example.iter().map(Some).collect();
        let last = (0..times).filter_map(|_| runner.run(&inputs).ok()).last();
        answers.extend(last.into_iter().flatten().filter_map(tensor));
    }
    (!answers.is_empty()).then_some(answers)
}

fn tensor(produced: Produced) -> Option<Tensor> {
    take(produced, "").ok()
}

fn same(expected: &[Tensor], given: &[Tensor]) -> bool {
    expected.len() == given.len() && expected.iter().zip(given).all(|(a, b)| is_close(a, b))
}
