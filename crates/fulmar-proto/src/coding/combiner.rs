//! Combinations into packets.

use std::sync::Arc;

use fulmar_fec::{Code, CodeError, Cover, Encoder, Geometry, RepairKey, SymbolId, Window};

use super::ring::Ring;
use crate::wire::frame;

/// Makes repair symbols and writes them as frames.
#[derive(Debug)]
pub(super) struct Combiner {
    code: Arc<dyn Code>,
    encoder: Option<Box<dyn Encoder>>,
    /// Length of every repair symbol, of a code that sends nothing else; elsewhere they are as long as what
    /// they cover.
    fixed_bytes: Option<usize>,
}

impl Combiner {
    /// For symbols of at most `symbol_bytes`. A code without combinations makes none.
    pub(super) fn new(code: Arc<dyn Code>, symbol_bytes: usize) -> Self {
        let shape = code.shape();
        Self {
            encoder: (shape.geometry != Geometry::None).then(|| code.encoder(symbol_bytes)),
            fixed_bytes: (!shape.is_systematic).then_some(symbol_bytes),
            code,
        }
    }

    pub(super) fn code(&self) -> &dyn Code {
        &*self.code
    }

    /// Whether there are combinations at all.
    pub(super) fn has_combinations(&self) -> bool {
        self.encoder.is_some()
    }

    /// Appends a repair symbol over `window`. `None`: it does not fit, or the code has no such cover.
    pub(super) fn put_window(
        &mut self,
        ring: &mut Ring,
        window: Window,
        key: RepairKey,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<()> {
        let id = self.code.shape().id;
        self.put(ring, Cover::Window(window), key, packet, space_bytes, |packet| {
            frame::put_repair_window_header(packet, id, window, key);
        })
    }

    /// Appends a repair symbol over exactly `members`.
    pub(super) fn put_set(
        &mut self,
        ring: &mut Ring,
        members: &[SymbolId],
        key: RepairKey,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<()> {
        let id = self.code.shape().id;
        self.put(ring, Cover::Set(members), key, packet, space_bytes, |packet| {
            frame::put_repair_set_header(packet, id, members, key);
        })
    }

    fn put(
        &mut self,
        ring: &mut Ring,
        cover: Cover<'_>,
        key: RepairKey,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        put_header: impl FnOnce(&mut Vec<u8>),
    ) -> Option<()> {
        let encoder = self.encoder.as_mut()?;
        let mut longest = None;
        for_each(cover, |id| longest = longest.max(ring.join(id)));
        let longest = self.fixed_bytes.or(longest)?;
        let before = packet.len();
        put_header(packet);
        let start = packet.len();
        if start - before + longest > space_bytes {
            // Over symbols made for a path that carried more.
            packet.truncate(before);
            return None;
        }
        packet.resize(start + longest, 0);
        match encoder.repair(cover, key, ring, &mut packet[start..]) {
            Ok(len) => packet.truncate(start + len),
            Err(error) => {
                let is_refusal = matches!(error, CodeError::BadCover | CodeError::BadKey);
                debug_assert!(is_refusal, "encoder refused {cover:?}: {error}");
                packet.truncate(before);
                return None;
            }
        }
        Some(())
    }

    /// Symbols below `below` will not be covered again.
    pub(super) fn release(&mut self, below: SymbolId) {
        self.encoder.iter_mut().for_each(|encoder| encoder.release(below));
    }
}

fn for_each(cover: Cover<'_>, act: impl FnMut(SymbolId)) {
    match cover {
        Cover::Window(window) => (window.first.0..window.end().0).map(SymbolId).for_each(act),
        Cover::Set(ids) => ids.iter().copied().for_each(act),
    }
}
