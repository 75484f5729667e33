//! Path-MTU discovery by probing (DPLPMTUD, RFC 8899), made for paths that lose packets at random.
//!
//! A probe that gets lost says little where every tenth packet is lost, so a size is given up only after
//! several losses whose count grows with the loss rate. And the path shrinks only when full-sized packets
//! vanish while small ones pass: random loss takes both alike.

use std::time::Duration;

use fulmar_units::Instant;

use super::PathLimits;
use crate::PacketNumber;

/// Size every path must carry (RFC 9000 14): UDP payload bytes.
pub(crate) const BASE_BYTES: u16 = 1200;
/// Sizes probed, ascending: PPPoE over IPv6, Ethernet over IPv6 and IPv4, jumbo frames, loopback.
const TABLE_BYTES: [u16; 9] = [1280, 1350, 1400, 1440, 1452, 1472, 4000, 8952, 65_000];
/// The search starts again after this long (RFC 8899 5.1.1: PMTU_RAISE_TIMER).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// After a fall the first time sooner, and twice as late each time: what made the path smaller may be gone
/// soon, as a detour, and a search that finds nothing costs as many packets as it has sizes.
const RAISE_AFTER_FALL: Duration = Duration::from_secs(45);
/// Losses of a probe size before it is given up on a path without other loss (RFC 8899 5.1.2: MAX_PROBES).
const PROBES_MAX: u32 = 3;
/// Full-sized packets lost in a row, none arriving, before the path is suspected to have shrunk ..
const BLACK_HOLE_PACKETS: u32 = 10;
/// .. if they were sent over more than so many round trips: a burst of losses passes in less, but on slow
/// paths.
const BLACK_HOLE_ROUNDS: u32 = 6;

/// A probe to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Size of the datagram's payload.
    pub bytes: u16,
}

/// Searches for the largest size the path carries.
#[derive(Debug)]
pub struct MtuDiscovery {
    current_bytes: u16,
    /// The smallest size known or believed not to pass.
    ceiling_bytes: u16,
    limit_bytes: u16,
    in_flight: Option<(PacketNumber, u16)>,
    lost_probes: u32,
    next_search_at: Instant,
    /// How long after the end of a search the next begins.
    raise_after: Duration,
    is_searching: bool,
    full_lost_in_row: u32,
    /// When the first of them was sent.
    full_lost_since: Instant,
    /// The newest packet that arrived of those that not every path carries.
    newest_full: PacketNumber,
}

impl MtuDiscovery {
    /// Starts from `initial_bytes`, which must pass, and goes no further than `limit_bytes`.
    pub fn new(initial_bytes: u16, limit_bytes: u16) -> Self {
        let limit_bytes = limit_bytes.max(initial_bytes);
        Self {
            current_bytes: initial_bytes,
            ceiling_bytes: u16::MAX,
            limit_bytes,
            in_flight: None,
            lost_probes: 0,
            next_search_at: Instant::ZERO,
            raise_after: RAISE_AFTER,
            is_searching: limit_bytes > initial_bytes,
            full_lost_in_row: 0,
            full_lost_since: Instant::ZERO,
            newest_full: PacketNumber(0),
        }
    }

    /// Within the limits of a path, for a sender that makes no packet longer than `packet_bytes_max`.
    pub fn held_to(limits: &PathLimits, packet_bytes_max: Option<u16>) -> Self {
        let mut discovery = Self::new(limits.initial_mtu_bytes, limits.mtu_max_bytes);
        discovery.hold_to(packet_bytes_max);
        discovery
    }

    /// This end makes no packet longer than `bytes`, which may be less than every path carries.
    pub fn hold_to(&mut self, bytes: Option<u16>) {
        let bytes = bytes.unwrap_or(u16::MAX);
        self.limit_bytes = self.limit_bytes.min(bytes);
        self.current_bytes = self.current_bytes.min(bytes);
        self.is_searching = self.is_searching && self.limit_bytes > self.current_bytes;
    }

    /// Largest UDP payload known to pass.
    pub fn current_bytes(&self) -> u16 {
        self.current_bytes
    }

    /// The peer takes no datagrams beyond `limit_bytes`.
    pub fn set_limit(&mut self, limit_bytes: u16) {
        self.limit_bytes = self.limit_bytes.min(limit_bytes.max(BASE_BYTES));
        self.current_bytes = self.current_bytes.min(self.limit_bytes);
    }

    /// Sizes are being tried.
    pub fn is_searching(&self) -> bool {
        self.is_searching
    }

    /// A probe of the size that is tried was lost.
    pub fn has_lost(&self) -> bool {
        self.lost_probes > 0
    }

    /// When the search begins again, if it is not under way.
    pub fn timeout(&self) -> Option<Instant> {
        (!self.is_searching).then_some(self.next_search_at)
    }

    /// The next probe, if one is wanted now.
    pub fn poll_probe(&mut self, now: Instant) -> Option<Probe> {
        if self.in_flight.is_some() {
            return None;
        }
        if !self.is_searching {
            if now < self.next_search_at {
                return None;
            }
            self.is_searching = true;
            self.ceiling_bytes = u16::MAX;
        }
        let candidate = self.candidate();
        if candidate.is_none() {
            self.is_searching = false;
            self.next_search_at = now + self.raise_after;
            self.raise_after = (self.raise_after * 2).min(RAISE_AFTER);
        }
        candidate.map(|bytes| Probe { bytes })
    }

    /// Largest size first: on most paths one probe settles it.
    fn candidate(&self) -> Option<u16> {
        let sizes = TABLE_BYTES.iter().copied().filter(|&b| b < self.limit_bytes).chain([self.limit_bytes]);
        sizes.filter(|&bytes| bytes > self.current_bytes && bytes < self.ceiling_bytes).max()
    }

    /// The probe left as packet `number`.
    pub fn on_probe_sent(&mut self, number: PacketNumber, probe: Probe) {
        self.in_flight = Some((number, probe.bytes));
    }

    /// A packet was acknowledged. True if it was the probe, and the size has grown.
    pub fn on_acked(&mut self, number: PacketNumber, bytes: u32) -> bool {
        if bytes > u32::from(BASE_BYTES) {
            self.full_lost_in_row = 0;
            self.newest_full = self.newest_full.max(number);
        }
        match self.in_flight {
            Some((probe, size)) if probe == number => {
                self.in_flight = None;
                self.lost_probes = 0;
                self.current_bytes = self.current_bytes.max(size);
                true
            }
            _ => false,
        }
    }

    /// The probe was lost, on a path that loses packets at the rate `loss` anyway.
    pub fn on_probe_lost(&mut self, number: PacketNumber, loss: f64) {
        let Some((probe, size)) = self.in_flight else { return };
        if probe != number {
            return;
        }
        self.in_flight = None;
        self.lost_probes += 1;
        // At 20 % loss three losses in a row happen once in 125 times: six make it once in 15,625.
        let patience = PROBES_MAX + (loss * 15.0) as u32;
        if self.lost_probes >= patience {
            self.lost_probes = 0;
            self.ceiling_bytes = size;
        }
    }

    /// Packet `number`, sent at `sent_at`, was lost. True if the path has shrunk and the size fell back to
    /// 1200 bytes.
    ///
    /// A loss is declared because something later arrived: small packets pass, or, after a burst that took
    /// all before it, large ones as well, and then it tells nothing. The count alone would be met by a burst,
    /// or by chance on a path that loses half; the time is not.
    pub fn on_lost(&mut self, number: PacketNumber, sent_at: Instant, bytes: u32, rtt: Duration) -> bool {
        let is_small = bytes <= u32::from(BASE_BYTES) || self.current_bytes <= BASE_BYTES;
        if is_small || self.newest_full > number {
            return false;
        }
        if self.full_lost_in_row == 0 {
            self.full_lost_since = sent_at;
        }
        self.full_lost_in_row += 1;
        let is_long = sent_at - self.full_lost_since > rtt * BLACK_HOLE_ROUNDS;
        if self.full_lost_in_row < BLACK_HOLE_PACKETS || !is_long {
            return false;
        }
        self.full_lost_in_row = 0;
        self.raise_after = RAISE_AFTER_FALL;
        self.ceiling_bytes = self.current_bytes;
        self.current_bytes = BASE_BYTES.min(self.limit_bytes);
        self.is_searching = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a path of `path_bytes` on which the packets for which `is_lost` says so are lost
    /// too.
    fn search(path_bytes: u16, limit_bytes: u16, loss: f64, mut is_lost: impl FnMut() -> bool) -> u16 {
        let mut mtu = MtuDiscovery::new(BASE_BYTES, limit_bytes);
        let mut number = 0;
        while let Some(probe) = mtu.poll_probe(Instant::ZERO) {
            number += 1;
            assert!(number < 200, "the search does not end");
            mtu.on_probe_sent(PacketNumber(number), probe);
            assert_eq!(mtu.poll_probe(Instant::ZERO), None);
            if probe.bytes <= path_bytes && !is_lost() {
                assert!(mtu.on_acked(PacketNumber(number), u32::from(probe.bytes)));
            } else {
                mtu.on_probe_lost(PacketNumber(number), loss);
            }
        }
        mtu.current_bytes()
    }

    /// The sender's own bound may be below what every path carries (Sato 2019, Table 5.1: segments of 1000
    /// bytes).
    #[test]
    fn a_sender_may_make_smaller_packets_than_the_path_takes() {
        let limits = PathLimits { initial_mtu_bytes: BASE_BYTES, mtu_max_bytes: 1472, is_ecn_enabled: false };
        let mut mtu = MtuDiscovery::held_to(&limits, Some(1012));
        mtu.set_limit(1472);
        assert_eq!((mtu.current_bytes(), mtu.is_searching()), (1012, false));
        assert_eq!(mtu.poll_probe(Instant::ZERO), None);
        let mut mtu = MtuDiscovery::held_to(&limits, Some(1300));
        assert_eq!(mtu.poll_probe(Instant::ZERO), Some(Probe { bytes: 1300 }));
    }

    #[test]
    fn common_paths_are_found() {
        for (path, found) in [(1200, 1200), (1452, 1452), (1472, 1472), (1500, 1472), (9000, 1472)] {
            assert_eq!(search(path, 1472, 0.0, || false), found);
        }
        assert_eq!(search(9000, 65_000, 0.0, || false), 8952);
    }

    #[test]
    fn random_loss_does_not_fool_the_search() {
        use rand_core::{RngCore, SeedableRng};
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let found = (0..200).filter(|_| search(1472, 1472, 0.2, || rng.next_u32() % 5 == 0) == 1472).count();
        assert!(found >= 198, "{found} of 200 searches found the path's size at 20 % loss");
    }

    #[test]
    fn a_black_hole_shrinks_and_random_loss_does_not() {
        let mut mtu = MtuDiscovery::new(1472, 1472);
        let rtt = Duration::from_millis(100);
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        assert!(
            (0..1000).all(|i| !mtu.on_lost(PacketNumber(i), at(i / 10), 1472, rtt)),
            "a burst within a round trip is no black hole"
        );
        assert!(mtu.on_lost(PacketNumber(1000), at(700), 1472, rtt));
        assert_eq!(mtu.current_bytes(), BASE_BYTES);
        let mut mtu = MtuDiscovery::new(1472, 1472);
        for number in 0..10_000 {
            assert!(!mtu.on_lost(PacketNumber(4 * number), at(number * 50), 1472, rtt));
            if number % 4 == 0 {
                mtu.on_acked(PacketNumber(4 * number + 2), 1472);
            }
        }
    }

    /// A slow path, on which a burst of losses lasts for thirty round trips.
    #[test]
    fn a_burst_after_which_a_large_packet_arrives_is_no_black_hole_however_long() {
        let rtt = Duration::from_millis(10);
        let mut mtu = MtuDiscovery::new(1472, 1472);
        let lose = |mtu: &mut MtuDiscovery, numbers: core::ops::Range<u64>| {
            let at = |number: u64| Instant::ZERO + rtt * number as u32;
            numbers.into_iter().any(|number| mtu.on_lost(PacketNumber(number), at(number), 1472, rtt))
        };
        for begin in (0..10_000).step_by(100) {
            mtu.on_acked(PacketNumber(begin + 30), 1472);
            assert!(!lose(&mut mtu, begin..begin + 30));
        }
        mtu.on_acked(PacketNumber(20_030), 60);
        assert!(lose(&mut mtu, 20_000..20_030), "only a small one arrived");
    }

    /// What made the path smaller may be gone in a minute; if it is not, the searches are ever more seldom.
    #[test]
    fn after_a_fall_the_search_is_repeated_soon_and_then_ever_more_seldom() {
        let mut mtu = MtuDiscovery::new(1472, 1472);
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        assert!((0..100).any(|i| mtu.on_lost(PacketNumber(i), at(i * 10), 1472, Duration::from_millis(20))));
        let (mut now, mut number) = (at(1000), 1000);
        let mut waits = Vec::new();
        for _ in 0..6 {
            while let Some(probe) = mtu.poll_probe(now) {
                number += 1;
                mtu.on_probe_sent(PacketNumber(number), probe);
                mtu.on_probe_lost(PacketNumber(number), 0.0);
            }
            let next = mtu.timeout().expect("a search has ended");
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits, [45, 90, 180, 360, 600, 600]);
        let probe = mtu.poll_probe(now).expect("a search");
        assert_eq!(probe.bytes, 1472, "the size before the fall");
    }

    #[test]
    fn the_search_is_repeated_in_time() {
        let mut mtu = MtuDiscovery::new(BASE_BYTES, 1472);
        while let Some(probe) = mtu.poll_probe(Instant::ZERO) {
            mtu.on_probe_sent(PacketNumber(0), probe);
            mtu.on_probe_lost(PacketNumber(0), 0.0);
        }
        assert_eq!(mtu.poll_probe(Instant::ZERO + RAISE_AFTER / 2), None);
        assert!(mtu.poll_probe(Instant::ZERO + RAISE_AFTER).is_some());
    }
}
