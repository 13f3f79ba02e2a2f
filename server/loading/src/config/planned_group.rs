//! What became of an instance group of a configuration.

use serving::config::model::InstanceKind;

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedGroup {
    /// [`InstanceKind::Gpu`] or [`InstanceKind::Cpu`] where it was left open, else as it was.
    pub kind: InstanceKind,
    /// Instances, per GPU or in all.
    pub count: usize,
    /// Their numbers; none on the CPU.
    pub gpus: Vec<u32>,
}
