//! Drivers that several fuzz targets share.

pub mod codes;

/// Decoders with any parameters against peers that mean harm.
#[path = "../../crates/fulmar-fec/tests/common/mod.rs"]
pub mod decoders;

use fulmar_world as common;
#[path = "../../crates/fulmar-proto/tests/fuzz/drivers.rs"]
pub mod protocol;

#[path = "../../crates/fulmar-cli/tests/fuzz/drivers.rs"]
pub mod program;

#[path = "../../crates/fulmar-lab/tests/fuzz/drivers.rs"]
pub mod desk;
