//! An autoregressive model of the loss rate: the next round's, predicted from the last ones.
//!
//! Source: LT-TCP (Hourt 2014), chapter 5, names it as future work: "replace the Exponentially Weighted
//! Moving Average model with an Auto-Regressive model, which reportedly yields more accurate results" (Jeske
//! et al. 2002). The model AR(m) is s_n = c + a_1 s_(n-1) + .. + a_m s_(n-m) + noise over the samples of
//! rounds; the estimate is its prediction of the next one. An EWMA is the special case c = 0, a_i = a (1 -
//! a)^(i-1) with weights set beforehand; here they are learned.
//!
//! Coefficients by recursive least squares with exponential forgetting (Haykin, Adaptive Filter Theory, table
//! 10.1): k = P x / (lambda + x'P x), theta += k (s - theta'x), P = (P - k x'P) / lambda. On a stationary
//! channel of independent losses the a_i tend to 0 and c to the mean, so that the estimate is a long average;
//! in a switching one they learn how much a bad round tells of the next.
//!
//! Until there are m samples, the estimate is their mean. Burst lengths are a mean over many (`bursts`).
//! Cost: O(m^2) per round. Invariants: the rate stays within 0 and 1; P stays bounded and symmetric.

use fulmar_control::loss::Bursts;
use fulmar_control::{Feedback, LossEstimator, LossView};

use super::rounds::{Rounds, Sample};

/// Highest order.
const ORDER_MAX: usize = 8;
const DIMENSIONS_MAX: usize = ORDER_MAX + 1;
/// P at the beginning: nothing is known. Loss rates are of the order of 0.1, so this is worth a handful of
/// samples.
const UNCERTAINTY: f64 = 100.0;
/// P must not wind up while the channel says nothing new (all samples equal): forgetting stops above this
/// trace.
const TRACE_MAX: f64 = 1e6;

/// Settings of the autoregressive estimator.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AutoregressiveConfig {
    /// m, 1 to 8. Default: 3.
    pub order: u32,
    /// lambda, the weight a sample keeps from round to round, 0.5 to 1. Default: 0.98, a memory of fifty
    /// rounds.
    pub forgetting: f64,
}

impl Default for AutoregressiveConfig {
    fn default() -> Self {
        Self { order: 3, forgetting: 0.98 }
    }
}

/// AR(m) over rounds.
#[derive(Clone, Debug)]
pub struct Autoregressive {
    order: usize,
    forgetting: f64,
    rounds: Rounds,
    bursts: Bursts,
    /// The last samples, newest first.
    samples: [f64; ORDER_MAX],
    count: u64,
    /// c, a_1, .., a_m.
    coefficients: [f64; DIMENSIONS_MAX],
    /// P.
    covariance: [[f64; DIMENSIONS_MAX]; DIMENSIONS_MAX],
    view: LossView,
}

impl Autoregressive {
    /// An estimator that has seen nothing.
    pub fn new(config: AutoregressiveConfig) -> Self {
        let forgetting = if config.forgetting.is_finite() { config.forgetting.clamp(0.5, 1.0) } else { 1.0 };
        let mut covariance = [[0.0; DIMENSIONS_MAX]; DIMENSIONS_MAX];
        (0..DIMENSIONS_MAX).for_each(|i| covariance[i][i] = UNCERTAINTY);
        Self {
            order: (config.order as usize).clamp(1, ORDER_MAX),
            forgetting,
            rounds: Rounds::default(),
            bursts: Bursts::default(),
            samples: [0.0; ORDER_MAX],
            count: 0,
            coefficients: [0.0; DIMENSIONS_MAX],
            covariance,
            view: LossView::default(),
        }
    }

    /// x = (1, s_(n-1), .., s_(n-m)).
    fn regressors(&self) -> [f64; DIMENSIONS_MAX] {
        let mut x = [0.0; DIMENSIONS_MAX];
        x[0] = 1.0;
        x[1..=self.order].copy_from_slice(&self.samples[..self.order]);
        x
    }

    fn predict(&self) -> f64 {
        self.regressors().iter().zip(&self.coefficients).map(|(x, theta)| x * theta).sum()
    }

    /// One step of recursive least squares.
    fn fit(&mut self, rate: f64) {
        let (x, dimensions) = (self.regressors(), self.order + 1);
        let error = rate - self.predict();
        let mut px = [0.0; DIMENSIONS_MAX];
        for (row, px) in self.covariance.iter().zip(&mut px) {
            *px = row.iter().zip(&x).map(|(p, x)| p * x).sum();
        }
        let scale = self.forgetting + px.iter().zip(&x).map(|(p, x)| p * x).sum::<f64>();
        let trace: f64 = (0..dimensions).map(|i| self.covariance[i][i]).sum();
        let forgetting = if trace < TRACE_MAX { self.forgetting } else { 1.0 };
        for i in 0..dimensions {
            self.coefficients[i] += px[i] / scale * error;
            for j in 0..dimensions {
                self.covariance[i][j] = (self.covariance[i][j] - px[i] * px[j] / scale) / forgetting;
            }
        }
    }

    fn learn(&mut self, sample: &Sample) {
        if self.count >= self.order as u64 {
            self.fit(sample.rate);
        }
        self.samples.copy_within(..ORDER_MAX - 1, 1);
        self.samples[0] = sample.rate;
        self.count += 1;
        let known = usize::try_from(self.count).unwrap_or(ORDER_MAX).min(self.order);
        let rate = if self.count > self.order as u64 {
            self.predict()
        } else {
            self.samples[..known].iter().sum::<f64>() / known as f64
        };
        self.view.rate = rate.clamp(0.0, 1.0);
        self.view.weight_packets = sample.packets + self.forgetting * self.view.weight_packets;
    }
}

impl LossEstimator for Autoregressive {
    fn name(&self) -> &'static str {
        "autoregressive"
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.bursts.count(feedback);
        if let Some(sample) = self.rounds.count(feedback) {
            self.learn(&sample);
        }
    }

    fn view(&self) -> LossView {
        LossView { burst_packets: self.bursts.mean_packets(), ..self.view }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(order: u32, forgetting: f64) -> Autoregressive {
        Autoregressive::new(AutoregressiveConfig { order, forgetting })
    }

    fn learn(estimator: &mut Autoregressive, rates: impl IntoIterator<Item = f64>) {
        for rate in rates {
            estimator.learn(&Sample { packets: 100.0, rate });
        }
    }

    /// One step by hand, m = 1, lambda = 1: samples 0.2, 0.4. x = (1, 0.2), P x = (100, 20), error 0.4, and
    /// scale = 1 + 100 + 4 = 105: theta = (100, 20) / 105 * 0.4 = (0.380952, 0.076190). The prediction after
    /// 0.4 is 0.380952 + 0.4 * 0.076190 = 0.411429.
    #[test]
    fn one_step_of_least_squares() {
        let mut estimator = estimator(1, 1.0);
        learn(&mut estimator, [0.2]);
        assert_eq!(estimator.view().rate, 0.2);
        learn(&mut estimator, [0.4]);
        assert!((estimator.view().rate - 0.411_428_571).abs() < 1e-9, "{:?}", estimator.view());
    }

    /// s_n = 0.3 - 0.5 s_(n-1) has no noise: it is found, and predicted exactly.
    #[test]
    fn it_finds_the_model_that_made_the_samples() {
        let mut estimator = estimator(1, 0.98);
        let mut rate = 0.5_f64;
        let mut next = || {
            rate = 0.3 - 0.5 * rate;
            rate
        };
        learn(&mut estimator, (0..8).map(|_| next()));
        assert!((estimator.view().rate - next()).abs() < 2e-3, "{:?}", estimator.view());
    }

    /// A channel of two rates that switches every round: an EWMA stays between them, this one knows what
    /// comes.
    #[test]
    fn it_learns_how_the_channel_switches() {
        let mut estimator = estimator(2, 0.98);
        for _ in 0..40 {
            learn(&mut estimator, [0.02, 0.3]);
        }
        assert!((estimator.view().rate - 0.02).abs() < 0.01, "{:?}", estimator.view());
        learn(&mut estimator, [0.02]);
        assert!((estimator.view().rate - 0.3).abs() < 0.01, "{:?}", estimator.view());
    }

    #[test]
    fn a_constant_channel_does_not_wind_it_up() {
        let mut estimator = estimator(8, 0.5);
        learn(&mut estimator, std::iter::repeat_n(0.05, 100_000));
        assert!((estimator.view().rate - 0.05).abs() < 1e-6, "{:?}", estimator.view());
        learn(&mut estimator, [0.9, 0.9, 0.9]);
        assert!((0.0..=1.0).contains(&estimator.view().rate));
    }
}
