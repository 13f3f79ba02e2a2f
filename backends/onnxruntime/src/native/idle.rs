//! Giving back the memory that a session's arena holds and no run or output uses.
//!
//! ONNX Runtime lets an arena shrink at the end of a run only, and not while an output of that run is alive, which lies
//! in it. So there is a run for it that is ended before its first operator.

use std::{
    ffi::{CString, c_char},
    ptr,
    sync::atomic::Ordering::Relaxed,
};

use backend::{DataType, Shape, Tensor};
use ort::{logging::LogLevel, session::RunOptions};

use super::{
    session::{Kind, Port, Session},
    session_arena::Arena,
    table::{Native, Result},
    value::Value,
};
use crate::{
    element,
    settling::{Settle, Settled},
};

/// To be called after runs that may have taken much, and when a large output is gone.
impl Settle for Session {
    fn settle(&self) -> Settled {
        let Some(arena) = &self.arena else { return Settled::Kept };
        let Some(idle) = arena.idle() else { return Settled::Kept };
        if self.note_idle(arena, idle) || arena.is_shrinking.swap(true, Relaxed) {
            return Settled::Kept;
        }
        if let Err(error) = self.shrink() {
            tracing::debug!(error = error.message(), "an arena of ONNX Runtime cannot shrink");
        }
        arena.is_shrinking.store(false, Relaxed);
        match arena.idle().is_none_or(|idle| self.note_idle(arena, idle)) {
            true => Settled::GaveBack,
            false => Settled::InVain,
        }
    }
}

impl Session {
    /// Notes that the arena has so many bytes idle. May it keep them?
    fn note_idle(&self, arena: &Arena, idle: u64) -> bool {
        if arena.is_common {
            return idle <= arena.keeping.of_all;
        }
        let kept = &self.runtime().kept;
        let before = arena.known.swap(idle, Relaxed);
        let all = kept.fetch_add(idle, Relaxed).wrapping_add(idle).wrapping_sub(before);
        kept.fetch_sub(before, Relaxed);
        arena.keeping.allows(idle, all)
    }

    /// It will not keep anything.
    pub(super) fn forget_idle(&self) {
        if let Some(arena) = &self.arena {
            self.runtime().kept.fetch_sub(arena.known.load(Relaxed), Relaxed);
        }
    }

    /// Makes a run that is over before it begins, at the end of which the arena shrinks.
    fn shrink(&self) -> Result<()> {
        let mut options = RunOptions::new()?;
        options.set_log_level(LogLevel::Fatal)?;
        options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
        options.terminate()?;
        let native = &self.runtime().native;
        let empty: Vec<Empty> = self.inputs()?.iter().map(Empty::of).collect::<Result<_>>()?;
        let values = empty.iter().map(|it| it.value(native)).collect::<Result<Vec<_>>>()?;
        let outputs = self.outputs()?;
        let names: Vec<*const c_char> = empty.iter().map(|it| it.name.as_ptr()).collect();
        let pointers: Vec<_> = values.iter().map(Value::pointer).collect();
        let wanted: Vec<*const c_char> =
            outputs.iter().take(1).map(|it| it.name.as_ptr()).collect();
        let mut results = vec![ptr::null_mut(); wanted.len()];
        // SAFETY: names and values are alive, and `results` is of nulls. What the run may have left is taken over
        // below; it is gone before the session.
        unsafe {
            // It fails, as it was asked to end.
            let _ = self.run(&options, &names, &pointers, &wanted, &mut results);
            results.into_iter().for_each(|it| drop(Value::from_run(native, it)));
        }
        Ok(())
    }
}

/// An input of which nothing is read: of no elements where that can be, else of zeros that take no memory yet.
struct Empty {
    name: CString,
    shape: Vec<i64>,
    zeros: Tensor,
}

impl Empty {
    fn of(port: &Port) -> Result<Empty> {
        let strange = || ort::Error::new("an input has a type that is not known");
        let Kind::Tensor { element, dims } = &port.kind else { return Err(strange()) };
        let dtype = element::from_element(*element).ok_or_else(strange)?;
        let shape: Vec<i64> = dims.iter().flatten().map(|&it| it.max(0)).collect();
        let dims: Shape = shape.iter().filter_map(|&it| usize::try_from(it).ok()).collect();
        let zeros = Tensor::zeros(dtype, dims).map_err(|_| strange())?;
        Ok(Empty { name: port.name.clone(), shape, zeros })
    }

    fn value(&self, native: &Native) -> Result<Value<'_>> {
        let dtype = self.zeros.dtype();
        if dtype == DataType::Bytes {
            return Value::strings(native, &self.shape, self.zeros.strings());
        }
        let data = self.zeros.contiguous().map(|it| &**it).unwrap_or_default();
        // SAFETY: zeros are aligned for a `u64`, and so for every element type; they are valid elements of each, and
        // nobody writes to them.
        unsafe { Value::lent(native, element::to_element(dtype), &self.shape, data) }
    }
}
