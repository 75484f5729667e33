//! The link of an experiment in the words of the command line: one definition of each flag for every command and for
//! experiment files.
//!
//! A [`LinkSpec`] says what both directions have in common; [`LinkSpec::forward`] and [`LinkSpec::backward`] make the two
//! links of the model from it. Faults strike both directions, with independent draws, unless `fwd_only` is set. The
//! round-trip time is split evenly.

use std::time::Duration;

use clap::Args;
use fulmar_net::{
    Intervals, Jitter, LinkConfig, LinkRate, Loss, Order, Probability, QueueConfig, QueueLimit, parse,
};
use fulmar_proto::Rate;

/// What the link between the two ends does.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Link")]
pub struct LinkSpec {
    /// Rate of whole IP packets: 64k, 100M, 1.5G, unlimited
    #[arg(long, default_value = "100M", value_parser = parse::link_rate)]
    pub rate: LinkRate,
    /// Round-trip time without queueing
    #[arg(long, default_value = "20ms", value_parser = parse::duration)]
    pub rtt: Duration,
    /// Queue in bandwidth-delay products (drop-tail)
    #[arg(long, value_name = "N", value_parser = parse::milli, conflicts_with = "queue")]
    pub queue_bdp: Option<u32>,
    /// Queue by name and size: droptail:100p, drr:64KiB, sfq, wfq, red, codel, fq_codel [default: 1 BDP, drop-tail]
    #[arg(long, value_parser = parse::model::queue)]
    pub queue: Option<QueueConfig>,
    /// Loss: 5%, 5%/10 (in bursts), periodic:20ms/10ms, bursts:100ms/5ms, none
    #[arg(long, default_value = "none", value_parser = parse::model::loss)]
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
    /// Extra delay, uniform from zero to this
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
    /// Loss, marks, jitter and other faults only from the sender to the receiver
    #[arg(long)]
    pub fwd_only: bool,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            rate: LinkRate::Constant(Rate::from_bits_per_second(100_000_000)),
            rtt: Duration::from_millis(20),
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
            fwd_only: false,
        }
    }
}

impl LinkSpec {
    /// The names [`Self::set`] knows.
    pub const KEYS: [&str; 14] = [
        "rate",
        "rtt",
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
        "fwd_only",
    ];

    /// Sets one value by its name in an experiment file.
    ///
    /// # Errors
    /// If there is no such name, or the text is no such value; the message says which.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        fn to<T, E: ToString>(slot: &mut T, value: Result<T, E>) -> Result<(), String> {
            *slot = value.map_err(|error| error.to_string())?;
            Ok(())
        }
        match key {
            "rate" => to(&mut self.rate, parse::link_rate(text)),
            "rtt" => to(&mut self.rtt, parse::duration(text)),
            "queue_bdp" => {
                self.queue = None;
                to(&mut self.queue_bdp, parse::milli(text).map(Some))
            }
            "queue" => {
                self.queue_bdp = None;
                to(&mut self.queue, parse::model::queue(text).map(Some))
            }
            "loss" => to(&mut self.loss, parse::model::loss(text)),
            "burst" if text == "none" => to(&mut self.burst, Ok::<_, String>(None)),
            "burst" => to(&mut self.burst, parse::milli(text).map(Some)),
            "mark" => to(&mut self.mark, parse::probability(text)),
            "mark_threshold" => to(&mut self.mark_threshold, parse::queue_limit(text).map(Some)),
            "jitter" => to(&mut self.jitter, parse::duration(text)),
            "reorder" => to(&mut self.reorder, switch(text)),
            "duplicate" => to(&mut self.duplicate, parse::probability(text)),
            "corrupt" => to(&mut self.corrupt, parse::probability(text)),
            "blackout" => to(&mut self.blackout, parse::model::intervals(text)),
            "fwd_only" => to(&mut self.fwd_only, switch(text)),
            _ => Err(format!("a link has no '{key}'; it has {}", Self::KEYS.join(", "))),
        }
    }

    /// The loss model, with the burst length if one is given.
    ///
    /// # Errors
    /// If no such process exists, or a burst length is given for a model that has its own.
    pub fn loss_model(&self) -> Result<Loss, String> {
        match (&self.loss, self.burst) {
            (loss, None) => Ok(loss.clone()),
            (Loss::None, Some(_)) => Ok(Loss::None),
            (Loss::Bernoulli(p), Some(burst_milli)) => fulmar_net::TwoState::new(*p, burst_milli)
                .map(Loss::TwoState)
                .map_err(|error| format!("loss {p} in bursts of {}: {error}", f64::from(burst_milli) / 1e3)),
            _ => Err("a burst length goes with a plain loss rate only".into()),
        }
    }

    /// From the sender to the receiver.
    ///
    /// # Errors
    /// As [`Self::loss_model`].
    pub fn forward(&self) -> Result<LinkConfig, String> {
        let order = if self.reorder { Order::Free } else { Order::Kept };
        let jitter = if self.jitter.is_zero() { Jitter::None } else { Jitter::Uniform(self.jitter) };
        Ok(LinkConfig {
            rate: self.rate.clone(),
            delay: self.rtt / 2,
            jitter,
            order,
            queue: self.queue_config(),
            loss: self.loss_model()?,
            mark: self.mark,
            mark_threshold: self.mark_threshold,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            blackouts: self.blackout.clone(),
            ..LinkConfig::default()
        })
    }

    /// From the receiver to the sender.
    ///
    /// # Errors
    /// As [`Self::loss_model`].
    pub fn backward(&self) -> Result<LinkConfig, String> {
        self.forward().map(|link| if self.fwd_only { link.without_faults() } else { link })
    }

    fn queue_config(&self) -> QueueConfig {
        let limit = |milli| QueueLimit::Bdp { milli, rtt: Some(self.rtt) };
        match (&self.queue, self.queue_bdp) {
            (Some(queue), _) => queue.clone(),
            (None, milli) => QueueConfig::DropTail(limit(milli.unwrap_or(1000))),
        }
    }

    /// The share of packets the wire loses in the long run, where the model says so.
    pub fn loss_rate(&self) -> Option<f64> {
        loss_rate(&self.loss)
    }

    /// The link's rate in bits per second; `None` without limit or if it changes.
    pub fn bits_per_second(&self) -> Option<f64> {
        bits_per_second(&self.rate)
    }
}

/// The share of packets a model loses in the long run, where it says so.
pub fn loss_rate(loss: &Loss) -> Option<f64> {
    match loss {
        Loss::None => Some(0.0),
        Loss::Bernoulli(p) => Some(p.as_f64()),
        Loss::TwoState(chain) => Some(chain.loss().as_f64()),
        Loss::Periodic(_) | Loss::PoissonBursts(_) | Loss::Pattern(_) => None,
    }
}

/// A constant rate in bits per second.
pub fn bits_per_second(rate: &LinkRate) -> Option<f64> {
    match rate {
        LinkRate::Constant(rate) => Some(rate.bits_per_second() as f64),
        LinkRate::Unlimited | LinkRate::Trace(_) => None,
    }
}

/// `true` or `false`.
fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("'{text}' is neither true nor false"))
}

#[cfg(test)]
mod tests {
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
            --jitter 10ms --reorder --duplicate 1% --corrupt 0.1% --blackout 1s-2s --fwd-only";
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
}
