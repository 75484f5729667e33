//! The link of an experiment in the words of the command line: one definition of each flag for every command
//! and for
//! experiment files.
//!
//! A [`LinkSpec`] says what both directions have in common, and in [`Back`] how the way back differs;
//! [`LinkSpec::forward`] and
//! [`LinkSpec::backward`] make the two links of the model from it. Faults strike both directions, with
//! independent draws,
//! unless `fwd_only` is set. The round-trip time is split evenly unless `forward_delay` is.

mod back;
mod limit;
mod recording;
pub mod traces;
mod words;

use std::time::Duration;

use clap::Args;
use fulmar_net::{
    Intervals, LinkConfig, LinkRate, Loss, Order, Policer, Probability, QueueConfig, QueueLimit, Stalls,
    Steps, parse,
};
use fulmar_proto::Rate;

pub use back::Back;
pub use recording::DELAY_MAX;
use words::{delay, jitter, loss, rate, to};

/// Delay that changes over time.
pub type AddedDelay = Option<Steps<Duration>>;

/// What the link between the two ends does.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Link")]
pub struct LinkSpec {
    /// Rate of whole IP packets: 64k, 100M, unlimited, in steps 100M,5s:10M,10s:100M, or trace:lte-walk or a
    /// file (`fulmar-lab trace`)
    #[arg(long, default_value = "100M", value_parser = rate)]
    pub rate: LinkRate,
    /// Round-trip time without queueing
    #[arg(long, default_value = "20ms", value_parser = parse::duration)]
    pub rtt: Duration,
    /// One-way delay to the receiver; what is left of the round-trip time is the way back [default: half]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub forward_delay: Option<Duration>,
    /// Delay over time, one way, added to the round trip's: trace:FILE, in ms a line for each 10 ms, or a
    /// table (`fulmar-lab trace`). Queues in bandwidth-delay products do not count it
    #[arg(long, value_name = "TRACE", default_value = "none", value_parser = delay)]
    pub delay: AddedDelay,
    /// Queue in bandwidth-delay products (drop-tail)
    #[arg(long, value_name = "N", value_parser = parse::milli, conflicts_with = "queue")]
    pub queue_bdp: Option<u32>,
    /// Queue by name and size: droptail:100p, drr:64KiB, sfq, wfq, red, codel, fq_codel, priority [default: 1
    /// BDP, drop-tail]
    #[arg(long, value_parser = parse::model::queue)]
    pub queue: Option<QueueConfig>,
    /// Loss: 5%, 5%/10 (in bursts), periodic:20ms/10ms, bursts:100ms/5ms, trace:wifi-edge, none
    #[arg(long, default_value = "none", value_parser = loss)]
    pub loss: Loss,
    /// Mean length of a loss burst in packets, with --loss P
    #[arg(long, value_name = "E", value_parser = parse::milli)]
    pub burst: Option<u32>,
    /// Probability of a congestion mark on ECN-capable packets
    #[arg(long, value_name = "M", default_value = "0", value_parser = parse::probability)]
    pub mark: Probability,
    /// Mark ECN-capable packets that find this much in the queue: 0.3bdp, 30p, 64KiB
    #[arg(long, value_name = "LIMIT", value_parser = parse::queue_limit)]
    pub mark_threshold: Option<QueueLimit>,
    /// Extra delay of each packet, uniform from zero to this. Without --reorder no packet overtakes another:
    /// each waits for the latest before it, so where packets are closer than this nearly all have nearly all
    /// of it
    #[arg(long, default_value = "0", value_parser = parse::duration)]
    pub jitter: Duration,
    /// Jitter may change the order of packets
    #[arg(long)]
    pub reorder: bool,
    /// Probability that a packet arrives twice
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse::probability)]
    pub duplicate: Probability,
    /// Probability that a bit of a packet is flipped
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse::probability)]
    pub corrupt: Probability,
    /// Nothing arrives in these intervals: 10s-12s,30s-30.5s
    #[arg(long, value_name = "INTERVALS", default_value = "", value_parser = parse::model::intervals)]
    pub blackout: Intervals,
    /// The link stalls, then lets out all that came: 500ms/100ms (at random, mean interval / length),
    /// 1s/1ms-500ms, 5s-5.5s
    #[arg(long, value_name = "STALLS", default_value = "", value_parser = parse::model::stalls)]
    pub stall: Stalls,
    /// The sender's host stalls (virtual time)
    #[arg(long, value_name = "STALLS", default_value = "", value_parser = parse::model::stalls)]
    pub stall_sender: Stalls,
    /// The receiver's host stalls (virtual time)
    #[arg(long, value_name = "STALLS", default_value = "", value_parser = parse::model::stalls)]
    pub stall_receiver: Stalls,
    /// What comes faster is dropped: 20M/64kB, rate and burst
    #[arg(long, value_name = "RATE/BURST", value_parser = parse::model::policer)]
    pub policer: Option<Policer>,
    /// Loss, marks, jitter and other faults only from the sender to the receiver
    #[arg(long)]
    pub fwd_only: bool,
    /// How the way back differs.
    #[command(flatten)]
    pub back: Back,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            rate: LinkRate::Constant(Rate::from_bits_per_second(100_000_000)),
            rtt: Duration::from_millis(20),
            forward_delay: None,
            delay: None,
            queue_bdp: None,
            queue: None,
            loss: Loss::None,
            burst: None,
            mark: Probability::ZERO,
            mark_threshold: None,
            jitter: Duration::ZERO,
            reorder: false,
            duplicate: Probability::ZERO,
            corrupt: Probability::ZERO,
            blackout: Intervals::default(),
            stall: Stalls::None,
            stall_sender: Stalls::None,
            stall_receiver: Stalls::None,
            policer: None,
            fwd_only: false,
            back: Back::default(),
        }
    }
}

impl LinkSpec {
    /// The names [`Self::set`] knows.
    pub const KEYS: &[&str] = &[
        "rate",
        "rtt",
        "forward_delay",
        "delay",
        "queue_bdp",
        "queue",
        "loss",
        "burst",
        "mark",
        "mark_threshold",
        "jitter",
        "reorder",
        "duplicate",
        "corrupt",
        "blackout",
        "stall",
        "stall_sender",
        "stall_receiver",
        "policer",
        "fwd_only",
        "back_rate",
        "back_queue",
        "back_loss",
        "back_burst",
        "back_mark",
        "back_jitter",
        "back_policer",
    ];

    /// Sets one value by its name in an experiment file.
    ///
    /// # Errors
    /// If there is no such name, or the text is no such value; the message says which.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "rate" => to(&mut self.rate, rate(text)),
            "rtt" => to(&mut self.rtt, parse::duration(text)),
            "forward_delay" => to(&mut self.forward_delay, parse::duration(text).map(Some)),
            "delay" => to(&mut self.delay, delay(text)),
            "queue_bdp" => {
                self.queue = None;
                to(&mut self.queue_bdp, parse::milli(text).map(Some))
            }
            "queue" => {
                self.queue_bdp = None;
                to(&mut self.queue, parse::model::queue(text).map(Some))
            }
            "loss" => to(&mut self.loss, loss(text)),
            "burst" if text == "none" => to(&mut self.burst, Ok::<_, String>(None)),
            "burst" => to(&mut self.burst, parse::milli(text).map(Some)),
            "mark" => to(&mut self.mark, parse::probability(text)),
            "mark_threshold" => to(&mut self.mark_threshold, parse::queue_limit(text).map(Some)),
            "jitter" => to(&mut self.jitter, parse::duration(text)),
            "reorder" => to(&mut self.reorder, switch(text)),
            "duplicate" => to(&mut self.duplicate, parse::probability(text)),
            "corrupt" => to(&mut self.corrupt, parse::probability(text)),
            "blackout" => to(&mut self.blackout, parse::model::intervals(text)),
            "stall" => to(&mut self.stall, parse::model::stalls(text)),
            "stall_sender" => to(&mut self.stall_sender, parse::model::stalls(text)),
            "stall_receiver" => to(&mut self.stall_receiver, parse::model::stalls(text)),
            "policer" => to(&mut self.policer, parse::model::policer(text).map(Some)),
            "fwd_only" => to(&mut self.fwd_only, switch(text)),
            _ if key.starts_with("back_") && Self::KEYS.contains(&key) => self.back.set(key, text),
            _ => Err(format!("a link has no '{key}'; it has {}", Self::KEYS.join(", "))),
        }
    }

    /// From the sender to the receiver.
    ///
    /// # Errors
    /// If no such loss process exists, or the delay is longer than the round-trip time.
    pub fn forward(&self) -> Result<LinkConfig, String> {
        let jitter_max = self.jitter.max(self.back.back_jitter.unwrap_or_default());
        if self.rtt.max(jitter_max) > DELAY_MAX {
            return Err("a round trip takes an hour at most, and so does jitter".into());
        }
        let order = if self.reorder { Order::Free } else { Order::Kept };
        if self.forward_delay.is_some_and(|delay| delay > self.rtt) {
            return Err("the delay forward is longer than the round-trip time".into());
        }
        Ok(LinkConfig {
            rate: self.rate.clone(),
            delay: self.one_way(),
            added_delay: self.delay.clone(),
            jitter: jitter(self.jitter),
            order,
            queue: self.queue_config(),
            loss: words::with_bursts(&self.loss, self.burst)?,
            mark: self.mark,
            mark_threshold: self.mark_threshold,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            blackouts: self.blackout.clone(),
            stalls: self.stall.clone(),
            policer: self.policer,
            ..LinkConfig::default()
        })
    }

    /// From the receiver to the sender.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn backward(&self) -> Result<LinkConfig, String> {
        let forward = self.forward()?;
        let mut link = if self.fwd_only { forward.without_faults() } else { forward };
        link.delay = self.rtt - self.one_way();
        self.back.apply(&mut link, self.rtt)?;
        Ok(link)
    }

    /// Propagation delay to the receiver.
    pub fn one_way(&self) -> Duration {
        self.forward_delay.unwrap_or(self.rtt / 2)
    }

    fn queue_config(&self) -> QueueConfig {
        let limit = |milli| QueueLimit::Bdp { milli, rtt: Some(self.rtt) };
        match (&self.queue, self.queue_bdp) {
            (Some(queue), _) => words::of_rtt(queue.clone(), self.rtt),
            (None, milli) => QueueConfig::DropTail(limit(milli.unwrap_or(1000))),
        }
    }
}

/// `true` or `false`.
fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("'{text}' is neither true nor false"))
}

#[cfg(test)]
mod tests {
    use fulmar_net::Jitter;

    use super::*;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        link: LinkSpec,
    }

    fn flags(line: &str) -> LinkSpec {
        <Flags as clap::Parser>::parse_from(std::iter::once("lab").chain(line.split_whitespace())).link
    }

    #[test]
    fn defaults_of_flags_and_of_files_are_the_same() {
        assert_eq!(flags(""), LinkSpec::default());
    }

    #[test]
    fn every_key_can_be_set_and_says_what_its_flag_says() {
        let line = "--rate 20M --rtt 250ms --queue codel:100p --loss 10% --burst 5 --mark 2% --mark-threshold 30p \
            --jitter 10ms --reorder --duplicate 1% --corrupt 0.1% --blackout 1s-2s --fwd-only --forward-delay 30ms \
            --stall 1s/5ms --stall-sender 1s/6ms --stall-receiver 2s-3s --policer 5M/20kB --back-rate 1M --back-queue 9p \
            --back-loss 3% --back-burst 2 --back-mark 1% --back-jitter 1ms --back-policer 1M/10kB";
        let mut set = LinkSpec::default();
        for (key, value) in [
            ("rate", "20M"),
            ("rtt", "250ms"),
            ("queue", "codel:100p"),
            ("loss", "10%"),
            ("burst", "5"),
            ("mark", "2%"),
            ("mark_threshold", "30p"),
            ("jitter", "10ms"),
            ("reorder", "true"),
            ("duplicate", "1%"),
            ("corrupt", "0.1%"),
            ("blackout", "1s-2s"),
            ("fwd_only", "true"),
            ("forward_delay", "30ms"),
            ("stall", "1s/5ms"),
            ("stall_sender", "1s/6ms"),
            ("stall_receiver", "2s-3s"),
            ("policer", "5M/20kB"),
            ("back_rate", "1M"),
            ("back_queue", "9p"),
            ("back_loss", "3%"),
            ("back_burst", "2"),
            ("back_mark", "1%"),
            ("back_jitter", "1ms"),
            ("back_policer", "1M/10kB"),
        ] {
            assert!(LinkSpec::KEYS.contains(&key));
            set.set(key, value).unwrap();
        }
        assert_eq!(flags(line), set);
        assert!(set.set("colour", "red").unwrap_err().contains("fwd_only"));
    }

    #[test]
    fn faults_strike_both_ways_unless_told() {
        let both = flags("--loss 5% --burst 5 --rtt 30ms");
        assert_eq!(both.forward(), both.backward());
        assert_eq!(both.forward().unwrap().delay, Duration::from_millis(15));
        let one = flags("--loss 5% --fwd-only");
        assert_eq!(one.backward().unwrap().loss, Loss::None);
        let wrong = flags("--loss periodic:20ms/10ms --burst 5");
        assert!(wrong.forward().is_err());
    }

    #[test]
    fn the_way_back_may_differ_in_everything() {
        let link = flags(
            "--rate 50M --rtt 80ms --forward-delay 60ms --loss 12%/3 --back-rate 5M --back-loss 4% --back-queue 0.5bdp \
             --back-jitter 3ms",
        );
        let (forward, back) = (link.forward().unwrap(), link.backward().unwrap());
        let ms = Duration::from_millis;
        assert_eq!((forward.delay, back.delay), (ms(60), ms(20)));
        assert_eq!((forward.jitter, back.jitter), (Jitter::None, Jitter::Uniform(ms(3))));
        assert_eq!(back.rate, parse::link_rate("5M").unwrap());
        assert_eq!(back.loss, Loss::bernoulli(Probability::from_percent(4)));
        let half = QueueLimit::Bdp { milli: 500, rtt: Some(ms(80)) };
        assert_eq!(back.queue, QueueConfig::DropTail(half));
        assert!(flags("--rtt 10ms --forward-delay 11ms").forward().is_err());
        assert!(flags("--back-burst 3").backward().unwrap_err().contains("back_loss"));
    }
}
