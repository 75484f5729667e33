//! What a run found, alike for virtual and real time: the record that `--json` prints and reports are made
//! of.
//!
//! A record of an older program may lack fields; they then have no value, or zero.

use std::time::Duration;

use fulmar_net::LinkStats;
use serde::{Deserialize, Serialize};

mod delays;

pub use crate::better::{Better, better};
use crate::sample::Sample;
use crate::{fairness, statistics};
pub use delays::{Delays, ms};

/// What of an IP packet of full size is payload: the rest are headers of IP, UDP and this protocol.
pub const PAYLOAD_SHARE: f64 = 0.955;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// `sim` (virtual time) or `bridge` (real time).
    pub driver: String,
    /// What every random draw of the network followed from.
    pub seed: u64,
    /// Length of the run in seconds, warm-up included.
    pub seconds: f64,
    /// False if the machine was too slow for real time: then the figures mean nothing.
    pub valid: bool,
    /// Why the run is invalid, or what else a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Application data of all flows over one common time, in Mbit/s.
    pub goodput_mbps: f64,
    /// Goodput divided by (1 - p) x capacity of the (first) bottleneck, both as means over the run.
    pub fraction_of_limit: Option<f64>,
    /// Goodput over what a flow without loss could have: capacity less our headers (DFCP thesis, 4.6.5:
    /// normalised aggregate goodput).
    pub normalised_goodput: Option<f64>,
    /// Jain's index of the flows' goodput over the whole run.
    pub jain: f64,
    /// Mean of Jain's index in each second, if there is more than one flow and values over time were
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain_over_time: Option<f64>,
    /// Fast recoveries of all flows: times a loss was found that belonged to no earlier recovery. Of kernel
    /// TCP the entries by duplicate ACKs or SACK (`TCPRenoRecovery` + `TCPSackRecovery`), which leave out
    /// timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_recoveries: Option<u64>,
    /// Share of the time the (first) bottleneck was busy, forward.
    pub utilisation: f64,
    /// Time in the (first) bottleneck's queue, forward.
    pub queue_delay: Delays,
    /// Every flow.
    pub flows: Vec<Flow>,
    /// Every link that can lose or hold up packets, forward first.
    pub links: Vec<Link>,
    /// How late packets left in real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Values over time, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Sample>,
}

/// One flow of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Profile or congestion control.
    pub name: String,
    /// What the application sent.
    pub traffic: String,
    /// Application bytes read in order by the receiver after the warm-up.
    pub received_bytes: u64,
    /// From when to when these bytes were read, since the start of the run.
    #[serde(skip)]
    pub counted: Option<(Duration, Duration)>,
    /// Mbit/s of application data read: from the first byte to the last of a flow that came to its end,
    /// otherwise to the end of the run (or to when the sending application stopped, if nothing came later).
    pub goodput_mbps: f64,
    /// Seconds from the first byte to the last at the receiver, if the flow came to its end.
    pub completion_seconds: Option<f64>,
    /// Seconds from its start until the sender's handshake was complete, if it ever was.
    pub connect_seconds: Option<f64>,
    /// Seconds from its start to the last byte at the receiver, handshake included, if the flow came to its
    /// end.
    pub finish_seconds: Option<f64>,
    /// Bytes of IP packets sent forward over application bytes delivered.
    pub wire_ratio: Option<f64>,
    /// Seconds of processor of the programs at both ends per GB delivered; measured of peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_s_per_gb: Option<f64>,
    /// Packets sent again over all packets with data (TCP-FEC, 3.4.1). Here a copy of a symbol, or what a
    /// probe timeout sent.
    pub retransmission_rate: f64,
    /// Redundant packets over redundant and original ones (TCP-FEC, 3.4.1). Here combinations of symbols over
    /// combinations and source symbols.
    pub redundancy_rate: f64,
    /// Effective recovery rate: packets recovered by decoding over redundant packets sent (TCP-FEC, 3.4.1).
    pub recovery_rate: f64,
    /// Packets recovered by decoding.
    pub recovered: u64,
    /// Fast recoveries of this flow; not known of one flow of kernel TCP among several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_recoveries: Option<u64>,
    /// Timeouts (of kernel TCP: retransmission timeouts; here: probe timeouts).
    pub timeouts: u64,
    /// Congestion marks reported to the sender.
    pub ce_marks: u64,
    /// Smoothed round-trip time at the end, ms.
    pub rtt_ms: f64,
    /// The sender's estimate of the loss rate, mean over time.
    pub loss_estimate_mean: Option<f64>,
    /// Mean distance between that estimate and the configured loss rate, where there is one.
    pub loss_estimate_error: Option<f64>,
    /// Messages: from the application's write to delivery in order, less the one-way delay of the empty path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_delay: Option<Delays>,
    /// Web transfers: from the connection's first packet to the last byte read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_time: Option<Delays>,
    /// Of messages or transfers: those that had not arrived when the run ended.
    pub unfinished: u64,
    /// Datagrams beside the traffic, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Talk>,
}

/// What came of datagrams that both ends of a flow sent each other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Talk {
    /// How many had the time to come.
    pub count: u64,
    /// Those of them that came no later than their deadline after what the empty path takes.
    pub in_time: u64,
    /// Not taken by the sender's end: its queue was full.
    pub refused: u64,
    /// That deadline.
    pub deadline_ms: f64,
    /// How much later than over an empty path those came that did.
    pub extra_delay: Delays,
    /// Bytes of IP packets both ways, traffic beside it and ACKs included, over what the datagrams take as
    /// UDP packets.
    pub wire_ratio: f64,
}

/// Counters of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Which.
    pub name: String,
    /// Packets handed to it.
    pub offered: u64,
    /// Bytes handed to it.
    #[serde(default)]
    pub offered_bytes: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets gone in black-outs.
    pub blacked_out: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets overtaken.
    pub reordered: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Most bytes ever in the queue.
    pub backlog_bytes_max: u64,
    /// Share of time it was sending.
    pub utilisation: f64,
    /// Time in its queue.
    pub queue_delay: Delays,
}

impl Link {
    /// What part so many packets are of those handed to it.
    pub fn share_of_offered(&self, packets: u64) -> f64 {
        packets as f64 / self.offered.max(1) as f64
    }

    /// From the counters of the model after `elapsed`.
    pub fn new(name: impl Into<String>, stats: &LinkStats, elapsed: Duration) -> Self {
        Self {
            name: name.into(),
            offered: stats.offered.packets,
            offered_bytes: stats.offered.bytes,
            policed: stats.policed.packets,
            dropped: stats.dropped.packets,
            lost: stats.lost.packets,
            blacked_out: stats.blacked_out.packets,
            marked: stats.marked.packets,
            delivered: stats.delivered.packets,
            duplicated: stats.duplicated.packets,
            corrupted: stats.corrupted.packets,
            reordered: stats.reordered.packets,
            delivered_bytes: stats.delivered.bytes,
            backlog_bytes_max: stats.backlog_bytes_max,
            utilisation: (stats.busy.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)).min(1.0),
            queue_delay: Delays::of_histogram(&stats.queue_delay),
        }
    }
}

/// How late packets came out of the bridge.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Distribution over packets: from when the model said until they were written to the device.
    pub delays: Delays,
    /// Over reads: how long packets lay in the device before, at least.
    #[serde(default)]
    pub waited: Delays,
    /// How late a thread of the programs' priority woke that slept a millisecond at a time; nothing if no
    /// program runs on this machine.
    #[serde(default)]
    pub programs: Delays,
    /// The bound on p99 above which the run is invalid, ms: of packets and of what they waited before.
    pub p99_max_ms: f64,
    /// The same of the programs.
    #[serde(default)]
    pub programs_max_ms: f64,
    /// Packets a device dropped before the bridge read them.
    pub device_drops: u64,
    /// Share of one core the bridge used.
    pub core_share: f64,
}

impl Outcome {
    /// Fills in what follows from the flows and links: sum, share of the limit, Jain's index, utilisation.
    pub fn summarise(&mut self, capacity_bps: Option<f64>, loss_rate: f64) {
        self.goodput_mbps = self.sum_mbps();
        let limit = capacity_bps.map(|capacity| capacity * (1.0 - loss_rate) / 1e6);
        self.fraction_of_limit = limit.filter(|&limit| limit > 0.0).map(|limit| self.goodput_mbps / limit);
        let alone = capacity_bps.map(|capacity| capacity * PAYLOAD_SHARE / 1e6);
        self.normalised_goodput = alone.filter(|&most| most > 0.0).map(|most| self.goodput_mbps / most);
        self.jain = statistics::jain(self.flows.iter().map(|flow| flow.goodput_mbps));
        let over_time = fairness::over_time(&self.series, self.flows.len());
        let mean = over_time.iter().map(|(_, jain)| jain).sum::<f64>() / over_time.len() as f64;
        self.jain_over_time = (self.flows.len() > 1 && !over_time.is_empty()).then_some(mean);
        let recoveries: Option<u64> = self.flows.iter().map(|flow| flow.fast_recoveries).sum();
        self.fast_recoveries = self.fast_recoveries.or(recoveries);
        if let Some(bottleneck) = self.links.first() {
            self.utilisation = bottleneck.utilisation;
            self.queue_delay = bottleneck.queue_delay;
        }
    }

    /// What all flows received over one common time, from the first byte of any that counts to the last
    /// moment of any: rates over different times cannot be added. Where times are not known, the sum of the
    /// rates.
    fn sum_mbps(&self) -> f64 {
        let times = || self.flows.iter().filter_map(|flow| flow.counted);
        let is_known = self.flows.iter().all(|flow| flow.counted.is_some() || flow.received_bytes == 0);
        let from = times().map(|(from, _)| from).min();
        let to = times().map(|(_, to)| to).max();
        let seconds = from.zip(to).map_or(0.0, |(from, to)| to.saturating_sub(from).as_secs_f64());
        if is_known && seconds > 0.0 {
            let bytes: u64 = self.flows.iter().map(|flow| flow.received_bytes).sum();
            bytes as f64 * 8.0 / seconds / 1e6
        } else {
            self.flows.iter().map(|flow| flow.goodput_mbps).sum()
        }
    }

    /// A value by its name in an experiment file; of the flows, the first (or `flow<i>.name` for another),
    /// but what is counted of all is of all.
    pub fn measure(&self, name: &str) -> Option<f64> {
        if let Some((flow, name)) = name.strip_prefix("flow").and_then(|rest| rest.split_once('.')) {
            return self.flows.get(flow.parse::<usize>().ok()?)?.measure(name);
        }
        match name {
            "goodput_mbps" => Some(self.goodput_mbps),
            "goodput_kib_s" => Some(self.goodput_mbps * 1e6 / 8.0 / 1024.0),
            "fraction_of_limit" => self.fraction_of_limit,
            "share_of_limit" => self.fraction_of_limit.map(|fraction| fraction / PAYLOAD_SHARE),
            "waste" => self.waste(),
            "normalised_goodput" => self.normalised_goodput,
            "queue_drop_share" => self.links.first().map(|link| link.share_of_offered(link.dropped)),
            "policer_drop_share" => self.links.first().map(|link| link.share_of_offered(link.policed)),
            "jain" => Some(self.jain),
            "jain_over_time" => self.jain_over_time,
            "fast_recoveries" => self.fast_recoveries.map(|count| count as f64),
            "timeouts" => Some(self.flows.iter().map(|flow| flow.timeouts as f64).sum()),
            "recovered" => Some(self.flows.iter().map(|flow| flow.recovered as f64).sum()),
            "utilisation" => Some(self.utilisation),
            "queue_delay_mean_ms" => Some(self.queue_delay.mean_ms),
            "queue_delay_p99_ms" => Some(self.queue_delay.p99_ms),
            "queue_drops" => self.links.first().map(|link| link.dropped as f64),
            "lateness_p99_ms" => self.lateness.map(|lateness| lateness.delays.p99_ms),
            _ => self.flows.first()?.measure(name),
        }
    }

    /// Bytes sent forward over bytes delivered, less what the wire took: 1 were perfect, headers alone are
    /// 1.047.
    fn waste(&self) -> Option<f64> {
        let link = self.links.first()?;
        let arrived = link.delivered.saturating_sub(link.duplicated) as f64
            / (link.delivered + link.lost).max(1) as f64;
        Some(self.flows.first()?.wire_ratio? * arrived)
    }

    /// Every name [`Self::measure`] knows.
    pub const MEASURES: &[&str] = &[
        "goodput_mbps",
        "goodput_kib_s",
        "fraction_of_limit",
        "share_of_limit",
        "normalised_goodput",
        "queue_drop_share",
        "policer_drop_share",
        "jain",
        "jain_over_time",
        "utilisation",
        "queue_delay_mean_ms",
        "queue_delay_p99_ms",
        "queue_drops",
        "lateness_p99_ms",
        "completion_seconds",
        "received_mb",
        "completed",
        "connected",
        "connect_seconds",
        "finish_seconds",
        "wire_ratio",
        "processor_s_per_gb",
        "waste",
        "retransmission_rate",
        "redundancy_rate",
        "recovery_rate",
        "recovered",
        "fast_recoveries",
        "timeouts",
        "ce_marks",
        "rtt_ms",
        "loss_estimate_mean",
        "loss_estimate_error",
        "delay_p50_ms",
        "delay_p90_ms",
        "delay_p99_ms",
        "delay_p999_ms",
        "delay_max_ms",
        "transfer_p50_ms",
        "transfer_p99_ms",
        "unfinished",
    ];
}

impl Flow {
    /// A value by its name.
    pub fn measure(&self, name: &str) -> Option<f64> {
        let delay = |pick: fn(&Delays) -> f64| self.message_delay.as_ref().map(pick);
        match name {
            "goodput_mbps" => Some(self.goodput_mbps),
            "goodput_kib_s" => Some(self.goodput_mbps * 1e6 / 8.0 / 1024.0),
            "completion_seconds" => self.completion_seconds,
            "received_mb" => Some(self.received_bytes as f64 / 1e6),
            "completed" => Some(f64::from(u8::from(self.finish_seconds.is_some()))),
            "connected" => Some(f64::from(u8::from(self.connect_seconds.is_some()))),
            "connect_seconds" => self.connect_seconds,
            "finish_seconds" => self.finish_seconds,
            "wire_ratio" => self.wire_ratio,
            "processor_s_per_gb" => self.processor_s_per_gb,
            "retransmission_rate" => Some(self.retransmission_rate),
            "redundancy_rate" => Some(self.redundancy_rate),
            "recovery_rate" => Some(self.recovery_rate),
            "recovered" => Some(self.recovered as f64),
            "fast_recoveries" => self.fast_recoveries.map(|count| count as f64),
            "timeouts" => Some(self.timeouts as f64),
            "ce_marks" => Some(self.ce_marks as f64),
            "rtt_ms" => Some(self.rtt_ms),
            "loss_estimate_mean" => self.loss_estimate_mean,
            "loss_estimate_error" => self.loss_estimate_error,
            "delay_p50_ms" => delay(|d| d.p50_ms),
            "delay_p90_ms" => delay(|d| d.p90_ms),
            "delay_p99_ms" => delay(|d| d.p99_ms),
            "delay_p999_ms" => delay(|d| d.p999_ms),
            "delay_max_ms" => delay(|d| d.max_ms),
            "transfer_p50_ms" => self.transfer_time.map(|d| d.p50_ms),
            "transfer_p99_ms" => self.transfer_time.map(|d| d.p99_ms),
            "unfinished" => Some(self.unfinished as f64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_has_a_name_that_is_known() {
        let outcome = Outcome {
            fraction_of_limit: Some(1.0),
            normalised_goodput: Some(1.0),
            jain_over_time: Some(1.0),
            fast_recoveries: Some(3),
            lateness: Some(Lateness::default()),
            links: vec![Link::default()],
            flows: vec![Flow {
                completion_seconds: Some(1.0),
                connect_seconds: Some(1.0),
                finish_seconds: Some(1.0),
                wire_ratio: Some(1.0),
                processor_s_per_gb: Some(1.0),
                loss_estimate_mean: Some(0.0),
                loss_estimate_error: Some(0.0),
                message_delay: Some(Delays::default()),
                transfer_time: Some(Delays::default()),
                ..Flow::default()
            }],
            ..Outcome::default()
        };
        for name in Outcome::MEASURES {
            assert!(outcome.measure(name).is_some(), "{name}");
        }
        assert!(outcome.measure("flow0.goodput_mbps").is_some());
        assert!(outcome.measure("flow1.goodput_mbps").is_none() && outcome.measure("beauty").is_none());
    }

    /// Four flows that begin two seconds apart, each alone for a while: their rates add up to more than the
    /// link has.
    #[test]
    fn the_sum_is_over_one_common_time() {
        let second = Duration::from_secs(1);
        let flow = |from: u32, to: u32, received_bytes, goodput_mbps| Flow {
            counted: Some((second * from, second * to)),
            received_bytes,
            goodput_mbps,
            ..Flow::default()
        };
        let mut outcome = Outcome {
            flows: vec![flow(0, 4, 4_000_000, 8.0), flow(4, 8, 4_000_000, 8.0), Flow::default()],
            ..Outcome::default()
        };
        outcome.summarise(Some(8e6), 0.0);
        assert_eq!((outcome.goodput_mbps, outcome.fraction_of_limit), (8.0, Some(1.0)));
        outcome.flows.truncate(1);
        outcome.summarise(Some(8e6), 0.0);
        assert_eq!(outcome.goodput_mbps, 8.0);
    }

    #[test]
    fn delays_of_samples_are_exact() {
        let mut samples: Vec<_> = (1..=1000).rev().map(Duration::from_millis).collect();
        let delays = Delays::of(&mut samples);
        assert_eq!(
            (delays.p50_ms, delays.p99_ms, delays.max_ms, delays.mean_ms),
            (500.0, 990.0, 1000.0, 500.5)
        );
        assert_eq!(Delays::of(&mut []), Delays::default());
    }
}
