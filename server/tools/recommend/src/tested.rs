//! Settings, tested: a server of its own for each, on its processors, under load from others.

use std::{
    panic::resume_unwind,
    path::Path,
    sync::mpsc,
    thread::{self, ScopedJoinHandle},
};

use launch::{Launch, Limit, Running, on_cpus};
use loadgen::{Target, Traffic};

use crate::{
    rejection::Rejection,
    served::Served,
    setting::{Setting, Variables, of_form, overlaid},
    shares::Share,
    step::{Length, Step},
    trial::{Observed, Progress, Workload},
};

/// What all tests of a moment have in common.
pub(crate) struct Tester<'a> {
    /// The program whose `serve` is started.
    pub(crate) program: &'a Path,
    /// The model.
    pub(crate) model: &'a str,
    /// Variables of all servers.
    pub(crate) environment: &'a Variables,
    /// What is sent.
    pub(crate) workload: &'a Workload,
    /// The answers that those of each server must be equal to.
    pub(crate) expected: Option<&'a [Vec<u8>]>,
    /// The load.
    pub(crate) traffic: Traffic,
    /// Ends the tests.
    pub(crate) limit: &'a Limit,
}

impl Tester<'_> {
    /// Tests these settings at the same time, and gives what came of each, in their order. `begun` is told the process
    /// of each server as soon as there is one. Blocks until all are over.
    pub(crate) fn all(
        &self,
        tests: Vec<(Setting, Share, Progress)>,
        length: Length,
        begun: &mut dyn FnMut(u32),
    ) -> Vec<Step> {
        let (servers, started) = mpsc::channel();
        thread::scope(|scope| {
            let test = |(setting, share, progress)| {
                let servers = servers.clone();
                let mut begun = move |it| {
                    // It is heard until all tests are over.
                    let _ = servers.send(it);
                };
                scope.spawn(move || self.one(setting, &share, progress, length, &mut begun))
            };
            let threads: Vec<ScopedJoinHandle<'_, Step>> = tests.into_iter().map(test).collect();
            drop(servers);
            started.into_iter().for_each(begun);
            // A defect of one is a defect of all.
            threads.into_iter().map(|it| it.join().unwrap_or_else(|it| resume_unwind(it))).collect()
        })
    }

    /// One of them, on this thread.
    fn one(
        &self,
        setting: Setting,
        share: &Share,
        progress: Progress,
        length: Length,
        begun: &mut dyn FnMut(u32),
    ) -> Step {
        let environment = overlaid(self.environment, &setting.environment);
        let (model, variables) = of_form(self.model, &environment);
        let launch = Launch {
            program: self.program,
            model,
            environment: &variables,
            cpus: if share.generator.is_empty() { &[] } else { &share.server },
            gpu: setting.instance.gpu,
        };
        let (mut setup, mut served) = (None, None);
        let outcome =
            launch.start(self.limit, begun).map_err(Rejection::from).and_then(|mut server| {
                setup = Some(server.setup);
                served = Served::of_server(&server);
                // Where it makes no difference, it is another setting that would be measured.
                Served::unheeded_by(&server, &setting.environment)
                    .map_or(Ok(()), |it| Err(Rejection::new(it)))?;
                let target = Target::from(server.address());
                let metrics = metrics(&server).filter(|_| setting.instance.gpu);
                let observed = Observed { pid: Some(server.pid()), metrics, progress };
                let measure = || {
                    let Tester { workload, traffic, expected, limit, .. } = self;
                    workload.measure(&target, observed, traffic, *expected, limit)
                };
                let measured = on_cpus(&share.generator, measure);
                let measured = measured.unwrap_or_else(|it| {
                    Err(Rejection::new(format!("processors {:?}: {it}", share.generator)))
                });
                // A reason is cut after a thousand characters: what the server wrote comes last.
                measured.map_err(|problem| {
                    let end = server.end().map_or_else(String::new, |it| format!("; {it}"));
                    let command = launch.command_line();
                    Rejection::new(format!("{problem}; started by: {command}{end}"))
                })
            });
        let command = launch.command_line();
        Step {
            setting,
            outcome,
            setup,
            served,
            command,
            shares_processors: share.generator.is_empty(),
            length,
            rounds: Vec::new(),
        }
    }
}

/// The page of metrics of a server.
fn metrics(server: &Running) -> Option<Target> {
    format!("http://{}/metrics", server.metrics()?).parse().ok()
}
