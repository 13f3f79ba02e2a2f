//! Execution providers for GPUs: put into session options, which opens their libraries.

use std::{
    ffi::{CString, c_char},
    ptr::{self, NonNull},
    sync::PoisonError,
};

use ort::{logging::LogLevel, sys};

use super::table::{LOG_LEVEL, Native, Result, check, made};
use crate::provider::{Kind, Provider};

/// Can this provider be put into a session? Opens its library, and whatever that needs.
pub(crate) fn probe(native: &Native, provider: &Provider) -> Result<()> {
    let table = native.table;
    let mut options = ptr::null_mut();
    // SAFETY: one pointer is written.
    unsafe { check((table.CreateSessionOptions)(&mut options))? };
    let options = made(options)?;
    // The library would log what it returns, and the host's name with it.
    let alone = native.probing.lock().unwrap_or_else(PoisonError::into_inner);
    native.environment.set_log_level(LogLevel::Fatal);
    // SAFETY: the options are alive.
    let outcome = unsafe { append(table, options, provider) };
    native.environment.set_log_level(LOG_LEVEL);
    drop(alone);
    // SAFETY: made above, released once.
    unsafe { (table.ReleaseSessionOptions)(options.as_ptr()) };
    outcome
}

/// Puts the provider behind those that the options have.
///
/// # Safety
/// `options` are alive.
pub(super) unsafe fn append(
    table: &'static sys::OrtApi,
    options: NonNull<sys::OrtSessionOptions>,
    provider: &Provider,
) -> Result<()> {
    let texts = Texts::new(provider)?;
    let (keys, values) = (texts.keys(), texts.values());
    let count = keys.len();
    match provider.kind {
        Kind::Cuda => {
            let mut own = ptr::null_mut();
            // SAFETY: one pointer is written.
            unsafe { check((table.CreateCUDAProviderOptions)(&mut own))? };
            let own = made(own)?.as_ptr();
            // SAFETY: both options are alive; keys and values are as many as said, end with a NUL, and are
            // copied, as are the provider's options.
            let outcome = unsafe {
                check((table.UpdateCUDAProviderOptions)(own, keys.as_ptr(), values.as_ptr(), count))
                    .and_then(|()| {
                        check((table.SessionOptionsAppendExecutionProvider_CUDA_V2)(
                            options.as_ptr(),
                            own,
                        ))
                    })
            };
            // SAFETY: made above, released once.
            unsafe { (table.ReleaseCUDAProviderOptions)(own) };
            outcome
        }
        Kind::TensorRt => {
            let mut own = ptr::null_mut();
            // SAFETY: one pointer is written.
            unsafe { check((table.CreateTensorRTProviderOptions)(&mut own))? };
            let own = made(own)?.as_ptr();
            // SAFETY: as for CUDA.
            let outcome = unsafe {
                check((table.UpdateTensorRTProviderOptions)(
                    own,
                    keys.as_ptr(),
                    values.as_ptr(),
                    count,
                ))
                .and_then(|()| {
                    check((table.SessionOptionsAppendExecutionProvider_TensorRT_V2)(
                        options.as_ptr(),
                        own,
                    ))
                })
            };
            // SAFETY: made above, released once.
            unsafe { (table.ReleaseTensorRTProviderOptions)(own) };
            outcome
        }
    }
}

/// A provider's options as C strings.
struct Texts(Vec<(CString, CString)>);

impl Texts {
    fn new(provider: &Provider) -> Result<Texts> {
        let text = |(key, value): (&String, &String)| {
            Ok((CString::new(key.as_str())?, CString::new(value.as_str())?))
        };
        Ok(Texts(provider.options.iter().map(text).collect::<Result<_>>()?))
    }

    fn keys(&self) -> Vec<*const c_char> {
        self.0.iter().map(|(key, _)| key.as_ptr()).collect()
    }

    fn values(&self) -> Vec<*const c_char> {
        self.0.iter().map(|(_, value)| value.as_ptr()).collect()
    }
}
