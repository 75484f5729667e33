//! The two-state loss channel, and how much repair it takes.
//!
//! Source: LT-TCP's correlated losses (p, E): P(lost | lost) = rho + (1 - rho) p and P(lost | ok) = (1 - rho)
//! p with rho = 1 - 1 / (E (1 - p)); E = 1 / (1 - p) is independent loss. Sums over few packets are exact (a
//! chain over the number of losses), over many packets they are normal with a continuity correction, the
//! variance being n p (1 - p) (1 + rho) / (1 - rho).
//!
//! Invariants: probabilities within 0 and 1; every search ends at a stated bound.

use libm::{erfc, log, sqrt};

use crate::LossView;

/// Sums are exact up to so many losses ..
const EXACT_LOST_MAX: u32 = 40;
/// .. and so many steps, losses times packets.
const EXACT_STEPS_MAX: u32 = 1600;
/// More loss than this is not planned for.
const LOSS_MAX: f64 = 0.9;
/// Longer memory than this is a black-out, which repair cannot cross: the variance grows at most 19-fold.
const CORRELATION_MAX: f64 = 0.9;

/// A channel with loss rate p and correlation rho.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Channel {
    loss: f64,
    correlation: f64,
}

impl Channel {
    /// The channel of a loss estimate.
    pub fn new(view: &LossView) -> Self {
        let loss = if view.rate.is_finite() { view.rate.clamp(0.0, LOSS_MAX) } else { 0.0 };
        let burst = if view.burst_packets.is_finite() { view.burst_packets.max(1.0) } else { 1.0 };
        Self { loss, correlation: (1.0 - 1.0 / (burst * (1.0 - loss))).clamp(0.0, CORRELATION_MAX) }
    }

    /// p.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// By how much bursts widen the variance of a number of losses, against independent ones.
    pub fn variance_stretch(&self) -> f64 {
        (1.0 + self.correlation) / (1.0 - self.correlation)
    }

    /// P(lost | the packet before was lost).
    pub fn lost_after_lost(&self) -> f64 {
        self.correlation + (1.0 - self.correlation) * self.loss
    }

    fn lost_after_ok(&self) -> f64 {
        (1.0 - self.correlation) * self.loss
    }

    /// P(at most `lost_max` of `packets` consecutive packets are lost).
    pub fn at_most(&self, lost_max: u32, packets: u32) -> f64 {
        if lost_max >= packets || self.loss == 0.0 {
            return 1.0;
        }
        if lost_max <= EXACT_LOST_MAX && packets.saturating_mul(lost_max + 1) <= EXACT_STEPS_MAX {
            self.at_most_exact(lost_max, packets)
        } else {
            self.at_most_normal(lost_max, packets)
        }
    }

    fn at_most_exact(&self, lost_max: u32, packets: u32) -> f64 {
        // P(j lost so far and the last one ok / lost); more than `lost_max` drops out.
        let mut ok = [0.0; EXACT_LOST_MAX as usize + 1];
        let mut lost = ok;
        let states = lost_max as usize + 1;
        ok[0] = 1.0 - self.loss;
        if states > 1 {
            lost[1] = self.loss;
        }
        let (again, anew) = (self.lost_after_lost(), self.lost_after_ok());
        for _ in 1..packets {
            for j in (0..states).rev() {
                let came_from = if j > 0 { lost[j - 1] * again + ok[j - 1] * anew } else { 0.0 };
                ok[j] = ok[j] * (1.0 - anew) + lost[j] * (1.0 - again);
                lost[j] = came_from;
            }
        }
        let total: f64 = ok[..states].iter().sum::<f64>() + lost[..states].iter().sum::<f64>();
        total.clamp(0.0, 1.0)
    }

    fn at_most_normal(&self, lost_max: u32, packets: u32) -> f64 {
        let n = f64::from(packets);
        let deviation = sqrt(n * self.loss * (1.0 - self.loss) * self.variance_stretch());
        let z = (f64::from(lost_max) + 0.5 - n * self.loss) / deviation;
        0.5 * erfc(-z / core::f64::consts::SQRT_2)
    }

    /// The fewest repair symbols, at most `repairs_max`, with which `sources` unacknowledged symbols are all
    /// decodable with probability 1 - `residual`: no more are lost than there is repair.
    pub fn repairs_for(&self, sources: u32, residual: f64, repairs_max: u32) -> u32 {
        // Fewer than are lost on average never do.
        let mean = (self.loss * f64::from(sources)) as u32;
        (mean.min(repairs_max)..repairs_max)
            .find(|&repairs| self.at_most(repairs, sources.saturating_add(repairs)) >= 1.0 - residual)
            .unwrap_or(repairs_max)
    }

    /// P(at least `needed` of `sent` arrive).
    pub fn suffices(&self, needed: u32, sent: u32) -> f64 {
        if needed > sent { 0.0 } else { self.at_most(sent - needed, sent) }
    }

    /// The fewest packets, at least 1 and at most `packets_max`, of which at least one arrives with
    /// probability 1 - `residual`: how many probes to send after silence. A burst is counted in packets, so
    /// one probe per timeout would sit it out timeout by timeout.
    pub fn probes_for(&self, residual: f64, packets_max: u32) -> u32 {
        let again = self.lost_after_lost();
        // P(all are lost), after silence: the first meets the channel as the last loss left it.
        let (mut sent, mut all_lost) = (1, again);
        while all_lost > residual && sent < packets_max {
            sent += 1;
            all_lost *= again;
        }
        sent
    }

    /// How fast a sliding window catches up: the factor by which, per period of `sources` source symbols
    /// followed by `repairs` repair symbols, the probability falls that a hole is still open. 1 if it never
    /// catches up.
    ///
    /// The number of symbols short is a random walk, one more for each source lost, one less for each repair
    /// arrived; Chernoff's bound on its lasting is the spectral radius of the walk's tilted transition
    /// matrix, at the best tilt z: each step is the chain's matrix with z on a lost source and 1/z on an
    /// arrived repair.
    pub fn decay(&self, sources: u32, repairs: u32) -> f64 {
        const TILTS: u32 = 24;
        (1..=TILTS)
            .map(|step| self.tilted_radius(sources, repairs, libm::exp2(f64::from(step) * 0.25)))
            .fold(1.0, f64::min)
    }

    fn tilted_radius(&self, sources: u32, repairs: u32, tilt: f64) -> f64 {
        let (again, anew) = (self.lost_after_lost(), self.lost_after_ok());
        // Rows: state before (ok, lost); columns: state after, weighted.
        let step = |ok_weight: f64, lost_weight: f64| {
            [[(1.0 - anew) * ok_weight, anew * lost_weight], [(1.0 - again) * ok_weight, again * lost_weight]]
        };
        let (source, repair) = (step(1.0, tilt), step(1.0 / tilt, 1.0));
        let mut product = [[1.0, 0.0], [0.0, 1.0]];
        for _ in 0..sources {
            product = multiply(&product, &source);
        }
        for _ in 0..repairs {
            product = multiply(&product, &repair);
        }
        let trace = product[0][0] + product[1][1];
        let determinant = product[0][0] * product[1][1] - product[0][1] * product[1][0];
        (trace + sqrt((trace * trace - 4.0 * determinant).max(0.0))) / 2.0
    }

    /// Periods of `sources` + `repairs` after which a hole that opened is closed with probability 1 -
    /// `residual` of all symbols; infinite if the repair does not keep up.
    pub fn periods_to(&self, residual: f64, sources: u32, repairs: u32) -> f64 {
        let decay = self.decay(sources, repairs);
        if self.loss <= residual {
            return 0.0;
        }
        if decay >= 1.0 { f64::INFINITY } else { log(residual / self.loss) / log(decay) }
    }
}

fn multiply(a: &[[f64; 2]; 2], b: &[[f64; 2]; 2]) -> [[f64; 2]; 2] {
    let cell = |row: usize, column: usize| a[row][0] * b[0][column] + a[row][1] * b[1][column];
    [[cell(0, 0), cell(0, 1)], [cell(1, 0), cell(1, 1)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(rate: f64, burst_packets: f64) -> Channel {
        Channel::new(&LossView { rate, burst_packets, weight_packets: 1000.0 })
    }

    #[test]
    fn independent_losses_are_binomial() {
        // E = 1 / (1 - p).
        let independent = channel(0.2, 1.25);
        // 0.8^5 = 0.32768; + 5 * 0.2 * 0.8^4 = 0.4096.
        assert!((independent.at_most(0, 5) - 0.32768).abs() < 1e-12);
        assert!((independent.at_most(1, 5) - 0.73728).abs() < 1e-12);
        assert_eq!(independent.at_most(5, 5), 1.0);
        assert!((independent.suffices(4, 5) - 0.73728).abs() < 1e-12);
        assert_eq!(independent.suffices(6, 5), 0.0);
    }

    #[test]
    fn bursts_follow_the_two_state_chain() {
        // p = 0.2, E = 5: rho = 1 - 1/4 = 0.75, P(lost|lost) = 0.8, P(lost|ok) = 0.05.
        let bursty = channel(0.2, 5.0);
        assert!(
            (bursty.lost_after_lost() - 0.8).abs() < 1e-12 && (bursty.lost_after_ok() - 0.05).abs() < 1e-12
        );
        // All three ok: 0.8 * 0.95^2 = 0.722; all three lost: 0.2 * 0.8^2 = 0.128.
        assert!((bursty.at_most(0, 3) - 0.722).abs() < 1e-12);
        assert!((bursty.at_most(2, 3) - 0.872).abs() < 1e-12);
    }

    /// rho = 1 - 1 / (E (1 - p)): 0.875 at E = 10 and p = 0.2.
    #[test]
    fn bursts_widen_the_variance_up_to_a_black_out() {
        assert!((channel(0.2, 1.25).variance_stretch() - 1.0).abs() < 1e-12);
        assert!((channel(0.2, 10.0).variance_stretch() - 15.0).abs() < 1e-9);
        assert!((channel(0.2, 1e9).variance_stretch() - 19.0).abs() < 1e-9);
        assert_eq!(channel(0.2, 0.0).variance_stretch(), 1.0, "unknown bursts are none");
    }

    #[test]
    fn the_normal_sum_continues_the_exact_one() {
        for (rate, burst, tolerance) in [(0.05, 1.0, 0.05), (0.2, 1.25, 0.02), (0.2, 5.0, 0.08)] {
            let channel = channel(rate, burst);
            for lost_max in 0..20 {
                let gap = channel.at_most_exact(lost_max, 40) - channel.at_most_normal(lost_max, 40);
                assert!(gap.abs() < tolerance, "{rate} {burst} {lost_max}: {gap}");
            }
        }
    }

    #[test]
    fn repair_for_a_tail() {
        let independent = channel(0.1, 1.0 / 0.9);
        // One symbol: 0.1^(1 + k) <= 0.001 needs k = 2.
        assert_eq!(independent.repairs_for(1, 1.001e-3, 10), 2);
        // Ten symbols: P(<= 3 of 13 lost) = 0.966, P(<= 4 of 14) = 0.991.
        assert_eq!(independent.repairs_for(10, 0.01, 10), 4);
        assert_eq!(independent.repairs_for(10, 1e-9, 6), 6, "the bound holds");
        assert_eq!(channel(0.0, 0.0).repairs_for(100, 1e-6, 10), 0);
        assert!(channel(0.1, 5.0).repairs_for(10, 0.01, 64) > 4, "bursts need more");
    }

    #[test]
    fn probes_outlast_a_burst() {
        // 0.2^2 = 0.04. E = 5: 0.8^11 = 0.086.
        assert_eq!(channel(0.2, 1.25).probes_for(0.1, 32), 2);
        assert_eq!(channel(0.2, 5.0).probes_for(0.1, 32), 11);
        assert_eq!(channel(0.2, 5.0).probes_for(0.1, 4), 4);
        assert_eq!(channel(0.0, 0.0).probes_for(0.1, 32), 1);
    }

    #[test]
    fn a_window_catches_up_as_the_random_walk_does() {
        let independent = channel(0.2, 1.25);
        // One repair per source: E[z^step] = 0.64 / z + 0.32 + 0.04 z is least at z = 4: 0.64.
        assert!((independent.decay(1, 1) - 0.64).abs() < 1e-9);
        // log(0.002 / 0.2) / log(0.64) = 10.3 periods.
        assert!((independent.periods_to(0.002, 1, 1) - 10.32).abs() < 0.01);
        // One per five does not keep up: 0.2 * 0.8 < 0.2.
        assert_eq!(independent.decay(5, 1), 1.0);
        assert_eq!(independent.periods_to(0.002, 5, 1), f64::INFINITY);
        assert!(channel(0.2, 5.0).decay(1, 1) > 0.9, "bursts are slow to repair");
    }

    #[test]
    fn nonsense_is_bounded() {
        let wild =
            Channel::new(&LossView { rate: f64::NAN, burst_packets: f64::INFINITY, weight_packets: -1.0 });
        assert_eq!(wild.at_most(0, 10), 1.0);
        let wild = channel(5.0, 1e9);
        assert!((0.0..=1.0).contains(&wild.at_most(3, 100)) && wild.repairs_for(u32::MAX, 0.0, 20) == 20);
    }
}
