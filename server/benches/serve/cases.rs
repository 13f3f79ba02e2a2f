//! What is measured: which models, in which formats, over how many connections.

use crate::support::{
    Outcome,
    workload::{self, Format, Workload},
};

/// One line of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the workload.
    pub model: &'static str,
    pub format: Format,
    pub connections: usize,
}

impl Case {
    /// As filters see it: `mlp/json/16`.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.model, self.format, self.connections)
    }
}

/// A workload and the lines that it makes.
pub struct Series {
    pub workload: Workload,
    formats: &'static [Format],
    connections: &'static [usize],
}

impl Series {
    /// Every format with every number of connections.
    pub fn cases(&self) -> impl Iterator<Item = Case> {
        let case = move |format| {
            let of = move |&connections| Case { model: self.workload.name, format, connections };
            self.connections.iter().map(of)
        };
        self.formats.iter().copied().flat_map(case)
    }
}

/// All of them, in the order of the tables.
pub fn all() -> Outcome<Vec<Series>> {
    const ALL: &[Format] = &[Format::Binary, Format::Json, Format::Grpc];
    const HTTP: &[Format] = &[Format::Binary, Format::Json];
    let series = |workload, formats, connections| Series { workload, formats, connections };
    let mut all = vec![
        series(workload::identity_builtin(16)?, ALL, &[1, 16, 64]),
        series(workload::identity_onnx(16)?, ALL, &[1, 16, 64]),
        series(workload::fixture("mlp")?, ALL, &[1, 16, 64]),
        series(workload::image()?, HTTP, &[1, 4]),
        series(workload::fixture("convnet")?, &[Format::Binary], &[16]),
        series(workload::fixture("transformer")?, &[Format::Binary], &[16]),
    ];
    if workload::pytorch_plugin().is_none() {
        eprintln!("TorchScript is left out: python3 backends/pytorch/prepare.py has not been run");
        return Ok(all);
    }
    for (name, model) in [
        ("mlp-torchscript", "mlp"),
        ("convnet-torchscript", "convnet"),
        ("transformer-torchscript", "transformer"),
    ] {
        all.push(series(workload::torchscript(name, model)?, &[Format::Binary], &[16]));
    }
    Ok(all)
}
