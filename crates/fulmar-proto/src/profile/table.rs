//! The table of this program: the engine's part, and those of the published systems where they are built in.

use std::sync::LazyLock;

use fulmar_fec::CodeId;
use fulmar_profile::{CodeRow, Family, Setting, Table};

use super::engine::ENGINE;

/// What is said beside "there is no ..", where the systems are left out.
#[cfg(any(test, not(feature = "systems")))]
pub(super) const LEFT_OUT: &str =
    "; the published systems are not built into this program (feature `systems` of fulmar-proto)";

/// Everything that is built in.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    #[cfg(feature = "systems")]
    let table = Table::new([&ENGINE].into_iter().chain(fulmar_systems::SYSTEMS).collect(), "");
    #[cfg(not(feature = "systems"))]
    let table = Table::new(vec![&ENGINE], LEFT_OUT);
    table
});

/// The engine's part alone, whatever is built in: tests ask what is refused without the rest.
#[cfg(test)]
pub(super) static ENGINE_ALONE: LazyLock<Table> = LazyLock::new(|| Table::new(vec![&ENGINE], LEFT_OUT));

/// All profiles that are built in.
pub fn families() -> impl Iterator<Item = &'static Family> {
    TABLE.families()
}

/// The names of all profiles that are built in.
pub fn profile_names() -> Vec<&'static str> {
    families().map(|family| family.name).collect()
}

/// All settings that are built in. Those that choose modules stand before those that belong to them.
pub fn settings() -> &'static [Setting] {
    TABLE.settings()
}

/// The code of that number on the wire; `None` if it is not built in.
pub(crate) fn code_numbered(id: CodeId) -> Option<&'static CodeRow> {
    TABLE.code_numbered(id)
}

/// Codes that this end can decode: all that are built in, by their numbers.
pub(crate) fn code_ids() -> Vec<CodeId> {
    let mut ids: Vec<CodeId> = TABLE.codes().map(|row| row.id).collect();
    ids.sort_by_key(|id| id.0);
    ids
}
