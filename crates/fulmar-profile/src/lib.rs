//! What a profile is written in: settings, their values, and tables of the modules that they choose.
//!
//! A [`System`] is a part of the table: what one paper, or the engine itself, brings of profiles, settings
//! and modules. A [`Table`] puts parts together and reads what a profile says. No module is made here, and no
//! profile has its name here: `fulmar-proto` has the engine's part, `fulmar-systems` those of the published
//! systems.
#![forbid(unsafe_code)]

mod error;
mod kind;
mod make;
mod reads;
mod rows;
mod system;
mod table;
mod values;

pub use error::ProfileError;
pub use kind::{Kind, Setting, Value};
pub use make::{HandshakeTimer, Make, MakeContext};
pub use reads::{
    awaits_timeout, block_symbols_max, keeps_duplicates_back, misses_by_packets, retransmissions, window,
};
pub use rows::{
    CodeRow, ControllerRow, Cover, EstimatorRow, MadeCode, PolicyRow, SizingRow, WINDOW_SETTINGS,
};
pub use system::{Family, System};
pub use table::Table;
pub use values::Values;
