//! Folders with keys in SSH's manner: an identity, `known_hosts`, `authorized_keys`.

use std::ffi::c_char;

use fulmar::crypto::PublicKey;
use fulmar::identity::{Home, Host, StoreError, Verdict};

use crate::code::{FUL_ERR_ARGUMENT, FUL_ERR_KEYS, Outcome, guard};
use crate::failure::{Failure, ful_error, tell};
use crate::keys::ful_identity;
use crate::memory;

/// The host is known by this key.
pub const FUL_TRUSTED: i32 = 1;
/// Nothing is known about the host.
pub const FUL_UNKNOWN: i32 = 2;
/// The host is known by another key.
pub const FUL_CHANGED: i32 = 3;

/// The folder `path`; NULL or "" stands for the user's ($FULMAR_HOME, or `fulmar` among their settings).
pub(crate) fn home(path: Option<&str>) -> Result<Home, Failure> {
    match path {
        None | Some("") => Home::locate().map_err(failure),
        Some(path) => Ok(Home::at(path)),
    }
}

pub(crate) fn failure(error: StoreError) -> Failure {
    Failure::new(FUL_ERR_KEYS, error)
}

/// Runs `body` and tells what went wrong.
unsafe fn telling(error: *mut ful_error, body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // SAFETY: as the header asks.
    guard(|| body().map_err(|failure| unsafe { tell(failure, error) }))
}

/// The identity in a folder of keys (NULL: the user's own). With `create` other than 0 it is made if there is
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_home_identity(
    home_path: *const c_char,
    create: i32,
    out: *mut *mut ful_identity,
    error: *mut ful_error,
) -> i32 {
    let body = || {
        // SAFETY: as the header asks.
        let home = home(unsafe { memory::text(home_path) }?)?;
        let identity = if create == 0 { home.identity() } else { home.identity_or_create() };
        // SAFETY: as the header asks.
        Ok(unsafe { memory::give(out, ful_identity(identity.map_err(failure)?)) }?)
    };
    // SAFETY: as the header asks.
    unsafe { telling(error, body) }
}

/// Lets in whoever holds `key` (32 bytes): a line of `authorized_keys`. The comment may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_home_authorize(
    home_path: *const c_char,
    key: *const u8,
    comment: *const c_char,
    error: *mut ful_error,
) -> i32 {
    let body = || {
        // SAFETY: as the header asks.
        let (path, key, comment) =
            unsafe { (memory::text(home_path)?, memory::key(key)?, memory::text(comment)?) };
        let keys = home(path)?.authorized_keys();
        keys.add(&PublicKey::from_bytes(key), comment.unwrap_or_default()).map(drop).map_err(failure)
    };
    // SAFETY: as the header asks.
    unsafe { telling(error, body) }
}

fn parse_host(text: &str) -> Outcome<Host> {
    text.parse().map_err(|_| FUL_ERR_ARGUMENT)
}

/// Believes that the server `host` ("name:port") holds `key` (32 bytes): a line of `known_hosts`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_home_trust(
    home_path: *const c_char,
    host: *const c_char,
    key: *const u8,
    error: *mut ful_error,
) -> i32 {
    let body = || {
        // SAFETY: as the header asks.
        let (path, host, key) =
            unsafe { (memory::text(home_path)?, memory::some_text(host)?, memory::key(key)?) };
        let host = parse_host(host)?;
        home(path)?.known_hosts().add(&host, &PublicKey::from_bytes(key), "").map_err(failure)
    };
    // SAFETY: as the header asks.
    unsafe { telling(error, body) }
}

/// Forgets all keys of `host` ("name:port"); `removed` (may be NULL) says how many lines went.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_home_forget(
    home_path: *const c_char,
    host: *const c_char,
    removed: *mut usize,
    error: *mut ful_error,
) -> i32 {
    let body = || {
        // SAFETY: as the header asks.
        let (path, host) = unsafe { (memory::text(home_path)?, memory::some_text(host)?) };
        let lines = home(path)?.known_hosts().remove(&parse_host(host)?).map_err(failure)?;
        if !removed.is_null() {
            // SAFETY: as the header asks.
            unsafe { memory::put(removed, lines) }?;
        }
        Ok(())
    };
    // SAFETY: as the header asks.
    unsafe { telling(error, body) }
}

/// What is known about `host` ("name:port") if it holds `key` (32 bytes): FUL_TRUSTED, FUL_UNKNOWN or
/// FUL_CHANGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_home_verdict(
    home_path: *const c_char,
    host: *const c_char,
    key: *const u8,
    verdict: *mut i32,
    error: *mut ful_error,
) -> i32 {
    let body = || {
        // SAFETY: as the header asks.
        let (path, host, key) =
            unsafe { (memory::text(home_path)?, memory::some_text(host)?, memory::key(key)?) };
        let known = home(path)?.known_hosts();
        let found = known.verdict(&parse_host(host)?, &PublicKey::from_bytes(key)).map_err(failure)?;
        let found = match found {
            Verdict::Trusted => FUL_TRUSTED,
            Verdict::Unknown => FUL_UNKNOWN,
            Verdict::Changed { .. } => FUL_CHANGED,
        };
        // SAFETY: as the header asks.
        Ok(unsafe { memory::put(verdict, found) }?)
    };
    // SAFETY: as the header asks.
    unsafe { telling(error, body) }
}
