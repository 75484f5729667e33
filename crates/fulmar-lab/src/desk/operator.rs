//! All three on one machine: a controller, and two agents in namespaces with the bridge between them. What
//! they say to each other goes over loopback, a network apart from that of data.
//!
//! Nothing stays behind. Agents die with this program (their parent's death is a signal to them), namespaces
//! and devices have no names and go with their last user, and the folder of keys is named after this process:
//! the next start removes those of processes that are gone.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fulmar::identity::{Home, Host};
use tempfile::TempDir;

use super::controller::{Controller, ControllerConfig};
use super::types::Role;
use crate::bridge::{CLIENT_ADDRESS, Ground, SERVER_ADDRESS};
use crate::sys;

/// What an operator is told.
#[derive(Clone, Debug)]
pub struct OperatorConfig {
    /// Where the page is served.
    pub listen: SocketAddr,
    /// Where runs are kept.
    pub folder: PathBuf,
    /// Where experiment files are.
    pub experiments: PathBuf,
    /// Where the report is.
    pub report: PathBuf,
    /// A transfer does not count if more than one of its packets in a hundred was later than this.
    pub late_max: Duration,
    /// Further names by which the page may be called.
    pub names: Vec<String>,
    /// The token; a new one if none is given.
    pub token: Option<String>,
    /// Why there is no bridge, if rights are missing.
    pub rights: Result<(), String>,
}

/// How long to wait before an agent that has died is started again.
const REVIVAL: Duration = Duration::from_secs(1);
/// Beginning of the names of folders with keys; the process' number follows.
const FOLDER: &str = "fulmar-desk-";

/// One of the two agents.
struct Hand {
    name: &'static str,
    role: Role,
    home: Home,
    address: [u8; 4],
    namespace: Option<PathBuf>,
    child: Option<Child>,
}

impl Drop for Hand {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have died already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An operator's desk on this machine.
pub struct Operator {
    /// The controller.
    pub controller: Controller,
    hands: Vec<Hand>,
    _keys: TempDir,
}

impl Operator {
    /// Starts everything. To be called on the process' main thread, with which agents die.
    ///
    /// # Errors
    /// If a port is taken, or a folder cannot be used.
    pub async fn start(config: OperatorConfig) -> Result<Self, String> {
        let temp = std::env::temp_dir();
        sweep(&temp);
        let name = format!("{FOLDER}{}-", std::process::id());
        let keys = tempfile::Builder::new().prefix(&name).tempdir_in(&temp).map_err(|e| e.to_string())?;
        let ground = config.rights.and_then(|()| Ground::namespaces());
        let namespaces = ground.as_ref().ok().and_then(|ground| ground.ends.as_ref());
        let namespaces = namespaces.map(|[client, server]| [client.path(), server.path()]);
        let home = Home::at(keys.path().join("controller"));
        let controller = Controller::start(ControllerConfig {
            listen: config.listen,
            control: ([127, 0, 0, 1], 0).into(),
            home: home.clone(),
            folder: config.folder,
            experiments: config.experiments,
            report: config.report,
            mode: "operator",
            ground,
            late_max: config.late_max,
            names: config.names,
            token: config.token,
        });
        let controller = controller.await?;
        let host = Host::new("127.0.0.1", controller.control.port()).map_err(|error| error.to_string())?;
        let hand = |name: &'static str, role, address, namespace| {
            let own = Home::at(keys.path().join(name));
            let known = || {
                let identity = own.create_identity()?;
                own.known_hosts().add(&host, &controller.key, "controller")?;
                home.authorized_keys().add(&identity.public_key(), name)
            };
            known().map_err(|error| error.to_string())?;
            Ok::<Hand, String>(Hand { name, role, home: own, address, namespace, child: None })
        };
        let [left, right] = namespaces.map_or([None, None], |paths| paths.map(Some));
        let hands = vec![
            hand("left", Role::Sender, CLIENT_ADDRESS, left)?,
            hand("right", Role::Receiver, SERVER_ADDRESS, right)?,
        ];
        let mut operator = Self { controller, hands, _keys: keys };
        operator.revive().map_err(|error| format!("an agent does not start: {error}"))?;
        Ok(operator)
    }

    /// Keeps both agents alive, for ever. To be awaited on the main thread.
    ///
    /// # Errors
    /// If one cannot be started again.
    pub async fn tend(&mut self) -> Result<(), String> {
        loop {
            tokio::time::sleep(REVIVAL).await;
            self.revive().map_err(|error| format!("an agent does not start: {error}"))?;
        }
    }

    /// Starts agents that are not there.
    fn revive(&mut self) -> io::Result<()> {
        let control = self.controller.control;
        for hand in &mut self.hands {
            let is_alive = match &mut hand.child {
                Some(child) => child.try_wait()?.is_none(),
                None => false,
            };
            if !is_alive {
                hand.child = Some(start(hand, control)?);
            }
        }
        Ok(())
    }
}

/// The agent is this program again.
fn start(hand: &Hand, control: SocketAddr) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    let address = std::net::Ipv4Addr::from(hand.address).to_string();
    let role = if hand.role == Role::Sender { "sender" } else { "receiver" };
    command.args(["agent", "--quiet", "--controller", &control.to_string(), "--name", hand.name]);
    command.args(["--role", role, "--data-address", &address]);
    command.arg("--home").arg(hand.home.path());
    if let Some(namespace) = &hand.namespace {
        command.arg("--namespace").arg(namespace);
    }
    sys::die_with_parent(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// Removes folders of keys whose process is gone.
fn sweep(temp: &Path) {
    for entry in std::fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.split('-').next()?.parse::<u32>().ok());
        if let Some(number) = number.filter(|number| !Path::new(&format!("/proc/{number}")).exists()) {
            tracing::debug!("process {number} has left its keys behind");
            // Not ours, if it cannot be removed.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = temp.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        // Process numbers end at 2^22.
        let gone = make(format!("{FOLDER}99999999-abc"));
        let alive = make(format!("{FOLDER}{}-abc", std::process::id()));
        let other = make(format!("{FOLDER}notes"));
        sweep(temp.path());
        assert!(!gone.exists() && alive.exists() && other.exists());
    }
}
