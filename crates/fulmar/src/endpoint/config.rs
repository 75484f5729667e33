//! Settings of an endpoint.

use fulmar_proto::ConnectionIds;

use super::machine;
use crate::buffers::SOCKET_BUFFER_BYTES;

/// Settings of an endpoint, beside those of its connections.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    pub(super) reset_key: Option<[u8; 32]>,
    pub(super) connection_ids: ConnectionIds,
    pub(super) socket_buffer_bytes: usize,
    pub(super) may_segment: bool,
    pub(super) incoming_max: usize,
    pub(super) sockets_max: usize,
    pub(super) memory_bytes: Option<usize>,
    pub(super) loss_ppm: u32,
    pub(super) rebinds_on_silence: bool,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            reset_key: None,
            connection_ids: ConnectionIds::default(),
            socket_buffer_bytes: SOCKET_BUFFER_BYTES,
            may_segment: true,
            incoming_max: 4096,
            sockets_max: usize::MAX,
            memory_bytes: None,
            loss_ppm: 0,
            rebinds_on_silence: false,
        }
    }
}

impl EndpointConfig {
    /// The key of stateless resets. A server that has the same one after a restart tells its former clients
    /// at their next packet that their connections are gone; without it they wait for their idle timeout. No
    /// two servers may have the same: [`identity::ResetSecret`](crate::identity::ResetSecret) makes them.
    /// Default: a random one.
    pub fn reset_key(&mut self, key: [u8; 32]) -> &mut Self {
        self.reset_key = Some(key);
        self
    }

    /// What the connections are called: a balancer before several servers can route by it. Default: 8 random
    /// bytes.
    pub fn connection_ids(&mut self, ids: ConnectionIds) -> &mut Self {
        self.connection_ids = ids;
        self
    }

    /// Size of the socket's buffers asked for, in each direction. Default: 8 MiB.
    pub fn socket_buffer_bytes(&mut self, bytes: usize) -> &mut Self {
        self.socket_buffer_bytes = bytes;
        self
    }

    /// Whether the system is asked to cut batches into datagrams (GSO). It is found out by itself whether it
    /// can; `false` is for networks that corrupt such batches. Default: yes.
    pub fn segmentation_offload(&mut self, is_used: bool) -> &mut Self {
        self.may_segment = is_used;
        self
    }

    /// Clients that may wait for [`Endpoint::accept`](crate::Endpoint::accept); more are turned away.
    /// Default: 4096.
    pub fn incoming_max(&mut self, count: usize) -> &mut Self {
        self.incoming_max = count;
        self
    }

    /// Sockets that a server receives on side by side, at most: each has buffers of its own. Default: as many
    /// as the runtime has workers.
    pub fn sockets_max(&mut self, count: usize) -> &mut Self {
        self.sockets_max = count;
        self
    }

    /// What all connections may hold together, in bytes, beside what the application holds itself: symbols,
    /// packets and stream data of both directions. Beyond half of it the windows of flow control grow no
    /// more; beyond all of it nobody new is let in, and a connection that holds most ends with
    /// [`Internal`](crate::TransportErrorCode::Internal); beyond an eighth more, any that takes more.
    /// Default: half of the machine's memory, or of what the process may use.
    pub fn memory_bytes(&mut self, bytes: usize) -> &mut Self {
        self.memory_bytes = Some(bytes);
        self
    }

    pub(super) fn memory(&self) -> usize {
        self.memory_bytes.unwrap_or_else(machine::half_of_memory)
    }

    /// Whether an endpoint that accepts no connections takes another port of its address, drawn by the
    /// system, when nothing that one of its connections sends is answered any more: a NAT that has forgotten
    /// the old one, or a firewall that has closed it, stops nothing for longer than some three seconds then.
    /// All of its connections move with it. The first time after a second of silence or three probe timeouts,
    /// whichever is longer, then each time after twice as long; never while the system knows no way to the
    /// peer, as when an interface is down. Default: yes for [`Endpoint::client`](crate::Endpoint::client)
    /// with port 0, no for sockets that were bound elsewhere.
    pub fn rebind_on_silence(&mut self, may_rebind: bool) -> &mut Self {
        self.rebinds_on_silence = may_rebind;
        self
    }

    /// Datagrams of a million that are thrown away where they were received, each drawn by itself: how an
    /// application fares on a bad network, tried without one. Default: none.
    pub fn lose_received_ppm(&mut self, ppm: u32) -> &mut Self {
        self.loss_ppm = ppm.min(1_000_000);
        self
    }
}
