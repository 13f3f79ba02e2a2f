//! Inputs and outputs of which neither the model's file nor its configuration says how many dimensions they have. Pure.

use std::collections::BTreeSet;

use backend::{ModelSpec, TensorSpec};

use serving::config::{
    model::{ModelConfig, PortConfig},
    raw::ModelConfig as RawConfig,
    server_ports,
};

/// Their names.
#[derive(Debug, Default)]
pub(crate) struct OpenRanks {
    pub(crate) inputs: BTreeSet<String>,
    pub(crate) outputs: BTreeSet<String>,
}

impl OpenRanks {
    /// Those of a model with that configuration, before it is completed.
    pub(crate) fn of(raw: &RawConfig, spec: &ModelSpec) -> OpenRanks {
        let inputs = raw.input.iter().filter(|it| !it.dims.is_empty()).map(|it| &*it.name);
        let inputs: Vec<&str> = inputs.chain(server_ports::input_names(raw)).collect();
        let outputs = raw.output.iter().filter(|it| !it.dims.is_empty()).map(|it| &*it.name);
        let outputs: Vec<&str> = outputs.chain(server_ports::output_names(raw)).collect();
        OpenRanks { inputs: open(&spec.inputs, &inputs), outputs: open(&spec.outputs, &outputs) }
    }

    /// Those of a configuration that is complete.
    pub(crate) fn of_config(config: &ModelConfig) -> OpenRanks {
        let names = |ports: &[PortConfig]| {
            ports.iter().filter(|it| it.any_rank).map(|it| it.name.to_string()).collect()
        };
        OpenRanks { inputs: names(&config.inputs), outputs: names(&config.outputs) }
    }

    /// Notes them in the ports of a configuration.
    pub(crate) fn mark(&self, inputs: &mut [PortConfig], outputs: &mut [PortConfig]) {
        for port in inputs {
            port.any_rank = self.inputs.contains(&*port.name);
        }
        for port in outputs {
            port.any_rank = self.outputs.contains(&*port.name);
        }
    }
}

fn open(specs: &[TensorSpec], said: &[&str]) -> BTreeSet<String> {
    let open = specs.iter().filter(|it| it.any_rank && !said.contains(&&*it.name));
    open.map(|it| it.name.to_string()).collect()
}
