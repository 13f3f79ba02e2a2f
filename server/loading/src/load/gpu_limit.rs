//! GPUs on which nothing more is loaded, since too much of their memory is in use. Pure.

use backend::Device;

use crate::{
    load::{load_error::LoadError, placement::Plan},
    settings::gpu_limit::GpuLimit,
};
use machine::{
    bytes_text,
    gpus::{Gpu, Sensor},
};

/// What sensors say: GPU, sensor, value.
type Readings = [(String, Sensor, f64)];

/// May a model be loaded where it is planned? A GPU that does not tell how much of its memory is in use has no limit.
///
/// # Errors
/// Which GPU has too little left: [`LoadError::OutOfMemory`].
pub(crate) fn check(
    plan: &Plan,
    limits: &[GpuLimit],
    gpus: &[Gpu],
    readings: &Readings,
) -> Result<(), LoadError> {
    for placement in plan.placements() {
        let Device::Gpu(number) = placement.device else { continue };
        let of_gpu = |it: &&GpuLimit| it.gpu.is_none_or(|gpu| gpu == number);
        // Of several, the last one counts.
        let Some(limit) = limits.iter().rev().find(of_gpu) else { continue };
        let Some(gpu) = gpus.iter().find(|it| it.number == number) else { continue };
        let of = |sensor| {
            let mut readings = readings.iter();
            let reading = readings.find(|(uuid, it, _)| *uuid == gpu.uuid && *it == sensor);
            reading.map(|(_, _, value)| *value)
        };
        let (Some(used), Some(total)) = (of(Sensor::MemoryUsed), of(Sensor::MemoryTotal)) else {
            continue;
        };
        if limit.fraction * total < used {
            return Err(LoadError::OutOfMemory(format!(
                "{} of the {} of GPU {number} are in use, more than the fraction {} of \
                 --model-load-gpu-limit",
                bytes_text(used as u64),
                bytes_text(total as u64),
                limit.fraction
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, num::NonZeroUsize};

    use super::*;
    use crate::load::placement::{Places, plan};
    use crate::settings::model_defaults::ModelDefaults;

    const GIB: f64 = (1u64 << 30) as f64;

    /// The outcome for a model on GPUs 0 and 1, of whose 16 GiB 4 and 12 are in use.
    fn refused(limits: &[(Option<u32>, f64)]) -> Option<String> {
        let gpu = |number: u32| Gpu {
            number,
            uuid: format!("GPU-{number}"),
            name: String::new(),
            memory: None,
            capability: None,
        };
        let gpus = [gpu(0), gpu(1)];
        let defaults = ModelDefaults::default();
        let places = Places { cpus: NonZeroUsize::MIN, gpus: Ok(&gpus), thread_keys: &[] };
        let plan = plan(&[], &BTreeMap::new(), &defaults, places).unwrap();
        let readings = [(0, 4.0), (1, 12.0)].map(|(number, used)| {
            let uuid = format!("GPU-{number}");
            [
                (uuid.clone(), Sensor::MemoryTotal, 16.0 * GIB),
                (uuid, Sensor::MemoryUsed, used * GIB),
            ]
        });
        let limits: Vec<GpuLimit> =
            limits.iter().map(|&(gpu, fraction)| GpuLimit { gpu, fraction }).collect();
        check(&plan, &limits, &gpus, &readings.concat()).err().map(|it| it.to_string())
    }

    #[test]
    fn a_limit_is_for_one_gpu_or_for_all_and_the_last_one_counts() {
        assert_eq!(refused(&[]), None);
        assert_eq!(refused(&[(None, 0.75)]), None);
        let text = refused(&[(None, 0.5)]).unwrap();
        assert!(text.starts_with("12 GiB of the 16 GiB of GPU 1 are in use"), "{text}");
        assert!(refused(&[(Some(0), 0.2)]).unwrap().contains("GPU 0"));
        assert_eq!(refused(&[(Some(0), 0.5)]), None);
        assert_eq!(refused(&[(None, 0.5), (Some(1), 0.9)]), None);
    }
}
