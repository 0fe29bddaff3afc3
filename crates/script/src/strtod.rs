//! C's `strtod`, by which Lua and cjson read numbers: decimal and hexadecimal ones, `inf` and
//! `nan`.

use std::ffi::c_char;

// SAFETY: declared as in C's `stdlib.h`.
unsafe extern "C" {
    fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64;
}

/// The number at a place of a text as C's `strtod` reads it, and the length of its text; 0 if
/// there is none. The text must end with a zero byte; what follows the first one is not read.
pub(crate) fn number_at(text: &[u8], place: usize) -> (f64, usize) {
    let Some(text @ [.., 0]) = text.get(place..) else { return (0.0, 0) };
    let mut end = std::ptr::null_mut();
    // SAFETY: the text ends with a zero byte, so that `strtod` stops within it. It keeps none of
    // the pointers, and sets `end` to a place within the text.
    unsafe {
        let number = strtod(text.as_ptr().cast(), &raw mut end);
        (number, usize::try_from(end.cast_const().offset_from(text.as_ptr().cast())).unwrap_or(0))
    }
}
