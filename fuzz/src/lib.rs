//! Drivers that several fuzz targets share.

pub mod codes;

#[path = "../../crates/fulmar-proto/tests/common/mod.rs"]
mod common;
#[path = "../../crates/fulmar-proto/tests/fuzz/drivers.rs"]
pub mod protocol;
