//! Memory that the host lends for a call.

use pytorch_abi::Text;

/// The bytes of a text of the host.
///
/// # Safety
/// It is there as long as it is borrowed.
pub(crate) unsafe fn bytes(text: &Text) -> &[u8] {
    // SAFETY: the caller says so.
    unsafe { lent(text.begin, text.length) }
}

/// The slice that begins there, which the host lends.
///
/// # Safety
/// So many are there for as long as `'a`; `begin` may be null where there are none.
pub(crate) unsafe fn lent<'a, T>(begin: *const T, length: usize) -> &'a [T] {
    match length {
        0 => &[],
        // SAFETY: the caller says so.
        _ => unsafe { std::slice::from_raw_parts(begin, length) },
    }
}
