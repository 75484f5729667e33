//! What of an experiment this machine can run: the bridge needs rights, peers need to be installed.

use std::path::Path;

use crate::experiment::{Experiment, kernel_congestion, peer_name};

/// What there is here.
#[derive(Debug)]
pub(super) struct Machine {
    has_bridge: bool,
}

impl Machine {
    /// Looks, by making a bridge.
    pub(super) fn look() -> Self {
        Self { has_bridge: has_bridge() }
    }

    /// Leaves out senders that cannot run here, and names them; `None` if nothing is left of the experiment.
    pub(super) fn leave_out(&self, experiment: &mut Experiment) -> Option<Vec<String>> {
        let can = |sender: &String| match (kernel_congestion(sender), peer_name(sender)) {
            (None, None) => true,
            (_, Some(name)) => self.has_bridge && is_installed(&experiment.peers, name),
            _ => self.has_bridge,
        };
        let mut missing = Vec::new();
        if let Some(senders) = experiment.sweep.get("sender") {
            let (present, absent): (Vec<_>, Vec<_>) = senders.iter().cloned().partition(can);
            missing = absent;
            let first = present.first()?.clone();
            // Each cell has its own in its place.
            experiment
                .flows
                .iter_mut()
                .filter(|flow| !can(&flow.sender))
                .for_each(|flow| flow.sender = first.clone());
            experiment.sweep.insert("sender".into(), present);
        } else if !experiment.flows.iter().all(|flow| can(&flow.sender)) {
            return None;
        }
        let gone = |values: &std::collections::BTreeMap<String, String>| {
            values.get("sender").is_some_and(|sender| missing.contains(sender))
        };
        experiment.claims.retain(|claim| !gone(&claim.at) && !claim.over.as_ref().is_some_and(gone));
        Some(missing)
    }
}

#[cfg(target_os = "linux")]
fn has_bridge() -> bool {
    use crate::bridge::{Bridge, TcpSettings, acquire_rights};
    let link = crate::link::LinkSpec::default();
    acquire_rights().is_ok() && Bridge::start(&link, 1, TcpSettings::default(), false).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn has_bridge() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn is_installed(folder: &Path, name: &str) -> bool {
    crate::peer::ChosenPeer::find(folder, name).is_ok_and(|peer| peer.peer.check_installed().is_ok())
}

#[cfg(not(target_os = "linux"))]
fn is_installed(_: &Path, _: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_left_out_with_what_is_claimed_of_it() {
        let text = "title = 't'\nduration = '1s'\n[[flow]]\nsender = 'auto'\n[sweep]\nsender = ['auto', 'tcp-bbr']\n\
            [[claim]]\nsays = 'a'\nat = { sender = 'auto' }\nover = { sender = 'tcp-bbr' }\nmin = 1\n\
            [[claim]]\nsays = 'b'\nat = { sender = 'auto' }\nmin = 1\n";
        let mut experiment = Experiment::parse("t.toml", text).unwrap();
        let machine = Machine { has_bridge: false };
        assert_eq!(machine.leave_out(&mut experiment), Some(vec!["tcp-bbr".to_owned()]));
        assert_eq!((experiment.sweep["sender"].len(), experiment.claims.len()), (1, 1));
        let text = text.replace("[[flow]]\nsender = 'auto'", "[[flow]]\nsender = 'tcp-bbr'");
        let mut experiment = Experiment::parse("t.toml", &text).unwrap();
        machine.leave_out(&mut experiment);
        assert_eq!(experiment.flows[0].sender, "auto");
        let kernel = "title = 't'\nduration = '1s'\n[[flow]]\nsender = 'tcp-bbr'\n";
        let mut experiment = Experiment::parse("t.toml", kernel).unwrap();
        assert_eq!(machine.leave_out(&mut experiment), None);
    }
}
