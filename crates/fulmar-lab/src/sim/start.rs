//! When runs begin.

use fulmar_proto::Instant;

/// Time zero of every run: late enough that nothing computes with times before the origin.
pub(super) const START: Instant = Instant::from_nanos(1_000_000_000);
