//! What a link can carry at most: the yardstick of goodput.

use std::time::Duration;

use fulmar_net::{LinkRate, Loss};
use fulmar_proto::Instant;

use super::LinkSpec;

impl LinkSpec {
    /// The share of packets the wire loses in the long run, where losses are independent or in bursts of
    /// packets: what an estimator
    /// should find.
    pub fn loss_rate(&self) -> Option<f64> {
        loss_rate(&self.loss)
    }

    /// The share of packets lost in the long run, whatever the process; of losses by time, the share of the
    /// time.
    pub fn mean_loss(&self) -> f64 {
        match &self.loss {
            Loss::Periodic(p) if !p.period.is_zero() => {
                p.on.div_duration_f64(p.period).min(1.0) * p.loss.as_f64()
            }
            Loss::Periodic(p) => p.loss.as_f64(),
            Loss::PoissonBursts(b) => {
                (1.0 - (-b.length.as_secs_f64() / b.interval_mean.as_secs_f64()).exp()) * b.loss.as_f64()
            }
            Loss::Pattern(pattern) => {
                let all = pattern.as_slice();
                all.iter().filter(|&&lost| lost).count() as f64 / all.len().max(1) as f64
            }
            Loss::Trace(trace) => {
                let lost: Duration = trace.lost.as_slice().iter().map(|(start, end)| *end - *start).sum();
                if trace.period.is_zero() { 0.0 } else { lost.div_duration_f64(trace.period) }
            }
            Loss::Varying(steps) => {
                let whole: Duration = steps.lengths().map(|(_, length)| length).sum();
                let lost = steps.lengths().map(|(loss, length)| loss.as_f64() * length.as_secs_f64());
                if whole.is_zero() {
                    steps.at(Instant::ZERO).as_f64()
                } else {
                    lost.sum::<f64>() / whole.as_secs_f64()
                }
            }
            loss => loss_rate(loss).unwrap_or(0.0),
        }
    }

    /// Bits per second of whole packets that can pass between two times, on average; `None` without limit.
    pub fn capacity_bps(&self, from: Duration, to: Duration) -> Option<f64> {
        let policed = self.policer.map(|policer| policer.rate.bits_per_second() as f64);
        let rate = match &self.rate {
            LinkRate::Unlimited => None,
            LinkRate::Constant(rate) => Some(rate.bits_per_second() as f64),
            LinkRate::Trace(trace) => {
                let bytes = |until| trace.bytes_until(Instant::ZERO + until) as f64;
                Some((bytes(to) - bytes(from)) * 8.0 / to.saturating_sub(from).as_secs_f64().max(1e-9))
            }
        };
        rate.into_iter().chain(policed).reduce(f64::min)
    }
}

fn loss_rate(loss: &Loss) -> Option<f64> {
    match loss {
        Loss::None => Some(0.0),
        Loss::Bernoulli(p) => Some(p.as_f64()),
        Loss::TwoState(chain) => Some(chain.loss().as_f64()),
        Loss::Periodic(_) | Loss::PoissonBursts(_) | Loss::Pattern(_) | Loss::Trace(_) | Loss::Varying(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(settings: &[(&str, &str)]) -> LinkSpec {
        let mut link = LinkSpec::default();
        settings.iter().for_each(|(key, value)| link.set(key, value).unwrap());
        link
    }

    #[test]
    fn capacity_is_what_passes() {
        let s = Duration::from_secs;
        assert_eq!(link(&[]).capacity_bps(s(0), s(9)), Some(100e6));
        assert_eq!(link(&[("policer", "20M/64kB")]).capacity_bps(s(0), s(9)), Some(20e6));
        assert_eq!(link(&[("rate", "unlimited")]).capacity_bps(s(0), s(9)), None);
        let steps = link(&[("rate", "10M,5s:50M,10s:repeat")]);
        for (from, to, mbps) in [(0, 10, 30.0), (0, 5, 10.0), (5, 10, 50.0), (5, 25, 30.0)] {
            assert_eq!(steps.capacity_bps(s(from), s(to)), Some(mbps * 1e6));
        }
    }

    #[test]
    fn losses_by_time_have_a_mean() {
        for (words, mean) in
            [("periodic:20ms/5ms/80%", 0.2), ("bursts:100ms/10ms", 0.0952), ("pattern:0111", 0.75)]
        {
            let found = link(&[("loss", words)]).mean_loss();
            assert!((found - mean).abs() < 1e-3, "{words}: {found}");
        }
        assert_eq!(link(&[("loss", "pattern:01")]).loss_rate(), None);
    }
}
