//! Who sends, by the name that an experiment gives it.

use std::path::Path;

use fulmar_proto::{Profile, ProfileBuilder, profile_names};

/// Whether a sender is named like a profile, whatever its settings.
pub fn is_profile(sender: &str) -> bool {
    profile_names().contains(&sender.split(':').next().unwrap_or_default())
}

/// Whether a sender is kernel TCP, and with which congestion control.
pub fn kernel_congestion(sender: &str) -> Option<&str> {
    // Some profiles have names of that kind: tcp-fec, tcp-nc.
    sender.strip_prefix("tcp-").filter(|_| !is_profile(sender))
}

/// Folder of the peers' files, beside an experiment.
pub(super) const PEERS: &str = "peers";

/// The name of the peer that a sender is.
pub fn peer_name(sender: &str) -> Option<&str> {
    sender.strip_prefix("peer-")
}

/// Whether a sender runs in real time.
pub(super) fn is_real(sender: &str) -> bool {
    kernel_congestion(sender).is_some() || peer_name(sender).is_some()
}

/// Whether nothing of this tree sends: the kernel's TCP does, or a peer whose name does not say that it is
/// Fulmar.
pub(super) fn is_of_others(sender: &str) -> bool {
    peer_name(sender).map_or_else(|| kernel_congestion(sender).is_some(), |name| !name.starts_with("fulmar"))
}

/// Whether auto's congestion controller may be what sends, of a sender of this tree.
pub(super) fn may_run_auto(sender: &str) -> bool {
    let controller = || ProfileBuilder::parse(sender)?.values().map(|values| values.word("cc"));
    controller().map_or(true, |name| name == "auto")
}

/// Whether there is such a sender.
pub(super) fn check_sender(sender: &str, peers: &Path) -> Result<(), String> {
    if let Some(name) = peer_name(sender) {
        return check_peer(peers, name);
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let is_kernel = kernel_congestion(sender).is_some_and(is_name);
    if is_kernel {
        return Ok(());
    }
    Profile::parse(sender).map(|_| ()).map_err(|error| {
        format!("no sender '{sender}': {error}; there are also tcp- with a congestion control of the kernel, and peer- with a name")
    })
}

/// Whether there is such a peer.
#[cfg(target_os = "linux")]
fn check_peer(folder: &Path, name: &str) -> Result<(), String> {
    crate::peer::ChosenPeer::find(folder, name).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn check_peer(_: &Path, _: &str) -> Result<(), String> {
    Err("peers need the bridge, which needs Linux".into())
}
