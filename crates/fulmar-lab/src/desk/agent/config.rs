//! What an agent is told when it is started.

use std::net::IpAddr;
use std::path::PathBuf;

use fulmar::identity::{Home, Host};

use crate::desk::types::Role;

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where the controller is.
    pub controller: Host,
    /// Identity and known controllers.
    pub home: Home,
    /// What it calls itself.
    pub name: String,
    /// What it wants to be; otherwise the controller decides.
    pub role: Option<Role>,
    /// Its address in the network of data.
    pub data_address: IpAddr,
    /// The network namespace of data, if it is another.
    pub data_namespace: Option<PathBuf>,
    /// Trust a controller that is not known yet, and know it from then on.
    pub trusts_new: bool,
    /// Say nothing but what is wrong.
    pub is_quiet: bool,
}
