//! What the peer said in the handshake, and what follows from it: profile, codes, windows, limits.

use super::setup::{AgreedCode, PeerLimits, recovery_modules};
use super::{Connection, EndpointEvent};
use crate::coding::SymbolReceiver;
use crate::config::Adopted;
use crate::params::Parameters;
use crate::profile::{MakeContext, Profile};
use crate::stream::PeerStreamLimits;
use crate::{Instant, Rate, TransportError};

impl Connection {
    /// The peer has said what it can receive and decode.
    pub(super) fn on_peer_parameters(
        &mut self,
        now: Instant,
        peer: Parameters,
    ) -> Result<(), TransportError> {
        self.cids.check(self.side, &peer)?;
        if self.side.is_server() {
            self.follow(now, &peer);
        }
        self.agree_on_codes(&peer)?;
        self.streams.set_peer_limits(&PeerStreamLimits {
            max_data: peer.initial_max_data,
            max_stream_data: peer.initial_max_stream_data,
            max_streams_bi: peer.initial_max_streams_bi,
            max_streams_uni: peer.initial_max_streams_uni,
        });
        let limits = PeerLimits::of(&peer);
        self.path.recovery.set_udp_payload_max(limits.udp_payload_max);
        self.path.recovery.acks().on_peer_delay(peer.ack_delay_max);
        if let Some(bytes_per_second) = peer.rate_max {
            self.intake.iter_mut().for_each(|intake| intake.on_understood());
            if bytes_per_second > 0 {
                self.path.recovery.on_rate_asked(0, Some(Rate::from_bytes_per_second(bytes_per_second)));
            }
        }
        self.liveness.agree(self.config.idle_timeout, peer.idle_timeout);
        if let Some(token) = &peer.reset_token {
            self.endpoint_events.push_back(EndpointEvent::ResetToken(*token));
        }
        if self.side.is_client() {
            self.ports.on_told(peer.ports);
        }
        self.peer = Some(limits);
        Ok(())
    }

    /// Sends as the client wishes, as far as that is allowed.
    fn follow(&mut self, now: Instant, peer: &Parameters) {
        match self.config.adopting(&peer.profile) {
            Adopted::All(profile) => self.adopt(now, &profile),
            // The client decodes its own code, and not every policy goes with every code.
            Adopted::Coding(profile) if !self.has_code_of(peer) => {
                tracing::debug!(profile = %profile.name, "not allowed: sending with this end's congestion control");
                self.adopt_coding(&profile);
            }
            Adopted::Coding(_) | Adopted::Nothing => {}
        }
    }

    /// The peer sends with this end's own code.
    fn has_code_of(&self, peer: &Parameters) -> bool {
        let own = &self.own_code;
        peer.codes_sent.first() == Some(&own.shape().id) && peer.code_parameters == own.parameters()
    }

    fn adopt_coding(&mut self, profile: &Profile) {
        self.datagrams.set_favor(profile.favor);
        let context = MakeContext::new(u32::from(self.path.recovery.mtu_bytes()), self.draw());
        self.coding.adopt((profile.redundancy)(&context), (profile.sizing)(&context));
    }

    /// Sends with the modules of another profile. Nothing has been sent or measured yet.
    fn adopt(&mut self, now: Instant, profile: &Profile) {
        let seed = self.draw();
        let context = MakeContext::new(u32::from(self.path.recovery.mtu_bytes()), seed);
        self.path.recovery.adopt(now, recovery_modules(profile, &context));
        self.adopt_coding(profile);
        self.profile_name.clone_from(&profile.name);
    }

    /// Makes the sender and the receiver of symbols.
    fn agree_on_codes(&mut self, peer: &Parameters) -> Result<(), TransportError> {
        let wished = self.code_to_send(peer)?;
        let id = wished.code.shape().id;
        let sent = wished.or_none(peer, &self.config);
        if sent.code.shape().id != id {
            tracing::info!(code = id.0, "the peer cannot decode this code: sending without");
        }
        // A code that fills up every block makes too much of a few ids: they wait for others.
        self.cids.on_agreed(peer.cids_kept, sent.code.shape().is_systematic);
        let reach = u32::try_from(peer.decoder_symbols).unwrap_or(u32::MAX);
        self.coding.set_code(sent.code, sent.symbol_bytes, reach);
        let decoded = self.code_to_decode(peer)?;
        let limits = decoded.limits(&self.config);
        self.symbols_in = SymbolReceiver::new(&*decoded.code, decoded.symbol_bytes, limits);
        Ok(())
    }

    /// The code this end sends with: its own. A server that follows its clients named none, and takes the
    /// client's.
    fn code_to_send(&self, peer: &Parameters) -> Result<AgreedCode, TransportError> {
        if self.side.is_server() && self.config.follows_peer_profile {
            let theirs = AgreedCode::of_peer(peer, &self.config)?;
            return Ok(AgreedCode::own(&theirs.code, &self.config));
        }
        Ok(AgreedCode::own(&self.own_code, &self.config))
    }

    /// The code the peer sends with. A server that follows its clients cannot name it, for it does not know
    /// yet: it is the client's own.
    fn code_to_decode(&self, peer: &Parameters) -> Result<AgreedCode, TransportError> {
        if self.side.is_client() && peer.codes_sent.is_empty() {
            let mut own = AgreedCode::own(&self.own_code, &self.config);
            if !own.code.shape().is_systematic {
                own.symbol_bytes = usize::try_from(peer.symbol_bytes).unwrap_or(0).max(1);
            }
            return Ok(own.or_none(peer, &self.config));
        }
        AgreedCode::of_peer(peer, &self.config)
    }
}
