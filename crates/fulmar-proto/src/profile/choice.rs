//! Tables of what a setting chooses from: the word and what it stands for, in one row.

use super::values::Values;

/// A word of a setting, and what it chooses.
pub(super) struct Row<T> {
    pub(super) name: &'static str,
    pub(super) what: T,
}

/// A table of `N` makers.
pub(super) type Makers<T, const N: usize> = [Row<fn(&Values) -> T>; N];

pub(super) const fn row<T>(name: &'static str, what: T) -> Row<T> {
    Row { name, what }
}

/// The words of a table: what its setting takes.
pub(super) const fn names<T, const N: usize>(rows: &[Row<T>; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = rows[index].name;
        index += 1;
    }
    names
}

/// What `setting` chooses of its table. It must apply to these values.
pub(super) fn chosen<'a, T>(rows: &'a [Row<T>], values: &Values, setting: &str) -> &'a T {
    let word = values.word(setting);
    let row = rows.iter().find(|row| row.name == word);
    &row.unwrap_or_else(|| unreachable!("{setting}={word}: a setting takes the names of its table")).what
}
