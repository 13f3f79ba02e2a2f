//! Loading, describing and optimising modules.

use std::{
    ffi::{CString, c_char},
    ptr::{self, NonNull},
};

use pytorch_abi::{Description, Failure, Text, kind, level};
use tch::Device;
use torch_sys::CModule_;

use crate::{
    about::About,
    failure::{answer, torch_problem},
    lacking, lent,
    problem::{OUT_OF_MEMORY, TorchProblem},
};

/// A module of libtorch that is ours. Not `tch::CModule`, which does not hand out the pointer that freezing and the
/// analysis need.
#[derive(Debug)]
pub(crate) struct Handle(NonNull<CModule_>);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { torch_sys::atm_free(self.0.as_ptr()) };
    }
}

impl Handle {
    /// What a function of `native/` made, unless it failed.
    fn made(make: impl FnOnce(*mut *mut CModule_) -> *mut c_char) -> Result<Handle, TorchProblem> {
        let mut module = ptr::null_mut();
        let problem = make(&raw mut module);
        // SAFETY: the function has just returned it.
        unsafe { lacking::check(problem)? };
        Handle::new(module)
    }

    fn new(module: *mut CModule_) -> Result<Handle, TorchProblem> {
        NonNull::new(module).map(Handle).ok_or_else(|| TorchProblem::new(OUT_OF_MEMORY))
    }

    pub(crate) fn as_ptr(&self) -> *mut CModule_ {
        self.0.as_ptr()
    }
}

/// A module on one device.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) handle: Handle,
    /// What `torch.jit.freeze` made of it while it was looked at; stateless modules only.
    frozen: Option<Handle>,
    pub(crate) device: Device,
    pub(crate) about: About,
    /// A run can change the module.
    pub(crate) stateful: bool,
    /// A run may write to an input or keep it, so that it must have a copy of its own.
    pub(crate) copies_inputs: bool,
}

impl Module {
    /// Is the only argument a dictionary, and are inputs its entries?
    pub(crate) fn takes_dict(&self) -> bool {
        matches!(&self.about.arguments[..], [only] if only.kind == kind::DICT)
    }

    fn load(path: &[u8], device: i32) -> Result<Module, TorchProblem> {
        let device = match usize::try_from(device) {
            // A device has eight bits in libtorch, and the number would be another one's.
            Ok(number) if number > 127 => {
                return Err(TorchProblem::new(format!("there is no GPU {number}")));
            }
            Ok(number) => Device::Cuda(number),
            Err(_) => Device::Cpu,
        };
        let path = CString::new(path).map_err(|_| TorchProblem::new("the path holds a zero"))?;
        // SAFETY: the path ends with a zero. -1 is the CPU.
        let handle = unsafe { torch_sys::atm_load_on_device(path.as_ptr(), number(device)) };
        torch_problem()?;
        let handle = Handle::new(handle)?;
        // A module that cannot be frozen, in training mode for one, cannot be looked into: the worst is assumed.
        let (frozen, effects) = analysed(&handle)
            .map_or((None, Effects::WORST), |(frozen, it)| ((!it.on_module).then_some(frozen), it));
        Ok(Module {
            // SAFETY: the module is there.
            about: unsafe { About::new(handle.as_ptr(), effects.on_module, effects.loops)? },
            handle,
            frozen,
            device,
            stateful: effects.on_module,
            copies_inputs: effects.on_inputs,
        })
    }

    fn optimized(&self, level: u32) -> Result<Module, TorchProblem> {
        let frozen = self.frozen.as_ref();
        let frozen =
            frozen.ok_or_else(|| TorchProblem::new("a module with state is not optimised"))?;
        // SAFETY: the frozen module is there, and the copy is written to where it may.
        let handle = Handle::made(|copy| unsafe {
            lacking::muster_copy(frozen.as_ptr(), level >= level::INFERENCE, copy)
        })?;
        Ok(Module {
            // SAFETY: the module is there.
            about: unsafe { About::new(handle.as_ptr(), false, self.about.view().loops != 0)? },
            handle,
            frozen: None,
            device: self.device,
            stateful: false,
            copies_inputs: self.copies_inputs,
        })
    }
}

fn number(device: Device) -> i32 {
    match device {
        Device::Cuda(number) => i32::try_from(number).unwrap_or(i32::MAX),
        _ => -1,
    }
}

/// What a run can change.
#[derive(Debug, Clone, Copy)]
struct Effects {
    on_module: bool,
    on_inputs: bool,
    /// Does it repeat parts of the graph?
    loops: bool,
}

impl Effects {
    const WORST: Effects = Effects { on_module: true, on_inputs: true, loops: true };
}

/// The frozen module, and what a run of it can change.
fn analysed(module: &Handle) -> Result<(Handle, Effects), TorchProblem> {
    // SAFETY: the module is there, and the frozen one is written to where it may.
    let frozen = Handle::made(|frozen| unsafe { lacking::muster_freeze(module.as_ptr(), frozen) })?;
    let mut it = Effects::WORST;
    // SAFETY: both modules are there, and the answers are written to where they may.
    unsafe {
        lacking::check(lacking::muster_effects(
            module.as_ptr(),
            frozen.as_ptr(),
            &raw mut it.on_module,
            &raw mut it.on_inputs,
            &raw mut it.loops,
        ))?;
    }
    Ok((frozen, it))
}

/// Gives the module to the host.
///
/// # Safety
/// It may be written there.
unsafe fn hand_over(
    result: *mut *mut pytorch_abi::Module,
    make: impl FnOnce() -> Result<Module, TorchProblem>,
) -> *mut Failure {
    answer(false, || {
        let _no_gradients = tch::no_grad_guard();
        let module = Box::new(make()?);
        // SAFETY: the caller says so.
        unsafe { result.write(Box::into_raw(module).cast()) };
        Ok(())
    })
}

/// The module behind the host's pointer.
///
/// # Safety
/// It came from here, and is there as long as `'a`.
pub(crate) unsafe fn inside<'a>(module: *const pytorch_abi::Module) -> &'a Module {
    // SAFETY: the caller says so.
    unsafe { &*module.cast::<Module>() }
}

pub(crate) unsafe extern "C" fn load(
    path: Text,
    device: i32,
    result: *mut *mut pytorch_abi::Module,
) -> *mut Failure {
    // SAFETY: the host says that the path is there during the call, and where the module may be written.
    unsafe { hand_over(result, || Module::load(lent::bytes(&path), device)) }
}

pub(crate) unsafe extern "C" fn describe(module: *const pytorch_abi::Module) -> *const Description {
    // SAFETY: the host says that the module is there, and so is its description as long as it is.
    unsafe { inside(module) }.about.view()
}

pub(crate) unsafe extern "C" fn optimize(
    module: *const pytorch_abi::Module,
    level: u32,
    result: *mut *mut pytorch_abi::Module,
) -> *mut Failure {
    // SAFETY: the host says that the module is there, and where the other may be written.
    unsafe { hand_over(result, || inside(module).optimized(level)) }
}

pub(crate) unsafe extern "C" fn unload(module: *mut pytorch_abi::Module) {
    // SAFETY: the host says that it came from here, and that nobody uses it any more.
    drop(unsafe { Box::from_raw(module.cast::<Module>()) });
}
