//! How much memory this process may use: what the machine has, or what its control groups allow.
//!
//! The machine is asked by sysinfo(2), not by `/proc/meminfo`, which a service that sees only its own
//! processes has not (systemd's `ProcSubset=pid`). The control group is the process's own, and those above
//! it.

use std::path::{Path, PathBuf};

/// Where neither is known.
const UNKNOWN_BYTES: u64 = 2 << 30;

/// Half of what this machine has, or of what this process may use of it; 1 GiB where neither can be known.
pub(super) fn half_of_memory() -> usize {
    half_of(ram_bytes(), allowed_bytes(Path::new("/")))
}

fn half_of(ram_bytes: Option<u64>, allowed_bytes: Option<u64>) -> usize {
    let least = ram_bytes.into_iter().chain(allowed_bytes).min().unwrap_or(UNKNOWN_BYTES);
    usize::try_from(least / 2).unwrap_or(usize::MAX)
}

#[cfg(target_os = "linux")]
fn ram_bytes() -> Option<u64> {
    nix::sys::sysinfo::sysinfo().ok().map(|info| info.ram_total())
}

#[cfg(not(target_os = "linux"))]
fn ram_bytes() -> Option<u64> {
    None
}

/// The least that control groups allow which this process is in, of either version (cgroups(7)). `root` is
/// where the file system begins.
fn allowed_bytes(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let hierarchies = groups.lines().filter_map(Hierarchy::of_line);
    let limits = hierarchies.filter_map(|hierarchy| hierarchy.limit_bytes(root, &mounts));
    limits.min()
}

/// The group of a process in a hierarchy that may have limits on memory.
struct Hierarchy<'a> {
    is_v2: bool,
    /// As seen from the root of the hierarchy.
    path: &'a str,
}

impl<'a> Hierarchy<'a> {
    /// Of a line of `/proc/self/cgroup`: number, controllers, path. Version 2 has no controllers there.
    fn of_line(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_v2 = controllers.is_empty();
        (is_v2 || has_memory(controllers)).then_some(Self { is_v2, path })
    }

    fn limit_bytes(&self, root: &Path, mounts: &str) -> Option<u64> {
        let (mounted, at) = mounts.lines().find_map(|line| self.mount(line))?;
        // A container may see a part of the hierarchy; what is outside of that part it cannot look at.
        let below = Path::new(self.path).strip_prefix(mounted).unwrap_or(Path::new(""));
        let is_inside = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let top: PathBuf = root.join(Path::new(at).strip_prefix("/").ok()?);
        let group = if is_inside { top.join(below) } else { top.clone() };
        let file = if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = |group: &Path| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
        group.ancestors().take_while(|group| group.starts_with(&top)).filter_map(limit).min()
    }

    /// What is mounted and where, if a line of `/proc/self/mountinfo` is about this hierarchy (proc(5)).
    fn mount<'m>(&self, line: &'m str) -> Option<(&'m str, &'m str)> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut kind = kind.split(' ');
        let (file_system, options) = (kind.next()?, kind.nth(1)?);
        let is_it = if self.is_v2 {
            file_system == "cgroup2"
        } else {
            file_system == "cgroup" && has_memory(options)
        };
        is_it.then_some((place.next()?, place.next()?))
    }
}

fn has_memory(list: &str) -> bool {
    list.split(',').any(|word| word == "memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "33 30 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:12 - cgroup cgroup rw,memory\n";
    const OTHER_V1: &str = "32 30 0:28 / /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n";

    /// What is allowed in a file system of these files.
    fn allowed(files: &[(&str, &str)]) -> Option<u64> {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        allowed_bytes(folder.path())
    }

    #[test]
    fn a_unit_s_own_limit_counts_and_those_above_it() {
        let group = ("proc/self/cgroup", "0::/system.slice/fulmar.service\n");
        let mounts = ("proc/self/mountinfo", V2);
        let unit = "sys/fs/cgroup/system.slice/fulmar.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(allowed(&[group, mounts, (unit, "268435456\n"), (slice, "max\n")]), Some(256 << 20));
        assert_eq!(allowed(&[group, mounts, (unit, "268435456\n"), (slice, "1048576\n")]), Some(1 << 20));
        assert_eq!(allowed(&[group, mounts, (unit, "max\n"), (slice, "max\n")]), None);
        // Another unit's limit, and a file beside the hierarchy, are none of ours.
        let others = [("sys/fs/cgroup/user.slice/memory.max", "1\n"), ("sys/fs/memory.max", "1\n")];
        assert_eq!(allowed(&[group, mounts, others[0], others[1]]), None);
        assert_eq!(allowed(&[]), None);
    }

    #[test]
    fn the_root_of_a_container_is_its_own_group() {
        let mounts = ("proc/self/mountinfo", V2);
        let max = ("sys/fs/cgroup/memory.max", "4194304\n");
        assert_eq!(allowed(&[("proc/self/cgroup", "0::/\n"), mounts, max]), Some(4 << 20));
        assert_eq!(allowed(&[("proc/self/cgroup", "0::/../other\n"), mounts, max]), Some(4 << 20));
    }

    #[test]
    fn version_1_has_the_memory_somewhere_else() {
        let mounts = format!("{OTHER_V1}{V1}");
        let groups =
            "9:cpu,cpuacct:/\n8:memory:/system.slice/fulmar.service\n0::/system.slice/fulmar.service\n";
        let unit = "sys/fs/cgroup/memory/system.slice/fulmar.service/memory.limit_in_bytes";
        let top = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let files =
            [("proc/self/cgroup", groups), ("proc/self/mountinfo", &mounts), (unit, "8388608\n"), top];
        assert_eq!(allowed(&files), Some(8 << 20));
        // As docker mounts it: the container's group is what is mounted.
        let mounts = V1.replace(" / /sys", " /docker/c0ffee /sys");
        let groups = ("proc/self/cgroup", "8:memory:/docker/c0ffee\n");
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "16777216\n");
        assert_eq!(allowed(&[groups, ("proc/self/mountinfo", &mounts), limit]), Some(16 << 20));
    }

    #[test]
    fn half_of_the_machine_or_of_what_is_allowed() {
        assert_eq!(half_of(Some(24 << 30), None), 12 << 30);
        assert_eq!(half_of(Some(24 << 30), Some(512 << 20)), 256 << 20);
        assert_eq!(half_of(Some(1 << 30), Some(i64::MAX as u64)), 512 << 20);
        assert_eq!(half_of(None, None), 1 << 30);
    }

    /// `/proc/meminfo` is hidden from the packaged units.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_is_known_without_meminfo() {
        assert!(ram_bytes().is_some_and(|bytes| bytes > 64 << 20));
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total =
            meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
        if let Some(total) = total {
            assert_eq!(ram_bytes(), total.parse().ok().map(|kib: u64| kib << 10));
        }
    }
}
