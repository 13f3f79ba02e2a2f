//! What a module says about itself, in memory of its own, as the host reads it.

use std::{
    ffi::{c_char, c_void},
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};

use pytorch_abi::{Description, Parameter, Text, Weight, kind};
use smallvec::SmallVec;
use tch::Tensor;
use torch_sys::{C_tensor, CIValue, CModule_};

use crate::{
    element,
    lacking::{self, CFunction, CType, Visitor},
    problem::{OUT_OF_MEMORY, TorchProblem},
    types::Type,
    value::Value,
};

/// An argument of `forward`.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) type_name: String,
    /// One of [`kind`].
    pub(crate) kind: u32,
    pub(crate) default: Option<Value>,
}

/// A parameter or buffer.
#[derive(Debug)]
struct Named {
    /// With the names of the modules that it is in, for example `0.weight`.
    name: String,
    class: String,
    element: u32,
    dims: SmallVec<[i64; 6]>,
}

/// All that a module says. The vectors stay as they are once it is made: `view` points into them.
#[derive(Debug)]
pub(crate) struct About {
    /// There as long as the module.
    pub(crate) forward: NonNull<CFunction>,
    pub(crate) arguments: Vec<Argument>,
    returns: String,
    fields: Vec<String>,
    weights: Vec<Named>,
    parameter_views: Vec<Parameter>,
    weight_views: Vec<Weight>,
    field_views: Vec<Text>,
    view: Description,
}

/// What libtorch tells, as it comes; or what went wrong first.
#[derive(Default)]
struct Told {
    arguments: Vec<Argument>,
    returns: Vec<Type>,
    weights: Vec<Named>,
    problem: Option<TorchProblem>,
}

impl About {
    /// What that module says.
    ///
    /// # Safety
    /// The module is there now.
    pub(crate) unsafe fn new(
        module: *const CModule_,
        stateful: bool,
        loops: bool,
    ) -> Result<About, TorchProblem> {
        let mut told = Told::default();
        let visitor = Visitor { receiver: (&raw mut told).cast(), argument, returned, weight };
        let (mut training, mut forward) = (false, ptr::null_mut());
        // SAFETY: the module is there, the functions take what they are given, and `told` is there during the call.
        unsafe {
            let (visitor, training) = (&raw const visitor, &raw mut training);
            lacking::check(lacking::muster_describe(module, visitor, training, &raw mut forward))?;
        }
        if let Some(problem) = told.problem {
            return Err(problem);
        }
        let forward = NonNull::new(forward).ok_or_else(|| TorchProblem::new(OUT_OF_MEMORY))?;
        let count = told.returns.len();
        let (Some(returns), 1) = (told.returns.pop(), count) else {
            return Err(TorchProblem::new(format!("forward returns {count} values")));
        };
        let returns_dict = returns.argument_kind() == kind::DICT;
        let returns_count = returns.count().and_then(|it| i32::try_from(it).ok()).unwrap_or(-1);
        let mut about = About {
            forward,
            arguments: told.arguments,
            returns: returns.text.clone(),
            fields: returns.fields(),
            weights: told.weights,
            parameter_views: Vec::new(),
            weight_views: Vec::new(),
            field_views: Vec::new(),
            view: Description {
                parameters: ptr::null(),
                parameters_length: 0,
                weights: ptr::null(),
                weights_length: 0,
                returns: text(""),
                returns_dict: returns_dict.into(),
                returns_count,
                fields: ptr::null(),
                fields_length: 0,
                training: training.into(),
                stateful: stateful.into(),
                loops: loops.into(),
            },
        };
        about.look_inside();
        Ok(about)
    }

    /// As the host reads it, as long as this is there.
    pub(crate) fn view(&self) -> &Description {
        &self.view
    }

    fn look_inside(&mut self) {
        self.parameter_views = self.arguments.iter().map(Argument::view).collect();
        self.weight_views = self.weights.iter().map(Named::view).collect();
        self.field_views = self.fields.iter().map(|it| text(it)).collect();
        self.view.parameters = self.parameter_views.as_ptr();
        self.view.parameters_length = self.parameter_views.len();
        self.view.weights = self.weight_views.as_ptr();
        self.view.weights_length = self.weight_views.len();
        self.view.fields = self.field_views.as_ptr();
        self.view.fields_length = self.field_views.len();
        self.view.returns = text(&self.returns);
    }
}

impl Argument {
    fn view(&self) -> Parameter {
        Parameter {
            name: text(&self.name),
            type_name: text(&self.type_name),
            kind: self.kind,
            has_default: self.default.is_some().into(),
        }
    }

    /// # Safety
    /// All that is pointed to is there now; the default may be null.
    unsafe fn new(
        name: *const c_char,
        argument_type: *const CType,
        default: *const CIValue,
    ) -> Result<Argument, TorchProblem> {
        // SAFETY: the caller says that they are there.
        let (name, argument_type) = unsafe { (lacking::string(name), Type::new(argument_type)?) };
        // SAFETY: as above, and it is not null where it is copied.
        let default = match default.is_null() {
            true => None,
            false => Some(unsafe { Value::copy(default)? }),
        };
        let kind = argument_type.argument_kind();
        Ok(Argument { name, type_name: argument_type.text, kind, default })
    }
}

impl Named {
    fn view(&self) -> Weight {
        let name = self.name.rsplit('.').next().unwrap_or(&self.name);
        Weight {
            name: text(name),
            class: text(&self.class),
            element: self.element,
            rank: self.dims.len() as u32,
            dims: self.dims.as_ptr(),
        }
    }
}

/// A text that is lent.
fn text(text: &str) -> Text {
    Text { begin: text.as_ptr(), length: text.len() }
}

impl Told {
    fn take<T>(&mut self, it: Result<T, TorchProblem>, place: fn(&mut Told) -> &mut Vec<T>) {
        match it {
            Ok(it) => place(self).push(it),
            Err(problem) => self.problem = self.problem.take().or(Some(problem)),
        }
    }
}

unsafe extern "C" fn argument(
    told: *mut c_void,
    name: *const c_char,
    argument_type: *const CType,
    default: *const CIValue,
) {
    // SAFETY: the receiver is the one of `About::new`, and the others are there during the call.
    let (told, it) =
        unsafe { (&mut *told.cast::<Told>(), Argument::new(name, argument_type, default)) };
    told.take(it, |it| &mut it.arguments);
}

unsafe extern "C" fn returned(told: *mut c_void, result_type: *const CType) {
    // SAFETY: as above.
    let (told, it) = unsafe { (&mut *told.cast::<Told>(), Type::new(result_type)) };
    told.take(it, |it| &mut it.returns);
}

unsafe extern "C" fn weight(
    told: *mut c_void,
    name: *const c_char,
    class: *const c_char,
    value: *const C_tensor,
) {
    // SAFETY: as above. The tensor is not ours, and so not dropped; it is not written to.
    let (told, name, class, value) = unsafe {
        let value = ManuallyDrop::new(Tensor::from_ptr(value.cast_mut()));
        (&mut *told.cast::<Told>(), lacking::string(name), lacking::string(class), value)
    };
    let element = element::of(&value);
    let named = element::dims(&value).map(|dims| Named { name, class, element, dims });
    told.take(named, |it| &mut it.weights);
}
