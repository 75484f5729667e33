//! Programs as they are, over the bridge: each by several ways - the kernel's TCP, Fulmar's proxy, another
//! tunnel - over the same links.
//!
//! A file says what a program does (`experiments/applications/NAME.toml`), another how connections get across
//! (`experiments/applications/ways/NAME.toml`). A *cell* is one program, one way and one link. Both files
//! hold lines for `sh`; the program's last line of output is a JSON object of numbers. What each line finds
//! in its environment: docs/lab.md.

mod bound;
mod cell;
mod files;
mod page;
mod plan;
mod record;
mod run;

pub use bound::Bound;
pub use cell::Cell;
pub use files::{Application, Measure, Way};
pub use page::page;
pub use plan::{Selection, cells, read_folder};
pub use record::{Book, Record};
pub use run::{Workshop, run};
