//! What one run is.

use crate::scenario::Scenario;

/// Who sends in a run: protocol cores in virtual time, or the kernel in real time.
#[derive(Clone, Debug)]
pub enum Task {
    /// In virtual time.
    Sim(Box<Scenario>),
    /// In real time.
    #[cfg(target_os = "linux")]
    Tcp(Box<crate::tcp::TcpScenario>),
    /// A peer in real time.
    #[cfg(target_os = "linux")]
    Peer(Box<crate::peer::PeerScenario>),
}
