//! Programs of commits: each is checked out, built once, and kept.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fulmar_proto::profile_names;

use super::side::Side;

/// The word for this program itself, whatever it was built from.
const THIS: &str = ".";

/// Where commits are found and what is built of them is kept.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// A folder in the checkout, if all is well.
    checkout: PathBuf,
    /// `bin/COMMIT`, and what cargo needs to make the next one quickly.
    cache: PathBuf,
}

/// Where programs of commits are kept unless somebody says otherwise: `fulmar-lab` in the user's cache.
pub fn cache_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("fulmar-lab")
}

impl Workshop {
    /// Of the checkout that `folder` is in, keeping things in `cache`.
    pub fn new(checkout: PathBuf, cache: PathBuf) -> Self {
        Self { checkout, cache }
    }

    /// The program of a commit, built if it is not there yet.
    pub(super) fn side(&self, revision: &str) -> Result<Side, String> {
        if revision == THIS {
            let path = std::env::current_exe().map_err(|error| error.to_string())?;
            return Ok(Side::Program { name: "this program".into(), path });
        }
        let commit = self.commit(revision)?;
        let short = &commit[..commit.len().min(12)];
        let path = self.cache.join("bin").join(&commit).join("fulmar-lab");
        if !path.is_file() {
            eprintln!("building {revision} ({short}) in {}", self.cache.display());
            self.build(&commit, &path).map_err(|reason| format!("{revision}: {reason}"))?;
        }
        let name =
            if commit.starts_with(revision) { short.to_owned() } else { format!("{revision} ({short})") };
        Ok(Side::Program { name, path })
    }

    /// The full name of a commit.
    fn commit(&self, revision: &str) -> Result<String, String> {
        let neither = |why: &str| {
            format!("'{revision}' is no profile (there are {}), and {why}", profile_names().join(", "))
        };
        let root = self.git(["rev-parse", "--show-toplevel"]).map_err(|reason| {
            neither(&format!(
                "there is no git checkout here to look for it as a commit ({reason}); run this inside one"
            ))
        })?;
        let found = self.git(["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]);
        found.map_err(|_| neither(&format!("the checkout in {root} has no such commit")))
    }

    /// What git answers, or why it does not.
    fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String, String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(&self.checkout)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("git: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr).lines().next().unwrap_or("git failed").to_owned())
        }
    }

    /// Checks the commit out beside what is there, builds the laboratory, keeps the program.
    fn build(&self, commit: &str, program: &Path) -> Result<(), String> {
        let words = |error: std::io::Error| error.to_string();
        let tree = self.cache.join("trees").join(commit);
        fs::create_dir_all(self.cache.join("trees")).map_err(words)?;
        // One that was interrupted left its tree behind.
        let remove =
            || self.git([OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref(), tree.as_os_str()]);
        let _ = remove();
        self.git(["worktree", "prune"])?;
        let place = tree.as_os_str();
        self.git([OsStr::new("worktree"), "add".as_ref(), "--detach".as_ref(), place, commit.as_ref()])?;
        let built = self.compile(&tree);
        // What was built counts, not whether its source could be tidied away.
        let _ = remove();
        let parent = program.parent().ok_or("the cache has no folder")?;
        fs::create_dir_all(parent).map_err(words)?;
        // Complete or not there: a copy under another name first.
        let partial = parent.join("partial");
        fs::copy(built?, &partial).map_err(words)?;
        fs::rename(&partial, program).map_err(words)
    }

    fn compile(&self, tree: &Path) -> Result<PathBuf, String> {
        if !tree.join("crates/fulmar-lab/Cargo.toml").is_file() {
            return Err("this commit has no laboratory (crates/fulmar-lab)".into());
        }
        let target = self.cache.join("target");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "--locked", "--quiet", "-p", "fulmar-lab", "--target-dir"])
            .arg(&target)
            .current_dir(tree)
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("cargo: {error}"))?;
        if status.success() { Ok(target.join("release/fulmar-lab")) } else { Err("it does not build".into()) }
    }
}
