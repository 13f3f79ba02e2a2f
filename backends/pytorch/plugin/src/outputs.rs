//! Results: each value of them is given to the host, with a handle that owns its memory.

use std::{
    ffi::{CStr, c_void},
    ptr,
};

use pytorch_abi::{Input, Output, Run, Text, element};
use tch::{Device, Kind, Tensor};

use crate::{
    element as types,
    lacking::{self, Elements},
    module::Module,
    problem::TorchProblem,
    value::{Parts, Value},
};

const NO_TEXT: Text = Text { begin: ptr::null(), length: 0 };

/// Gives the parts of a result to the host, one by one.
pub(crate) struct Giver<'a> {
    module: &'a Module,
    run: &'a Run,
    inputs: &'a [Input],
}

impl<'a> Giver<'a> {
    pub(crate) fn new(module: &'a Module, run: &'a Run, inputs: &'a [Input]) -> Giver<'a> {
        Giver { module, run, inputs }
    }

    /// A value and all that is in it. Dictionaries are served where they are all of the result.
    pub(crate) fn value(&self, value: &Value, outermost: bool) -> Result<(), TorchProblem> {
        match value.parts()? {
            Parts::Tensor(tensor) => self.tensor(tensor, NO_TEXT),
            Parts::Values(values) => match values.first().is_none_or(|it| it.string().is_some()) {
                true => self.list(value, &values),
                false => values.iter().try_for_each(|it| self.value(it, false)),
            },
            Parts::Entries(entries) if outermost && value.type_text()? == "Dict[str, Tensor]" => {
                self.entries(&entries)
            }
            Parts::Bool(it) => self.number(&[it.into()], Kind::Bool),
            Parts::Int(it) => self.number(&it.to_ne_bytes(), Kind::Int64),
            Parts::Float(it) => self.number(&it.to_ne_bytes(), Kind::Double),
            Parts::String => self.strings(&[value.string().unwrap_or_default()], &[]),
            Parts::None => self.other("None", NO_TEXT),
            Parts::Entries(_) | Parts::Other => self.other(&value.type_text()?, NO_TEXT),
        }
    }

    /// A list that is empty, or begins with a string: its type tells whether it is one of strings.
    fn list(&self, list: &Value, values: &[Value]) -> Result<(), TorchProblem> {
        if list.type_text()? != "List[str]" {
            return values.iter().try_for_each(|it| self.value(it, false));
        }
        let strings: Vec<&[u8]> = values.iter().filter_map(Value::string).collect();
        self.strings(&strings, &[strings.len() as i64])
    }

    fn entries(&self, entries: &[(Value, Value)]) -> Result<(), TorchProblem> {
        for (key, value) in entries {
            let key = key.string().unwrap_or_default();
            let key = Text { begin: key.as_ptr(), length: key.len() };
            match value.parts()? {
                Parts::Tensor(tensor) => self.tensor(tensor, key)?,
                _ => self.other(&value.type_text()?, key)?,
            }
        }
        Ok(())
    }

    /// A value that cannot be served.
    fn other(&self, type_name: &str, key: Text) -> Result<(), TorchProblem> {
        self.give(&Output {
            element: element::OTHER,
            rank: 0,
            dims: ptr::null(),
            data: ptr::null(),
            bytes: 0,
            key,
            type_name: Text { begin: type_name.as_ptr(), length: type_name.len() },
            handle: ptr::null_mut(),
        });
        Ok(())
    }

    fn number(&self, bytes: &[u8], kind: Kind) -> Result<(), TorchProblem> {
        let it = Tensor::f_from_data_size(bytes, &[], kind)?;
        let (elements, element) = (plain(&it)?, types::of(&it));
        self.own(it, elements, element, &[], NO_TEXT)
    }

    /// Each string with its length before it.
    fn strings(&self, strings: &[&[u8]], dims: &[i64]) -> Result<(), TorchProblem> {
        let length = strings.iter().map(|it| 4 + it.len()).sum::<usize>();
        let memory = Tensor::f_empty([length as i64], (Kind::Uint8, Device::Cpu))?;
        let elements = plain(&memory)?;
        let mut rest = elements.data.cast::<u8>().cast_mut();
        for it in strings {
            let length = u32::try_from(it.len());
            let length = length.map_err(|_| TorchProblem::new("a string of 4 GiB or more"))?;
            for piece in [&length.to_le_bytes(), *it] {
                // SAFETY: the tensor is ours alone, and has room for all pieces, one behind the other.
                unsafe {
                    rest.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
                    rest = rest.add(piece.len());
                }
            }
        }
        self.own(memory, elements, element::STRINGS, dims, NO_TEXT)
    }

    fn tensor(&self, mut it: Tensor, key: Text) -> Result<(), TorchProblem> {
        if !it.defined() {
            return self.other("an undefined tensor", key);
        }
        let element = types::of(&it);
        if element == element::OTHER {
            // SAFETY: the tensor is there; names of types are constants.
            let name = unsafe { CStr::from_ptr(lacking::muster_element_name(it.as_ptr())) };
            return self.other(&name.to_string_lossy(), key);
        }
        let mut elements = match lacking::elements(&it)? {
            Some(elements) => elements,
            None => {
                it = it.f_to_dense(None, false)?.f_to_device(Device::Cpu)?;
                it = it.f_resolve_conj()?.f_resolve_neg()?.f_contiguous()?;
                plain(&it)?
            }
        };
        // It would keep all of a large piece of memory, of which it is a small part.
        let holds_much_more = elements.held > (1 << 20) && elements.held / 4 > elements.bytes;
        // What a stateless module gives may be a weight of it, which nobody writes to.
        if self.module.stateful || self.is_borrowed(elements.data) || holds_much_more {
            it = it.f_detach_copy()?;
            elements = plain(&it)?;
        }
        let dims = types::dims(&it)?;
        self.own(it, elements, element, &dims, key)
    }

    /// A view of an input, whose memory is ours for the run only?
    fn is_borrowed(&self, data: *const c_void) -> bool {
        if self.module.copies_inputs || self.module.device.is_cuda() {
            return false;
        }
        let data = data.addr();
        let is_inside = |it: &Input| (it.data.addr()..it.data.addr() + it.bytes).contains(&data);
        self.inputs.iter().any(is_inside)
    }

    /// Gives the elements of a tensor, as a value of that type and shape.
    fn own(
        &self,
        it: Tensor,
        elements: Elements,
        element: u32,
        dims: &[i64],
        key: Text,
    ) -> Result<(), TorchProblem> {
        self.give(&Output {
            element,
            rank: dims.len() as u32,
            dims: dims.as_ptr(),
            data: elements.data,
            bytes: elements.bytes,
            key,
            type_name: NO_TEXT,
            handle: into_handle(it),
        });
        Ok(())
    }

    fn give(&self, output: &Output) {
        // SAFETY: the host says that its function takes outputs with this receiver, and keeps the handle.
        unsafe { (self.run.give)(self.run.receiver, output) };
    }
}

/// The elements of a tensor that has been made plain.
fn plain(it: &Tensor) -> Result<Elements, TorchProblem> {
    lacking::elements(it)?.ok_or_else(|| TorchProblem::new("a tensor that is not in one piece"))
}

/// A handle that owns the tensor's memory.
fn into_handle(mut it: Tensor) -> *mut c_void {
    let handle = it.as_mut_ptr().cast();
    std::mem::forget(it);
    handle
}

pub(crate) unsafe extern "C" fn release(handle: *mut c_void) {
    // SAFETY: the host says that it came from here, and that nobody uses it any more.
    unsafe { torch_sys::at_free(handle.cast()) };
}
