//! A mistake in the protocol must not cost more than the connection it happened in.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; what it panicked with, if it did.
///
/// Whatever `work` had its hands on is to be given up by the caller, for it may be in any state.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no reason given")
            .to_owned()
    })
}
