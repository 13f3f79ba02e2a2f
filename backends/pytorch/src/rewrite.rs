//! Rewriting a module to be faster, as long as its answers stay what they were.

use std::{path::Path, sync::Arc};

use backend::Tensor;

use crate::{
    compare::{example, is_close},
    native::{Module, Produced},
    options::Rewrite,
    probe::Sample,
    runner::{Runner, take},
};

/// The executor compiles in the first two runs, so that the third is as fast as any.
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
    let examples = [example(sample, true), example(sample, false)];
    let run = |module: &Arc<Module>| answers(&mut runner(module.clone()), &examples);
    let expected = run(&module);
    for (level, name) in [(Rewrite::Inference, "optimised"), (Rewrite::Freeze, "frozen")] {
        // Where not even the module itself takes an example, or it draws lots, nothing can be compared.
        if wanted < level || expected.is_none() {
            continue;
        }
        let problem = match module.optimize(level == Rewrite::Inference).map(Arc::new) {
            Err(failure) => crate::error::useful_line(&failure.text),
            Ok(faster) => match run(&faster) {
                Some(given) if same(expected.as_deref(), &given) => return faster,
                _ => "its answers differ".to_owned(),
            },
        };
        tracing::debug!(model = %path.display(), "the module is not used {name}: {problem}");
    }
    module
}

/// All answers to the examples, run as often as makes the module warm; `None` where it takes neither.
fn answers(runner: &mut Runner, examples: &[Vec<Tensor>]) -> Option<Vec<Tensor>> {
    let mut answers = Vec::new();
    for example in examples {
        let inputs: Vec<Option<&Tensor>> = example.iter().map(Some).collect();
        let mut last = None;
        for _ in 0..WARM_UP {
            last = runner.run(&inputs).ok();
        }
        answers.extend(last.into_iter().flatten().filter_map(tensor));
    }
    (!answers.is_empty()).then_some(answers)
}

fn tensor(produced: Produced) -> Option<Tensor> {
    take(produced, "").ok()
}

fn same(expected: Option<&[Tensor]>, given: &[Tensor]) -> bool {
    let Some(expected) = expected else { return false };
    expected.len() == given.len() && expected.iter().zip(given).all(|(a, b)| is_close(a, b))
}
