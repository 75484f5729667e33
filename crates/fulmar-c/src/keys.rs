//! Keys: an end's own, and others' as bytes, lines and fingerprints.

use std::ffi::c_char;

use fulmar::crypto::{Identity, PublicKey};

use crate::code::{FUL_ERR_KEYS, guard};
use crate::failure::{Failure, ful_error, tell};
use crate::memory;

/// A private key.
pub struct ful_identity(pub(crate) Identity);

/// A new key, from the system's randomness.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_identity_generate(out: *mut *mut ful_identity) -> i32 {
    // SAFETY: as the header asks.
    guard(|| unsafe { memory::give(out, ful_identity(Identity::generate())) })
}

/// Reads a private key: the PEM of an Ed25519 key in PKCS#8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_identity_from_pem(
    pem: *const c_char,
    out: *mut *mut ful_identity,
    error: *mut ful_error,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let pem = unsafe { memory::some_text(pem) }?;
        match Identity::from_pem(pem) {
            // SAFETY: as the header asks.
            Ok(identity) => unsafe { memory::give(out, ful_identity(identity)) },
            // SAFETY: as the header asks.
            Err(why) => Err(unsafe { tell(Failure::new(FUL_ERR_KEYS, why), error) }),
        }
    })
}

/// The private key in PEM. To be kept where only its owner reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_identity_to_pem(
    identity: *const ful_identity,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    // SAFETY: as the header asks.
    guard(|| unsafe { memory::fill_text(&memory::borrow(identity)?.0.to_pem(), out, capacity, len) })
}

/// The public half: 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_identity_public_key(identity: *const ful_identity, key: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let identity = unsafe { memory::borrow(identity) }?;
        // SAFETY: as the header asks, there is room for 32 bytes.
        unsafe { memory::fill_bytes(identity.0.public_key().as_bytes(), key, 32, std::ptr::null_mut()) }
    })
}

/// Lets go of a private key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_identity_free(identity: *mut ful_identity) {
    guard(|| {
        // SAFETY: as the header asks.
        drop(unsafe { memory::take_back(identity) });
        Ok(())
    });
}

/// Reads a line `fulmar-ed25519 BASE64 comment` into the 32 bytes of its key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_key_from_line(line: *const c_char, key: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let line = unsafe { memory::some_text(line) }?;
        let (parsed, _) = PublicKey::from_line(line).map_err(|_| FUL_ERR_KEYS)?;
        // SAFETY: as the header asks, there is room for 32 bytes.
        unsafe { memory::fill_bytes(parsed.as_bytes(), key, 32, std::ptr::null_mut()) }
    })
}

/// The line of a key (32 bytes), with a comment that may be NULL; no end of line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_key_to_line(
    key: *const u8,
    comment: *const c_char,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (key, comment) = unsafe { (memory::key(key)?, memory::text(comment)?) };
        let line = PublicKey::from_bytes(key).to_line(comment.unwrap_or_default());
        // SAFETY: as the header asks.
        unsafe { memory::fill_text(&line, out, capacity, len) }
    })
}

/// `SHA256:...` of a key (32 bytes): what people compare.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_key_fingerprint(
    key: *const u8,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let key = unsafe { memory::key(key) }?;
        let text = PublicKey::from_bytes(key).fingerprint().to_string();
        // SAFETY: as the header asks.
        unsafe { memory::fill_text(&text, out, capacity, len) }
    })
}
