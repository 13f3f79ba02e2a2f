//! A library with one operator, `com.example.Frobnicate`, which doubles a tensor `[1]` of floats. The tests load
//! `tests/models/refused/custom_op.onnx` with it.

use std::ffi::{c_char, c_void};

use ort::sys::{
    ONNXTensorElementDataType, ORT_API_VERSION, OrtApi, OrtApiBase, OrtCustomOp, OrtCustomOpDomain,
    OrtCustomOpInputOutputCharacteristic, OrtKernelContext, OrtKernelInfo, OrtMemType,
    OrtSessionOptions, OrtStatusPtr, OrtValue,
};

const FINE: OrtStatusPtr = OrtStatusPtr(std::ptr::null_mut());

/// What ONNX Runtime looks for.
///
/// # Safety
/// It is called by ONNX Runtime, with pointers that are alive.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn RegisterCustomOps(
    options: *mut OrtSessionOptions,
    base: *const OrtApiBase,
) -> OrtStatusPtr {
    let mut domain: *mut OrtCustomOpDomain = std::ptr::null_mut();
    // SAFETY: the caller's promise. The domain is never released, as sessions use it to their end.
    unsafe {
        let api = &*((*base).GetApi)(ORT_API_VERSION);
        let mut status = (api.CreateCustomOpDomain)(c"com.example".as_ptr(), &mut domain);
        if status.0.is_null() {
            status = (api.CustomOpDomain_Add)(domain, &OPERATOR);
        }
        if status.0.is_null() {
            status = (api.AddCustomOpDomain)(options, domain);
        }
        status
    }
}

static OPERATOR: OrtCustomOp = OrtCustomOp {
    version: ORT_API_VERSION,
    CreateKernel: None,
    GetName: Some(name),
    GetExecutionProviderType: Some(provider),
    GetInputType: Some(element),
    GetInputTypeCount: Some(one),
    GetOutputType: Some(element),
    GetOutputTypeCount: Some(one),
    KernelCompute: None,
    KernelDestroy: Some(destroy),
    GetInputCharacteristic: Some(required),
    GetOutputCharacteristic: Some(required),
    GetInputMemoryType: Some(memory),
    GetVariadicInputMinArity: None,
    GetVariadicInputHomogeneity: None,
    GetVariadicOutputMinArity: None,
    GetVariadicOutputHomogeneity: None,
    CreateKernelV2: Some(create),
    KernelComputeV2: Some(compute),
    InferOutputShapeFn: None,
    GetStartVersion: None,
    GetEndVersion: None,
    GetMayInplace: None,
    ReleaseMayInplace: None,
    GetAliasMap: None,
    ReleaseAliasMap: None,
};

unsafe extern "system" fn name(_: *const OrtCustomOp) -> *const c_char {
    c"Frobnicate".as_ptr()
}

unsafe extern "system" fn provider(_: *const OrtCustomOp) -> *const c_char {
    std::ptr::null()
}

unsafe extern "system" fn element(_: *const OrtCustomOp, _: usize) -> ONNXTensorElementDataType {
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
}

unsafe extern "system" fn one(_: *const OrtCustomOp) -> usize {
    1
}

unsafe extern "system" fn required(
    _: *const OrtCustomOp,
    _: usize,
) -> OrtCustomOpInputOutputCharacteristic {
    OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED
}

unsafe extern "system" fn memory(_: *const OrtCustomOp, _: usize) -> OrtMemType {
    OrtMemType::OrtMemTypeDefault
}

/// The kernel is the table of functions itself.
unsafe extern "system" fn create(
    _: *const OrtCustomOp,
    api: *const OrtApi,
    _: *const OrtKernelInfo,
    kernel: *mut *mut c_void,
) -> OrtStatusPtr {
    // SAFETY: ONNX Runtime has one pointer there.
    unsafe { *kernel = api.cast_mut().cast() };
    FINE
}

unsafe extern "system" fn destroy(_: *mut c_void) {}

unsafe extern "system" fn compute(
    kernel: *mut c_void,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    let (mut from, mut to) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
    let mut input: *const OrtValue = std::ptr::null();
    let mut output: *mut OrtValue = std::ptr::null_mut();
    // SAFETY: the kernel is the table of functions, the context is alive, and both tensors hold one float.
    unsafe {
        let api = &*kernel.cast::<OrtApi>();
        let mut status = (api.KernelContext_GetInput)(context, 0, &mut input);
        if status.0.is_null() {
            status = (api.KernelContext_GetOutput)(context, 0, [1].as_ptr(), 1, &mut output);
        }
        if status.0.is_null() {
            status = (api.GetTensorMutableData)(input.cast_mut(), &mut from);
        }
        if status.0.is_null() {
            status = (api.GetTensorMutableData)(output, &mut to);
        }
        if status.0.is_null() {
            *to.cast::<f32>() = 2.0 * *from.cast::<f32>();
        }
        status
    }
}
