//! What keeps a setting from carrying more: processors, GPU, load generator, or none of them. Pure.

use std::fmt;

use crate::step::Step;

/// From this share on something is full.
const FULL: f64 = 0.9;

/// What is used at the load that stands for a setting, in processors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Used {
    /// Those that the server has.
    pub processors: f64,
    /// What it uses of them, with what a load generator uses that shares them.
    pub busy: f64,
    /// The share of the time in which the GPUs worked, where there are any.
    pub gpu: Option<f64>,
    /// What the load generator uses where it is the bound.
    pub generator: Option<f64>,
}

/// What is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The load generator: the server may carry more.
    Generator,
    /// The processors.
    Processors,
    /// The GPU.
    Gpu,
    /// Both.
    ProcessorsAndGpu,
    /// Nothing: answers wait for something else.
    Neither,
}

impl Used {
    /// Of a step; `None` where it is not known what its server uses.
    pub fn of(step: &Step) -> Option<Used> {
        let measured = step.outcome.as_ref().ok()?;
        let window = measured.window()?;
        let generator = measured.client_bound.then_some(measured.client_cores);
        let server = match window.server {
            Some(server) => server.cores,
            // A server that runs already: the load generator is all that is known.
            None => return generator.map(|_| Used { generator, ..Used::default() }),
        };
        let shared = if step.shares_processors { measured.client_cores } else { 0.0 };
        Some(Used {
            processors: step.setting.instance.cpus as f64,
            busy: server + shared,
            gpu: window.gpu.map(|it| it.utilization),
            generator,
        })
    }

    /// What is full.
    pub fn bottleneck(&self) -> Bottleneck {
        let processors = self.processors > 0.0 && self.busy >= FULL * self.processors;
        let gpu = self.gpu.is_some_and(|it| it >= FULL);
        match (processors, gpu) {
            (true, true) => Bottleneck::ProcessorsAndGpu,
            (false, true) => Bottleneck::Gpu,
            // A generator among the processors of the server is busy because these are.
            (true, false) => Bottleneck::Processors,
            (false, false) if self.generator.is_some() => Bottleneck::Generator,
            (false, false) => Bottleneck::Neither,
        }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = format!("{:.0} of {:.0} %", self.busy * 100.0, self.processors * 100.0);
        let gpu = self.gpu.unwrap_or_default() * 100.0;
        match self.bottleneck() {
            Bottleneck::Generator => {
                let used = self.generator.unwrap_or_default() * 100.0;
                write!(f, "the load generator is the bound ({used:.0} of 100 %)")
            }
            Bottleneck::Processors if self.gpu.is_some() => {
                write!(f, "the processors are full ({of}), the GPU is not ({gpu:.0} %)")
            }
            Bottleneck::Processors => write!(f, "the processors are full ({of})"),
            Bottleneck::Gpu => {
                write!(f, "the GPU is full ({gpu:.0} %), the processors are not ({of})")
            }
            Bottleneck::ProcessorsAndGpu => {
                write!(f, "processors ({of}) and GPU ({gpu:.0} %) are full")
            }
            Bottleneck::Neither if self.gpu.is_some() => {
                write!(f, "neither processors ({of}) nor GPU ({gpu:.0} %) are full")
            }
            Bottleneck::Neither => write!(f, "the processors are not full ({of})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(used: Used, bottleneck: Bottleneck, words: &str) {
        assert_eq!((used.bottleneck(), used.to_string().as_str()), (bottleneck, words));
    }

    #[test]
    fn what_is_full_is_said_with_what_is_used() {
        let cpus = |busy: f64| Used { processors: 2.0, busy, ..Used::default() };
        let gpu = |busy: f64, gpu: f64| Used { gpu: Some(gpu), ..cpus(busy) };
        check(cpus(1.95), Bottleneck::Processors, "the processors are full (195 of 200 %)");
        check(cpus(0.6), Bottleneck::Neither, "the processors are not full (60 of 200 %)");
        check(
            gpu(1.9, 0.4),
            Bottleneck::Processors,
            "the processors are full (190 of 200 %), the GPU is not (40 %)",
        );
        check(
            gpu(0.5, 0.97),
            Bottleneck::Gpu,
            "the GPU is full (97 %), the processors are not (50 of 200 %)",
        );
        check(
            gpu(1.9, 0.95),
            Bottleneck::ProcessorsAndGpu,
            "processors (190 of 200 %) and GPU (95 %) are full",
        );
        check(
            gpu(0.5, 0.5),
            Bottleneck::Neither,
            "neither processors (50 of 200 %) nor GPU (50 %) are full",
        );
    }

    #[test]
    fn the_load_generator_is_the_bound_only_where_nothing_else_is_full() {
        let bound = |busy: f64| Used { processors: 2.0, busy, gpu: None, generator: Some(0.93) };
        let words = "the load generator is the bound (93 of 100 %)";
        check(bound(1.0), Bottleneck::Generator, words);
        check(bound(1.93), Bottleneck::Processors, "the processors are full (193 of 200 %)");
        check(Used { generator: Some(0.93), ..Used::default() }, Bottleneck::Generator, words);
    }
}
