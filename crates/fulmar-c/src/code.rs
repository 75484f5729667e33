//! What functions return: zero, something that is no error, or an error.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fulmar::ConnectionError;

/// It worked.
pub const FUL_OK: i32 = 0;
/// Not now: an event says when to try again.
pub const FUL_WOULDBLOCK: i32 = 1;
/// The end: of a stream, or of what was asked for.
pub const FUL_END: i32 = 2;
/// An argument is NULL, out of range, or of a wrong kind.
pub const FUL_ERR_ARGUMENT: i32 = -1;
/// A setting is not taken.
pub const FUL_ERR_CONFIG: i32 = -2;
/// The system refused something: a port that is taken, a name without an address.
pub const FUL_ERR_IO: i32 = -3;
/// A key or a file with keys cannot be read or written.
pub const FUL_ERR_KEYS: i32 = -4;
/// The buffer is too small; the length says what it takes. Nothing was lost.
pub const FUL_ERR_TOO_SMALL: i32 = -5;
/// The stream, or this half of it, was finished, reset, stopped or read to its end before.
pub const FUL_ERR_STREAM: i32 = -6;
/// The peer reset the stream; see the code.
pub const FUL_ERR_RESET: i32 = -7;
/// The peer wants no more of the stream; see the code.
pub const FUL_ERR_STOPPED: i32 = -8;
/// The datagram is longer than fits a packet now.
pub const FUL_ERR_TOO_LARGE: i32 = -9;
/// The peer takes no datagrams.
pub const FUL_ERR_UNSUPPORTED: i32 = -10;
/// The connection was closed, by this end or by the peer's application.
pub const FUL_ERR_CLOSED: i32 = -11;
/// The peer was silent for too long.
pub const FUL_ERR_TIMED_OUT: i32 = -12;
/// The connection failed: see its error's text.
pub const FUL_ERR_FAILED: i32 = -13;
/// The server's key is not known, or is another than before.
pub const FUL_ERR_UNTRUSTED: i32 = -14;
/// A mistake in this library; what was asked for may be half done.
pub const FUL_ERR_PANIC: i32 = -15;

/// What a body gives: anything but [`FUL_OK`] is an `Err`.
pub(crate) type Outcome<T = ()> = Result<T, i32>;

const TEXTS: &[(i32, &CStr)] = &[
    (FUL_OK, c"it worked"),
    (FUL_WOULDBLOCK, c"not now: an event says when"),
    (FUL_END, c"the end"),
    (FUL_ERR_ARGUMENT, c"an argument is NULL, out of range or of a wrong kind"),
    (FUL_ERR_CONFIG, c"a setting is not taken"),
    (FUL_ERR_IO, c"the system refused something"),
    (FUL_ERR_KEYS, c"a key or a file with keys cannot be read or written"),
    (FUL_ERR_TOO_SMALL, c"the buffer is too small"),
    (FUL_ERR_STREAM, c"this half of the stream is over"),
    (FUL_ERR_RESET, c"the peer reset the stream"),
    (FUL_ERR_STOPPED, c"the peer wants no more of the stream"),
    (FUL_ERR_TOO_LARGE, c"the datagram is too long"),
    (FUL_ERR_UNSUPPORTED, c"the peer takes no datagrams"),
    (FUL_ERR_CLOSED, c"the connection was closed"),
    (FUL_ERR_TIMED_OUT, c"the connection timed out"),
    (FUL_ERR_FAILED, c"the connection failed"),
    (FUL_ERR_UNTRUSTED, c"the server's key is not known, or is another than before"),
    (FUL_ERR_PANIC, c"a mistake in this library"),
];

/// What `code` means, in English. Never NULL; not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn ful_error_text(code: i32) -> *const c_char {
    let known = TEXTS.iter().find(|(known, _)| *known == code);
    known.map_or(c"an unknown code", |(_, text)| *text).as_ptr()
}

/// The version of this library's ABI: functions and fields are only added as long as it stays the same.
pub const FUL_ABI: u32 = 1;

/// The ABI that the library at hand was built with: to be compared with FUL_ABI.
#[unsafe(no_mangle)]
pub extern "C" fn ful_abi() -> u32 {
    FUL_ABI
}

/// Runs the body of a function that C calls. No panic gets out.
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => FUL_OK,
        Ok(Err(code)) => code,
        Err(_) => FUL_ERR_PANIC,
    }
}

/// The code for why a connection is no more.
pub(crate) fn of_connection(error: &ConnectionError) -> i32 {
    match error {
        ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed { .. } => FUL_ERR_CLOSED,
        ConnectionError::TimedOut => FUL_ERR_TIMED_OUT,
        _ => FUL_ERR_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_gets_out() {
        assert_eq!(guard(|| panic!("a mistake")), FUL_ERR_PANIC);
        assert_eq!(guard(|| Err(FUL_END)), FUL_END);
        assert_eq!(guard(|| Ok(())), FUL_OK);
    }

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let source = include_str!("code.rs");
        let codes: Vec<i32> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub const FUL_")?.split_once(": i32 = "))
            .map(|(_, value)| value.trim_end_matches(';').parse().expect("a number"))
            .collect();
        assert_eq!(codes.len(), TEXTS.len());
        for code in codes {
            assert_eq!(TEXTS.iter().filter(|(known, _)| *known == code).count(), 1, "{code}");
        }
        let texts: std::collections::BTreeSet<_> = TEXTS.iter().map(|(_, text)| *text).collect();
        assert_eq!(texts.len(), TEXTS.len());
    }
}
