//! Settings of ends that trust everyone.

use std::sync::Arc;

use fulmar_proto::crypto::{self, Identity, PublicKey, Refusal, VerifyPeer};
use fulmar_proto::{ClientConfig, ServerConfig, TransportConfig};

/// Lets everyone in.
#[derive(Debug)]
pub struct Anyone;

impl VerifyPeer for Anyone {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Settings of a client that trusts everyone.
pub fn client_config(transport: TransportConfig) -> ClientConfig {
    let identity = Identity::from_seed(&[1; 32]);
    let mut config =
        ClientConfig::new(Arc::new(crypto::ClientConfig::raw_key(Some(&identity), Arc::new(Anyone))));
    config.transport = Arc::new(transport);
    config
}

/// Settings of a server that lets everyone in.
pub fn server_config(transport: TransportConfig) -> ServerConfig {
    let identity = Identity::from_seed(&[2; 32]);
    let mut config =
        ServerConfig::new(Arc::new(crypto::ServerConfig::raw_key(&identity, Some(Arc::new(Anyone)))));
    config.transport = Arc::new(transport);
    config
}
