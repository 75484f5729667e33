//! Which kernels this processor has, and which one is used.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::{Entry, Kernel};
use crate::{portable::Portable, scalar::Scalar};

/// The kernels this processor can run, slowest first: `scalar` is the reference, the last one the fastest.
pub fn kernels() -> impl Iterator<Item = &'static dyn Kernel> {
    ALL.iter().filter(|entry| (entry.is_available)()).map(|entry| entry.kernel)
}

/// The kernel in use: the fastest there is, or the one that `FULMAR_GF` names (with feature `std`). Chosen
/// once.
///
/// A name that is unknown, or that this processor cannot run, is ignored: a transport should not fail over
/// it.
#[inline]
pub fn kernel() -> &'static dyn Kernel {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => choose(),
        n => ALL[n - 1].kernel,
    }
}

static ALL: &[Entry] = &[
    Entry { kernel: &Scalar, is_available: || true },
    Entry { kernel: &Portable, is_available: || true },
    #[cfg(target_arch = "x86_64")]
    crate::x86::SSSE3,
    #[cfg(target_arch = "x86_64")]
    crate::x86::AVX2,
    #[cfg(target_arch = "x86_64")]
    crate::x86::GFNI,
    #[cfg(target_arch = "x86_64")]
    crate::x86::AVX512,
];

/// 1 + the index of the kernel chosen, 0 before the choice. Two threads may both choose; they choose the
/// same.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

#[cold]
fn choose() -> &'static dyn Kernel {
    let wanted = wanted();
    let runs = |index: &usize| (ALL[*index].is_available)();
    let named =
        |index: &usize| wanted.as_ref().is_some_and(|name| ALL[*index].kernel.name() == name.as_str());
    let best = (0..ALL.len()).rfind(runs).unwrap_or(0);
    let index = (0..ALL.len()).filter(runs).find(named).unwrap_or(best);
    CHOSEN.store(index + 1, Ordering::Relaxed);
    ALL[index].kernel
}

#[cfg(feature = "std")]
fn wanted() -> Option<std::string::String> {
    std::env::var("FULMAR_GF").ok()
}

/// Without an environment nothing is wanted.
#[cfg(not(feature = "std"))]
fn wanted() -> Option<NoName> {
    None
}

#[cfg(not(feature = "std"))]
struct NoName;

#[cfg(not(feature = "std"))]
impl NoName {
    fn as_str(&self) -> &str {
        ""
    }
}
