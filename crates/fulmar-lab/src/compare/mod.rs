//! Two profiles, or two commits of this project, over the same experiment: both meet the same draws seed by
//! seed, so a paired test sees differences that means would hide.

mod build;
mod pairs;
mod side;

pub use build::{Workshop, cache_folder};
pub use pairs::{Difference, Verdict, differences};
pub use side::{RandomPaths, Side};

use crate::experiment::is_profile;

/// Two words of the command line as two sides: profiles if both are, commits otherwise (`.` is this program
/// itself).
///
/// # Errors
/// If they are neither, or commits cannot be built.
pub fn sides(a: &str, b: &str, workshop: &Workshop) -> Result<[Side; 2], String> {
    if is_profile(a) && is_profile(b) {
        return Ok([a, b].map(|name| Side::Profile(name.into())));
    }
    if let Some(profile) = [a, b].into_iter().find(|name| is_profile(name)) {
        return Err(format!(
            "'{profile}' is a profile and the other is not: compare two profiles, or two commits"
        ));
    }
    Ok([workshop.side(a)?, workshop.side(b)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_and_a_commit_are_not_compared() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path().into(), folder.path().join("cache"));
        let refused = sides("auto", "HEAD", &workshop).unwrap_err();
        assert!(refused.contains("'auto' is a profile"), "{refused}");
    }

    #[test]
    fn outside_a_checkout_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path().into(), folder.path().join("cache"));
        let refused = sides("HEAD~1", "HEAD", &workshop).unwrap_err();
        assert!(refused.contains("no git checkout") && refused.contains("auto"), "{refused}");
    }
}
