//! Drivers that several fuzz targets share.

pub mod codes;

use fulmar_world as common;
#[path = "../../crates/fulmar-proto/tests/fuzz/drivers.rs"]
pub mod protocol;
