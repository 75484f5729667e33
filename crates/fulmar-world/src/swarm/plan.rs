//! What one seed stands for. Everything is drawn before the run, so a plan can be read when its run has
//! failed.

use std::time::Duration;

use super::draw::Draw;
use super::recombine::draw_profile;
use fulmar_net::{Intervals, Jitter, LinkConfig, Loss, LossPlace, Order, QueueConfig, QueueLimit, TwoState};
use fulmar_proto::{AllowedProfiles, Dir, Instant, Profile, Rate, Side, TransportConfig};

/// IP and UDP headers, which the links count and the protocol does not.
const IP_UDP_BYTES: u32 = 28;

/// The thinnest of the usual links, in bits per second.
const RATE_MIN_BPS: u64 = 100_000;

/// A run before it is run. Its `Debug` form is for people.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) seed: u64,
    /// Client and server.
    pub(super) ends: [EndPlan; 2],
    pub(super) forward: LinkConfig,
    pub(super) backward: LinkConfig,
    /// What happens to path and connection, by time since the beginning, ascending.
    pub(super) changes: Vec<(Duration, Change)>,
    pub(super) faults_end: Duration,
    pub(super) flows: Vec<Flow>,
    /// Unreliable datagrams of client and server.
    pub(super) datagrams: [DatagramPlan; 2],
    pub(super) end: End,
    pub(super) segments_max: usize,
    pub(super) checks_silence: bool,
}

/// The settings of one end, and the bounds they imply.
#[derive(Clone, Debug)]
pub(super) struct EndPlan {
    pub(super) transport: TransportConfig,
    pub(super) idle_timeout: Option<Duration>,
    /// The smallest of the windows that the settings put between a writer here and its reader, or between a
    /// writer there and its reader here.
    pub(super) window_bytes: u64,
    /// Its own code sends source symbols.
    pub(super) is_systematic: bool,
    pub(super) send_buffer_bytes: u64,
    pub(super) symbols_held_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Links(Box<[LinkConfig; 2]>),
    /// The client's NAT takes another port.
    Rebind,
    /// The client comes from another address.
    Move,
    UpdateKeys(Side),
    Ping(Side),
    /// Somebody copies one packet of the client in so many, ahead of it, from so many addresses, and may
    /// bring there what is sent back.
    Copying {
        every: u32,
        ahead: Duration,
        addresses: u16,
        relays: bool,
    },
    /// Each of the client's ports is closed after so long, and it takes others.
    PortsLive(Duration),
    /// What has ECN bits is dropped, on the way there and back.
    EatsEcn([bool; 2]),
}

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) opener: Side,
    pub(super) dir: Dir,
    pub(super) opens_at: Duration,
    pub(super) priority: i32,
    /// From the opener, and back on a bidirectional stream.
    pub(super) there: Transfer,
    pub(super) back: Transfer,
}

/// One half of a stream.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) write_bytes: usize,
    /// The writer gives up after so many bytes.
    pub(super) reset_at: Option<u64>,
    pub(super) read_bytes: usize,
    /// The reader rests for so long after each read.
    pub(super) read_pause: Duration,
    /// The reader wants no more after so many bytes.
    pub(super) stop_at: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct DatagramPlan {
    pub(super) count: u64,
    pub(super) bytes_max: u64,
    pub(super) interval: Duration,
    /// They are repaired, in pieces if need be, each in a class of its own.
    pub(super) is_repaired: bool,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum End {
    /// In order, by this side, when everything is done.
    Shutdown(Side),
    /// At once, by this side, so long after the beginning.
    Close(Side, Duration),
    /// This side goes without a word, so long after the beginning.
    Vanish(Side, Duration),
}

/// Every profile. Timeouts stay below 5 s, as in the runs of LT-TCP's thesis, or a run would take too long to
/// be proven alive; and no fountain fills a link of unknown rate as fast as the processor can.
const PROFILES: &[&str] = &[
    "auto",
    "newreno",
    "cubic",
    "bbr",
    "reno:rto_max=5",
    "no-cc:rto_max=5",
    "lt-tcp:rto_max=5",
    "dfcp:rate=20",
    "dfcp-raptorq:rate=20",
    "tcp-fec:rto_max=5",
    "tcp-fec-interleave:rto_max=5",
    "ctcp",
    "tcp-nc:rto_max=5",
    "tcp-nc-adaptive:rto_max=5",
];

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut d = Draw::new(seed, 77);
        let faults_end = d.millis(500, 20_000);
        let rate_bps = d.log_between(RATE_MIN_BPS, 1_000_000_000);
        // A thin link. Drawn apart, so that the other seeds are what they were before there were these.
        let mut thin = Draw::new(seed, 81);
        let rate_bps = if thin.one_in(12) { thin.log_between(32_000, RATE_MIN_BPS) } else { rate_bps };
        let mtu = draw_mtu(&mut d);
        let [forward, backward] = draw_links(&mut d, rate_bps, mtu, faults_end);
        let mut changes = draw_changes(&mut d, rate_bps, mtu, faults_end);
        // A few seconds' worth at the bottleneck's rate, and little enough that a thousand runs are quick.
        let bytes_max = (rate_bps / 8 * 4).clamp(2000, if d.one_in(20) { 3_000_000 } else { 300_000 });
        let flows = draw_flows(&mut d, bytes_max, faults_end);
        // Drawn apart as well.
        let mut repaired = Draw::new(seed, 82);
        let datagrams = [(); 2].map(|()| DatagramPlan {
            count: if d.one_in(2) { d.log_between(1, 100) } else { 0 },
            bytes_max: d.log_between(16, 2000),
            interval: d.millis(0, 200),
            is_repaired: repaired.one_in(2),
        });
        let end = match d.between(0, 9) {
            0 => End::Close(d.side(), d.millis(0, 20_000)),
            1 => End::Vanish(d.side(), d.millis(0, 20_000)),
            _ => End::Shutdown(d.side()),
        };
        let segments_max = d.of(&[1, 2, 10, 64]);
        let checks_silence = d.one_in(2);
        let mut ends = [draw_end(&mut d), draw_end(&mut d)];
        changes.extend(draw_meddling(&mut d, faults_end));
        changes.sort_by_key(|(at, _)| *at);
        if changes.iter().any(|(_, change)| matches!(change, Change::Rebind | Change::PortsLive(_))) {
            // A client that only listens does not notice that its NAT has changed: it must say something now
            // and again.
            ends[0].transport.keep_alive(Some(d.millis(500, 10_000))).expect(IN_RANGE);
        }
        Self {
            seed,
            ends,
            forward,
            backward,
            changes,
            faults_end,
            flows,
            datagrams,
            end,
            segments_max,
            checks_silence,
        }
    }

    /// What a code that pads every block to 64 kB adds, if each write makes one.
    fn padding_bytes(&self) -> u64 {
        if self.ends.iter().all(|end| end.is_systematic) {
            return 0;
        }
        let halves = self.flows.iter().flat_map(|flow| [&flow.there, &flow.back]);
        let blocks: u64 = halves.map(|half| half.bytes / half.write_bytes.min(1000) as u64 + 4).sum();
        blocks * 72_000
    }

    /// When everything must be done at the latest, without faults: what links, readers and timers take, many
    /// times over.
    pub(super) fn patience(&self) -> Duration {
        let rate = [&self.forward, &self.backward].into_iter().filter_map(|l| l.rate.peak()).min();
        let bytes: u64 = self.flows.iter().map(|flow| flow.there.bytes + flow.back.bytes).sum();
        let on_the_wire = rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes + self.padding_bytes()));
        let reading: Duration = self
            .flows
            .iter()
            .flat_map(|flow| [&flow.there, &flow.back])
            .map(|half| half.read_pause * (half.bytes / half.read_bytes as u64 + 1) as u32)
            .sum();
        let opening = self.flows.iter().map(|flow| flow.opens_at).max().unwrap_or_default();
        // A window's worth, or at worst half of it, takes a round trip with a delayed ACK.
        let window = self.ends.iter().map(|end| end.window_bytes).min().unwrap_or(1);
        let changed = self.changes.iter().filter_map(|(_, change)| match change {
            Change::Links(links) => Some(links.iter().map(|link| link.delay).sum()),
            _ => None,
        });
        let delay: Duration =
            changed.chain([self.forward.delay + self.backward.delay]).max().unwrap_or_default();
        let rtt = delay + Duration::from_millis(60);
        let rounds = u32::try_from(bytes * 2 / window).unwrap_or(u32::MAX) + 200;
        opening + on_the_wire * 10 + reading * 2 + rtt * rounds + Duration::from_secs(60)
    }
}

fn draw_mtu(d: &mut Draw) -> u32 {
    IP_UDP_BYTES + d.of(&[1200, 1200, 1252, 1280, 1400, 1472, 1472, 1472, 8972]) as u32
}

fn draw_links(d: &mut Draw, rate_bps: u64, mtu_bytes: u32, faults_end: Duration) -> [LinkConfig; 2] {
    let delay = Duration::from_micros(d.log_between(1, 400_000));
    let is_alike = d.one_in(2);
    let forward = draw_link(d, rate_bps, delay, mtu_bytes, faults_end);
    let backward = if is_alike {
        forward.clone()
    } else {
        let delay = Duration::from_micros(d.log_between(1, 400_000));
        let rate_bps = d.log_between(rate_bps, 1_000_000_000);
        draw_link(d, rate_bps, delay, mtu_bytes, faults_end)
    };
    if d.one_in(2) { [forward, backward] } else { [backward, forward] }
}

fn draw_link(
    d: &mut Draw,
    rate_bps: u64,
    delay: Duration,
    mtu_bytes: u32,
    faults_end: Duration,
) -> LinkConfig {
    let mut link = LinkConfig::new(Rate::from_bits_per_second(rate_bps), delay);
    link.queue = QueueConfig::DropTail(match d.between(0, 2) {
        0 => QueueLimit::Bytes(d.log_between(3000, 1 << 20)),
        1 => QueueLimit::Packets(d.log_between(2, 500)),
        _ => QueueLimit::Bdp {
            milli: d.log_between(100, 4000) as u32,
            rtt: Some(delay * 2 + Duration::from_millis(10)),
        },
    });
    link.mtu_bytes = Some(mtu_bytes);
    link.loss = match d.between(0, 4) {
        0 | 1 => Loss::None,
        2 => Loss::Bernoulli(d.percent(5)),
        3 => Loss::Bernoulli(d.percent(40)),
        _ => TwoState::new(d.percent(40), d.between(2000, 20_000) as u32).map_or(Loss::None, Loss::TwoState),
    };
    link.loss_place = d.of(&[LossPlace::Wire, LossPlace::BeforeQueue]);
    if d.one_in(3) {
        let extra = d.millis(0, 100);
        link.jitter = match d.between(0, 2) {
            0 => Jitter::Uniform(extra),
            1 => Jitter::Exponential(extra / 4),
            _ => Jitter::Some { probability: d.percent(20), extra },
        };
        link.order = d.of(&[Order::Kept, Order::Free]);
    }
    if d.one_in(3) {
        link.duplicate = d.percent(20);
    }
    if d.one_in(3) {
        link.corrupt = d.percent(10);
    }
    if d.one_in(4) {
        link.mark = d.percent(10);
    }
    if d.one_in(4) {
        let count = d.between(1, 2);
        link.blackouts = Intervals::new((0..count).map(|_| {
            let start = Instant::ZERO + d.before(faults_end);
            (start, start + d.millis(10, 4000))
        }));
    }
    link
}

fn draw_changes(
    d: &mut Draw,
    rate_bps: u64,
    mtu_bytes: u32,
    faults_end: Duration,
) -> Vec<(Duration, Change)> {
    let mut changes = Vec::new();
    let mut at = |d: &mut Draw, change| {
        let at = d.before(faults_end);
        changes.push((at, change));
    };
    if d.one_in(4) {
        for _ in 0..d.between(1, 3) {
            let change = d.of(&[0, 1]);
            at(d, if change == 0 { Change::Rebind } else { Change::Move });
        }
    }
    if d.one_in(4) {
        for _ in 0..d.between(1, 5) {
            let change = Change::UpdateKeys(d.side());
            at(d, change);
        }
    }
    if d.one_in(6) {
        let change = Change::Ping(d.side());
        at(d, change);
    }
    if d.one_in(4) {
        // Another route: other delays and losses, perhaps another MTU.
        let mtu = if d.one_in(2) { draw_mtu(d) } else { mtu_bytes };
        let rate = (rate_bps * d.between(50, 200) / 100).clamp(rate_bps.min(RATE_MIN_BPS), 1_000_000_000);
        let links = draw_links(d, rate, mtu, faults_end);
        at(d, Change::Links(Box::new(links)));
    }
    changes.sort_by_key(|(at, _)| *at);
    changes
}

/// What others on the way do; all but the last ends with the faults.
fn draw_meddling(d: &mut Draw, faults_end: Duration) -> Vec<(Duration, Change)> {
    let mut changes = Vec::new();
    if d.one_in(6) {
        let at = if d.one_in(2) { Duration::ZERO } else { d.before(faults_end) };
        let (every, addresses) = (d.of(&[1, 2, 10]), d.of(&[1, 5, 100]));
        let (ahead, relays) = (d.millis(0, 20), d.one_in(3));
        changes.push((at, Change::Copying { every, ahead, addresses, relays }));
    }
    if d.one_in(8) {
        changes.push((d.before(faults_end), Change::PortsLive(d.millis(1000, 6000))));
    }
    if d.one_in(8) {
        let at = if d.one_in(2) { Duration::ZERO } else { d.before(faults_end) };
        changes.push((at, Change::EatsEcn(d.of(&[[true, false], [false, true], [true, true]]))));
    }
    changes
}

fn draw_flows(d: &mut Draw, bytes_max: u64, faults_end: Duration) -> Vec<Flow> {
    let count = if d.one_in(10) { d.log_between(20, 200) } else { d.between(1, 8) };
    let mut left = bytes_max;
    let dirs: &[Dir] = d.of(&[&[Dir::Uni], &[Dir::Bi], &[Dir::Uni, Dir::Bi]]);
    let openers: &[Side] = d.of(&[&[Side::Client], &[Side::Server], &[Side::Client, Side::Server]]);
    let is_spread = d.one_in(2);
    (0..count)
        .map(|_| {
            let mut transfer = |d: &mut Draw| {
                let bytes = if d.one_in(10) { 0 } else { d.log_between(1, left.max(1)) };
                left = left.saturating_sub(bytes).max(200);
                Transfer {
                    bytes,
                    write_bytes: d.log_between(1, 100_000).max(bytes / 300) as usize,
                    reset_at: d.one_in(10).then(|| d.between(0, bytes)),
                    read_bytes: d.log_between(1, 100_000).max(bytes / 300) as usize,
                    read_pause: if d.one_in(6) { d.millis(0, 50) } else { Duration::ZERO },
                    stop_at: d.one_in(10).then(|| d.between(0, bytes)),
                }
            };
            let (there, back) = (transfer(d), transfer(d));
            Flow {
                opener: d.of(openers),
                dir: d.of(dirs),
                opens_at: if is_spread { d.before(faults_end) } else { Duration::ZERO },
                priority: d.between(0, 2) as i32,
                there,
                back,
            }
        })
        .collect()
}

/// Of a setting: what is drawn here, its setter takes.
pub(super) const IN_RANGE: &str = "drawn in range";

fn draw_end(d: &mut Draw) -> EndPlan {
    let mut config = TransportConfig::default();
    config.handshake_timeout(Duration::from_secs(300)).expect(IN_RANGE);
    // Longer than any black-out with the doubled probe timeouts after it.
    let idle_timeout = d.of(&[Some(120), Some(180), None]).map(Duration::from_secs);
    config.idle_timeout(idle_timeout).expect(IN_RANGE);
    if d.one_in(4) {
        config.keep_alive(Some(d.millis(500, 10_000))).expect(IN_RANGE);
    }
    let profile = match d.between(0, 3) {
        0 | 1 => Profile::auto(),
        2 => Profile::parse(d.of(PROFILES)).expect("one of the list"),
        _ => draw_profile(d),
    };
    let is_systematic = profile.code.shape().is_systematic;
    config.profile(profile);
    config.follows_peer_profile(!d.one_in(4));
    let allowed = [AllowedProfiles::Obeying, AllowedProfiles::All, AllowedProfiles::All];
    config.allowed_profiles(allowed[d.between(0, 2) as usize].clone());
    let (mut window_bytes, mut send_buffer_bytes, mut symbols_held_bytes) = (1 << 20, 4 << 20, 96 << 20);
    if d.one_in(3) {
        let (connection, stream) = (d.log_between(1000, 1 << 20), d.log_between(500, 1 << 20));
        config.receive_window_bytes(connection).expect(IN_RANGE);
        config.stream_receive_window_bytes(stream).expect(IN_RANGE);
        window_bytes = window_bytes.min(connection).min(stream);
    }
    if d.one_in(3) {
        send_buffer_bytes = d.log_between(100, 1 << 20);
        symbols_held_bytes = d.log_between(2000, 1 << 20);
        config.send_buffer_bytes(send_buffer_bytes).expect(IN_RANGE);
        config.symbols_held_bytes(symbols_held_bytes).expect(IN_RANGE);
        window_bytes = window_bytes.min(send_buffer_bytes).min(symbols_held_bytes);
    }
    if d.one_in(3) {
        config.decoder_symbols(d.log_between(1, 4096) as u32).expect(IN_RANGE);
    }
    if d.one_in(3) {
        config.streams_bi(d.log_between(1, 100)).expect(IN_RANGE);
        config.streams_uni(d.log_between(1, 100)).expect(IN_RANGE);
    }
    if d.one_in(4) {
        let bytes = if d.one_in(3) { 0 } else { d.log_between(100, 100_000) as usize };
        config.datagram_buffer_bytes(bytes).expect(IN_RANGE);
    }
    config.mtu_max_bytes(d.of(&[1200, 1472, 1472, 9000])).expect(IN_RANGE);
    config.is_ecn_enabled(!d.one_in(4));
    EndPlan {
        transport: config,
        idle_timeout,
        window_bytes,
        is_systematic,
        send_buffer_bytes,
        symbols_held_bytes,
    }
}
