//! What one client may reach through the gateway.

use std::net::IpAddr;

use super::address;
use super::target::Place;

/// What a client may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    reaches_everything: bool,
}

impl Rules {
    /// For the gateway's own identity.
    pub fn everything() -> Self {
        Self { reaches_everything: true }
    }

    /// Whether this place may be reached at this address, which is in its plain form; otherwise why not.
    pub fn judge(&self, _place: &Place, ip: IpAddr) -> Result<(), String> {
        match address::private(ip) {
            Some(private) if !self.reaches_everything => {
                Err(format!("{ip} is {}, and not permitted", private.describe()))
            }
            _ => Ok(()),
        }
    }

    /// Whether any packets may be sent from the gateway.
    pub fn allows_tun(&self) -> bool {
        self.reaches_everything
    }

    /// Whether this Unix socket may be reached.
    pub fn allows_socket(&self, _path: &str) -> bool {
        self.reaches_everything
    }
}
