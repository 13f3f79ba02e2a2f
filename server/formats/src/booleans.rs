//! The bytes of BOOL tensors that come as they are: each must be a truth value.

use backend::DataType;
use inference::error::Error;

/// That each byte of a BOOL tensor is a truth value: engines take them at their word.
pub fn check_booleans(name: &str, dtype: DataType, data: &[u8]) -> Result<(), Error> {
    find_not_boolean(dtype, data).map_or(Ok(()), |(index, byte)| {
        let problem = format!("element {index} of BOOL data is the byte {byte}, expected 0 or 1");
        Err(Error::input(name, problem))
    })
}

/// The first byte of a BOOL tensor that is no truth value, and its index; `None` for other types.
pub fn find_not_boolean(dtype: DataType, data: &[u8]) -> Option<(usize, u8)> {
    match dtype {
        DataType::Bool => data.iter().copied().enumerate().find(|(_, byte)| *byte > 1),
        _ => None,
    }
}
