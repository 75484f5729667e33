//! Paths drawn at random: what a transport may meet, not what it was tuned on. A path is a function of (seed,
//! number), integers only, so it is the same on every machine.

use std::fmt::Write;
use std::time::Duration;

use fulmar_net::Rng;
use fulmar_proto::Profile;

use super::dice::{octaves, percent, three_digits};
use super::rough::Fault;
use crate::link::LinkSpec;
use crate::scenario::{FlowSpec, Scenario};

/// Between what paths are drawn, over octaves: small values are as likely as large ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Rate in kb/s.
    pub rate_kbps: (u64, u64),
    /// Round-trip time in us.
    pub rtt_us: (u64, u64),
    /// Queue in thousandths of a bandwidth-delay product; never less than [`QUEUE_PACKETS_MIN`].
    pub queue_milli: (u64, u64),
    /// Loss in ppm, where there is some.
    pub loss_ppm: (u64, u64),
    /// Mean burst in thousandths of a packet, where losses come in bursts.
    pub burst_milli: (u64, u64),
    /// Each path has two faults beside loss.
    pub is_rough: bool,
}

/// A rough path is run for at least so many packets of its rate.
const ROUGH_PACKETS: u64 = 400;

/// No queue is smaller.
pub const QUEUE_PACKETS_MIN: u64 = 10;

impl Default for Ranges {
    fn default() -> Self {
        Self {
            rate_kbps: (1_000, 1_000_000),
            rtt_us: (1_000, 600_000),
            queue_milli: (300, 4_000),
            loss_ppm: (1_000, 300_000),
            burst_milli: (1_500, 20_000),
            is_rough: false,
        }
    }
}

impl Ranges {
    /// Slow and short enough that a hundred paths take seconds.
    pub fn quick() -> Self {
        Self { rate_kbps: (1_000, 16_000), rtt_us: (4_000, 100_000), ..Self::default() }
    }

    /// Slow ones too, and two faults each.
    pub fn rough() -> Self {
        Self { rate_kbps: (64, 64_000), rtt_us: (4_000, 400_000), is_rough: true, ..Self::default() }
    }
}

/// Which way packets are lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Way {
    Both,
    Forward,
    Back,
}

/// One path.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Which one of its seed.
    pub number: u64,
    /// What it does.
    pub link: LinkSpec,
    /// The same in words, as flags have them.
    words: Vec<(&'static str, String)>,
    /// Loss, in ppm, of the ways that lose.
    pub loss_ppm: u64,
    /// Mean burst; 1000 if losses are independent.
    pub burst_milli: u64,
    /// Longest extra delay.
    pub jitter: Duration,
    /// Bandwidth-delay product in packets of 1500 bytes.
    pub bdp_packets: u64,
    /// Losses strike one way only.
    pub is_one_way: bool,
    /// Traffic beside it that heeds nothing, kb/s.
    pub cross_kbps: Option<u64>,
    /// What else is wrong with it.
    pub faults: Vec<Fault>,
    /// How long a run is.
    duration: Duration,
    /// Seed of the run.
    pub seed: u64,
}

fn thousandths(milli: u64) -> String {
    format!("{}", milli as f64 / 1000.0)
}

impl Drawn {
    /// Draws one.
    ///
    /// # Errors
    /// If the ranges allow what no link can be.
    pub fn new(seed: u64, number: u64, ranges: &Ranges) -> Result<Self, String> {
        let mut rng = Rng::new(seed, number);
        let rate_kbps = three_digits(octaves(&mut rng, ranges.rate_kbps));
        let rtt_us = three_digits(octaves(&mut rng, ranges.rtt_us));
        let queue_milli = three_digits(octaves(&mut rng, ranges.queue_milli));
        let bdp_packets = rate_kbps * rtt_us / 1000 / 12_000;
        let mut drawn = Self {
            number,
            link: LinkSpec::default(),
            words: vec![("rate", format!("{rate_kbps}k")), ("rtt", format!("{rtt_us}us"))],
            loss_ppm: 0,
            burst_milli: 1000,
            jitter: Duration::ZERO,
            bdp_packets,
            is_one_way: false,
            cross_kbps: None,
            faults: Vec::new(),
            duration: Duration::from_secs(10) + Duration::from_micros(rtt_us) * 40,
            seed: rng.below(1 << 32),
        };
        if bdp_packets * queue_milli / 1000 < QUEUE_PACKETS_MIN {
            drawn.words.push(("queue", format!("{QUEUE_PACKETS_MIN}p")));
        } else {
            drawn.words.push(("queue_bdp", thousandths(queue_milli)));
        }
        if percent(&mut rng, 85) {
            drawn.lose(&mut rng, ranges);
        }
        if percent(&mut rng, 25) {
            let longest = octaves(&mut rng, (100, 50_000.min(rtt_us).max(200)));
            drawn.jitter = Duration::from_micros(three_digits(longest));
            drawn.words.push(("jitter", format!("{}us", drawn.jitter.as_micros())));
            if percent(&mut rng, 30) {
                drawn.words.push(("reorder", "true".into()));
            }
        }
        if percent(&mut rng, 15) {
            drawn.cross_kbps = Some(three_digits(rate_kbps * (100 + rng.below(301)) / 1000));
        }
        if ranges.is_rough {
            drawn.roughen(&mut rng, rate_kbps, rtt_us);
        }
        for (key, value) in &drawn.words {
            drawn.link.set(key, value)?;
        }
        Ok(drawn)
    }

    fn roughen(&mut self, rng: &mut Rng, rate_kbps: u64, rtt_us: u64) {
        // On a slow path ten seconds are few packets.
        self.duration += Duration::from_millis(ROUGH_PACKETS * 12_000 / rate_kbps);
        self.faults = Fault::two(rng).into();
        for fault in self.faults.clone() {
            let (key, value) = fault.word(rng, rate_kbps, rtt_us, self.duration);
            self.words.retain(|(other, _)| *other != key);
            self.words.push((key, value));
        }
    }

    fn lose(&mut self, rng: &mut Rng, ranges: &Ranges) {
        self.loss_ppm = three_digits(octaves(rng, ranges.loss_ppm));
        if percent(rng, 60) {
            self.burst_milli = three_digits(octaves(rng, ranges.burst_milli));
        }
        let way = match rng.below(20) {
            0..5 => Way::Forward,
            5..7 => Way::Back,
            _ => Way::Both,
        };
        let loss = format!("{}%", self.loss_ppm as f64 / 10_000.0);
        let loss =
            if self.burst_milli > 1000 { format!("{loss}/{}", thousandths(self.burst_milli)) } else { loss };
        self.is_one_way = way != Way::Both;
        match way {
            Way::Both => self.words.push(("loss", loss)),
            Way::Forward => self.words.extend([("loss", loss), ("back_loss", "none".into())]),
            Way::Back => self.words.push(("back_loss", loss)),
        }
    }

    /// How long a run is: 10 s and 40 round trips, and on a rough path the time of some hundred packets.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// A bulk flow over it, and what goes beside.
    ///
    /// # Errors
    /// If there is no profile for what goes beside.
    pub fn scenario(&self, profile: &Profile) -> Result<Scenario, String> {
        let bulk = FlowSpec::new(profile.clone(), crate::traffic::Traffic::Bulk);
        let mut flows = vec![bulk];
        if let Some(words) = self.cross_words() {
            let heedless = Profile::parse(CROSS_PROFILE).map_err(|error| error.to_string())?;
            flows.push(FlowSpec::new(heedless, words.parse()?));
        }
        Ok(Scenario::over(self.link.clone(), flows, self.duration()))
    }

    fn cross_words(&self) -> Option<String> {
        self.cross_kbps.map(|kbps| format!("cbr:{kbps}k"))
    }

    /// The command that repeats the run.
    pub fn command(&self, profile: &str) -> String {
        let mut line = format!("fulmar-lab sim --profile {profile}");
        if let Some(cross) = self.cross_words() {
            line = format!("{line},{CROSS_PROFILE} --traffic bulk,{cross}");
        }
        for (key, value) in &self.words {
            let flag = key.replace('_', "-");
            _ = if value == "true" { write!(line, " --{flag}") } else { write!(line, " --{flag} {value}") };
        }
        _ = write!(line, " --seed {} -t {}", self.seed, self.duration().as_secs_f64());
        line
    }
}

/// How what goes beside is sent: whatever happens.
const CROSS_PROFILE: &str = "no-cc";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_function_of_its_seed_and_number() {
        let draw = |seed, number| Drawn::new(seed, number, &Ranges::default()).unwrap();
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5).words, draw(1, 6).words);
        assert_ne!(draw(1, 5).words, draw(2, 5).words);
    }

    #[test]
    fn everything_is_drawn_and_within_its_range() {
        let all: Vec<_> = (0..2000).map(|n| Drawn::new(7, n, &Ranges::default()).unwrap()).collect();
        let count = |test: &dyn Fn(&Drawn) -> bool| all.iter().filter(|drawn| test(drawn)).count();
        let bps = |drawn: &Drawn| drawn.link.capacity_bps(Duration::ZERO, drawn.duration()).unwrap();
        assert!(all.iter().all(|drawn| (1e6..=1e9).contains(&bps(drawn))));
        assert!(count(&|drawn| bps(drawn) < 4e6) > 300 && count(&|drawn| bps(drawn) > 256e6) > 300);
        assert!(count(&|drawn| drawn.link.rtt > Duration::from_millis(300)) > 100);
        assert!(count(&|drawn| drawn.loss_ppm == 0) > 200 && count(&|drawn| drawn.loss_ppm > 150_000) > 100);
        assert!(count(&|drawn| drawn.burst_milli >= 8000) > 150);
        assert!(count(&|drawn| drawn.is_one_way) > 300 && count(&|drawn| drawn.cross_kbps.is_some()) > 200);
        assert!(count(&|drawn| drawn.link.reorder) > 80);
        assert!(all.iter().all(|drawn| drawn.link.forward().is_ok() && drawn.link.backward().is_ok()));
        assert!(all.iter().all(|drawn| drawn.faults.is_empty()));
    }

    #[test]
    fn a_rough_path_has_two_faults_and_a_command_that_repeats_it() {
        let all: Vec<_> = (0..2000).map(|n| Drawn::new(7, n, &Ranges::rough()).unwrap()).collect();
        for drawn in &all {
            assert_eq!(drawn.faults.len(), 2, "{drawn:?}");
            let keys: std::collections::BTreeSet<_> = drawn.words.iter().map(|(key, _)| key).collect();
            assert_eq!(keys.len(), drawn.words.len(), "a flag twice: {}", drawn.command("auto"));
            assert!(drawn.link.forward().is_ok() && drawn.link.backward().is_ok(), "{drawn:?}");
        }
        for fault in Fault::ALL {
            let having = all.iter().filter(|drawn| drawn.faults.contains(&fault)).count();
            assert!((200..600).contains(&having), "{fault:?}: {having}");
        }
    }
}
