//! GPUs, and why there are none.

/// A GPU, or the part of one that a process has to itself (MIG).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Counted from zero among the visible ones: the number that CUDA and configurations use.
    pub number: u32,
    /// `GPU-…`, or `MIG-…` for a part of one.
    pub uuid: String,
    /// What it is called: `NVIDIA A10G`.
    pub name: String,
    /// Bytes of its memory, where the driver says.
    pub memory: Option<u64>,
    /// `8.6`: what it can compute, where the driver says.
    pub capability: Option<String>,
}

/// The GPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// In the order of their numbers, without gaps.
    pub found: Vec<Gpu>,
    /// Why there is none, or why there are fewer than the machine has, or fewer than `CUDA_VISIBLE_DEVICES`
    /// names where that is set; empty where neither is so.
    pub reason: String,
    /// What the reason is about.
    pub lack: Lack,
}

/// What keeps models from the GPUs of a machine, or from some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Nothing does.
    Nothing,
    /// There is no driver, and so no GPU, as on most machines.
    NoDriver,
    /// The environment hides all of them on purpose.
    Hidden,
    /// Something that is hardly meant: a driver that does not work, a bad list, a GPU without parts.
    Fault,
}

impl Lack {
    /// Is there a GPU that could be used, were it not for this?
    pub fn is_of_some(self) -> bool {
        matches!(self, Lack::Hidden | Lack::Fault)
    }
}

/// What the environment says about GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visibility {
    /// `CUDA_VISIBLE_DEVICES`: CUDA shows these only, in this order.
    pub cuda: Option<String>,
    /// `NVIDIA_VISIBLE_DEVICES`: what was asked of the container's runtime. It explains an absence and
    /// decides nothing: a runtime that hands out GPUs by itself sets it to `void`.
    pub container: Option<String>,
}

impl Gpus {
    /// The same where the driver knows of GPUs beside them that do not answer it, for these reasons.
    pub(super) fn without(self, silent: &[String]) -> Gpus {
        if silent.is_empty() {
            return self;
        }
        let mut reasons = silent.to_vec();
        if self.lack.is_of_some() {
            reasons.push(self.reason);
        }
        Gpus { reason: reasons.join("; "), lack: Lack::Fault, ..self }
    }

    /// No GPUs for this reason, and what the environment adds to it.
    pub(super) fn none(reason: String, lack: Lack, visibility: &Visibility) -> Gpus {
        let container = visibility.container.as_deref().map(str::trim);
        let reason = match container {
            Some(it @ ("none" | "void" | "")) => {
                format!("{reason} (NVIDIA_VISIBLE_DEVICES is '{it}')")
            }
            _ => reason,
        };
        Gpus { found: Vec::new(), reason, lack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_was_started_without_gpus_is_the_reason() {
        let none = |container: &str| {
            let container = Some(container.to_owned());
            let visibility = Visibility { cuda: None, container };
            Gpus::none("none".into(), Lack::NoDriver, &visibility).reason
        };
        assert_eq!(none("void"), "none (NVIDIA_VISIBLE_DEVICES is 'void')");
        assert_eq!(none("all"), "none");
    }

    #[test]
    fn a_gpu_that_does_not_answer_its_driver_is_a_fault_whatever_else_there_is() {
        let silent = ["GPU 3 does not answer: lost".to_owned()];
        let gpus = |reason: &str, lack| Gpus { found: Vec::new(), reason: reason.to_owned(), lack };
        let fine = gpus("", Lack::Nothing).without(&silent);
        assert_eq!(fine, gpus("GPU 3 does not answer: lost", Lack::Fault));
        let hidden = gpus("hidden", Lack::Hidden);
        assert_eq!(hidden.clone().without(&[]), hidden);
        assert_eq!(hidden.without(&silent).reason, "GPU 3 does not answer: lost; hidden");
    }
}
