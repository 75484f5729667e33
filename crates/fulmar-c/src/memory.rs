//! Pointers from C: looked at here, so that the functions themselves see references, slices and text.
//!
//! Each function below is safe to call with what the head of `include/fulmar.h` asks of callers: a pointer is
//! NULL or leads to as much as it says, for as long as the call lasts.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::code::{FUL_ERR_ARGUMENT, FUL_ERR_TOO_SMALL, Outcome};

/// What `pointer` leads to, which must not be NULL.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: NULL, or a handle or struct of this library that lives as long as the call.
    unsafe { pointer.as_ref() }.ok_or(FUL_ERR_ARGUMENT)
}

/// Puts `value` where `out` says, which must not be NULL.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller has room for a T there. What was there before may be uninitialised, so
    // that it is overwritten and not dropped; T has nothing to drop but where it was never set.
    unsafe { out.write(value) };
    Ok(())
}

/// The bytes at `data`; NULL stands for none if `len` is zero.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(len).is_err() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so there are `len` readable bytes; nobody else writes them during the call.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Room for bytes at `data`; NULL stands for none if `len` is zero. The caller's memory may be uninitialised
/// as far as C is concerned: whoever gets the slice only writes into it.
pub(crate) unsafe fn room<'a>(data: *mut u8, len: usize) -> Outcome<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || isize::try_from(len).is_err() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so there are `len` writable bytes that nobody else uses during the call. Bytes that C
    // has not written yet are bytes of its memory all the same; this library writes before it reads them.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, len) })
}

/// A text in UTF-8 that ends with a zero; `None` for NULL.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so it leads to a text that ends with a zero and stays as it is during the call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| FUL_ERR_ARGUMENT)
}

/// As [`text`], where NULL is a mistake.
pub(crate) unsafe fn some_text<'a>(pointer: *const c_char) -> Outcome<&'a str> {
    // SAFETY: as there.
    unsafe { text(pointer) }?.ok_or(FUL_ERR_ARGUMENT)
}

/// 32 bytes of a key.
pub(crate) unsafe fn key(pointer: *const u8) -> Outcome<[u8; 32]> {
    // SAFETY: the header asks for 32 bytes.
    let bytes = unsafe { bytes(pointer, 32) }?;
    bytes.try_into().map_err(|_| FUL_ERR_ARGUMENT)
}

/// Copies `data` into the caller's buffer and tells its length, the zero that ends a text (`ends_with_zero`)
/// left out. Where it does not fit, nothing is copied, and the length tells what is needed.
unsafe fn fill(data: &[u8], ends_with_zero: bool, out: *mut u8, capacity: usize, len: *mut usize) -> Outcome {
    let needed = data.len() + usize::from(ends_with_zero);
    let fits = needed <= capacity;
    if !len.is_null() {
        // SAFETY: not NULL, so the caller has room for a number there.
        unsafe { len.write(if fits { data.len() } else { needed }) };
    }
    if !fits {
        return Err(FUL_ERR_TOO_SMALL);
    }
    // SAFETY: the caller says that there is room for `capacity` bytes.
    let room = unsafe { room(out, capacity) }?;
    room[..data.len()].copy_from_slice(data);
    if ends_with_zero {
        room[data.len()] = 0;
    }
    Ok(())
}

/// See [`fill`].
pub(crate) unsafe fn fill_bytes(data: &[u8], out: *mut u8, capacity: usize, len: *mut usize) -> Outcome {
    // SAFETY: as there.
    unsafe { fill(data, false, out, capacity, len) }
}

/// See [`fill`].
pub(crate) unsafe fn fill_text(text: &str, out: *mut c_char, capacity: usize, len: *mut usize) -> Outcome {
    // SAFETY: as there; a char of C is a byte.
    unsafe { fill(text.as_bytes(), true, out.cast(), capacity, len) }
}

/// A struct that begins with its size, as its caller knows it: numbers and pointers only, all zero by
/// default.
pub(crate) unsafe trait SizedStruct: Copy {}

/// Reads a struct of a caller who may know fewer fields, which are zero then. Fields that only the caller
/// knows have to be zero: what is asked for there could not be done.
pub(crate) unsafe fn read_sized<T: SizedStruct>(pointer: *const T) -> Outcome<T> {
    if pointer.is_null() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so it leads to a struct of the caller, whose first field is its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < size_of::<usize>() || size > 1 << 16 {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: the struct is as large as it says.
    let given = unsafe { bytes(pointer.cast(), size) }?;
    if given.iter().skip(size_of::<T>()).any(|byte| *byte != 0) {
        return Err(FUL_ERR_ARGUMENT);
    }
    let known = size.min(size_of::<T>());
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: both have at least `known` bytes, and one is the function's own. All zero, or what a caller who
    // was compiled with the header's definition has written, is a value of T (see `SizedStruct`).
    unsafe {
        ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// Writes a struct for a caller who may know fewer fields, and says in `size` how much was written.
pub(crate) unsafe fn write_sized<T: SizedStruct>(out: *mut T, value: &T) -> Outcome {
    if out.is_null() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so it leads to a struct of the caller, whose first field is its size.
    let size = unsafe { out.cast::<usize>().read() };
    if size < size_of::<usize>() {
        return Err(FUL_ERR_ARGUMENT);
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller has room for as much as it says, and T begins with its size.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), out.cast::<u8>(), known);
        out.cast::<usize>().write(known);
    }
    Ok(())
}

/// Hands an object to C, which frees it with [`free`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(FUL_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller has room for a pointer there.
    unsafe { put(out, Box::into_raw(Box::new(value))) }
}

/// An object as C is to have it, which frees it by way of [`take_back`], and as it is here; `tell` says what
/// C calls it.
pub(crate) fn called<'a, T>(value: T, tell: impl FnOnce(&T, *mut std::ffi::c_void)) -> (*mut T, &'a T) {
    let raw = Box::into_raw(Box::new(value));
    // SAFETY: it was made just now, and lives until C, which does not have it yet, frees it.
    let value = unsafe { &*raw };
    tell(value, raw.cast());
    (raw, value)
}

/// Takes an object back that [`give`] gave; NULL is none.
pub(crate) unsafe fn take_back<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: not NULL, so it came from `give` and is freed once.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::FUL_OK;

    #[repr(C)]
    #[derive(Copy, Clone, Debug, PartialEq)]
    struct Known {
        size: usize,
        a: u32,
        b: u32,
    }
    // SAFETY: two numbers after the size.
    unsafe impl SizedStruct for Known {}

    #[repr(C)]
    #[derive(Copy, Clone)]
    struct Newer {
        known: Known,
        c: u64,
    }

    #[test]
    fn callers_may_know_less_or_more() {
        let older = Known { size: size_of::<usize>() + 4, a: 1, b: 2 };
        // SAFETY: its size is less than what is there.
        assert_eq!(unsafe { read_sized(&older) }.unwrap(), Known { b: 0, ..older });
        let mut newer = Newer { known: Known { size: size_of::<Newer>(), a: 1, b: 2 }, c: 0 };
        // SAFETY: as large as it says.
        assert_eq!(unsafe { read_sized(ptr::from_ref(&newer).cast::<Known>()) }.unwrap(), newer.known);
        newer.c = 1;
        // SAFETY: as large as it says.
        let refused = unsafe { read_sized(ptr::from_ref(&newer).cast::<Known>()) };
        assert_eq!(refused, Err(FUL_ERR_ARGUMENT), "a wish that nobody knows");
        let mut out = Known { size: size_of::<usize>() + 4, a: 0, b: 9 };
        // SAFETY: its size is less than what is there.
        unsafe { write_sized(&mut out, &newer.known) }.unwrap();
        assert_eq!(out, Known { size: size_of::<usize>() + 4, a: 1, b: 9 }, "no more than there is room for");
    }

    #[test]
    fn what_does_not_fit_is_told_and_not_cut() {
        let (mut room, mut len) = ([7; 4], 0usize);
        // SAFETY: the room is as large as is said.
        let result = unsafe { fill_text("four", room.as_mut_ptr(), room.len(), &mut len) };
        assert_eq!((result, len, room), (Err(FUL_ERR_TOO_SMALL), 5, [7; 4]));
        // SAFETY: as above.
        let result = unsafe { fill_text("tre", room.as_mut_ptr(), room.len(), &mut len) };
        assert_eq!((result.map_or_else(|c| c, |()| FUL_OK), len), (FUL_OK, 3));
        assert_eq!(room, [b't', b'r', b'e', 0].map(|b| b as std::ffi::c_char));
    }

    #[test]
    fn nothing_is_read_behind_null() {
        // SAFETY: NULL is what these look for.
        unsafe {
            assert_eq!(borrow(ptr::null::<u8>()), Err(FUL_ERR_ARGUMENT));
            assert_eq!(put(ptr::null_mut::<u8>(), 1), Err(FUL_ERR_ARGUMENT));
            assert_eq!(bytes(ptr::null(), 1), Err(FUL_ERR_ARGUMENT));
            assert_eq!(bytes(ptr::null(), 0), Ok(&[][..]));
            assert_eq!(text(ptr::null()), Ok(None));
            assert_eq!(read_sized(ptr::null::<Known>()), Err(FUL_ERR_ARGUMENT));
            assert!(take_back(ptr::null_mut::<u8>()).is_none());
        }
    }
}
