//! What the way back has of its own.

use std::time::Duration;

use fulmar_net::{LinkConfig, LinkRate};
use fulmar_units::Rate;

use super::loss::loss;
use crate::exit::Failure;
use crate::units;

/// How the two directions differ.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Back {
    /// Capacity of the way back
    #[arg(long, help_heading = "Directions that differ", value_name = "RATE", value_parser = units::parse_rate)]
    back_rate: Option<u64>,
    /// Share of packets that get lost on the way back, in percent
    #[arg(long, help_heading = "Directions that differ", value_name = "PERCENT", value_parser = units::parse_percent_ppm)]
    back_loss: Option<u32>,
    /// Delay to the server; what is left of the round-trip time is the way back
    #[arg(long, help_heading = "Directions that differ", value_name = "TIME", value_parser = units::parse_millis)]
    forward_delay: Option<Duration>,
}

impl Back {
    /// Both links, from the one that they have in common.
    pub(super) fn links(
        &self,
        common: &LinkConfig,
        rtt: Duration,
        burst_milli: u32,
    ) -> Result<[LinkConfig; 2], Failure> {
        let one_way = self.forward_delay.unwrap_or(rtt / 2);
        let Some(rest) = rtt.checked_sub(one_way) else {
            return Err(Failure::Usage("the delay forward is longer than the round-trip time".into()));
        };
        let forward = LinkConfig { delay: one_way, ..common.clone() };
        let mut back = LinkConfig { delay: rest, ..common.clone() };
        if let Some(bits) = self.back_rate {
            back.rate = LinkRate::Constant(Rate::from_bits_per_second(bits));
        }
        if let Some(ppm) = self.back_loss {
            back.loss = loss(ppm, burst_milli)?;
        }
        Ok([forward, back])
    }

    /// What is said of it; empty if nothing differs.
    pub(super) fn describe(&self) -> String {
        let rate = self.back_rate.map(|bits| units::rate(bits as f64 / 1e6));
        let loss = self.back_loss.map(|ppm| format!("{} % loss", f64::from(ppm) / 1e4));
        let delay = self.forward_delay.map(|delay| format!("{} ms to the server", delay.as_secs_f64() * 1e3));
        let parts: Vec<String> = [rate, loss, delay].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!("; way back: {}", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_alike_both_ways() {
        let common = LinkConfig::new(Rate::from_bits_per_second(1_000_000), Duration::from_millis(30));
        let rtt = Duration::from_millis(60);
        assert_eq!(Back::default().links(&common, rtt, 1000).unwrap(), [common.clone(), common.clone()]);
        let forward_delay = Some(Duration::from_millis(50));
        let back = Back { back_rate: Some(500_000), back_loss: Some(20_000), forward_delay };
        let [to, fro] = back.links(&common, rtt, 3000).unwrap();
        assert_eq!((to.delay.as_millis(), fro.delay.as_millis()), (50, 10));
        assert!(to.rate == common.rate && fro.rate != common.rate && fro.loss != to.loss);
        assert!(back.links(&common, Duration::from_millis(40), 3000).is_err());
        assert!(back.describe().contains("2 % loss"), "{}", back.describe());
    }
}
